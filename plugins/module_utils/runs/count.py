# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""How many moves a run has. It is planned anew after each move, so that changes, and is told.

Pure.
"""

from __future__ import annotations

import typing as t
from dataclasses import dataclass, field, replace

from ..model.plan import Move, Plan
from ..movement.entry import Entry
from . import progress
from .journal import Journal

NAMED = 50
"""Moves to come whose names are kept: a run of thousands hands them from step to step."""


@dataclass(frozen=True, slots=True)
class Count:
    """`total` is the number of moves as it was told last, -1 before the first time. `to_come` are
    moves that were planned and have not begun: uids and names of their instances."""

    total: int = -1
    to_come: t.Mapping[str, str] = field(default_factory=dict)

    def replanned(
        self, journal: Journal, plan: Plan, there: t.Container[str]
    ) -> tuple[Count, list[str]]:
        """The count by a new plan, and what is told of the difference. `there` are the uids of the
        instances that still exist."""
        begun = {entry.uid for entry in journal.entries}
        moves = [move for move in plan.moves if move.uid not in begun]
        planned = {move.uid for move in moves}
        total = journal.started + len(moves)
        off = {u: n for u, n in self.to_come.items() if u not in planned and u not in begun}
        lines = _why_off(off, plan, there)
        if self.total not in (-1, total):
            lines.append(progress.recounted(self.total, total))
        named = {move.uid: progress.short(move.workload, move.instance) for move in moves[:NAMED]}
        return Count(total, named), lines

    def begun(self, move: Move) -> Count:
        """One of the moves to come begins."""
        return replace(self, to_come={u: n for u, n in self.to_come.items() if u != move.uid})

    def put_off(self, entry: Entry) -> Count:
        """A move that was told to begin, and of which nothing was sent, is to come again."""
        name = progress.short(entry.workload, entry.instance)
        return replace(self, to_come={**self.to_come, entry.uid: name})


UNCOUNTED: t.Final = Count()


def _why_off(off: t.Mapping[str, str], plan: Plan, there: t.Container[str]) -> list[str]:
    """What became of the moves that are not planned any more."""
    left = {found.uid: found for found in plan.left}
    lines = []
    for uid in (found for found in off if found in left):
        found = left[uid]
        lines.append(
            progress.not_now(off[uid], found.reason)
            if found.passing
            else progress.left_behind(found)
        )
    others = [uid for uid in off if uid not in left]
    needless = [off[uid] for uid in others if uid in there]
    gone = [off[uid] for uid in others if uid not in there]
    lines += [progress.needless(needless)] if needless else []
    lines += [progress.gone(gone)] if gone else []
    return lines
