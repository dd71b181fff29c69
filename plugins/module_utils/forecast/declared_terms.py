# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Are declared rules of running VMs still satisfied once other pods have come and left?

The scheduler filters by what a running pod carries, and only when it places a pod. So two questions
are asked. May a pod get a node that a declared term of a running VM forbids, because that VM still
runs with its previous constraints (DeclaredTerms)? Are the rules still satisfied once all pods have
their nodes and the others have left (RulesAfterwards)?
"""

from __future__ import annotations

import typing as t
from dataclasses import replace

from ..compliance.instances import DeclaredInstance
from ..model.objects import Pod
from ..scheduler.framework import PodInfo, pod_key
from ..scheduler.index import Index
from .change import ChangedCluster
from .running_vms import ChangedVms
from .simulation import PendingPod, PlacementSequence, selected_by_terms


class DeclaredTerms:
    """Terms that are declared for VMs but not enforced yet. `index` has the VMs as they run."""

    def __init__(self, vms: t.Iterable[DeclaredInstance], index: Index) -> None:
        self._index = index
        self._vms = [vm for vm in vms if vm.declared_pod is not vm.pod]
        self._declared = [index.pod_info(vm.declared_pod) for vm in self._vms]

    def may_be_violated_by(self, pods: t.Iterable[Pod]) -> bool:
        """Whether such a term selects one of these pods, and the pod does not carry the same term."""
        running = (self._index.pod_info(vm.pod) for vm in self._vms)
        vms = {
            (_kind(now), _kind(then)): (now, then)
            for now, then in zip(running, self._declared, strict=True)
        }
        return any(
            _keeps_away(now, then, pending) or _spreads(then, pending)
            for pending in _one_of_each_kind(self._index, pods)
            for now, then in vms.values()
        )

    def keeping_both(self, pods: t.Iterable[Pod]) -> list[Pod]:
        """`pods`, in which each such VM has both its running and its declared anti-affinity."""
        both = {
            vm.pod.uid: (*vm.pod.placement.anti_affinity, *vm.declared_pod.placement.anti_affinity)
            for vm in self._vms
        }
        return [
            replace(pod, placement=replace(pod.placement, anti_affinity=both[pod.uid]))
            if pod.uid in both
            else pod
            for pod in pods
        ]


class RulesAfterwards:
    """Whether written rules are still satisfied after a placement sequence. The scheduler filters only
    when it places a pod: one that leaves or comes later may violate what was satisfied then. `pending`
    are placed while the VMs in `changed` move."""

    def __init__(
        self, change: ChangedCluster, changed: ChangedVms, pending: t.Sequence[PendingPod]
    ) -> None:
        self._changed = changed
        self._pending = pending
        self._vms = [x for x in pending if x.vmi is not None and x.workload in change.affected]
        sources = (x.replaces for x in pending if x.source is not None)
        self._leaving = [
            *(pod for pod in sources if pod is not None),
            *change.after.terminating_pods,
        ]

    def may_break(self, index: Index) -> bool:
        """Whether pods that come or leave may violate a written rule, though each is placed by it."""
        declared = [vm.declared_pod for vm in self._changed.candidates]
        declared += [pending.pod for pending in self._vms]
        if selected_by_terms(index, declared, self._leaving):
            return True
        vms = [
            x
            for x in _one_of_each_kind(index, declared)
            if x.constraints or x.placement_info.affinity_terms.affinity is not None
        ]
        coming = _one_of_each_kind(index, (x.pod for x in self._pending)) if vms else ()
        return any(_spreads(then, x) or _is_first(then, x) for then in vms for x in coming)

    def all_satisfied(self, sequence: PlacementSequence) -> bool:
        """Whether a sequence after the planned moves places all, with all rules satisfied."""
        nodes = {number: node for number, node in sequence if node}
        if any(x.required and n not in nodes for n, x in enumerate(self._pending)):
            return False
        sources = (self._pending[n].source for n in nodes)
        return self._changed.satisfied_with(
            [key for key in sources if key is not None],
            [(self._pending[n].pod, node) for n, node in nodes.items()],
            [pod_key(pending.pod) for pending in self._vms],
        )


def _one_of_each_kind(index: Index, pods: t.Iterable[Pod]) -> t.Collection[PodInfo]:
    return {_kind(pod_info): pod_info for pod_info in map(index.pod_info, pods)}.values()


def _kind(pod_info: PodInfo) -> t.Hashable:
    """What matters here of a pod: equal for those of which one answers for all."""
    return pod_info.placement_info, frozenset(pod_info.selected_by), frozenset(pod_info.constraints)


def _keeps_away(now: PodInfo, then: PodInfo, pending: PodInfo) -> bool:
    """Whether a term that `then` has and `now` has not keeps `pending` away, unless `pending` itself
    keeps away from `now` by that term."""
    mutual = {
        x
        for x in pending.placement_info.affinity_terms.existing
        if x.selector_count in now.selected_by
    }
    return any(
        not owned.weight and owned.selector_count in pending.selected_by
        for owned in {*then.placement_info.affinity_terms.existing}
        - {*now.placement_info.affinity_terms.existing}
        - mutual
    )


def _is_first(then: PodInfo, pending: PodInfo) -> bool:
    """Whether the affinity of `then` selects itself and no other placed pod, so that any node satisfies it,
    but also selects `pending`, which does not have it and may be placed elsewhere."""
    affinity = then.placement_info.affinity_terms.affinity
    if affinity is None or affinity.differs_in:
        return False
    own = pending.placement_info.affinity_terms.affinity
    has_it = (
        own is not None
        and own.selector_count is affinity.selector_count
        and own.counts_by_key == affinity.counts_by_key
    )
    return (
        not has_it
        and affinity.selector_count in then.selected_by
        and affinity.selector_count in pending.selected_by
        and all(placed.pod.uid == then.pod.uid for placed in affinity.members)
    )


def _spreads(then: PodInfo, pending: PodInfo) -> bool:
    """Whether `then` is spread by a constraint that counts `pending`, which does not have it."""
    own = {(x.spread_count, x.max_skew, x.min_domains) for x in pending.constraints}
    return any(
        x.selector_count in pending.selected_by
        and (x.spread_count, x.max_skew, x.min_domains) not in own
        for x in then.constraints
    )
