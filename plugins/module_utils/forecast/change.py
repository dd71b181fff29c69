# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The cluster as it would be if something were written, lost or scaled, and which pods need a node then.

Every pod that would have to find a node is in the changed snapshot, without a node: instances that do
not run yet, pods of a rollout that starts by itself, successors of what a lost node takes with it. The
target of a live migration is there beside its source. `ChangedCluster.pending` says of each of them
which pod it replaces, and why.
"""

from __future__ import annotations

import typing as t
from dataclasses import dataclass, replace

from ..compliance.drift import DriftComparison
from ..kubevirt.instances import (
    bound_launcher,
    pod_workload,
    settled,
    vmi_workload,
)
from ..kubevirt.moving import rolls_itself
from ..kubevirt.next_pod import NEXT, launcher_pod, planned_vmi, with_data_volumes
from ..kubevirt.ordinals import keeps_revision
from ..kubevirt.pools import with_templates
from ..model.objects import Node, Pod, Ref
from ..model.plan import Method
from ..model.snapshot import Instance, Snapshot, Workload
from ..model.write import Write, touched, written
from ..scheduler.framework import pod_key
from ..scheduler.node_state import UNSCHEDULABLE_TAINT
from ..view.view import view_of
from .eviction import (
    UNREACHABLE,
    DrainOutcome,
    EvictedInstance,
    Evictions,
    NodeEvent,
    next_uid,
    other_revision,
)
from .loss import Loss
from .scaling import Replaced, Scale, scaled
from .simulation import PendingPod, Reason


@dataclass(frozen=True, slots=True)
class ChangedCluster:
    """A cluster before and after a change, before anything new has found a node.

    `touched` are the workloads whose templates the change replaces, `affected` are these and the members
    of the question: their VMs have to move where they violate what is declared. `pending` are all pods
    of `after` that need a node. Of the instances on `lost_nodes`, `blocked` cannot leave, `not_recreated` are
    not created again, `estimated` leave or are created again in a way that is not certain, and `fenced` are
    created again only once their failed node is fenced.
    """

    before: Snapshot
    after: Snapshot
    touched: frozenset[Ref]
    affected: frozenset[Ref]
    lost_nodes: frozenset[str]
    event: NodeEvent
    pending: tuple[PendingPod, ...]
    blocked: tuple[EvictedInstance, ...] = ()
    not_recreated: tuple[EvictedInstance, ...] = ()
    fenced: tuple[Ref, ...] = ()
    estimated: tuple[EvictedInstance, ...] = ()


def what_if(
    snapshot: Snapshot,
    *,
    writes: t.Sequence[Write] = (),
    members: t.Collection[Ref] = (),
    lost_nodes: t.Collection[str] = (),
    event: NodeEvent = "drain",
    scale: t.Sequence[Scale] = (),
    leaves: t.Mapping[str, Method | None] | None = None,
) -> ChangedCluster:
    """`snapshot` after these changes.

    `members` are workloads that the question is about though nothing may be written to them: of those,
    too, halted VMs are to be placed, and instances that wait are created anew from what is declared.
    A drain cordons the nodes; what runs there migrates or is recreated. With a failure the nodes stay,
    unreachable, and pods stay bound to them, terminating: they still count for anti-affinity. The
    pods of VMs and StatefulSets do not: they are gone once the node is fenced, and only then is there
    another.
    `leaves` has the methods by which a drain moves VMs, by the uids of their VMIs (`Evictions`).
    Raises KeyError for a node or workload that is not there, ValueError for a write that does not fit
    its object. Migrations that have found their nodes are taken to be over.
    """
    lost = frozenset(lost_nodes)
    changed = settled(snapshot, lost if event == "failure" else ())
    replaced: Replaced = {}
    if writes or members:
        rollout = _WrittenTemplates(changed, written(changed, writes), members)
        changed, replaced = rollout.snapshot(), rollout.replaced
    for entry in scale:
        changed = scaled(changed, entry, replaced)
    outcomes: dict[str, tuple[t.Any, ...]] = {}
    if lost:
        lost_cluster = _LostNodes(changed, lost, event, replaced, leaves)
        changed, loss = lost_cluster.snapshot(), lost_cluster.loss
        outcomes = {
            "blocked": tuple(loss.blocked),
            "not_recreated": tuple(loss.not_recreated),
            "fenced": loss.down_until_fenced,
            "estimated": tuple(loss.doubtful),
        }
    templates = touched(snapshot, changed)
    affected = templates.union(members)
    concerned = affected.union(entry.workload for entry in scale)
    pending = _pending(snapshot, changed, replaced, concerned)
    return ChangedCluster(snapshot, changed, templates, affected, lost, event, pending, **outcomes)


_NOTHING: t.Final[tuple[Pod | None, Reason]] = (None, "start")


def _pending(
    before: Snapshot, after: Snapshot, replaced: Replaced, concerned: t.Collection[Ref]
) -> tuple[PendingPod, ...]:
    """The pods of `after` that need a node. A pod that waited before is required only where its
    workload is among those `concerned` and no rollout replaces it, and left out otherwise if it has
    scheduling gates."""
    view = view_of(after)
    running = {pod_key(pod) for pod in after.pods if pod.node_name and not pod.terminating}
    waited = {pod_key(pod) for pod in before.pods if not pod.node_name}
    superseded = {pod_key(old) for old, _reason in replaced.values() if old is not None}
    pending_pods = []
    for pod in after.pods:
        if pod.node_name or pod.finished or pod.terminating:
            continue
        vmi, workload = None, None
        old, reason = replaced.get(pod_key(pod), _NOTHING)
        if pod.vmi_uid:
            vmi = view.snapshot.vmis_by_uid.get(pod.vmi_uid)
            workload = (
                vmi_workload(vmi, view.snapshot.workloads_by_ref) if vmi is not None else None
            )
            source = bound_launcher(view.launcher_pods.get(pod.vmi_uid, ()))
            if source is not None:
                old, reason = source, "migrate"
        else:
            workload = pod_workload(pod, after.controllers)
        room = None
        if old is not None and reason == "surge" and workload is not None:
            room = view.snapshot.workloads_by_ref[workload].rollout_room
            reason = "recreate"
            if pod_key(old) in running:
                reason = "surge" if room.unavailable == 0 else "replace"
        if old is not None and not old.node_name:
            reason = "start"
        concerns = workload in concerned and pod_key(pod) not in superseded
        required = concerns or pod_key(pod) not in waited
        if required or not pod.gated:
            pending_pods.append(PendingPod(pod, old, reason, required, workload, vmi, room))
    return tuple(pending_pods)


class _WrittenTemplates:
    """What new templates make of the instances: running ones stay as they are, waiting ones are created
    anew, halted members are to be placed, and self-rolling workloads begin to roll: their waiting pods, too,
    stay until new ones have a node. A self-rolling workload without a new template stays as it is: its pods
    come from that template already, or its controller replaces them. Pods of a StatefulSet with the strategy
    OnDelete are replaced one by one, too, by the moves of a rollout."""

    def __init__(self, before: Snapshot, after: Snapshot, members: t.Collection[Ref]) -> None:
        self.replaced: Replaced = {}
        self._after = after
        self._evictions = Evictions(after)
        self._touched = touched(before, after)
        self._members = self._touched.union(members)
        self._pods = list(after.pods)
        self._vmis = list(after.vmis)
        self._controllers = dict(after.controllers)
        self._ending = list(after.terminating_pods)

    def snapshot(self) -> Snapshot:
        running: dict[Ref, list[Instance]] = {ref: [] for ref in self._members}
        for instance in view_of(self._after).instances:
            if instance.workload in running:
                running[instance.workload].append(instance)
        for workload in self._after.workloads:
            ref = workload.ref
            if ref in self._touched:
                self._apply(workload, running[ref])
            elif ref in self._members and workload.waits_for_deletion:
                self._apply(workload, [x for x in running[ref] if self._is_left(x, workload)])
        return replace(
            self._after,
            workloads=with_templates(self._after.workloads, self._touched),
            pods=tuple(self._pods),
            vmis=tuple(self._vmis),
            controllers=self._controllers,
            terminating_pods=tuple(self._ending),
        )

    def _is_left(self, instance: Instance, workload: Workload) -> bool:
        """Whether an instance may be of an earlier template, which stays until a rollout moves it. VMIs of a kind
        without a rollout of its own are all asked, since those that wait are created anew."""
        pod = instance.pod
        if workload.strategy_name is not None:
            return pod is not None and other_revision(pod, workload) is not None
        return (
            pod is None
            or workload.runs_vms
            or self._after.derived(DriftComparison).drift(workload, pod, None) is not None
        )

    def _apply(self, workload: Workload, running: list[Instance]) -> None:
        without_pod = [x for x in running if x.pod is None and not x.node_name]
        if workload.kind.run_strategy and len(without_pod) == len(running):
            expanded = self._after.expanded.get(workload.ref)
            vmi = planned_vmi(workload, workload.ref.name, expanded)
            if without_pod:  # its VMI exists, and its pod does not
                vmi = replace(vmi, uid=without_pod[0].uid)
            devices = self._after.network_devices.get(workload.ref, ())
            template = expanded or workload.template
            pod = launcher_pod(vmi, self._after.platform, template, devices)
            pod = with_data_volumes(pod, workload)
            self._vmis = [x for x in self._vmis if x.uid != vmi.uid]
            self._vmis.append(vmi)
            self._pods.append(self._evictions.named(pod, pod.name))
        replaced = rolls_itself(workload) or workload.waits_for_deletion
        rolling = replaced and not workload.runs_vms
        old_pods = [x.pod for x in running if x.pod and not keeps_revision(workload, x.pod)]
        if rolling:
            # An earlier rollout that has not ended has more pods than wanted. The controller ends those first.
            old_pods.sort(key=lambda pod: bool(pod.node_name))
            surplus = max(0, len(old_pods) - (workload.replicas or 0))
            ending = {pod.number for pod in old_pods[:surplus]}
            self._pods = [pod for pod in self._pods if pod.number not in ending]
            self._ending += [pod for pod in old_pods[:surplus] if pod.node_name]
            for old in old_pods[surplus:]:
                self._roll(old, workload)
            return
        for old in old_pods:
            if not old.node_name:
                created = self._evictions.recreated(old, workload, old.name)
                self._put_in_place(old, replace(created, uid=old.uid))

    def _roll(self, pod: Pod, workload: Workload) -> None:
        created = self._next_revision(pod, workload)
        self.replaced[pod_key(created)] = pod, "surge"
        if workload.rollout_room.stops_first:
            self._put_in_place(pod, created)
            self._ending += [pod] if pod.node_name else []
        else:
            self._pods.append(created)

    def _put_in_place(self, old: Pod, new: Pod) -> None:
        place = next(n for n, pod in enumerate(self._pods) if pod is old)
        self._pods[place] = new

    def _next_revision(self, pod: Pod, workload: Workload) -> Pod:
        """The pod that takes the place of `pod` in a rollout, of another ReplicaSet."""
        key = workload.kind.revision_label
        if key in pod.labels:
            pod = replace(pod, labels={**pod.labels, key: f"{pod.labels[key]}{NEXT}"})
        created = self._evictions.recreated(pod, workload)
        if created.owner is None or created.owner.uid not in self._controllers:
            return created
        uid = next_uid(created.owner.uid)
        self._controllers[uid] = workload.ref
        return replace(created, owner=created.owner._replace(uid=uid))


class _LostNodes:
    """The snapshot after the loss of nodes; adds to `replaced`."""

    def __init__(
        self,
        before: Snapshot,
        lost: frozenset[str],
        event: NodeEvent,
        replaced: Replaced,
        leaves: t.Mapping[str, Method | None] | None,
    ) -> None:
        unknown = lost - before.nodes_by_name.keys()
        if unknown:
            raise KeyError(f"there is no node {', '.join(sorted(unknown))}")
        self.loss = Loss(event)
        self._before = before
        self._lost = lost
        self._event = event
        self._replaced = replaced
        self._evictions = Evictions(before, leaves)
        self._rolled = {pod_key(old) for old, _reason in replaced.values() if old is not None}
        self._pods: dict[int, tuple[Pod, ...]] = {pod.number: (pod,) for pod in before.pods}
        self._vmis = dict(before.vmis_by_uid)
        self._ending = list(before.terminating_pods)

    def snapshot(self) -> Snapshot:
        launchers = view_of(self._before).launcher_pods
        for instance in view_of(self._before).instances:
            pod = instance.pod
            if pod is None or pod.node_name not in self._lost:
                continue
            evicted = self._evictions.of(instance, self._event)
            self.loss.add(evicted)
            if evicted.outcome not in (DrainOutcome.BLOCKED, DrainOutcome.NODE_BOUND):
                for target in launchers.get(instance.uid, ()):
                    if not target.node_name:
                        self._pods[target.number] = ()
                self._evict(evicted, pod)
        return replace(
            self._before,
            nodes=tuple(
                lost_node(node, self._event) if node.name in self._lost else node
                for node in self._before.nodes
            ),
            pods=tuple(pod for left in self._pods.values() for pod in left),
            vmis=tuple(self._vmis.values()),
            terminating_pods=tuple(self._ending),
        )

    def _evict(self, evicted: EvictedInstance, pod: Pod) -> None:
        if evicted.outcome is not DrainOutcome.MIGRATES:
            self._ending.append(pod)
            self._replace_vmi(evicted)
        remaining = self.loss.left_of(evicted)
        left = (remaining,) if remaining is not None else ()
        created = evicted.next_pod
        if created is not None and pod_key(pod) not in self._rolled:
            self._replaced[pod_key(created)] = pod, evicted.why_pending
            left = (*left, created)
        self._pods[pod.number] = left

    def _replace_vmi(self, evicted: EvictedInstance) -> None:
        vmi = evicted.instance.vmi
        if vmi is None:
            return
        del self._vmis[vmi.uid]
        if evicted.outcome is DrainOutcome.RECREATED:
            uid = next_uid(vmi.uid)
            self._vmis[uid] = replace(
                vmi,
                uid=uid,
                phase="Scheduling",
                node_name="",
                ready=False,
                live_migratable=None,
                migration={},
                active_pods={},
            )


def lost_node(node: Node, event: NodeEvent) -> Node:
    """A node that is drained or has failed."""
    if event == "drain":
        taints = (
            node.taints
            if UNSCHEDULABLE_TAINT in node.taints
            else (*node.taints, UNSCHEDULABLE_TAINT)
        )
        return replace(node, unschedulable=True, taints=taints)
    kept = tuple(taint for taint in node.taints if taint not in UNREACHABLE)
    return replace(node, ready=False, taints=(*kept, *UNREACHABLE))
