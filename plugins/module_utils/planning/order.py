# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which move waits for which: a sequence that works, turned into an order that allows more at once.

Pure. A move waits for an earlier one where that one is its leader or its follower, where the two
keep apart (never two of such a group in flight), and where its own target was not open before.
"""

from __future__ import annotations

import typing as t

from .healing import Chosen
from .links import Links

Uid = str


def order(
    sequence: t.Sequence[Chosen], links: Links, open_at_first: t.Callable[[Chosen], bool]
) -> dict[Uid, tuple[Uid, ...]]:
    """Uid of each move to the uids of the moves that must have ended before it begins.

    What another of them waits for already is left out. `open_at_first` says whether a move's
    target was open before any move.
    """
    place = {move.uid: number for number, move in enumerate(sequence)}
    behind: dict[Uid, frozenset[Uid]] = {}
    after: dict[Uid, tuple[Uid, ...]] = {}
    for number, move in enumerate(sequence):
        earlier = {uid for uid in links.linked(move.uid) if place.get(uid, number) < number}
        if not open_at_first(move):
            earlier |= _made_room(sequence[:number], move, earlier)
        direct: list[Uid] = []
        covered: set[Uid] = set()
        for uid in sorted(earlier, key=lambda found: -place[found]):
            if uid not in covered:
                direct.append(uid)
                covered |= behind[uid] | {uid}
        after[move.uid] = tuple(reversed(direct))
        behind[move.uid] = frozenset(covered)
    return after


def _made_room(before: t.Sequence[Chosen], move: Chosen, linked: t.Collection[Uid]) -> set[Uid]:
    """Whose leaving opened the target: those who left that node, else all that came before."""
    left = {found.uid for found in before if found.source in move.targets}
    return left or (set() if linked else {found.uid for found in before})
