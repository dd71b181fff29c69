# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""A share of the test files, for a step of `make test`: PLACEMENT_SHARE=0.1 runs a tenth of them.

Whole files run, since the tests of some build on each other. The same PLACEMENT_DRAW draws the same files.
"""

from __future__ import annotations

import hashlib
import math
import os
import typing as t
from pathlib import Path

import pytest

SHARE = "PLACEMENT_SHARE"
DRAW = "PLACEMENT_DRAW"
_SHARE = pytest.StashKey[float]()


def pytest_configure(config: pytest.Config) -> None:
    """What tests start runs whole."""
    config.stash[_SHARE] = float(os.environ.pop(SHARE, "") or 1)


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Deselect the tests of the files that the share leaves out, of those that would run without it."""
    draw = os.environ.get(DRAW, "")
    files = draw_files({item.path for item in items}, config.stash[_SHARE], draw)
    config.hook.pytest_deselected(items=[item for item in items if item.path not in files])
    items[:] = [item for item in items if item.path in files]


def draw_files(files: t.Collection[Path], share: float, draw: str) -> set[Path]:
    """That share of the files, at least one if there is any. A larger share has all files of a smaller one."""

    def place(file: Path) -> bytes:
        return hashlib.sha256(f"{draw} {file.parent.name}/{file.name}".encode()).digest()

    return set(sorted(files, key=place)[: math.ceil(share * len(files))])
