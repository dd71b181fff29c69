# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The fewest single moves that heal a small group, by searching all sequences of them.

Pure. Exact as long as `limit` states suffice; what is asked for is small, since everything else is
healed by `healing`.
"""

from __future__ import annotations

import heapq
import itertools
import typing as t
from dataclasses import dataclass

from ..model.plan import Method
from ..scheduling.node_table import NodeSet
from .world import World

Uid = str
Sequence = tuple[tuple[Uid, str], ...]
"""(instance, node) in order."""

LIMIT = 600
"""States that are looked at before the search is given up."""


@dataclass(frozen=True, slots=True)
class Found:
    """`moves` None: no sequence. `exhausted` False: the limit came first, so nobody knows."""

    moves: Sequence | None
    exhausted: bool = True


def fewest_moves(
    world: World,
    members: t.Sequence[Uid],
    methods: t.Mapping[Uid, t.Sequence[Method]],
    *,
    once: bool = True,
    in_place: bool = False,
    limit: int = LIMIT,
    choices: t.Callable[[Uid, NodeSet], t.Iterable[str]] | None = None,
) -> Found:
    """A shortest sequence after which no member breaks a rule. The world is left as it was.

    Only members with a method move; with `once` each at most once (no stop-overs). `in_place`: whoever
    is away for a moment may come back to its node, and run by its new terms. `choices` narrows the
    nodes that are tried for a move.
    """
    start = tuple(world.node_of[uid] for uid in members)
    queue: list[tuple[int, int, Sequence]] = []
    order = itertools.count()
    seen: set[tuple[tuple[str, ...], frozenset[Uid]]] = {(start, frozenset())}
    heapq.heappush(queue, (0, next(order), ()))
    while queue:
        _cost, _number, done = heapq.heappop(queue)
        with _Tried(world, done):
            if not any(world.broken(uid) for uid in members):
                return Found(done)
            spent = {uid for uid, _node in done} if once else ()
            nodes = _nodes(world, members, methods, spent, in_place)
            following = [
                (uid, node)
                for uid, found in nodes
                for node in (choices(uid, found) if choices else world.table.names_of(found))
            ]
        for step in following:
            state = _state(members, start, (*done, step))
            if state in seen:
                continue
            if len(seen) >= limit:
                return Found(None, exhausted=False)
            seen.add(state)
            heapq.heappush(queue, (len(done) + 1, next(order), (*done, step)))
    return Found(None)


class _Tried:
    """A world with some moves made, for as long as it is looked at."""

    def __init__(self, world: World, moves: Sequence) -> None:
        self.world, self.moves = world, moves

    def __enter__(self) -> None:
        for uid, node in self.moves:
            self.world.move(uid, node)

    def __exit__(self, *_raised: object) -> None:
        for _move in self.moves:
            self.world.undo()


def _nodes(
    world: World,
    members: t.Sequence[Uid],
    methods: t.Mapping[Uid, t.Sequence[Method]],
    spent: t.Collection[Uid],
    in_place: bool,
) -> t.Iterator[tuple[Uid, NodeSet]]:
    """Who may move now, and where to by any of its methods."""
    for uid in members:
        if uid in methods and uid not in spent:
            here = 1 << world.table.numbers[world.node_of[uid]]
            found = 0
            for method in methods[uid]:
                stays = not in_place or method is Method.MIGRATE
                found |= world.open_set(uid, method) & ~(here if stays else 0)
            yield uid, found


def _state(
    members: t.Sequence[Uid], start: tuple[str, ...], moves: Sequence
) -> tuple[tuple[str, ...], frozenset[Uid]]:
    """Where all are, and who runs under his new terms: what a sequence comes to."""
    where = dict(zip(members, start, strict=True))
    where.update(moves)
    return tuple(where.values()), frozenset(uid for uid, _node in moves)
