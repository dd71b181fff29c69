# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""May a VM go to its node of a map now, and why not? Each cause is told apart, with what to do where that is known."""

from __future__ import annotations

import typing as t
from collections import defaultdict
from functools import cached_property

from ..compliance.instances import DeclaredInstance
from ..compliance.pending import why_not_on_node
from ..compliance.violations import owning_rules, unmet_rules
from ..model.input import nearest
from ..model.objects import Pod, Ref
from ..model.obstacle import NO_NODE, NOT_FOUND, NOT_READ, Obstacle
from ..model.plan import Method, Uid
from ..model.rendering import listed
from ..model.snapshot import Snapshot
from ..model.topology import HOSTNAME
from ..planning.dependencies import Dependencies
from ..planning.plan_request import PlanRequest
from ..planning.repair import PlannedMove, violation_text
from ..planning.simulation import ClusterSimulation
from ..scheduler.framework import INTER_POD_AFFINITY, POD_TOPOLOGY_SPREAD, FilterReason
from ..view.view import view_of

_SWAPS = 20
"""VMs at most that are looked at as the cause of one that cannot go."""

_SEARCHES = 20
"""Unknown names at most for which similar ones are searched."""


class PlaceMoves:
    """The moves of a map in a simulation. `to_do`: the instances that are not in their places yet, with their nodes.
    `pods`: those of the cluster."""

    def __init__(self, simulation: ClusterSimulation, pods: t.Sequence[Pod]) -> None:
        self.simulation = simulation
        self.pods = pods
        self.to_do: dict[Uid, str] = {}

    def is_open(self, uid: Uid, node: str) -> bool:
        nodes = self.simulation.open_set(uid, Method.MIGRATE) & self.simulation.good_set(uid)
        return bool(nodes >> self.simulation.table.numbers[node] & 1)

    def make(self, uid: Uid, node: str) -> PlannedMove:
        source, number = self.simulation.node_of[uid], self.simulation.table.numbers[node]
        reason = f"{node} was asked for"
        if self.simulation.violations(uid):
            violated = violation_text(self.simulation, uid)
            reason = f"{reason}, and until then it violates a rule: {violated}"
        self.simulation.move(uid, node)
        return PlannedMove(uid, Method.MIGRATE, source, node, (node,), reason, 1 << number)

    def obeying(self, uid: Uid) -> set[str]:
        """What is related to an instance and violates nothing: uids of instances, and of pods of others."""
        related = {uid, *self.simulation.dependencies.related(uid)}
        if self.others:
            info = self.simulation.running.placed_info(self.simulation.candidates[uid].pod.uid)
            related |= self._other_dependencies.related_to_pod(info)
        return {x for x in related if not self.violates(x)}

    def violates(self, uid: str) -> bool:
        if uid in self.simulation.candidates:
            return bool(self.simulation.violations(uid))
        return bool(self.violated_by_other(uid))

    def violated_by_other(self, uid: str) -> list[FilterReason]:
        """The affinity and spread constraints that a pod of others does not obey where it is. Its anti-affinity keeps
        the VM that moves away."""
        failures = self.simulation.running.failures_in_place(uid)
        pairwise = (x for x in failures if x.plugin in (INTER_POD_AFFINITY, POD_TOPOLOGY_SPREAD))
        return [
            x for failure in pairwise for x in failure.reasons if x.kind in ("affinity", "skew")
        ]

    @cached_property
    def others(self) -> dict[str, Pod]:
        """Pods that are no candidates, with constraints that the move of another pod may break."""
        ours = {x.pod.uid for x in self.simulation.candidates.values()}
        return {
            pod.uid: pod
            for pod in self.pods
            if (pod.placement.affinity or pod.placement.spread)
            and pod.uid in self.simulation.running
            and pod.uid not in ours
        }

    @cached_property
    def _other_dependencies(self) -> Dependencies:
        others = self.others
        return Dependencies.of(self.simulation.running, {x: x for x in others}, others.items())


class PlaceReasons:
    """The reasons of the VMs that a plan leaves out. `candidates`: the movable instances of all namespaces of the
    places."""

    def __init__(
        self,
        snapshot: Snapshot,
        request: PlanRequest,
        moves: PlaceMoves,
    ) -> None:
        self.snapshot = snapshot
        self.request = request
        self.moves = moves
        self.simulation = moves.simulation
        self.searches = 0

    def no_instance(self, ref: Ref) -> Obstacle:
        """There is no instance to move."""
        if ref.namespace not in self._names:
            near = self._nearest(ref.namespace, self._names)
            return Obstacle(NOT_FOUND, f"there is no namespace {ref.namespace!r}{near}")
        found, here = self.snapshot.vmis_by_ref.get(ref), self._names[ref.namespace]
        if found is not None and (found.terminating or found.finished):
            found = None
        has_pod = found is not None and found.uid in view_of(self.snapshot).launcher_pods
        if has_pod and found is not None and found.owner is not None:
            owner = f"{found.owner.kind} {found.owner.name}"
            return Obstacle(NOT_READ, f"its {owner} is not among the workloads that were read")
        if found is not None:
            text = f"the instance is {found.phase or 'not started'} and has no pod yet"
        elif ref.name in here:
            text = "it is not running, so there is nothing to migrate"
        else:
            near = self._nearest(ref.name, here)
            text = f"there is no VM {ref.name!r} in namespace {ref.namespace}{near}"
            return Obstacle(NOT_FOUND, text)
        return Obstacle("not_running", text)

    def _nearest(self, name: str, known: t.Iterable[str]) -> str:
        """As `nearest`, for the first names only: each search reads all known ones, and of a placement that was saved
        long ago thousands of VMs may be gone."""
        self.searches += 1
        return nearest(name, known) if self.searches <= _SEARCHES else ""

    @cached_property
    def _names(self) -> dict[str, set[str]]:
        """The VMs and VMIs of each namespace."""
        names: dict[str, set[str]] = {x.name: set() for x in self.snapshot.namespaces}
        refs = [vmi.ref for vmi in self.snapshot.vmis]
        refs += [x.ref for x in self.snapshot.workloads if x.kind.run_strategy]
        for ref in refs:
            names.setdefault(ref.namespace, set()).add(ref.name)
        return names

    def why_fixed(self, movable: DeclaredInstance, node: str) -> Obstacle | None:
        """Why an instance does not go there, whatever else moves."""
        request, options = self.request, self.request.options_of(movable)
        names = self.simulation.table.numbers
        if node not in names:
            return Obstacle(NOT_FOUND, f"there is no node {node!r}{self._nearest(node, names)}")
        if movable.uid not in self.simulation.candidates:
            gone = Obstacle(NOT_FOUND, f"its node {movable.node} does not exist")
            return gone if movable.node else Obstacle("not_running", "it is Pending")
        if (kept := request.obstacle(movable, Method.MIGRATE)) is not None:
            return kept
        if movable.workload is None:
            text = "it has no VirtualMachine. Only VMIs of VirtualMachines, pools and replica sets are moved"
            return Obstacle("not_movable", text)
        if Method.MIGRATE not in options.methods:
            return options.obstacle or Obstacle("not_live_migratable", "it cannot migrate")
        return self._why_not_held_to(node)

    def _why_not_held_to(self, node: str) -> Obstacle | None:
        """Why no migration can be held to a node."""
        names = self.simulation.table.numbers
        hostname = self.simulation.table.nodes[names[node]].labels.get(HOSTNAME, "")
        alike = [x for x in self._nodes_with[hostname] if x != node]
        if not hostname:
            text = f"{node} has no label {HOSTNAME}, by which a migration could be held to it"
        elif alike:
            text = (
                f"{listed(alike)} has the label {HOSTNAME}={hostname} of {node}, too, so a migration cannot be held to"
                f" {node}"
            )
        else:
            return None
        return Obstacle("no_own_hostname", text)

    @cached_property
    def _nodes_with(self) -> dict[str, list[str]]:
        """The nodes with each value of the label kubernetes.io/hostname."""
        nodes = defaultdict[str, list[str]](list)
        for node in self.snapshot.nodes:
            nodes[node.labels.get(HOSTNAME, "")].append(node.name)
        return nodes

    def open_soon(self) -> set[Uid]:
        """What can go once pods have ended that are ending, such as the source of a migration that has just ended."""
        closed = [
            uid for uid, node in self.moves.to_do.items() if not self.moves.is_open(uid, node)
        ]
        with self.simulation.after_ending():
            return {uid for uid in closed if self.moves.is_open(uid, self.moves.to_do[uid])}

    def not_yet(self, uid: Uid) -> Obstacle:
        node = self.moves.to_do[uid]
        why = f"not possible on {node} yet: {self._failed_filters(uid, node)}"
        return self.simulation.not_yet(why, 1 << self.simulation.table.numbers[node])

    def stuck(self, uid: Uid) -> Obstacle:
        """An instance cannot go after all other moves."""
        node = self.moves.to_do[uid]
        if self.moves.is_open(uid, node):
            return Obstacle("violates_rule", self._violations_after(uid, node))
        return Obstacle(NO_NODE, self._closed(uid, node))

    def _closed(self, uid: Uid, node: str) -> str:
        """What closes the node, and which VM would have to leave it."""
        why = f"not possible on {node}: {self._failed_filters(uid, node)}"
        others = [x for x in self.moves.to_do if x != uid][:_SWAPS]
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
        rest = [x for x in self.moves.to_do if x != needed[0]][:_SWAPS]
        if not self._opens(needed[0], self.moves.to_do[needed[0]], without=rest):
            return f"{named}, which cannot go either"
        return f"{named}, which waits for it in turn{self._way_out(uid, needed)}"

    def _way_out(self, uid: Uid, needed: t.Sequence[Uid]) -> str:
        """Which of those that wait for each other can go to a third node, so that another one can go to its own."""
        taken = {self.moves.to_do[x] for x in (uid, *needed)}
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
        obeying = self.moves.obeying(uid)
        self.simulation.move(uid, node)
        try:
            harmless = not any(self.moves.violates(x) for x in obeying)
            return harmless and self.moves.is_open(freed, self.moves.to_do[freed])
        finally:
            self.simulation.revert()

    def _opens(self, uid: Uid, node: str, *, without: t.Collection[Uid]) -> bool:
        keys = [self.simulation.candidates[x].pod.uid for x in without]
        with self.simulation.without(without), self.simulation.running.without(*keys):
            return self.moves.is_open(uid, node)

    def _failed_filters(self, uid: Uid, node: str) -> str:
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

    def _of_rules(self, movable: DeclaredInstance, reason: FilterReason) -> str:
        """The rules of the VM, or of the pod whose anti-affinity is the reason."""
        owner: DeclaredInstance | None = movable
        if reason.kind == "existing-anti" and reason.counterpart is not None:
            owner = self.simulation.owners.instance_of(reason.counterpart)
        if owner is None:
            return ""
        return _rules_text(owning_rules(reason, owner.declared, owner.declared_pod.labels))

    def _violations_after(self, uid: Uid, node: str) -> str:
        """Which instance would violate a rule after the move."""
        obeying = self.moves.obeying(uid)
        self.moves.make(uid, node)
        try:
            broken = sorted(x for x in obeying if self.moves.violates(x))
            texts = dict.fromkeys(self._harm(x) for x in broken)
        finally:
            self.simulation.revert()
        return "; ".join(texts) or f"{node} was not open in its turn: run again"

    def _harm(self, uid: str) -> str:
        topology = self.request.topology
        if uid not in self.simulation.candidates:
            reasons = self.moves.violated_by_other(uid)
            pod = self.moves.others[uid].ref
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
