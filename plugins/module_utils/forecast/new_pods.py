# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which pods of a change do not exist yet, and what has to be read about them before a forecast?"""

from __future__ import annotations

from ..model.new_pod_needs import NewPodNeeds
from ..view.view import view_of
from .change import ChangedCluster
from .claims import moved_claims, needed_claims
from .simulation import PendingPod


def needs_of_change(change: ChangedCluster, *, drills: bool = False) -> NewPodNeeds:
    """For the pods that a change creates or moves; with `drills` for those of any node, too."""
    before = change.before
    new = new_pods(change)
    namespaces = {pending.pod.namespace for pending in new}
    namespaces |= {workload.namespace for workload in change.affected}
    if drills:
        namespaces |= {pod.namespace for pod in before.pods if pod.node_name}
    return NewPodNeeds(
        claims=needed_claims(change),
        moved=before.drivers if drills else moved_claims(change),
        drivers=before.drivers,
        namespaces=namespaces,
        mutators=bool(namespaces),
        priority_class=any(
            x.asks_for_priority and x.namespace in namespaces for x in before.quotas
        ),
    )


def new_pods(change: ChangedCluster) -> list[PendingPod]:
    """The pods that the answer is about and that do not exist yet."""
    existing = change.before.pods_by_uid
    return [x for x in change.pending if x.required and x.pod.uid not in existing]


def first_pods(change: ChangedCluster) -> list[PendingPod]:
    """Those of workloads of which no pod has a node: nothing shows what the next one looks like."""
    new = [x for x in new_pods(change) if x.reason == "start" and x.replaces is None]
    if not new:
        return []
    running = {x.workload for x in view_of(change.before).instances if x.node_name}
    return [x for x in new if x.workload not in running]
