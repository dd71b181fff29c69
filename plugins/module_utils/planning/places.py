# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which moves bring VMs to the nodes of a map, in which order, and why can some VMs not go there?

As an administrator migrates VMs by hand: each VM of the map moves once, live, to its node, and no other VM moves. A
move is left out if its VM would violate a required rule there, or another instance would violate one that it obeys now.
Only an instance of the map whose own move follows may do so until then, as one with affinity to a VM that moves first.

The file is long, since a VM can be kept from its node by many causes, and each one is told apart.
"""

from __future__ import annotations

import typing as t
from collections import defaultdict
from functools import cached_property

from ..compliance.pending import why_not_on_node
from ..compliance.violations import owning_rules, unmet_rules
from ..kubevirt.instances import in_flight, launcher_pods
from ..model.gc import collector_paused
from ..model.input import nearest
from ..model.kinds import VIRTUAL_MACHINE
from ..model.objects import Pod, Ref
from ..model.plan import Method, Move, Plan, SkippedInstance
from ..model.rendering import listed
from ..model.snapshot import Snapshot, Vmi
from ..model.topology import HOSTNAME
from ..scheduler.framework import INTER_POD_AFFINITY, POD_TOPOLOGY_SPREAD, FilterReason
from .dependencies import Dependencies
from .movable_instances import MovableInstance
from .order import order
from .plan import PlanRequest
from .repair import PlannedMove, violation_text
from .simulation import ClusterSimulation, VerifiedIndex

Uid = str

Places = t.Mapping[Ref, str]
"""VMIs to the nodes that they are to run on."""

_SWAPS = 20
"""VMs at most that are looked at as the cause of one that cannot go."""

_AGAIN = 10
"""VMs at most that are tried again once a move has made room."""

_SEARCHES = 20
"""Unknown names at most for which similar ones are searched."""


def hostname_of(snapshot: Snapshot, node: str) -> str:
    """The label by which a migration is held to a node, empty where it has none."""
    found = next((x for x in snapshot.nodes if x.name == node), None)
    return found.labels.get(HOSTNAME, "") if found is not None else ""


def plan_places(
    snapshot: Snapshot,
    request: PlanRequest,
    candidates: t.Sequence[MovableInstance],
    places: Places,
    *,
    verified: VerifiedIndex | None = None,
) -> Plan:
    """The moves to `places`, and each VM that cannot go, with the reason. `candidates`: the movable instances of all
    namespaces of the places, since the rules of others count. `violated` of the plan: what is not in its place."""
    with collector_paused():
        on_the_way = in_flight(snapshot, request.selection.all_namespaces)
        away = request.in_flight | on_the_way.instances
        movable = [x for x in candidates if x.uid not in away]
        simulation = ClusterSimulation(
            snapshot,
            movable,
            on_the_way=on_the_way,
            verified=verified,
            topology=request.topology,
        )
        return _PlacesPlanner(snapshot, request, simulation, candidates, places).plan(away)


class _PlacesPlanner:
    def __init__(
        self,
        snapshot: Snapshot,
        request: PlanRequest,
        simulation: ClusterSimulation,
        candidates: t.Sequence[MovableInstance],
        places: Places,
    ) -> None:
        self.snapshot = snapshot
        self.request = request
        self.simulation = simulation
        self.by_ref = {x.instance.ref: x for x in candidates}
        self.by_pod = {x.pod.ref: x for x in candidates}
        self.places = places
        self.to_do: dict[Uid, str] = {}
        self.skipped: list[SkippedInstance] = []
        self.searches = 0

    def plan(self, away: t.Container[Uid]) -> Plan:
        misplaced = set()
        for ref, node in self.places.items():
            movable = self.by_ref.get(ref)
            if movable is None:
                workload = ref._replace(kind=VIRTUAL_MACHINE.name)
                reason = self._why_unknown(ref)
                self.skipped.append(SkippedInstance(ref, "", workload, "", reason))
            elif movable.uid in away:
                if movable.uid not in self.request.in_flight:
                    misplaced.add(movable.uid)
                    self._skip(movable, "another migration of it is in flight", temporary=True)
            elif movable.node != node:
                misplaced.add(movable.uid)
                if why := self._why_fixed(movable, node):
                    self._skip(movable, why)
                else:
                    self.to_do[movable.uid] = node
        sequence = self._sequence()
        soon = self._open_soon()
        for uid in self.to_do:
            why = self._why_not_yet(uid) if uid in soon else self._why_stuck(uid)
            self._skip(self.simulation.candidates[uid], why, temporary=uid in soon)
        for _move in sequence:
            self.simulation.revert()
        return Plan(tuple(self._ordered(sequence)), tuple(self.skipped), frozenset(misplaced))

    def _sequence(self) -> list[PlannedMove]:
        """As many moves as are possible, one after the other: a move may free the node of another one. Then the first
        one of the map goes first, as it does in the plan that a rollout makes after the move."""
        rank = {uid: number for number, uid in enumerate(self.to_do)}
        sequence: list[PlannedMove] = []
        while True:
            made: list[PlannedMove] = []
            waiting, blocked = [*reversed(self.to_do)], set[Uid]()
            while waiting:
                uid = waiting.pop()
                if uid not in self.to_do:
                    continue
                moves = self._move_with_followers(uid)
                if not moves:
                    blocked.add(uid)
                for move in moves:
                    del self.to_do[move.uid]
                    blocked.discard(move.uid)
                made += moves
                freed = {x for move in moves for x in self._freed_by(move) & blocked}
                waiting += sorted(freed, key=rank.__getitem__, reverse=True)[-_AGAIN:]
            if not made:
                return sequence
            sequence += made

    def _freed_by(self, move: PlannedMove) -> t.AbstractSet[Uid]:
        """What may have a node only since this move."""
        return self.simulation.dependencies.related(move.uid) | self._asked_for[move.source]

    @cached_property
    def _asked_for(self) -> t.Mapping[str, set[Uid]]:
        """What is to go to each node."""
        asked = defaultdict[str, set[Uid]](set)
        for uid, node in self.to_do.items():
            asked[node].add(uid)
        return asked

    def _move_with_followers(self, uid: Uid) -> list[PlannedMove]:
        """The move of one instance, and the moves of those in the map that would violate a rule after it. None where
        one of them is not possible, or something else would violate a rule."""
        made: list[PlannedMove] = []
        waiting, broken = [uid], set[Uid]()
        while waiting:
            current = waiting[0]
            node = self.to_do[current]
            if not self._is_open(current, node):
                break
            obeying = self._obeying(current)
            made.append(self._make(current, node))
            broken = {x for x in broken | obeying if self._violates(x)}
            done = {move.uid for move in made}
            waiting = sorted(x for x in broken if x in self.to_do and x not in done)
            if len(waiting) < len(broken):
                break
        if not broken and made:
            return made
        for _move in made:
            self.simulation.revert()
        return []

    def _is_open(self, uid: Uid, node: str) -> bool:
        nodes = self.simulation.open_set(uid, Method.MIGRATE) & self.simulation.good_set(uid)
        return bool(nodes >> self.simulation.table.numbers[node] & 1)

    def _make(self, uid: Uid, node: str) -> PlannedMove:
        source, number = self.simulation.node_of[uid], self.simulation.table.numbers[node]
        reason = f"{node} was asked for"
        if self.simulation.violations(uid):
            violated = violation_text(self.simulation, uid)
            reason = f"{reason}, and until then it violates a rule: {violated}"
        self.simulation.move(uid, node)
        return PlannedMove(uid, Method.MIGRATE, source, node, (node,), reason, 1 << number)

    def _obeying(self, uid: Uid) -> set[str]:
        """What is related to an instance and violates nothing: uids of instances, and of pods of others."""
        related = {uid, *self.simulation.dependencies.related(uid)}
        if self._others:
            info = self.simulation.running.placed_info(self.simulation.candidates[uid].pod.uid)
            related |= self._other_dependencies.related_to_pod(info)
        return {x for x in related if not self._violates(x)}

    def _violates(self, uid: str) -> bool:
        if uid in self.simulation.candidates:
            return bool(self.simulation.violations(uid))
        return bool(self._violated_by_other(uid))

    def _violated_by_other(self, uid: str) -> list[FilterReason]:
        """The affinity and spread constraints that a pod of others does not obey where it is. Its anti-affinity keeps
        the VM that moves away."""
        failures = self.simulation.running.failures_in_place(uid)
        pairwise = (x for x in failures if x.plugin in (INTER_POD_AFFINITY, POD_TOPOLOGY_SPREAD))
        return [
            x for failure in pairwise for x in failure.reasons if x.kind in ("affinity", "skew")
        ]

    @cached_property
    def _others(self) -> dict[str, Pod]:
        """Pods that are no candidates, with constraints that the move of another pod may break."""
        ours = {x.pod.uid for x in self.simulation.candidates.values()}
        return {
            pod.uid: pod
            for pod in self.snapshot.pods
            if (pod.placement.affinity or pod.placement.spread)
            and pod.uid in self.simulation.running
            and pod.uid not in ours
        }

    @cached_property
    def _other_dependencies(self) -> Dependencies:
        others = self._others
        return Dependencies.of(self.simulation.running, {x: x for x in others}, others.items())

    def _open_before_departures(self, sequence: list[PlannedMove]) -> set[Uid]:
        """The moves whose node has room for them beside all earlier moves to it, before anything leaves it. Others may
        begin at the same time, so each one needs room of its own."""
        arrivals: dict[str, list[PlannedMove]] = {}
        for move in sequence:
            arrivals.setdefault(move.node, []).append(move)
        found = set()
        for node, moves in arrivals.items():
            for move in moves:
                if self._is_open(move.uid, node):
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

    def _skip(self, movable: MovableInstance, reason: str, *, temporary: bool = False) -> None:
        """Migrations of others and ending pods are waited for. That a VM does not run yet is an answer."""
        ref = movable.workload.ref if movable.workload is not None else None
        instance = movable.instance.ref
        self.skipped.append(
            SkippedInstance(instance, movable.uid, ref, movable.node, reason, temporary)
        )

    def _why_unknown(self, ref: Ref) -> str:
        """Why there is no instance to move."""
        if ref.namespace not in self._names:
            near = self._nearest(ref.namespace, self._names)
            return f"there is no namespace {ref.namespace!r}{near}"
        found = self._waiting.get(ref)
        if found is not None and found.owner is not None and found.uid in self._launchers:
            return f"its {found.owner.kind} {found.owner.name} is not among the workloads that were read"
        if found is not None:
            return f"the instance is {found.phase or 'not started'} and has no pod yet"
        here = self._names[ref.namespace]
        if ref.name in here:
            return "it is not running, so there is nothing to migrate"
        near = self._nearest(ref.name, here)
        return f"there is no VM {ref.name!r} in namespace {ref.namespace}{near}"

    def _nearest(self, name: str, known: t.Iterable[str]) -> str:
        """As `nearest`, for the first names only: each search reads all known ones, and of a placement that was saved
        long ago thousands of VMs may be gone."""
        self.searches += 1
        return nearest(name, known) if self.searches <= _SEARCHES else ""

    @cached_property
    def _launchers(self) -> t.Container[Uid]:
        """The VMIs that have pods."""
        return launcher_pods(self.snapshot)

    @cached_property
    def _waiting(self) -> dict[Ref, Vmi]:
        vmis = self.snapshot.vmis
        return {x.ref: x for x in vmis if not (x.terminating or x.finished)}

    @cached_property
    def _names(self) -> dict[str, set[str]]:
        """The VMs and VMIs of each namespace."""
        names: dict[str, set[str]] = {x.name: set() for x in self.snapshot.namespaces}
        refs = [vmi.ref for vmi in self.snapshot.vmis]
        refs += [x.ref for x in self.snapshot.workloads if x.ref.kind == VIRTUAL_MACHINE.name]
        for ref in refs:
            names.setdefault(ref.namespace, set()).add(ref.name)
        return names

    def _why_fixed(self, movable: MovableInstance, node: str) -> str:
        """Why an instance does not go there, whatever else moves; empty where it may go."""
        request, options = self.request, movable.move_options
        names = self.simulation.table.numbers
        if node not in names:
            return f"there is no node {node!r}{self._nearest(node, names)}"
        if movable.uid not in self.simulation.candidates:
            return f"its node {movable.node} does not exist" if movable.node else "it is Pending"
        for reasons in (request.not_movable, request.kept):
            if movable.uid in reasons:
                return reasons[movable.uid]
        if movable.workload is None:
            return "it has no VirtualMachine. Only VMIs of VirtualMachines, pools and replica sets are moved"
        if Method.MIGRATE not in options.methods:
            return options.reason or "it cannot migrate"
        hostname = self.simulation.table.nodes[names[node]].labels.get(HOSTNAME, "")
        if not hostname:
            return f"{node} has no label {HOSTNAME}, by which a migration could be held to it"
        alike = [x for x in self._nodes_with[hostname] if x != node]
        if alike:
            return (
                f"{listed(alike)} has the label {HOSTNAME}={hostname} of {node}, too, so a migration cannot be held to"
                f" {node}"
            )
        return ""

    @cached_property
    def _nodes_with(self) -> dict[str, list[str]]:
        """The nodes with each value of the label kubernetes.io/hostname."""
        nodes = defaultdict[str, list[str]](list)
        for node in self.snapshot.nodes:
            nodes[node.labels.get(HOSTNAME, "")].append(node.name)
        return nodes

    def _open_soon(self) -> set[Uid]:
        """What can go once pods have ended that are ending, such as the source of a migration that has just ended."""
        closed = [uid for uid, node in self.to_do.items() if not self._is_open(uid, node)]
        with self.simulation.after_ending():
            return {uid for uid in closed if self._is_open(uid, self.to_do[uid])}

    def _why_not_yet(self, uid: Uid) -> str:
        node = self.to_do[uid]
        why = f"not possible on {node} yet: {self._why_closed(uid, node)}"
        return self.simulation.why_not_yet(why, 1 << self.simulation.table.numbers[node])

    def _why_stuck(self, uid: Uid) -> str:
        """Why an instance cannot go after all other moves."""
        node = self.to_do[uid]
        if self._is_open(uid, node):
            return self._why_harmful(uid, node)
        why = f"not possible on {node}: {self._why_closed(uid, node)}"
        others = [x for x in self.to_do if x != uid][:_SWAPS]
        if not others or not self._opens(uid, node, without=others):
            return why
        needed = [
            x for x in others if not self._opens(uid, node, without=[y for y in others if y != x])
        ]
        if not needed:
            return why
        named = (
            f"{why}, as long as {self._named(needed[0])} is on {self.simulation.node_of[needed[0]]}"
        )
        rest = [x for x in self.to_do if x != needed[0]][:_SWAPS]
        if not self._opens(needed[0], self.to_do[needed[0]], without=rest):
            return f"{named}, which cannot go either"
        return f"{named}, which waits for it in turn{self._way_out(uid, needed)}"

    def _way_out(self, uid: Uid, needed: t.Sequence[Uid]) -> str:
        """Which of those that wait for each other can go to a third node, so that another one can go to its own."""
        taken = {self.to_do[x] for x in (uid, *needed)}
        help_none = ", and no third node has room"
        for member in (uid, *needed):
            freed = needed[0] if member == uid else uid
            free = self.simulation.open_set(member, Method.MIGRATE)
            free &= self.simulation.good_set(member)
            for node in [x for x in self.simulation.table.names_of(free) if x not in taken][
                :_SWAPS
            ]:
                if self._frees(member, node, freed):
                    return f": move {self._named(member)} to a third node first, such as {node}"
                help_none = ", and no third node for one of them would help"
        return help_none

    def _frees(self, uid: Uid, node: str, freed: Uid) -> bool:
        """Whether the move of one violates nothing, and the other one can go then."""
        obeying = self._obeying(uid)
        self.simulation.move(uid, node)
        try:
            harmless = not any(self._violates(x) for x in obeying)
            return harmless and self._is_open(freed, self.to_do[freed])
        finally:
            self.simulation.revert()

    def _opens(self, uid: Uid, node: str, *, without: t.Collection[Uid]) -> bool:
        keys = [self.simulation.candidates[x].pod.uid for x in without]
        with self.simulation.without(without), self.simulation.running.without(*keys):
            return self._is_open(uid, node)

    def _why_closed(self, uid: Uid, node: str) -> str:
        """What the filters say of the node, for the target pod and for the pod as declared, with the rules."""
        movable, simulation = self.simulation.candidates[uid], self.simulation
        target = movable.migration_target or movable.declared_pod
        failures = [*simulation.running.failures(target, node)]
        pod = movable.declared_pod
        failures += simulation.declared.failures(pod, node, without=movable.pod.uid)
        texts = dict[str, None]()
        for reason, text in why_not_on_node(failures, node, self.request.topology):
            texts[f"{text}{self._of_rules(movable, reason)}"] = None
        found = simulation.table.nodes[simulation.table.numbers[node]]
        rules = [x.rule for x in unmet_rules(movable.declared, found)]
        texts.update(dict.fromkeys(f"rule {rule} does not allow {node}" for rule in rules))
        return ", ".join(texts) or "the scheduler would not choose it"

    def _of_rules(self, movable: MovableInstance, reason: FilterReason) -> str:
        """The rules of the VM, or of the pod whose anti-affinity is the reason."""
        owner: MovableInstance | None = movable
        if reason.kind == "existing-anti":
            owner = self.by_pod.get(reason.counterpart) if reason.counterpart else None
        if owner is None:
            return _rules_text(self.simulation.owners.of_other(reason))
        return _rules_text(owning_rules(reason, owner.declared, owner.declared_pod.labels))

    def _why_harmful(self, uid: Uid, node: str) -> str:
        """Which instance would violate a rule after the move."""
        obeying = self._obeying(uid)
        self._make(uid, node)
        try:
            broken = sorted(x for x in obeying if self._violates(x))
            texts = dict.fromkeys(self._harm(x) for x in broken)
        finally:
            self.simulation.revert()
        return "; ".join(texts) or f"{node} was not open in its turn: run again"

    def _harm(self, uid: str) -> str:
        topology = self.request.topology
        if uid not in self.simulation.candidates:
            reasons = self._violated_by_other(uid)
            pod = self._others[uid].ref
            rules = _rules_text(self.simulation.owners.of(pod, reasons[0])) if reasons else ""
            broken = f"{reasons[0].text}{rules}" if reasons else ""
            return f"a rule of {pod} would be broken: {broken}"
        movable = self.simulation.candidates[uid]
        statuses = self.simulation.violations(uid)
        told = why_not_on_node(statuses, self.simulation.node_of[uid], topology)
        texts = dict.fromkeys(f"{text}{self._of_rules(movable, x)}" for x, text in told)
        text = ", ".join(texts) or violation_text(self.simulation, uid)
        return f"a rule of {self._named(uid)} would be broken: {text}"

    def _named(self, uid: Uid) -> str:
        return str(self.simulation.candidates[uid].instance.ref)


def _rules_text(rules: t.Sequence[str]) -> str:
    return f" (rule {', '.join(rules)})" if rules else ""
