# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""In which order are the moves of a sequence made, and which of them at the same time?"""

from __future__ import annotations

import typing as t

from .dependencies import Dependencies
from .repair import PlannedMove


def order(
    sequence: t.Sequence[PlannedMove],
    dependencies: Dependencies,
    open_at_first: t.Callable[[PlannedMove], bool],
    was_open: t.Callable[[PlannedMove, str], bool],
) -> dict[str, tuple[str, ...]]:
    """The uid of each move to the uids of the moves that must end before it begins.

    A move waits for an earlier one if the two instances are related: two that keep apart are never
    in flight together. If its own target was not open at first, it also waits for the moves that
    left a node which was open in its turn, or else for all earlier ones. A wait that follows from
    another one is left out. `open_at_first`: whether a move's target was open before any move.
    `was_open`: whether a node was open in the move's turn.
    """
    place = {move.uid: number for number, move in enumerate(sequence)}
    behind: dict[str, frozenset[str]] = {}
    after: dict[str, tuple[str, ...]] = {}
    moved_from: dict[str, list[str]] = {}
    for number, move in enumerate(sequence):
        earlier = {uid for uid in dependencies.related(move.uid) if place.get(uid, number) < number}
        if not open_at_first(move):
            freed = (uids for node, uids in moved_from.items() if was_open(move, node))
            freeing = {uid for uids in freed for uid in uids}
            earlier |= freeing or (set() if earlier else set(behind))
        direct: list[str] = []
        covered: set[str] = set()
        for uid in sorted(earlier, key=lambda uid: -place[uid]):
            if uid not in covered:
                direct.append(uid)
                covered |= behind[uid] | {uid}
        after[move.uid] = tuple(reversed(direct))
        behind[move.uid] = frozenset(covered)
        moved_from.setdefault(move.source, []).append(move.uid)
    return after
