# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The order of test files in which few sandboxes start: a start costs as much as some tests."""

from __future__ import annotations

import typing as t

File = t.TypeVar("File", bound=t.Hashable)


def few_starts(files: t.Mapping[File, t.Collection[str]], at_most: int) -> list[File]:
    """The files, each with the clusters that it wants; `at_most` of these live at a time. Next is what needs the fewest
    starts, of those what wants most of what lives, and of those what was next before."""
    left = {file: sorted(wanted) for file, wanted in files.items()}
    alive: list[str] = []
    order = []
    while left:
        file = min(left, key=lambda file: _cost(left[file], alive))
        wanted = left.pop(file)
        alive = [*(name for name in alive if name not in wanted), *wanted][-at_most:]
        order.append(file)
    return order


def _cost(wanted: list[str], alive: list[str]) -> tuple[int, int]:
    new = [name for name in wanted if name not in alive]
    return len(new), len(new) - len(wanted)
