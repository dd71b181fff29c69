# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""A share of the test files: PLACEMENT_SHARE=0.1 runs a tenth of each suite.

Whole files run, since the tests of some build on each other. PLACEMENT_SEED chooses
them: the same seed, the same files.
"""

from __future__ import annotations

import hashlib
import math
import os
import typing as t
from pathlib import Path

import pytest

SHARE = "PLACEMENT_SHARE"
_SHARE = pytest.StashKey[float]()


def pytest_configure(config: pytest.Config) -> None:
    """What tests start runs whole."""
    config.stash[_SHARE] = float(os.environ.pop(SHARE, "") or 1)


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Deselect the tests of the files that the share leaves out."""
    seed = os.environ.get("PLACEMENT_SEED", "")
    files = chosen({item.path for item in items}, config.stash[_SHARE], seed)
    config.hook.pytest_deselected(items=[item for item in items if item.path not in files])
    items[:] = [item for item in items if item.path in files]


def chosen(files: t.Collection[Path], share: float, seed: str) -> set[Path]:
    """That share of the files, at least one if there is any. A larger share has all files of a smaller one."""
    in_turn = sorted(files, key=lambda file: _draw(f"{seed} {file.parent.name}/{file.name}"))
    return set(in_turn[: math.ceil(share * len(in_turn))])


def _draw(text: str) -> bytes:
    return hashlib.sha256(text.encode()).digest()
