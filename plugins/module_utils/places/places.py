# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which moves bring VMs to the nodes of a map, and in which order?

As an administrator migrates VMs by hand: each VM of the map moves once, live, to its node, and no other VM moves. A
move is left out if its VM would violate a required rule there, or another instance would violate one that it obeys now.
Only an instance of the map whose own move follows may do so until then, as one with affinity to a VM that moves first.
"""

from __future__ import annotations

import typing as t
from collections import defaultdict
from dataclasses import replace
from functools import cached_property

from ..compliance.instances import DeclaredInstance
from ..model.gc import collector_paused
from ..model.objects import Ref
from ..model.obstacle import Obstacle
from ..model.plan import Method, Move, Plan, SkippedInstance, Uid
from ..model.snapshot import Snapshot
from ..planning.order import order
from ..planning.plan_request import PlanRequest, simulate
from ..planning.repair import PlannedMove
from ..planning.simulation import ClusterSimulation, VerifiedIndex
from .reasons import PlaceMoves, PlaceReasons

_AGAIN = 10
"""VMs at most that are tried again once a move has made room."""


def plan_places(
    snapshot: Snapshot,
    request: PlanRequest,
    candidates: t.Sequence[DeclaredInstance],
    places: t.Mapping[Ref, str],
    *,
    verified: VerifiedIndex | None = None,
) -> Plan:
    """The moves to `places`, and each VM that cannot go, with the reason. `candidates`: the movable instances of all
    namespaces of the places, since the rules of others count. `violated` of the plan: what is not in its place."""
    with collector_paused():
        simulation, away = simulate(snapshot, request, candidates, verified)
        return _PlacesPlanner(snapshot, request, simulation, candidates, places).plan(away)


class _PlacesPlanner:
    def __init__(
        self,
        snapshot: Snapshot,
        request: PlanRequest,
        simulation: ClusterSimulation,
        candidates: t.Sequence[DeclaredInstance],
        places: t.Mapping[Ref, str],
    ) -> None:
        self.request = request
        self.simulation = simulation
        self.moves = PlaceMoves(simulation, snapshot.pods)
        self.reasons = PlaceReasons(snapshot, request, self.moves)
        self.by_ref = {x.instance.ref: x for x in candidates}
        self.places = places
        self.skipped: list[SkippedInstance] = []

    def plan(self, away: t.Container[Uid]) -> Plan:
        misplaced = set()
        for ref, node in self.places.items():
            movable = self.by_ref.get(ref)
            if movable is None:
                workload = ref.vm
                reason = self.reasons.no_instance(ref)
                self.skipped.append(SkippedInstance(ref, "", workload, "", reason))
            elif movable.uid in away:
                misplaced.add(movable.uid)
                text = "another migration of it is in flight"
                self._skip(movable, Obstacle("in_progress", text, True))
            elif movable.node != node:
                misplaced.add(movable.uid)
                if (why := self.reasons.why_fixed(movable, node)) is not None:
                    self._skip(movable, replace(why, temporary=False))
                else:
                    self.moves.to_do[movable.uid] = node
        sequence = self._sequence()
        soon = self.reasons.open_soon()
        for uid in self.moves.to_do:
            movable = self.simulation.candidates[uid]
            closed = self.reasons.not_yet(uid) if uid in soon else self.reasons.stuck(uid)
            self._skip(movable, self.request.obstacle(movable, Method.MIGRATE) or closed)
        for _move in sequence:
            self.simulation.revert()
        return Plan(tuple(self._ordered(sequence)), tuple(self.skipped), frozenset(misplaced))

    def _sequence(self) -> list[PlannedMove]:
        """As many moves as are possible, one after the other: a move may free the node of another one. Then the first
        one of the map goes first, as it does in the plan that a rollout makes after the move."""
        rank = {uid: number for number, uid in enumerate(self.moves.to_do)}
        related = self.simulation.dependencies.related
        sequence: list[PlannedMove] = []
        while True:
            made: list[PlannedMove] = []
            waiting, blocked = [*reversed(self.moves.to_do)], set[Uid]()
            while waiting:
                uid = waiting.pop()
                if uid not in self.moves.to_do:
                    continue
                moves = self._move_with_followers(uid)
                if not moves:
                    blocked.add(uid)
                for move in moves:
                    del self.moves.to_do[move.uid]
                    blocked.discard(move.uid)
                made += moves
                freed = {
                    x
                    for move in moves
                    for x in (related(move.uid) | self._asked_for[move.source]) & blocked
                }
                waiting += sorted(freed, key=rank.__getitem__, reverse=True)[-_AGAIN:]
            if not made:
                return sequence
            sequence += made

    @cached_property
    def _asked_for(self) -> t.Mapping[str, set[Uid]]:
        """What is to go to each node."""
        asked = defaultdict[str, set[Uid]](set)
        for uid, node in self.moves.to_do.items():
            asked[node].add(uid)
        return asked

    def _move_with_followers(self, uid: Uid) -> list[PlannedMove]:
        """The move of one instance, and the moves of those in the map that would violate a rule after it. None where
        one of them is not possible, or something else would violate a rule."""
        made: list[PlannedMove] = []
        waiting, broken = [uid], set[Uid]()
        while waiting:
            current = waiting[0]
            node = self.moves.to_do[current]
            if not self.moves.is_open(current, node) or not self.request.permits(
                self.simulation.candidates[current], Method.MIGRATE
            ):
                break
            obeying = self.moves.obeying(current)
            made.append(self.moves.make(current, node))
            broken = {x for x in broken | obeying if self.moves.violates(x)}
            done = {move.uid for move in made}
            waiting = sorted(x for x in broken if x in self.moves.to_do and x not in done)
            if len(waiting) < len(broken):
                break
        if not broken and made:
            return made
        for _move in made:
            self.simulation.revert()
        return []

    def _open_before_departures(self, sequence: list[PlannedMove]) -> set[Uid]:
        """The moves whose node has room for them beside all earlier moves to it, before anything leaves it. Others may
        begin at the same time, so each one needs room of its own."""
        arrivals: dict[str, list[PlannedMove]] = {}
        for move in sequence:
            arrivals.setdefault(move.node, []).append(move)
        found = set()
        for node, moves in arrivals.items():
            for move in moves:
                if self.moves.is_open(move.uid, node):
                    found.add(move.uid)
                self.simulation.move(move.uid, node)
            for _move in moves:
                self.simulation.revert()
        return found

    def _ordered(self, sequence: list[PlannedMove]) -> t.Iterator[Move]:
        open_at_first = self._open_before_departures(sequence)
        after = order(
            sequence,
            self.simulation.dependencies,
            lambda x: x.uid in open_at_first,
            lambda x, node: node == x.node,
        )
        for x in sequence:
            movable = self.simulation.candidates[x.uid]
            ref, workload = movable.instance.ref, movable.workload
            if workload is not None:
                yield Move(
                    ref, x.uid, workload.ref, x.method, x.source, x.targets, x.reason, after[x.uid]
                )

    def _skip(self, movable: DeclaredInstance, reason: Obstacle) -> None:
        """Migrations of others and ending pods are waited for. That a VM does not run yet is an answer."""
        ref = movable.workload.ref if movable.workload is not None else None
        instance = movable.instance.ref
        self.skipped.append(
            SkippedInstance(instance, movable.uid, ref, movable.node, reason, reason.temporary)
        )
