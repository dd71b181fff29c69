# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which moves empty the nodes of a drain, in which order, and what cannot leave?

Pure. A VM is never evicted: KubeVirt would kill one whose eviction strategy does not say LiveMigrate.
It leaves by a migration object, or as its policy says.
"""

from __future__ import annotations

import typing as t
from collections import defaultdict
from dataclasses import dataclass, field, replace
from functools import cached_property

from ..kubevirt.disruption import DISRUPTIVE, Allowance, Budgets, Delegation
from ..kubevirt.instances import pod_workload, vmi_workload
from ..kubevirt.moving import (
    RESTARTABLE,
    run_strategy,
    why_not_migratable,
    why_not_recreated,
)
from ..model.kinds import (
    DEPLOYMENT,
    REPLICA_SET,
    STATEFUL_SET,
    VIRTUAL_MACHINE,
    VMI,
)
from ..model.objects import Pod, Ref
from ..model.plan import Method, Move, Plan, SkippedInstance
from ..model.snapshot import Instance, Snapshot, Vmi, Workload
from ..planning.dependencies import Dependencies
from ..planning.movable_instances import InstanceSelection, MovableInstance, MovableReader
from ..rollout import report
from ..rollout.journal import RunJournal, digest
from ..rollout.move import MoveRecord, Phase, ready
from ..rollout.options import RolloutOptions
from ..rollout.view import WhyNoRestart
from ..view.view import ClusterView
from .pods import (
    ALLOW_PENDING_CHANGES,
    PDB_IMPOSSIBLE,
    PENDING_CHANGES,
    VM_POLICIES,
    VM_POLICY,
    PodAction,
    PodDecision,
    PodFilter,
)

ATTEMPTS = 3
"""Migrations of one VM that a run begins before it gives up on it."""


_NOT_COUNTED = InstanceSelection()
"""No instance: disruption budgets, and not max_unavailable, limit evictions."""


@dataclass(frozen=True)
class DrainView:
    """What leaves `nodes`. With `moving` False nothing does: the nodes are only cordoned. `allowed` are
    names of findings. `why_no_restart` says what else a restart would apply. `delegation`: which disruption budgets
    are lifted once a node is cordoned."""

    snapshot: Snapshot
    nodes: frozenset[str]
    policy: str
    allowed: frozenset[str] = frozenset()
    moving: bool = True
    selection: InstanceSelection = _NOT_COUNTED
    candidates: tuple[MovableInstance, ...] = ()
    why_no_restart: WhyNoRestart = lambda _movable, _platform: ""
    delegation: Delegation = field(default_factory=Delegation.known)

    def is_about(self, _record: MoveRecord) -> bool:
        return True

    @cached_property
    def decisions(self) -> tuple[PodDecision, ...]:
        """What is done with each pod of the nodes that has to leave."""
        if not self.moving:
            return ()
        daemonsets = {x.uid for x in self.snapshot.workloads if x.ref.kind == "DaemonSet"}
        pod_filter = PodFilter(self._view.vmis, daemonsets, self.allowed)
        pods = (pod for pod in self.snapshot.pods if pod.node_name in self.nodes)
        decisions = map(pod_filter.decide, pods)
        return tuple(x for x in decisions if x.action is not PodAction.LEAVE)

    @cached_property
    def budgets(self) -> Budgets:
        return Budgets(self.snapshot, self.delegation)

    @property
    def ended(self) -> tuple[PodDecision, ...]:
        """The pods that the drain ends: budgets stand against that, and not against a live migration."""
        methods = ((decision, self._method(decision)[0]) for decision in self.decisions)
        return tuple(decision for decision, method in methods if method in DISRUPTIVE)

    @cached_property
    def left(self) -> t.Mapping[str, int]:
        """How many pods have not left each node."""
        left = dict.fromkeys(self.nodes, 0)
        for decision in self.decisions:
            left[decision.pod.node_name] += 1
        return left

    @cached_property
    def away(self) -> t.Mapping[str, t.Mapping[str, str]]:
        """By node, the workloads with an instance that leaves it, as `Mark.away`."""
        away: dict[str, dict[str, str]] = defaultdict(dict)
        for decision in self.decisions:
            instance, workload = self._instance(decision)
            if instance.workload is not None:
                stops = self._method(decision)[0] is Method.STOP
                strategy = run_strategy(workload) if stops and workload is not None else ""
                away[decision.pod.node_name]["/".join(instance.workload)] = strategy
        return away

    @cached_property
    def by_uid(self) -> t.Mapping[str, MovableInstance]:
        reader = MovableReader(self.snapshot, True)
        movable = {}
        for decision in self.decisions:
            if decision.action in (PodAction.EVICT, PodAction.MOVE_VM):
                instance, workload = self._instance(decision)
                movable[instance.uid] = MovableInstance(instance, decision.pod, workload, reader)
        return movable

    @cached_property
    def by_workload(self) -> t.Mapping[Ref | None, MovableInstance]:
        return {movable.instance.workload: movable for movable in self.by_uid.values()}

    def plan(self, _options: RolloutOptions, journal: RunJournal | None = None) -> Plan:
        """The moves that are left, and the pods that do not leave by a move."""
        records = journal.records if journal is not None else ()
        busy = {record.uid for record in records if record.phase is not Phase.INTENDED}
        methods: dict[str, Method] = {}
        skipped = []
        for decision in self.decisions:
            instance, _workload = self._instance(decision)
            if instance.uid in busy:
                continue
            method, why, temporary = self._method(decision)
            if method is not None and journal is not None:
                why = _why_given_up(journal, instance.uid, method)
            if method is not None and not why:
                why = self._why_not_disrupted(decision, method)
            if method is None or why:
                skipped.append(
                    SkippedInstance(
                        instance.ref,
                        instance.uid,
                        instance.workload,
                        decision.pod.node_name,
                        why,
                        temporary=temporary,
                    )
                )
            else:
                methods[instance.uid] = method
        targets = self._targets(methods)
        followed = {uid for uids in targets.values() for uid in uids}
        moves = [
            self._move(uid, method, targets.get(uid, ()), followed)
            for uid, method in methods.items()
        ]
        moves.sort(key=lambda move: (move.method is not Method.MIGRATE, len(move.after)))
        return Plan(tuple(moves), tuple(skipped))

    def runs(self, workload: Ref) -> bool:
        """Whether all instances of the workload are Ready, and it has any, or wants none by now."""
        instances = self._view.instances_of(workload)
        if instances:
            return all(map(ready, instances))
        declared = self._view.workloads.get(workload)
        halted = VIRTUAL_MACHINE.name, "Halted"
        return (
            declared is None
            or declared.replicas == 0
            or (workload.kind, run_strategy(declared)) == halted
        )

    @cached_property
    def _view(self) -> ClusterView:
        return ClusterView(self.snapshot)

    def _instance(self, decision: PodDecision) -> tuple[Instance, Workload | None]:
        pod, vmi = decision.pod, decision.vmi
        workloads = self._view.workloads
        if vmi is not None:
            ref = vmi_workload(vmi, workloads)
            return Instance(vmi.ref, vmi.uid, ref, pod, vmi), workloads.get(ref)
        ref = pod_workload(pod, self.snapshot.controllers)
        return Instance(pod.ref, pod.uid, ref, pod), workloads.get(ref)

    def _method(self, decision: PodDecision) -> tuple[Method | None, str, bool]:
        """How the pod leaves; or why it does not, and whether that ends by itself."""
        if decision.action is PodAction.WAIT:
            return None, decision.reason, True
        if decision.action is PodAction.REFUSE:
            names = ", ".join(decision.refused_by)
            return None, f"{decision.reason} (allow_findings: {names})", False
        if decision.vmi is None:
            return Method.EVICT, "", False
        return self.method_of_vm(decision.vmi)

    def _why_not_disrupted(self, decision: PodDecision, method: Method) -> str:
        """Why disruption budgets never allow what ends a VM; empty where they may. A drain for which the finding is
        allowed waits for the budget. For a pod the server answers."""
        if decision.vmi is None or method not in DISRUPTIVE or PDB_IMPOSSIBLE in self.allowed:
            return ""
        answer = self.budgets.disruption(decision.pod)
        never = answer.allowance in (Allowance.NEVER, Allowance.UNKNOWN)
        return answer.why if never else ""

    def method_of_vm(self, vmi: Vmi) -> tuple[Method | None, str, bool]:
        """How a VM leaves; or why it does not, and whether that ends by itself."""
        workload, policy = self._view.workloads.get(self._owner(vmi)), self.policy_of(vmi)
        kind = workload.ref.kind if workload is not None else ""
        if policy not in VM_POLICIES or policy == "refuse":
            return None, f"its vm_policy is '{policy}'", False
        if vmi.phase != "Running":
            return None, f"its VMI is {vmi.phase}", True
        if policy == "migrate":
            obstacle = why_not_migratable(vmi)
            return (None, obstacle, False) if obstacle else (Method.MIGRATE, "", False)
        if policy == "restart" and kind == REPLICA_SET.name:
            why = self.pending_changes(vmi)
            return (None, why, False) if why else (Method.RECREATE, "", False)
        if kind != VIRTUAL_MACHINE.name or workload is None:
            return None, f"no VirtualMachine owns it, which its vm_policy '{policy}' needs", False
        if policy == "stop":
            return Method.STOP, "", False
        strategy = run_strategy(workload)
        if strategy not in RESTARTABLE:
            return None, f"a VM with run strategy {strategy} is not restarted", False
        if why := self.pending_changes(vmi):
            return None, why, False
        return Method.RESTART, "", False

    def pending_changes(self, vmi: Vmi) -> str:
        """What a restart of the VM would apply beside placement; empty where that is allowed."""
        movable = self.by_uid.get(vmi.uid)
        if movable is None or PENDING_CHANGES in self.allowed:
            return ""
        if movable.workload is not None and movable.workload.ref.kind == REPLICA_SET.name:
            return why_not_recreated(movable.workload, vmi, ALLOW_PENDING_CHANGES)
        return self.why_no_restart(movable, self.snapshot.platform)

    def policy_of(self, vmi: Vmi) -> str:
        """The policy of the VM's own label, that of its workload first, or of the task. Anyone may write the
        label: it can be a text that is not one of VM_POLICIES."""
        workload = self._view.workloads.get(self._owner(vmi))
        own = workload.labels.get(VM_POLICY) if workload is not None else None
        return own or vmi.labels.get(VM_POLICY) or self.policy

    @property
    def for_forecast(self) -> Snapshot:
        """The snapshot in which a drain does with each VM of the nodes what its policy says: the forecast
        knows eviction strategies. VMs that cannot leave end, so that they need no place."""
        concerned = {
            pod.owner.uid
            for pod in self.snapshot.pods
            if pod.node_name in self.nodes and pod.owner is not None and pod.owner.kind == VMI
        }
        restarted: set[Ref] = set()
        vmis = []
        for vmi in self.snapshot.vmis:
            if vmi.uid in concerned:
                method, _why, temporary = self.method_of_vm(vmi)
                if method is Method.MIGRATE or temporary:
                    vmi = replace(vmi, eviction_strategy="LiveMigrate")
                elif method is None:
                    vmi = replace(vmi, terminating=True)
                elif method is Method.STOP:
                    vmi = replace(vmi, eviction_strategy="None", owner=None)
                else:
                    vmi = replace(vmi, eviction_strategy="None")
                    if vmi.owner is not None:
                        restarted.add(self._owner(vmi))
            vmis.append(vmi)
        workloads = tuple(
            _always_started(workload) if workload.ref in restarted else workload
            for workload in self.snapshot.workloads
        )
        return replace(self.snapshot, vmis=tuple(vmis), workloads=workloads, budgets=())

    def _owner(self, vmi: Vmi) -> Ref:
        """The VirtualMachine or replica set of the VMI, which has its label and takes its restart."""
        if vmi.owner is None:
            return vmi.ref
        return Ref(vmi.owner.kind, vmi.ref.namespace, vmi.owner.name)

    def _targets(self, methods: t.Mapping[str, Method]) -> dict[str, frozenset[str]]:
        """The uids of the leaving instances that each leaving instance has an affinity to, and waits
        for. In a circle one of them waits for none."""
        pods: dict[str, Pod] = {uid: self.by_uid[uid].declared_pod for uid in methods}
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
        self, uid: str, method: Method, after: t.Collection[str], followed: t.Container[str]
    ) -> Move:
        movable = self.by_uid[uid]
        instance, workload = movable.instance, movable.instance.workload
        replaced = workload is not None and workload.kind in (DEPLOYMENT.name, STATEFUL_SET.name)
        if method is Method.EVICT and uid in followed and replaced:
            method = Method.RECREATE  # its followers need the node of its successor
        return Move(
            instance=instance.ref,
            uid=uid,
            workload=workload or instance.ref,
            method=method,
            source=movable.node,
            targets=(),
            reason=f"node {movable.node} is being drained",
            after=tuple(sorted(after)),
        )


def stays(plan: Plan) -> list[str]:
    """The instances that did not leave, with the reasons."""
    return [
        f"{report.short(x.workload or x.instance, x.instance)} on {x.node}: {x.reason}"
        for x in plan.skipped
    ]


def _always_started(workload: Workload) -> Workload:
    if workload.ref.kind != VIRTUAL_MACHINE.name:
        return workload
    spec = {**(workload.manifest.get("spec") or {}), "runStrategy": "Always"}
    return replace(workload, manifest={**workload.manifest, "spec": spec})


def _why_given_up(journal: RunJournal, uid: str, method: Method) -> str:
    """Why a run begins no other move of the instance; empty where it does."""
    if digest(uid) not in journal.lost:
        return ""
    attempts = journal.attempts(uid)
    if method is Method.MIGRATE and attempts < ATTEMPTS:
        return ""
    return f"its {method} failed {attempts} times" if attempts > 1 else f"its {method} failed"
