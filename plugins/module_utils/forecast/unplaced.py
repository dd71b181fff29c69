# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which instances have no node, now or after a placement sequence, and which pods would be preempted for them?

The nodes that need preemption are not used (`Index.feasible` never names them). But the scheduler
preempts pods of lower priority for a pod that finds no other node, so a forecast names their workloads.
Source: scheduler plugin defaultpreemption.
"""

from __future__ import annotations

import typing as t

from ..compliance.obstacles import Obstacles
from ..compliance.pending import PendingReasons, why_no_pod
from ..model.objects import Pod, Ref
from ..model.obstacle import NO_NODE, Obstacle
from ..model.rendering import listed
from ..model.snapshot import Snapshot
from ..model.topology import Topology
from ..scheduler.framework import Code, pod_key
from ..scheduler.index import Index
from ..view.view import ClusterView, view_of
from .change import ChangedCluster
from .eviction import Evictions
from .result import NAMED, NotMigratableInstance, UnschedulableInstance
from .simulation import PendingPod, PlacementSimulation


def pending_now(snapshot: Snapshot, topology: Topology) -> tuple[str, ...]:
    """A line for each reason why instances have no node now, the most frequent first."""
    view = view_of(snapshot)
    without_node = [instance for instance in view.instances if not instance.node_name]
    if not without_node:
        return ()
    reasons = PendingReasons(view.new_index(), topology, Obstacles(view))
    by_reason: dict[str, list[str]] = {}
    for instance in without_node:
        pod, ref = instance.pod, instance.ref
        reason = reasons.reason(pod, instance.workload) if pod is not None else why_no_pod(instance)
        by_reason.setdefault(str(reason), []).append(f"{ref.namespace}/{ref.name}")
    most_first = sorted(by_reason.items(), key=lambda entry: (-len(entry[1]), entry))
    return tuple(
        f"{len(names)} {'is' if len(names) == 1 else 'are'} pending now, without any change:"
        f" {listed(sorted(names))}: {reason}"
        for reason, names in most_first
    )


def victims(index: Index, pod: Pod, node_name: str) -> tuple[Pod, ...]:
    """The pods of a node that the scheduler may preempt for this one; it preempts no more of them than it
    needs to. Raises KeyError for an unknown node."""
    if not pod.may_preempt:
        return ()
    return tuple(
        other_pod
        for other_pod in index.pods_on(node_name)
        if other_pod.priority < pod.priority and pod_key(other_pod) != pod_key(pod)
    )


def preemption_nodes(index: Index, pod: Pod, *, without: str | None = None) -> tuple[str, ...]:
    """The nodes that are closed to a pod now, and open once its victims are gone. None where a node is
    open: then the scheduler preempts no pod."""
    with index.without(without):
        if index.feasible_nodes(pod):
            return ()
        return tuple(name for name in index.table.names if _opens(index, pod, name))


def _opens(index: Index, pod: Pod, node_name: str) -> bool:
    ended = victims(index, pod, node_name)
    if not ended:
        return False
    if index.failures(pod, node_name)[0].code is not Code.UNSCHEDULABLE:
        return False
    with index.without(*map(pod_key, ended)):
        return not index.failures(pod, node_name)


def in_flight(change: ChangedCluster) -> dict[Ref, int]:
    """How many new pods a rollout of each workload creates before old ones have to be gone."""
    rooms = {
        ref: workload.rollout_room
        for ref, workload in change.after.workloads_by_ref.items()
        if ref in change.affected and workload.kind.replaces_step_by_step
    }
    return {ref: max(1, room.surge + room.unavailable) for ref, room in rooms.items()}


class Unplaced:
    """The pending pods of a simulation without a node after a sequence. Of use as long as it stays as it is."""

    def __init__(
        self,
        change: ChangedCluster,
        view: ClusterView,
        simulation: PlacementSimulation,
        topology: Topology,
    ) -> None:
        self._change = change
        self._view = view
        self._simulation = simulation
        self._index = simulation.index
        self._waiting = PendingReasons(simulation.index, topology, Obstacles(view))
        self._evictions = Evictions(view.snapshot)
        self._lowest = min((pod.priority for pod in view.snapshot.pods), default=0)
        self._preempted: dict[t.Hashable, tuple[Ref, ...]] = {}
        self._owners: dict[str, Ref] = {}

    def of(
        self, never: t.Container[int]
    ) -> tuple[list[UnschedulableInstance], list[NotMigratableInstance]]:
        """The required pods without a node now, and the migration targets; those in `never` have none
        in any sequence."""
        unschedulable: list[UnschedulableInstance] = []
        not_migratable: list[NotMigratableInstance] = []
        left = in_flight(self._change)
        for number in sorted(self._simulation.waiting):
            pending = self._simulation.pending[number]
            if not pending.required:
                continue
            if pending.in_rollout and pending.workload is not None:
                left[pending.workload] -= 1
                if left[pending.workload] < 0:
                    continue
            ref, workload = pending.instance, pending.workload
            reason = Obstacle(NO_NODE, self._waiting.reason(pending.pod, workload))
            certain = number in never
            if pending.reason == "migrate" and pending.replaces is not None:
                restarted = self._if_restarted(pending)
                node = pending.replaces.node_name
                not_migratable.append(
                    NotMigratableInstance(ref, workload, node, reason, restarted, certain)
                )
            else:
                preempted = self._may_preempt(pending, self._simulation.kinds[number])
                unschedulable.append(
                    UnschedulableInstance(ref, workload, reason, certain, preempted)
                )
        return unschedulable, not_migratable

    def _if_restarted(self, pending: PendingPod) -> tuple[str, ...]:
        if pending.vmi is None or pending.replaces is None:
            return ()
        workload = self._evictions.workload(pending.workload)
        pod, _why = self._evictions.restarted(pending.replaces, pending.vmi, workload)
        return self._index.feasible_nodes(pod, without=pending.source)[:NAMED]

    def _may_preempt(self, pending: PendingPod, kind: int) -> tuple[Ref, ...]:
        """The workloads of the pods on whose nodes this one would make itself room. Worked out once
        for pods of one kind (see PlacementSimulation.kinds) and priority."""
        pod, leaves = pending.pod, pending.leaves_before
        if not pod.may_preempt or pod.priority <= self._lowest:
            return ()
        identity = kind, pod.priority
        if identity not in self._preempted:
            pods = [
                victim
                for node in preemption_nodes(self._index, pod, without=leaves)
                for victim in victims(self._index, pod, node)
                if pod_key(victim) != leaves
            ]
            self._preempted[identity] = tuple(sorted({self._owner(x) for x in pods}))[:NAMED]
        return self._preempted[identity]

    def _owner(self, pod: Pod) -> Ref:
        if not self._owners:
            running = [(x.pod, x.workload or x.ref) for x in self._view.instances]
            planned = [(x.pod, x.workload or x.instance) for x in self._simulation.pending]
            self._owners = {pod_key(owned): ref for owned, ref in [*running, *planned] if owned}
        return self._owners.get(pod_key(pod), pod.ref)
