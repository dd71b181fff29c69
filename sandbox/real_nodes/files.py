# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""All that nodes read and do not write: built once, in the cache that checkouts share."""

from __future__ import annotations

import typing as t
from pathlib import Path

from ..binaries import BinariesError, Say
from ..installation import UP
from . import debian, images, programs


class NodeFiles(t.NamedTuple):
    """`programs` and `images` are folders, `root` is a file system."""

    programs: Path
    images: Path
    root: Path


def build(say: Say) -> NodeFiles:
    """Build what is missing; some seven minutes of one processor the first time."""
    binaries = programs.build(say)
    system = debian.build(say)
    return NodeFiles(binaries, images.build(system, binaries, say), system.root)


def find() -> NodeFiles:
    """What was built; BinariesError where something is missing."""
    root = debian.target() / "root"
    found = NodeFiles(programs.target(), images.target(), root)
    for place in found:
        if not place.is_dir():
            raise BinariesError(
                f"the files of real nodes are not built: {place} is missing; `{UP}` with real nodes builds them"
            )
    return found
