# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which moves empty the nodes of a drain, in which order, and what cannot leave?

Pure. Only a VM with the eviction strategy External is evicted: KubeVirt would kill one whose strategy is None.
It leaves by a migration object, or as its policies say (`vm_ways`).
"""

from __future__ import annotations

import typing as t
from collections import defaultdict
from dataclasses import dataclass, field, replace
from functools import cached_property

from ..compliance.instances import DeclaredInstance, InstanceReader, InstanceSelection
from ..kinds.registry import RULE_KINDS, kind_of
from ..kubevirt.aspects import DoNotMove
from ..kubevirt.disruption import Budgets, Delegation, ends_pod
from ..kubevirt.instances import pod_workload, vmi_workload
from ..model.objects import Pod, Ref
from ..model.obstacle import Obstacle
from ..model.plan import Method, Move, Plan, SkippedInstance
from ..model.snapshot import Instance, Snapshot, Vmi, Workload
from ..moves.journal import RunJournal, digest
from ..moves.move import MoveRecord, Phase, ready
from ..moves.move_source import WhyNoRestart
from ..moves.run_plan import RunPlan
from ..planning.dependencies import Dependencies
from ..view.view import view_of
from . import returns
from .options import STOP_AND_START
from .pods import PodAction, PodDecision, PodFilter
from .preflight_findings import (
    ALLOW_PENDING_CHANGES,
    DO_NOT_MOVE_FINDING,
    PDB_IMPOSSIBLE,
    PENDING_CHANGES,
)
from .registry import approval_of
from .returns import Returns
from .vm_ways import PassedOver, VmWay, VmWays

_NOT_COUNTED = InstanceSelection()
"""No instance: disruption budgets, and not max_unavailable, limit evictions."""


@dataclass(frozen=True)
class DrainView:
    """What leaves `nodes`. With `moving` False nothing does: the nodes are only cordoned. `allowed` are
    names of findings. `why_no_restart` says what else a restart would apply. `delegation`: which disruption budgets
    are lifted once a node is cordoned. `policies` are those of the task, in order of preference; `passed_over` has
    those that are not used, by VM. `returned` says, by node and workload, how often an instance came back.
    `approved`: the plan that is carried out; a VM leaves only as it says."""

    snapshot: Snapshot
    nodes: frozenset[str]
    policies: tuple[str, ...]
    allowed: frozenset[str] = frozenset()
    moving: bool = True
    selection: InstanceSelection = _NOT_COUNTED
    why_no_restart: WhyNoRestart = lambda _movable, _platform: None
    delegation: Delegation = field(default_factory=Delegation.known)
    passed_over: PassedOver = field(default_factory=dict)
    returned: t.Mapping[str, t.Mapping[str, int]] = field(default_factory=dict)
    approved: RunPlan | None = None

    def is_about(self, _record: MoveRecord) -> bool:
        return True

    def node_selector(self, _move: Move) -> tuple[tuple[str, str], ...]:
        """A VM may go to any node."""
        return ()

    @cached_property
    def decisions(self) -> tuple[PodDecision, ...]:
        """What is done with each pod of the nodes that has to leave."""
        return tuple(x for x in self._decided if self._stays(x) is None)

    @cached_property
    def left_behind(self) -> tuple[tuple[SkippedInstance, Obstacle], ...]:
        """The pods that are left on their nodes, since they would come back."""
        decided = ((x, self._stays(x)) for x in self._decided)
        return tuple(
            (self._skipped(x, returns.with_advice(stays)), stays)
            for x, stays in decided
            if stays is not None
        )

    @cached_property
    def present(self) -> t.Mapping[str, t.Mapping[str, returns.Present]]:
        """By node and a digest of the uid, the instances that have to leave or are leaving."""
        present: dict[str, dict[str, returns.Present]] = {node: {} for node in self.nodes}
        for decision in self._decided:
            instance = self._instance(decision).instance
            if instance.workload is not None and decision.pod.owner is not None:
                leaving = decision.action is PodAction.WAIT
                seen = returns.Present(returns.key(instance.workload), leaving)
                present[decision.pod.node_name][digest(instance.uid)] = seen
        return present

    def _stays(self, decision: PodDecision) -> Obstacle | None:
        """Why a plain pod is left on its node: its next one would be there again."""
        if decision.action is not PodAction.EVICT:
            return None
        movable = self._instance(decision)
        names_node = returns.names_node(movable.workload, decision.pod)
        return names_node or Returns(self.returned).obstacle(movable.instance, Method.EVICT)

    @cached_property
    def _decided(self) -> tuple[PodDecision, ...]:
        if not self.moving:
            return ()
        daemonsets = {x.uid for x in self.snapshot.workloads if x.kind.per_node}
        pod_filter = PodFilter(self.snapshot.vmis_by_uid, daemonsets, self.allowed)
        pods = (pod for pod in self.snapshot.pods if pod.node_name in self.nodes)
        decisions = map(pod_filter.decide, pods)
        return tuple(x for x in decisions if x.action is not PodAction.LEAVE)

    @cached_property
    def budgets(self) -> Budgets:
        return Budgets(self.snapshot, self.delegation)

    @property
    def index(self) -> None:
        """A drain moves what it must, also where there may be no room."""
        return

    @property
    def ended(self) -> tuple[PodDecision, ...]:
        """The pods that the drain ends: budgets stand against that, and not against a live migration."""
        return tuple(x for x in self.decisions if ends_pod(self._way(x).method, x.vmi))

    @property
    def restarts(self) -> bool:
        """Whether a VM leaves by a restart or a recreation, so that kube-scheduler chooses its next node."""
        again = (Method.RESTART, Method.RECREATE)
        return any(x.vmi is not None and self._way(x).method in again for x in self.decisions)

    @cached_property
    def left(self) -> t.Mapping[str, int]:
        """How many pods have not left each node."""
        left = dict.fromkeys(self.nodes, 0)
        for decision in self.decisions:
            left[decision.pod.node_name] += 1
        return left

    @cached_property
    def away(self) -> t.Mapping[str, t.Mapping[str, str]]:
        """By node, the workloads with an instance that leaves it and that a rollout may move, as `Mark.away`. A VM that
        is stopped is named itself, also one of a pool: its controller does not start it."""
        away: dict[str, dict[str, str]] = defaultdict(dict)
        for decision in self.decisions:
            ref, stopped = self.workload_of(decision), self._stopped(decision)
            if stopped is not None:
                away[decision.pod.node_name]["/".join(stopped.ref)] = stopped.run_strategy
            elif ref is not None and ref.kind in RULE_KINDS:
                away[decision.pod.node_name]["/".join(ref)] = ""
        return away

    @cached_property
    def starts(self) -> t.Mapping[str, t.Collection[str]]:
        """By node, those of `away` that are stopped and started again, as `Mark.starts`."""
        starts: dict[str, list[str]] = defaultdict(list)
        for decision in self.decisions:
            stopped = self._stopped(decision)
            if stopped is not None and self._way(decision).policy == STOP_AND_START:
                starts[decision.pod.node_name].append("/".join(stopped.ref))
        return starts

    def _stopped(self, decision: PodDecision) -> Workload | None:
        """The VirtualMachine that is stopped."""
        stops = self._way(decision).method is Method.STOP
        return self._instance(decision).vm if stops else None

    @cached_property
    def by_uid(self) -> t.Mapping[str, DeclaredInstance]:
        leaving = (PodAction.EVICT, PodAction.MOVE_VM)
        instances = (self._instance(x) for x in self.decisions if x.action in leaving)
        return {instance.uid: instance for instance in instances}

    @cached_property
    def by_workload(self) -> t.Mapping[Ref | None, DeclaredInstance]:
        return {movable.instance.workload: movable for movable in self.by_uid.values()}

    def plan(self, journal: RunJournal | None = None) -> Plan:
        """The moves that are left, and the pods that do not leave by a move."""
        records = journal.records if journal is not None else ()
        busy = {record.uid for record in records if record.phase is not Phase.INTENDED}
        ways: dict[str, VmWay] = {}
        skipped = []
        for decision in self.decisions:
            instance = self._instance(decision).instance
            if instance.uid in busy:
                continue
            way = self._way(decision)
            obstacle = way.obstacle
            passed = self.passed_over.get(instance.uid, {})
            if way.method is not None and journal is not None:
                again = (
                    not passed or way.policy in passed
                )  # else it is the first move by this policy
                obstacle = why_given_up(journal, instance.uid, way.method) if again else None
            if way.method is not None and obstacle is None:
                obstacle = self._why_budgets_refuse(decision.vmi, way.method)
            if obstacle is not None:
                skipped.append(self._skipped(decision, obstacle))
            else:
                ways[instance.uid] = way
        targets = self._targets(ways)
        followed = {uid for uids in targets.values() for uid in uids}
        moves = [self._move(uid, way, targets.get(uid, ()), followed) for uid, way in ways.items()]
        moves.sort(key=lambda move: (move.method is not Method.MIGRATE, len(move.after)))
        return Plan(tuple(moves), tuple(skipped))

    def _skipped(self, decision: PodDecision, obstacle: Obstacle) -> SkippedInstance:
        instance = self._instance(decision).instance
        return SkippedInstance(
            instance.ref,
            instance.uid,
            instance.workload,
            decision.pod.node_name,
            obstacle,
            temporary=obstacle.temporary,
        )

    def runs(self, workload: Ref) -> bool:
        """Whether all instances of the workload are Ready, and it has any, or wants none by now."""
        instances = view_of(self.snapshot).instances_of(workload)
        if instances:
            return all(map(ready, instances))
        declared = self.snapshot.workloads_by_ref.get(workload)
        return declared is None or declared.replicas == 0 or declared.run_strategy == "Halted"

    def _instance(self, decision: PodDecision) -> DeclaredInstance:
        pod, vmi = decision.pod, decision.vmi
        if vmi is not None:
            ref = vmi_workload(vmi, self.snapshot.workloads_by_ref)
            instance = Instance(vmi.ref, vmi.uid, ref, pod, vmi)
        else:
            instance = Instance(pod.ref, pod.uid, pod_workload(pod, self.snapshot.controllers), pod)
        return self.snapshot.derived(InstanceReader).read(instance, pod)

    def _way(self, decision: PodDecision) -> VmWay:
        """How the pod leaves; or why it does not, and whether that ends by itself."""
        if (obstacle := decision.obstacle) is not None:
            if names := ", ".join(decision.refused_by):
                obstacle = replace(obstacle, text=f"{obstacle} (allow_findings: {names})")
            return VmWay("", None, obstacle)
        if decision.vmi is not None:
            way, why = self.way_of_vm(decision.vmi), self.not_approved.get(decision.vmi.uid)
            if way.method is None or why is None:
                return way
            return replace(way, method=None, obstacle=why)
        if (stays := self.why_pod_stays(decision)) is not None:
            return VmWay("", None, stays, DO_NOT_MOVE_FINDING)
        return VmWay("evict", Method.EVICT)

    @cached_property
    def not_approved(self) -> t.Mapping[str, Obstacle]:
        """Why VMs do not leave as they would without the plan that is carried out, by uid of the VMI."""
        approval = approval_of(self.approved)
        return {} if approval is None else approval.obstacles(self)

    def _why_budgets_refuse(self, vmi: Vmi | None, method: Method) -> Obstacle | None:
        """Why disruption budgets never allow what ends a VM. A drain for which the finding is allowed waits for the
        budget. For a pod the server answers."""
        movable = self.by_uid.get(vmi.uid) if vmi is not None else None
        asked = movable if PDB_IMPOSSIBLE not in self.allowed else None
        return self.budgets.obstacle(asked.instance, method) if asked is not None else None

    def why_pod_stays(self, decision: PodDecision) -> Obstacle | None:
        """The label that keeps a plain pod on its node."""
        label = DoNotMove(self.snapshot.workloads_by_ref)
        stays = label.obstacle(self._instance(decision).instance, Method.EVICT)
        return stays if decision.action is PodAction.EVICT else None

    def way_of_vm(self, vmi: Vmi) -> VmWay:
        """How a VM leaves; or why it does not, and whether that ends by itself."""
        way, movable = self.ways.way(vmi), self.by_uid.get(vmi.uid)
        if way.method is None or movable is None:
            return way
        stays = Returns(self.returned).obstacle(movable.instance, way.method)
        if stays is None:
            return way
        return VmWay(way.policy, None, returns.with_advice(stays), stays.code)

    @cached_property
    def ways(self) -> VmWays:
        return VmWays(
            view_of(self.snapshot),
            self.policies,
            self.passed_over,
            self.pending_changes,
            self._why_budgets_refuse,
        )

    def workload_of(self, decision: PodDecision) -> Ref | None:
        """The workload whose template makes the pod or the VM."""
        return self._instance(decision).instance.workload

    def pending_changes(self, vmi: Vmi) -> Obstacle | None:
        """What a restart of the VM would apply beside placement, unless that is allowed."""
        movable = self.by_uid.get(vmi.uid)
        if movable is None or PENDING_CHANGES in self.allowed:
            return None
        if movable.workload is not None and not movable.workload.kind.has_vm:
            return movable.ways.pending_changes(ALLOW_PENDING_CHANGES)
        return self.why_no_restart(movable, self.snapshot.platform)

    def _targets(self, leaving: t.Iterable[str]) -> dict[str, frozenset[str]]:
        """The uids of the leaving instances that each leaving instance has an affinity to, and waits
        for. In a circle one of them waits for none."""
        pods: dict[str, Pod] = {uid: self.by_uid[uid].declared_pod for uid in leaving}
        dependencies = Dependencies.among(pods, self.snapshot.namespaces)
        towards = {uid: dependencies.affinity_targets(uid) for uid in sorted(pods)}
        followers: dict[str, list[str]] = defaultdict(list)
        for uid, targets_of_uid in towards.items():
            for target in targets_of_uid:
                followers[target].append(uid)
        unplaced = {uid: len(targets_of_uid) for uid, targets_of_uid in towards.items()}
        free = [uid for uid, count in unplaced.items() if not count]
        rest = iter(towards)
        targets: dict[str, frozenset[str]] = {}
        while len(targets) < len(towards):
            uid = free.pop() if free else next(x for x in rest if x not in targets)
            targets[uid] = frozenset(x for x in towards[uid] if x in targets)
            for follower in followers[uid]:
                unplaced[follower] -= 1
                if not unplaced[follower] and follower not in targets:
                    free.append(follower)
        return targets

    def _move(
        self, uid: str, way: VmWay, after: t.Collection[str], followed: t.Container[str]
    ) -> Move:
        movable, method = self.by_uid[uid], way.method
        if method is None:
            raise AssertionError(f"{uid} does not leave")
        instance, workload = movable.instance, movable.instance.workload
        replaced = workload is not None and kind_of(workload.kind).replaces_pods
        if method is Method.EVICT and uid in followed and replaced:
            method = Method.RECREATE  # its followers need the node of its successor
        return Move(
            instance=instance.ref,
            uid=uid,
            workload=workload or instance.ref,
            method=method,
            source=movable.node,
            targets=(),
            reason=f"node {movable.node} is being drained"
            + (f" ({way.choice})" if way.choice else ""),
            after=tuple(sorted(after)),
        )


ATTEMPTS = 3
"""Migrations of one VM that a run begins before it gives up on it."""


def why_given_up(journal: RunJournal, uid: str, method: Method) -> Obstacle | None:
    """Why a run begins no other move of the instance."""
    if digest(uid) not in journal.lost:
        return None
    attempts = journal.attempts(uid)
    if method is Method.MIGRATE and attempts < ATTEMPTS:
        return None
    times = f" {attempts} times" if attempts > 1 else ""
    return Obstacle("move_failed", f"its {_NOUNS[method]} failed{times}")


_NOUNS = {
    Method.MIGRATE: "migration",
    Method.RESTART: "restart",
    Method.RECREATE: "recreation",
    Method.EVICT: "eviction",
    Method.STOP: "stop",
}
