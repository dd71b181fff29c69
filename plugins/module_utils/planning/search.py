# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What is the shortest sequence of moves, and which members of a group fit into which domains?

`shortest_repair` searches all sequences of single moves of a small group, up to a limit.
"""

from __future__ import annotations

import contextlib
import typing as t
from collections import deque
from dataclasses import dataclass

from ..model.plan import Method, Uid
from ..scheduler.nodes import NodeSet
from .matching import Assignment, assign
from .simulation import ClusterSimulation


@dataclass(frozen=True, slots=True)
class Arrangement:
    """A group that keeps apart over `key`, and the domain of each member."""

    key: str
    assignment: Assignment


def arrange(simulation: ClusterSimulation, group: t.Collection[str]) -> Arrangement | None:
    """Match the members of a group that keeps apart over one key with the domains of that key.

    None if other rules are violated, or rules over several keys. A domain is open to a member if
    one of its nodes is, while all members are away.
    """
    keys = {
        (reason.kind in ("anti", "existing-anti"), reason.topology_key)
        for uid in group
        for failure in simulation.violations(uid)
        for reason in failure.reasons
    }
    if len(keys) != 1 or not next(iter(keys))[0]:
        return None
    ((_anti, key),) = keys
    peers = simulation.dependencies.anti_affinity_peers
    members = sorted({*group, *(peer for uid in group for peer in peers(uid))})
    with simulation.without(members):
        open_nodes = {uid: simulation.nodes_when_away(uid) for uid in members}
    table = simulation.table
    domain = {
        name: labels[key]
        for name, labels in zip(table.names, table.labels, strict=True)
        if key in labels
    }
    options = {
        uid: {domain[node] for node in nodes if node in domain} for uid, nodes in open_nodes.items()
    }
    stays = {
        uid: domain[simulation.node_of[uid]]
        for uid in members
        if simulation.node_of[uid] in open_nodes[uid] and simulation.node_of[uid] in domain
    }
    return Arrangement(key, assign(options, stays))


Sequence = tuple[tuple[Uid, str], ...]
"""(instance, node) in order."""

LIMIT = 600
"""States after which the search gives up."""


@dataclass(frozen=True, slots=True)
class SearchOutcome:
    """`moves` None: no sequence. `exhausted` False: unknown, since the limit was reached."""

    moves: Sequence | None
    exhausted: bool = True


def shortest_repair(
    simulation: ClusterSimulation,
    members: t.Sequence[Uid],
    methods: t.Mapping[Uid, t.Sequence[Method]],
    *,
    once: bool = True,
    in_place: bool = False,
    limit: int = LIMIT,
    choices: t.Callable[[Uid, NodeSet], t.Iterable[str]] | None = None,
) -> SearchOutcome:
    """A shortest sequence after which no member violates anything. The simulation is unchanged.

    Only members with a method move, with `once` each at most once. `in_place`: an instance that is
    restarted may come back to its node, with its declared terms. `choices` narrows the nodes that
    are tried for a move.
    """
    start = tuple(simulation.node_of[uid] for uid in members)
    queue: deque[Sequence] = deque([()])
    states: set[tuple[tuple[str, ...], frozenset[Uid]]] = {(start, frozenset())}
    while queue:
        done = queue.popleft()
        with _with_moves(simulation, done):
            if not any(simulation.violations(uid) for uid in members):
                return SearchOutcome(done)
            spent = {uid for uid, _node in done} if once else ()
            nodes = _nodes(simulation, members, methods, spent, in_place)
            following = [
                (uid, node)
                for uid, open_nodes in nodes
                for node in (
                    choices(uid, open_nodes) if choices else simulation.table.names_of(open_nodes)
                )
            ]
        for step in following:
            # Where all members are, and which of them run with declared terms.
            moved = dict((*done, step))
            where = tuple(moved.get(uid, at) for uid, at in zip(members, start, strict=True))
            state = where, frozenset(moved)
            if state in states:
                continue
            if len(states) >= limit:
                return SearchOutcome(None, exhausted=False)
            states.add(state)
            queue.append((*done, step))
    return SearchOutcome(None)


@contextlib.contextmanager
def _with_moves(simulation: ClusterSimulation, moves: Sequence) -> t.Iterator[None]:
    """In this context, some moves are made."""
    for uid, node in moves:
        simulation.move(uid, node)
    try:
        yield
    finally:
        for _move in moves:
            simulation.revert()


def _nodes(
    simulation: ClusterSimulation,
    members: t.Sequence[Uid],
    methods: t.Mapping[Uid, t.Sequence[Method]],
    spent: t.Collection[Uid],
    in_place: bool,
) -> t.Iterator[tuple[Uid, NodeSet]]:
    """The members that may move now, each with the nodes open to it by any of its methods."""
    for uid in members:
        if uid in methods and uid not in spent:
            here = 1 << simulation.table.numbers[simulation.node_of[uid]]
            open_nodes = 0
            for method in methods[uid]:
                stays = not in_place or method is Method.MIGRATE
                open_nodes |= simulation.open_set(uid, method) & ~(here if stays else 0)
            yield uid, open_nodes
