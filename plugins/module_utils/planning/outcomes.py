# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Every way in which a filling can go, tried within a limit: the best end and the worst one.

Pure. Exact where the limit is not reached. Seekers of one kind are interchangeable, and what a
partial filling comes to is looked at once, however it was arrived at.
"""

from __future__ import annotations

import contextlib
import typing as t
from dataclasses import dataclass

from .fill import Filling, Run

LIMIT = 4000
"""States that are looked at before the search is given up."""


@dataclass(frozen=True, slots=True)
class Outcomes:
    """`best` and `worst` are runs with the most and the fewest goals placed of all that were
    seen, None where none was seen to its end. `exhausted`: there are no others. `placed` are
    seekers that have a place at some end."""

    best: Run | None
    worst: Run | None
    exhausted: bool
    placed: frozenset[int] = frozenset()

    @property
    def known(self) -> bool:
        return self.best is not None and self.worst is not None


class _Enough(Exception):
    """Nothing more is to be learned, or the limit is reached."""


class _Search:
    def __init__(self, filling: Filling, ordered: bool, limit: int) -> None:
        self.filling = filling
        self.ordered = ordered
        self.limit = limit
        self.seen: set[t.Hashable] = set()
        self.best: tuple[int, Run] | None = None
        self.worst: tuple[int, Run] | None = None
        self.exhausted = True
        self.kinds_placed: set[int] = set()

    def explore(self, position: int = 0) -> None:
        state = (position if self.ordered else 0, self.filling.state())
        if state in self.seen:
            return
        if len(self.seen) >= self.limit:
            self.exhausted = False
            raise _Enough
        self.seen.add(state)
        moved = self._in_order(position) if self.ordered else self._in_any_order()
        if not moved:
            self._end()

    def _in_any_order(self) -> bool:
        moved = False
        for m in range(len(self.filling.leavers)):
            if self.filling.may_leave(m):
                self.filling.leave(m)
                self._explore_further(0)
                moved = True
        for number in self.filling.next_ones():
            moved |= self._each_node(number, 0)
        return moved

    def _in_order(self, position: int) -> bool:
        left = range(position, len(self.filling.seekers))
        return any(self._each_node(number, number + 1) for number in left)

    def _each_node(self, number: int, position: int) -> bool:
        filling = self.filling
        names = filling.table.names_of(filling.open_nodes(number))
        for name in names:
            filling.place(number, name)
            self._explore_further(position)
        return bool(names)

    def _explore_further(self, position: int) -> None:
        try:
            self.explore(position)
        finally:
            self.filling.undo()

    def _end(self) -> None:
        run = self.filling.run
        count = placed(self.filling, run)
        self.kinds_placed |= {self.filling.kinds[number] for number, node in run if node}
        if self.best is None or count > self.best[0]:
            self.best = count, run
        if self.worst is None or count < self.worst[0]:
            self.worst = count, run
        if self.best[0] == self.filling.goals > self.worst[0]:
            raise _Enough


def placed(filling: Filling, run: Run) -> int:
    """How many goals a course places."""
    return sum(1 for number, node in run if node and filling.seekers[number].goal)


def outcomes(filling: Filling, *, ordered: bool = False, limit: int = LIMIT) -> Outcomes:
    """The best and the worst end of a filling. `ordered`: each seeker has its turn once, in list
    order; else whoever waits may be next, again and again, as in a scheduler's queue.

    It ends early once both a full end and one that is not full are known.
    """
    search = _Search(filling, ordered, limit)
    begin = contextlib.nullcontext() if ordered else filling.standing()
    with contextlib.suppress(_Enough), begin:
        search.explore()
    best, worst = search.best, search.worst
    kinds = filling.kinds if search.kinds_placed else []
    somewhere = frozenset(n for n, kind in enumerate(kinds) if kind in search.kinds_placed)
    return Outcomes(best and best[1], worst and worst[1], search.exhausted, somewhere)
