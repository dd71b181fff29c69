# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which instances does a rollout move, by which method, in which order, and which does it skip?

The plan is a forecast, since the scheduler chooses the node: after each move a new plan is made from
a new snapshot. Check mode and the real run make the same plan.
"""

from __future__ import annotations

import typing as t
from dataclasses import replace
from functools import cached_property

from ..compliance.instances import DeclaredInstance
from ..compliance.pending import no_good_node
from ..compliance.violations import bypass_text
from ..kubevirt.ordinals import ordinal_of
from ..model.gc import collector_paused
from ..model.obstacle import NOT_FOUND, Obstacle
from ..model.plan import Method, Move, Plan, SkippedInstance, Uid
from ..model.snapshot import Snapshot
from ..scheduler.nodes import NodeSet
from ..scheduler.preferences import meeting_nodes
from .order import order
from .plan_request import PlanRequest, simulate
from .repair import RETRIES, TARGETS, PlannedMove, RepairPlanner, violation_text
from .search import arrange
from .simulation import ClusterSimulation, PreferencePenalties, VerifiedIndex, cheaper

_HELD: t.Final = "the rollout of its workload is held"


def plan_moves(
    snapshot: Snapshot,
    request: PlanRequest,
    candidates: t.Sequence[DeclaredInstance],
    *,
    verified: VerifiedIndex | None = None,
) -> Plan:
    """The fewest moves that do what the scope asks for, and the skipped instances with reasons.

    `candidates`: the movable instances of the selection, `verified`: the index of the snapshot, if the
    caller has it already. The index is unchanged afterwards.
    """
    with collector_paused():
        simulation, _away = simulate(snapshot, request, candidates, verified)
        return _Planner(request, simulation).plan()


class _Planner:
    def __init__(self, request: PlanRequest, simulation: ClusterSimulation) -> None:
        self.request = request
        self.simulation = simulation
        self.candidates = simulation.candidates
        self.without_node = [x for x in simulation.elsewhere if not x.node]
        self.on_unknown_node = [x for x in simulation.elsewhere if x.node]
        self.dependencies = simulation.dependencies
        self.repair = RepairPlanner(
            simulation,
            self._methods,
            self._preference_penalties,
            request.preferred_node,
            lambda uid, method: request.permits(self.candidates[uid], method),
        )
        self.skipped: dict[Uid, SkippedInstance] = {}

    def plan(self) -> Plan:
        violating = self.simulation.violating()
        sequence = self.repair.repair(violating)
        concerned = self.repair.suspects
        for uid in (x for x in self.candidates if x in concerned):
            if self.simulation.violations(uid):
                self._skip_violating(uid)
        for movable in self.on_unknown_node:
            text = f"its node {movable.node} does not exist"
            self._skip(movable, Obstacle(NOT_FOUND, text))
        if self.request.scope == "preference_not_met":
            sequence += self._improve()
        elif self.request.scope != "violated":
            every = self.request.scope == "all"
            reason = "scope is all" if every else "its pod was scheduled before the rules changed"
            drifted = {uid for uid, movable in self.candidates.items() if every or movable.drift}
            sequence += self._renew(drifted, reason)
        if held := self.request.held & self.candidates.keys():
            sequence += self._renew(held, _HELD)
        # One of the last moves may have made room for an instance that was skipped.
        for move in sequence:
            if not self.simulation.violations(move.uid):
                self.skipped.pop(move.uid, None)
        self._wait_for_ending_pods()
        self.repair.revert(sequence)
        moves = self._ordered(sequence)
        moves += self._recreate_pending()
        return Plan(tuple(moves), tuple(self.skipped.values()), frozenset(violating))

    def _methods(self, uid: Uid) -> tuple[Method, ...]:
        return () if self.simulation.bypassed(uid) else self.request.methods(self.candidates[uid])

    def _preference_penalties(self, uid: Uid) -> PreferencePenalties:
        """Each preference of the instance: its weight and the nodes that do not meet it. A soft
        spread constraint has no weight and counts as the least."""
        preferences = meeting_nodes(self.simulation.declared, self.candidates[uid].declared_pod)
        every = self.simulation.table.all
        return [(preference.weight or 1, every & ~nodes) for preference, nodes in preferences]

    def _better(self, uid: Uid, nodes: NodeSet) -> NodeSet:
        """The nodes of a set that meet more preferences than the current node."""
        penalties = self._preference_penalties(uid)
        here = _cost(penalties, self.simulation.table.numbers[self.simulation.node_of[uid]])
        return cheaper(nodes, penalties, here)

    def _improve(self) -> list[PlannedMove]:
        """Moves for unmet preferences, affinity targets first. What a move violates is repaired
        before the next move."""
        chosen: list[PlannedMove] = []
        todo = {uid for uid in self.candidates if self._could_be_better(uid)}
        while todo:
            uid = self._take_next(todo)
            made = self._better_place(uid)
            if not made:
                continue
            chosen += made
            near = self.dependencies.related(uid) | todo
            todo = {x for x in near if x not in self.repair.moved and self._could_be_better(x)}
        return chosen

    def _take_next(self, todo: set[Uid]) -> Uid:
        """Remove the instance with the fewest affinity targets among the others, of held replicas the last one."""
        first: dict[int, Uid] = {}
        for uid in filter(todo.__contains__, self._by_name):
            targets = len(self.dependencies.affinity_targets(uid) & todo)
            first.setdefault(targets, uid)
            if not targets:  # none has fewer, and most have none
                break
        uid = first[min(first)]
        todo.discard(uid)
        return uid

    @cached_property
    def _by_name(self) -> list[Uid]:
        return sorted(self.candidates, key=lambda uid: (-self._ordinal(uid), self._name(uid)))

    def _ordinal(self, uid: Uid) -> int:
        """The number of a held replica, 0 for any other instance: a StatefulSet replaces the highest first, too."""
        movable = self.candidates[uid]
        if uid not in self.request.held or movable.workload is None:
            return 0
        return ordinal_of(movable.pod.name, movable.workload.ref.name)

    def _make_optional(
        self, uid: Uid, method: Method, nodes: NodeSet, reason: str
    ) -> list[PlannedMove]:
        """A move that no required rule asks for, and the moves that it makes necessary. None where another instance
        would violate a rule after them that violates none now."""
        related = sorted(self.dependencies.related(uid))
        satisfied = [x for x in related if not self.simulation.violations(x)]
        for node in self.repair.likeliest(uid, nodes, TARGETS):
            made = [self.repair.make(uid, method, nodes, reason, node), *self._followed(uid)]
            harmless = not any(self.simulation.violations(x) for x in satisfied)
            if harmless and self.repair.permits(uid, method):
                return made
            self.repair.revert(made)
            if harmless:
                break
        return []

    def _followed(self, moved: Uid) -> list[PlannedMove]:
        """The moves that the move of one instance makes necessary. What they repair is not so yet."""
        after = f"after the move of {self._name(moved)}: "
        moves = self.repair.repair(sorted(self.dependencies.related(moved)))
        return [replace(move, reason=f"{after}{move.reason}") for move in moves]

    def _could_be_better(self, uid: Uid) -> bool:
        n = self.simulation.table.numbers[self.simulation.node_of[uid]]
        return uid not in self.skipped and _cost(self._preference_penalties(uid), n) > 0

    def _better_place(self, uid: Uid) -> list[PlannedMove]:
        options = self.repair.options(uid)
        if options is None:
            if not self._methods(uid):
                places = self.simulation.open_set(uid, Method.RECREATE)
                if self._better(uid, places & self.simulation.good_set(uid)):
                    movable = self.candidates[uid]
                    why = self.request.why_not_moved(movable)
                    self._skip(movable, why.after("a preference is not met"))
            return []
        method, nodes = options
        made = self._make_optional(uid, method, self._better(uid, nodes), "a preference is not met")
        lost = not made and method not in self._methods(uid)
        return self._better_place(uid) if lost else made

    def _renew(self, wanted: t.Iterable[Uid], reason: str) -> list[PlannedMove]:
        """Moves of those that are to run with their declared terms, affinity targets first."""
        left = {uid for uid in wanted if uid not in self.repair.moved and uid not in self.skipped}
        todo = {uid for uid in left if self._renewing(uid)}
        chosen: list[PlannedMove] = []
        for _try in range(RETRIES):  # a later move may free the node that an earlier one lacked
            made = self._renew_in_order(todo, reason)
            chosen += made
            todo -= self.repair.moved
            if not made or not todo:
                break
        for uid in sorted(left - self.repair.moved, key=lambda x: (x in todo, self._name(x))):
            self._skip_renewing(uid, reason)
        return chosen

    def _skip_renewing(self, uid: Uid, reason: str) -> None:
        movable, methods = self.candidates[uid], self._renewing(uid)
        if methods:
            why = self.simulation.no_node(uid, methods[-1], self.request.topology)
            self._skip(movable, why.after(reason), no_node=True)
        elif not self.request.is_settled(movable):
            partly = movable.why_not_by_migration if self._methods(uid) else None
            self._skip(movable, (partly or self.request.why_not_moved(movable)).after(reason))

    def _renewing(self, uid: Uid) -> tuple[Method, ...]:
        return self.candidates[uid].enforcing(self._methods(uid))

    def _renew_in_order(self, uids: set[Uid], reason: str) -> list[PlannedMove]:
        chosen: list[PlannedMove] = []
        todo = set(uids)
        while todo:
            uid = self._take_next(todo)
            chosen += self._renew_one(uid, reason)
            todo -= self.repair.moved
        return chosen

    def _renew_one(self, uid: Uid, reason: str) -> list[PlannedMove]:
        """The move of one instance by the first method that is possible. Once it has lost a restart, a migration may
        enforce a part of what is declared."""
        tried: set[Method] = set()
        while method := next((x for x in self._renewing(uid) if x not in tried), None):
            tried.add(method)
            nodes = self.simulation.open_set(uid, method) & self.simulation.good_set(uid)
            if made := self._make_optional(uid, method, nodes, reason):
                return made
        return []

    def _recreate_pending(self) -> t.Iterator[Move]:
        """Moves of Pending instances with previous terms that fit a node with the declared ones. A held replica with
        the same terms is of another template in what is not known here, such as its requests: it moves in any case."""
        for movable in self.without_node:
            methods = self.request.options_of(movable).methods
            allowed = next((method for method in methods if method in self.request.allow), None)
            same_terms = movable.drift is None
            if movable.workload is None or (same_terms and movable.uid not in self.request.held):
                continue
            probe = movable.next_pod(Method.RECREATE)
            nodes = self.simulation.running.feasible_set(probe)
            kept = self.request.obstacle(movable, Method.RECREATE) is not None
            permitted = not kept and (not nodes or self.request.permits(movable, Method.RECREATE))
            if allowed is not Method.RECREATE or not permitted:
                self._skip(movable, self.request.why_not_moved(movable).after("it is Pending"))
            elif not nodes and not same_terms:
                pod_info = self.simulation.running.pod_info(probe)
                why = no_good_node(
                    self.simulation.running,
                    pod_info,
                    self.request.topology,
                    self.simulation.owners,
                )
                text = f"it is Pending, also with its new constraints: {why}"
                self._skip(movable, replace(why, text=text), no_node=True)
                with self.simulation.after_ending():
                    soon = self.simulation.running.feasible_set(probe)
                if soon:
                    self._wait_for(movable.uid, soon)
            else:
                previous = "it is Pending with previous constraints"
                reason = _HELD if same_terms else previous
                names = self.simulation.ranking.first(nodes, (), TARGETS)
                targets = self.repair.preferred_first(movable.uid, nodes, names)[:TARGETS]
                yield _move(movable, Method.RECREATE, "", targets, reason, ())

    def _wait_for_ending_pods(self) -> None:
        """Instances have a node once pods have ended that are ending, such as the source of a migration that has just
        ended: that is waited for."""
        if not self.simulation.ending_pods:
            return
        skipped = self.skipped
        closed = [x for x in skipped if skipped[x].no_node and not self._elsewhere(x)]
        with self.simulation.after_ending():
            soon = {uid: nodes for uid in closed if (nodes := self._elsewhere(uid))}
        for uid, nodes in soon.items():
            self._wait_for(uid, nodes)

    def _wait_for(self, uid: Uid, nodes: NodeSet) -> None:
        """An instance that is skipped has these nodes once the ending pods are gone."""
        skipped = self.skipped[uid]
        why = self.simulation.not_yet(skipped.reason, nodes)
        self.skipped[uid] = replace(skipped, reason=why, temporary=True)

    def _elsewhere(self, uid: Uid) -> NodeSet:
        """The nodes on which an instance may run instead, by any of its methods."""
        nodes, numbers = 0, self.simulation.table.numbers
        for method in self._methods(uid):
            nodes |= self.simulation.open_set(uid, method)
        here = 1 << numbers[self.simulation.node_of[uid]]
        return nodes and nodes & self.simulation.good_set(uid) & ~here

    def _ordered(self, sequence: list[PlannedMove]) -> list[Move]:
        numbers = self.simulation.table.numbers
        open_set = self.simulation.open_set
        after = order(
            sequence,
            self.dependencies,
            lambda x: bool(open_set(x.uid, x.method) >> numbers[x.node] & 1),
            lambda x, node: bool(x.nodes >> numbers[node] & 1),
        )
        return [
            _move(self.candidates[x.uid], x.method, x.source, x.targets, x.reason, after[x.uid])
            for x in sequence
        ]

    def _skip(self, movable: DeclaredInstance, reason: Obstacle, *, no_node: bool = False) -> None:
        ref = movable.workload.ref if movable.workload is not None else None
        self.skipped[movable.uid] = SkippedInstance(
            movable.instance.ref,
            movable.uid,
            ref,
            movable.node,
            reason,
            self.request.is_waited_for(movable),
            no_node,
        )

    def _skip_violating(self, uid: Uid) -> None:
        """Skip an instance that still violates a rule after the moves of the plan."""
        movable = self.candidates[uid]
        violated = violation_text(self.simulation, uid)
        methods = self._methods(uid)
        if bypassed := self.simulation.bypassed(uid):
            texts = "; ".join(dict.fromkeys(map(bypass_text, bypassed)))
            text = (
                f"{violated}; {texts}, so a move may end on such a node again: write the rules again, which"
                " puts the expression into every term, or remove the other term"
            )
            self._skip(movable, Obstacle("bypassed_by_node_term", text))
        elif not methods:
            self._skip(movable, self.request.why_not_moved(movable).after(violated))
        elif (proof := self._proof(uid)) is not None:
            self._skip(movable, proof.after(violated))
        else:
            blocker = self._mutual_blocker(uid)
            why = (
                self._blocked(uid, blocker)
                if blocker is not None
                else self.simulation.no_node(uid, methods[-1], self.request.topology)
            )
            self._skip(movable, why.after(violated), no_node=True)

    def _mutual_blocker(self, uid: Uid) -> Uid | None:
        """An instance that also has to move, where each of the two could if the other were gone."""
        related = sorted(self.dependencies.related(uid))
        others = [x for x in related if self.simulation.violations(x) and self._methods(x)]
        return next(
            (
                x
                for x in others[:_PAIRS]
                if self._opens(uid, without=x) and self._opens(x, without=uid)
            ),
            None,
        )

    def _opens(self, uid: Uid, *, without: Uid) -> bool:
        method, other = self._methods(uid)[-1], self.candidates[without].pod.uid
        with self.simulation.without([without]), self.simulation.running.without(other):
            return bool(self.simulation.open_set(uid, method) & self.simulation.good_set(uid))

    def _blocked(self, uid: Uid, blocker: Uid) -> Obstacle:
        one, other = self.candidates[uid], self.candidates[blocker]
        if self.dependencies.require_each_other(uid, blocker):
            text = (
                "each has affinity to the other. Let one follow the other (`with` of keep_together), or make the rule"
                " preferred"
            )
        else:
            text = (
                "each needs a node that the other one prevents. Add a node that one of them may use, or stop"
                f" {one.instance.ref.name}, move {other.instance.ref.name}, and start {one.instance.ref.name} again"
            )
        blocked = f"it and {other.instance.ref} on {other.node} block each other"
        return Obstacle("blocked_by_each_other", f"{blocked}: {text}")

    def _proof(self, uid: Uid) -> Obstacle | None:
        """That the group of an instance has too few topology domains; None if that is unknown. Only where the same
        terms are about all of them no two can share a domain, and no other instance prevents a domain."""
        arrangement = arrange(self.simulation, [uid])
        if arrangement is None or not arrangement.assignment.unplaced:
            return None
        crowd, key = arrangement.assignment.crowd, arrangement.key
        apart = self.dependencies.required_apart(uid, key)
        alike = all(self.dependencies.required_apart(x, key) == apart for x in crowd)
        if not (alike and apart.excludes(apart)):
            return None
        names = sorted(map(self._name, crowd))
        domains = sorted(arrangement.assignment.room)
        room = (
            f"only {len(domains)} available: {', '.join(domains)}" if domains else "none available"
        )
        return Obstacle(
            "too_few_domains",
            f"cannot be satisfied: {len(names)} instances ({', '.join(names)}) with anti-affinity need"
            f" {len(names)} values of {self.request.topology.name_of(key)}, {room}",
        )

    def _name(self, uid: Uid) -> str:
        return self.candidates[uid].instance.ref.name


_PAIRS = 20
"""Instances at most with which one is paired to see whether the two block each other."""


def _move(
    movable: DeclaredInstance,
    method: Method,
    source: str,
    targets: tuple[str, ...],
    reason: str,
    after: tuple[Uid, ...],
) -> Move:
    if movable.workload is None:
        raise AssertionError(f"{movable.instance.ref} belongs to no workload, and is not moved")
    ref = movable.workload.ref
    return Move(movable.instance.ref, movable.uid, ref, method, source, targets, reason, after)


def _cost(penalties: PreferencePenalties, n: int) -> int:
    """The weight of the preferences that node number `n` does not meet."""
    return sum(weight for weight, nodes in penalties if nodes >> n & 1)
