# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What happens to an instance when its node is drained or fails, and which pod replaces it?

What an eviction does, and what is made again, is in `kubevirt/moving`. kubectl drain leaves DaemonSet and mirror pods
where they are.
"""

from __future__ import annotations

import enum
import typing as t
from dataclasses import dataclass, replace
from functools import cached_property

from ..compliance.declared import DeclaredReader
from ..compliance.drift import TemplateMatcher
from ..kinds.registry import kind_of
from ..kubevirt.aspects import node_not_ready
from ..kubevirt.changed_pods import (
    ChangedPod,
    as_restarted,
    changed_by_migration,
    changed_by_restart,
)
from ..kubevirt.disruption import Budgets, Delegation
from ..kubevirt.instances import hotplugged_claims, owner_of, replaced_once_gone
from ..kubevirt.labels import unbound_labels
from ..kubevirt.moving import (
    EXTERNAL,
    LIVE_MIGRATE,
    NONE,
    Ways,
    eviction_strategy,
    propagating,
)
from ..kubevirt.next_pod import (
    NEXT,
    migration_target_pod,
    pod_after_restart,
    requested_cpu,
    with_own_way,
    with_source_cpu,
    without_migration_cpu,
)
from ..kubevirt.ordinals import is_of_other_revision, keeps_revision
from ..model.objects import Placement, Pod, Ref, Taint
from ..model.obstacle import NOT_STARTED, Obstacle
from ..model.placement_manifests import CREATED_BY
from ..model.plan import Method
from ..model.snapshot import Instance, Snapshot, Vmi, Workload
from ..scheduler.node_state import UNSCHEDULABLE_TAINT, tolerates
from .conclusion import NOTHING, Doubt, Evidence
from .simulation import Reason

NodeEvent = t.Literal["drain", "failure"]
NODE_EVENTS: tuple[NodeEvent, ...] = ("drain", "failure")

UNREACHABLE = (
    Taint("node.kubernetes.io/unreachable", "", "NoSchedule"),
    Taint("node.kubernetes.io/unreachable", "", "NoExecute"),
)

NODE = "Node"
"""Owner of the mirror pod of a static pod, which the kubelet of that node runs."""


class DrainOutcome(str, enum.Enum):
    """MIGRATES: a target pod is placed while the source still runs. RECREATED: it ends, and its
    controller creates another. BLOCKED: it cannot leave its node and blocks the drain. GONE: nothing
    creates it again. NODE_BOUND: it belongs to its node, is left there, or tolerates that it fails."""

    MIGRATES = "migrates"
    RECREATED = "recreated"
    BLOCKED = "blocked"
    GONE = "gone"
    NODE_BOUND = "node_bound"


_STRATEGIES: t.Mapping[Method | None, str] = {Method.MIGRATE: LIVE_MIGRATE, Method.EVICT: EXTERNAL}
"""The eviction strategy that does what a drain does by a method; NONE for the others."""


@dataclass(frozen=True, slots=True)
class EvictedInstance:
    """`next_pod` needs a node where the outcome is to migrate or to be recreated. `certain` is false
    where it is not known whether the VMI is live-migratable, the VM is started again, or what its next pod
    asks for, or where another controller has to move it. `obstacle` says why it is blocked or gone, `doubt` what is
    not certain; it is empty where only that it is live-migratable is not known. `held_by` says which disruption
    budgets do not allow a drain to end it now, if it knows that it has to."""

    instance: Instance
    outcome: DrainOutcome
    next_pod: Pod | None = None
    doubt: str = ""
    certain: bool = True
    held_by: str = ""
    obstacle: Obstacle | None = None
    code: str = "next_pod_estimated"
    """Of the `doubt` (`conclusion.CODES`)."""

    @property
    def why_pending(self) -> Reason:
        """Why its `next_pod` needs a node."""
        ends = self.instance.pod is None or self.instance.pod.terminating
        return "migrate" if self.outcome is DrainOutcome.MIGRATES and not ends else "recreate"


class Evictions:
    """Answers for the instances of one snapshot. `leaves`: by which methods a drain moves VMs, by the uids of their
    VMIs; None for one that stays. Such a drain asks the disruption budgets itself. Without `leaves` an eviction asks
    them, and does what the strategy of the VM says."""

    def __init__(
        self, snapshot: Snapshot, leaves: t.Mapping[str, Method | None] | None = None
    ) -> None:
        self._leaves = leaves
        self._snapshot = snapshot
        self._pods = snapshot.pods
        self._platform = snapshot.platform
        self._not_ready = snapshot.not_ready_nodes
        self._budgets = Budgets(snapshot, Delegation.known())
        self._workloads = snapshot.workloads_by_ref
        self._claim_terms = snapshot.claim_terms
        self._expanded = snapshot.expanded
        self._changed_pods: dict[str, ChangedPod] = {}
        self._nodes = snapshot.nodes_by_name
        self._of_source: dict[t.Hashable, tuple[Placement, Placement]] = {}
        self._reader = DeclaredReader(snapshot)
        self._templates = TemplateMatcher(snapshot.platform)
        self._just_moved = {
            pod.owner.uid for pod in snapshot.terminating_pods if pod.owner is not None
        }
        """VMIs of which a pod is still on their previous node."""

    @cached_property
    def _taken_names(self) -> set[tuple[str, str]]:
        return {(pod.namespace, pod.name) for pod in self._pods}

    def named(self, pod: Pod, name: str) -> Pod:
        """A pod that does not exist yet, with this name, or with a longer one where a pod of its namespace
        has that name. Nothing reads it: which pod is replaced stands in PendingPod.replaces."""
        while (pod.namespace, name) in self._taken_names:
            name += NEXT
        self._taken_names.add((pod.namespace, name))
        return pod.renamed(name)

    def of(self, instance: Instance, event: NodeEvent) -> EvictedInstance:
        """What happens to an instance that has a pod on a node that is lost."""
        pod = instance.pod
        if pod is None:
            raise AssertionError(f"{instance.ref} has no pod on any node")
        evicted = self._of(instance, pod, event)
        ends = evicted.outcome in (DrainOutcome.RECREATED, DrainOutcome.GONE)
        if event == "drain" and self._leaves is None and ends:
            return replace(evicted, held_by=self._budgets.disruption(pod).why)
        return evicted

    def _of(self, instance: Instance, pod: Pod, event: NodeEvent) -> EvictedInstance:
        vmi = instance.vmi
        workload = self.workload(instance.workload)
        if vmi is not None:
            return self._vmi(instance, vmi, pod, workload, event)
        owner = pod.owner.kind if pod.owner is not None else ""
        bound = owner == NODE or kind_of(owner).per_node
        if bound or (event == "failure" and _outlasts_failure(pod)):
            return EvictedInstance(instance, DrainOutcome.NODE_BOUND)
        alone = Ways.of(instance, self._snapshot).successor
        if alone is not None:
            return EvictedInstance(instance, DrainOutcome.GONE, obstacle=alone)
        created, other = self.recreated(pod, workload), other_revision(pod, workload)
        doubt = f"{ESTIMATED}: {other}" if other else ""
        return EvictedInstance(instance, DrainOutcome.RECREATED, created, doubt, not doubt)

    def workload(self, ref: Ref | None) -> Workload | None:
        """The workload of an instance; None where it is not known."""
        return self._workloads.get(ref) if ref is not None else None

    def _starting(self, vmi: Vmi, workload: Workload | None) -> Workload | None:
        """What starts the VMI again: its VirtualMachine, also of a pool, which may not have been read."""
        return owner_of(vmi, self._workloads) or workload

    def recreated(
        self, pod: Pod, workload: Workload | None, name: str = "", vmi: Vmi | None = None
    ) -> Pod:
        """The pod that a controller creates after `pod`, from what the workload declares now, or like `pod` while
        its rollout is paused or a partition keeps it. With `name` it is called just that. `vmi` is the one that `pod`
        runs, if it runs one."""
        itself = name in ("", pod.name)
        if workload is None or workload.paused or (itself and keeps_revision(workload, pod)):
            labels = unbound_labels(pod.labels)
            placement = without_migration_cpu(pod.placement, vmi)
            created = replace(pod, uid="", labels=labels, placement=placement, **_FRESH)
        elif self._templates.matches(workload.template, pod):
            placement = without_migration_cpu(pod.placement, vmi)
            created = replace(pod, uid="", placement=placement, **_FRESH)
        else:
            declared = self._reader.declared(workload)
            created = pod_after_restart(pod, vmi, declared.placement, declared.labels)
            created = replace(created, **_FRESH)
            if created.placement == pod.placement:
                created = replace(created, placement=pod.placement)
        if workload is not None and not workload.runs_vms:
            created = with_own_way(created, workload.template)
        if name:
            return created.renamed(name)
        return self.named(created, f"{pod.name}{NEXT}")

    def restarted(self, pod: Pod, vmi: Vmi, workload: Workload | None) -> tuple[Pod, str]:
        """The launcher pod of the VMI that comes after `vmi`, and why it may be another; empty where it is
        known. The new VMI has another uid, by which its terms distinguish it from the old one."""
        workload = self._starting(vmi, workload)
        uid = next_uid(vmi.uid)
        changed = self.changed_by_restart(vmi, workload)
        if changed.pod is not None:
            return self.named(changed.pod, f"{pod.name}{NEXT}"), changed.reason
        labels = {**pod.labels, CREATED_BY: uid} if CREATED_BY in pod.labels else pod.labels
        created = self.recreated(replace(pod, labels=labels), workload, vmi=vmi)
        owner = created.owner._replace(uid=uid) if created.owner is not None else None
        created = as_restarted(replace(created, owner=owner), vmi, self._platform)
        return created, changed.reason

    def changed_by_restart(self, vmi: Vmi, workload: Workload | None) -> ChangedPod:
        """What changes by a restart beside placement. Read once for each VMI."""
        if workload is None or not workload.runs_vms or workload.kind.makes_vms:
            return ChangedPod()
        changed = self._changed_pods.get(vmi.uid)
        if changed is None:
            uid, expanded = next_uid(vmi.uid), self._expanded.get(workload.ref)
            changed = changed_by_restart(workload, vmi, uid, expanded, self._platform)
            self._changed_pods[vmi.uid] = changed
        return changed

    def migration_target(self, pod: Pod, vmi: Vmi, workload: Workload | None) -> Pod:
        """The target pod of a live migration off a lost node, made from the VMI as it is then. Where
        that equals what runs already, only the node's taint keeps the target off its source's node."""
        name = f"{pod.name}{NEXT}"
        if (
            workload is not None
            and self._templates.matches({"metadata": {"labels": vmi.labels}, "spec": vmi.spec}, pod)
            and self._templates.matches(workload.template, pod)
            and not any(tolerates(x, UNSCHEDULABLE_TAINT) for x in pod.placement.tolerations)
            and vmi.uid not in self._just_moved
        ):
            placement = self._with_source_cpu(pod, vmi)
            return self.named(replace(pod, uid="", placement=placement, **_FRESH), name)
        placement = self._reader.of_vmi(vmi)
        if workload is not None and propagating(workload, vmi, self._platform):
            placement = self._reader.declared(workload).placement
        target = migration_target_pod(pod, vmi, placement, self._nodes.get(pod.node_name))
        return self.named(replace(target, **_FRESH), name)

    def migrated(self, target: Pod, vmi: Vmi) -> tuple[Pod, str]:
        """`changed_by_migration`. A volume that only some nodes reach is attached once the target has a node,
        which the scheduler chooses without it (KubeVirt, watch/migration/migration.go, createAttachmentPod)."""
        target, why = changed_by_migration(target, vmi, self._platform)
        for claim in hotplugged_claims(vmi):
            if not why and (vmi.ref.namespace, claim) in self._claim_terms:
                why = f"its volume {claim}, which only some nodes reach, is attached afterwards"
        return target, why

    def _with_source_cpu(self, pod: Pod, vmi: Vmi) -> Placement:
        """`with_source_cpu`, one object for pods that share a placement, a node and a CPU."""
        key = pod.placement.number, pod.node_name, requested_cpu(vmi.spec), vmi.machine_type
        entry = self._of_source.get(key)
        if entry is None:
            node = self._nodes.get(pod.node_name)
            entry = pod.placement, with_source_cpu(pod.placement, vmi, node)
            self._of_source[key] = entry
        return entry[1]

    def _vmi(
        self, instance: Instance, vmi: Vmi, pod: Pod, workload: Workload | None, event: NodeEvent
    ) -> EvictedInstance:
        leaves = self._leaves or {}
        chosen, method = vmi.uid in leaves, leaves.get(vmi.uid)
        if chosen and method is None:
            return EvictedInstance(instance, DrainOutcome.NODE_BOUND)
        if event == "drain" and pod.node_name in self._not_ready:
            not_ready = node_not_ready(pod.node_name)
            return EvictedInstance(instance, DrainOutcome.BLOCKED, obstacle=not_ready)
        if method is Method.STOP:
            stopped = Obstacle(NOT_STARTED, "it is stopped")
            return EvictedInstance(instance, DrainOutcome.GONE, obstacle=stopped)
        ways = Ways.of(instance, self._snapshot)
        strategy = eviction_strategy(vmi, self._snapshot.platform)
        if event == "failure" or chosen:
            strategy = _STRATEGIES.get(method, NONE)
        does, refused = ways.evicted(strategy)
        if refused is not None:
            certain = strategy != EXTERNAL
            return EvictedInstance(
                instance, DrainOutcome.BLOCKED, certain=certain, obstacle=refused
            )
        if does is Method.MIGRATE:
            target = self.migration_target(pod, vmi, self._starting(vmi, workload))
            target, why = self.migrated(target, vmi)
            doubt = f"{ESTIMATED}: {why}" if why else ""
            if not doubt and (perhaps := ways.doubt_of_migration) is not None:
                doubt = f"may not migrate: {perhaps}"
            certain = vmi.live_migratable is True and not doubt
            code = "next_pod_estimated" if why else "not_reported_migratable"
            outcome = DrainOutcome.MIGRATES
            return EvictedInstance(instance, outcome, target, doubt, certain, code=code)
        restarts = method in (Method.RESTART, Method.RECREATE) and ways.stop is None
        gone = None if restarts else ways.successor
        if gone is not None:
            return EvictedInstance(instance, DrainOutcome.GONE, obstacle=gone)
        created, estimated = self.restarted(pod, vmi, workload)
        doubt = f"{ESTIMATED}: {estimated}" if estimated else ""
        asked = event == "drain" and not restarts
        perhaps = ways.doubt_of_successor if asked else None
        if perhaps is not None:
            doubt = f"may stay off: {perhaps}"
        code = "next_pod_estimated" if perhaps is None else "may_stay_off"
        outcome = DrainOutcome.RECREATED
        return EvictedInstance(instance, outcome, created, doubt, not doubt, code=code)


def blocked_evidence(
    blocked: t.Iterable[EvictedInstance],
) -> tuple[tuple[Evidence, ...], tuple[Doubt, ...]]:
    """What instances show that cannot leave their node: proofs, and doubts about all else where another
    controller has to move a VM, since it may move others, too."""
    proofs, doubts = [], []
    for evicted in blocked:
        if evicted.certain:
            proofs.append(Evidence(never=("stays_on_node",)))
        else:
            text = f"another controller has to move {evicted.instance.ref}"
            doubts.append(Doubt("moved_by_others", text, NOTHING))
    return tuple(proofs), tuple(doubts)


ESTIMATED = "has a next pod that is an estimate"


def other_revision(pod: Pod, workload: Workload | None) -> str | None:
    """The revisions where the pod after one of a StatefulSet or a Deployment may be made from another template
    (kubernetes pkg/controller/statefulset, newVersionedStatefulSetPod; pkg/controller/deployment/sync.go, scale: a
    rollout that goes on has pods of both)."""
    if workload is None or workload.paused:
        return None
    status = workload.status
    if workload.kind.revision_label:
        pods, updated = status.get("replicas") or 0, status.get("updatedReplicas") or 0
        text = f"{workload.ref} rolls out, and {updated} of its {pods} pods are of its present template"
        return text if updated < pods else None
    if not is_of_other_revision(workload, pod):
        return None
    running = pod.labels["controller-revision-hash"]
    return f"it runs revision {running}, and its StatefulSet has {status['updateRevision']}"


def _outlasts_failure(pod: Pod) -> bool:
    """Whether a pod stays bound to a failed node and does not terminate, so that nothing replaces it: the first
    toleration of the taint NoExecute sets no time (kubernetes pkg/controller/tainteviction). A pod that is
    replaced once gone leaves with the node, which is fenced."""
    if replaced_once_gone(pod):
        return False
    matching = (x for x in pod.placement.tolerations if tolerates(x, UNREACHABLE[1]))
    toleration = next(matching, None)
    return toleration is not None and toleration.seconds is None


def next_uid(uid: str) -> str:
    """A uid for the object that comes after the one with this uid."""
    return f"{uid}{NEXT}"


_FRESH: t.Final[dict[str, t.Any]] = {
    "node_name": "",
    "phase": "Pending",
    "ready": False,
    "terminating": False,
    "unscheduled": "",
    "nominated_node_name": "",
}
