# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which move waits for which: a sequence that works, turned into an order that allows more at once.

Pure. A move waits for an earlier one where that one is its leader or its follower, where the two
keep apart (never two of such a group in flight), and where its own target was not open before: then
for those who left a node that was open to it, or else for all.
"""

from __future__ import annotations

import typing as t

from .healing import Chosen
from .links import Links

Uid = str


def _is_target(move: Chosen, node: str) -> bool:
    return node in move.targets


def order(
    sequence: t.Sequence[Chosen],
    links: Links,
    open_at_first: t.Callable[[Chosen], bool],
    was_open: t.Callable[[Chosen, str], bool] = _is_target,
) -> dict[Uid, tuple[Uid, ...]]:
    """Uid of each move to the uids of the moves that must have ended before it begins.

    What another of them waits for already is left out. `open_at_first` says whether a move's
    target was open before any move, `was_open` whether a node was open in the move's turn.
    """
    place = {move.uid: number for number, move in enumerate(sequence)}
    behind: dict[Uid, frozenset[Uid]] = {}
    after: dict[Uid, tuple[Uid, ...]] = {}
    gone_from: dict[str, list[Uid]] = {}
    for number, move in enumerate(sequence):
        earlier = {uid for uid in links.linked(move.uid) if place.get(uid, number) < number}
        if not open_at_first(move):
            freed = (uids for node, uids in gone_from.items() if was_open(move, node))
            made_room = {uid for uids in freed for uid in uids}
            earlier |= made_room or (set() if earlier else set(behind))
        direct: list[Uid] = []
        covered: set[Uid] = set()
        for uid in sorted(earlier, key=lambda found: -place[found]):
            if uid not in covered:
                direct.append(uid)
                covered |= behind[uid] | {uid}
        after[move.uid] = tuple(reversed(direct))
        behind[move.uid] = frozenset(covered)
        gone_from.setdefault(move.source, []).append(move.uid)
    return after
