# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What is a Deployment? It makes a ReplicaSet for each revision of its template, and moves its pods to the newest."""

from __future__ import annotations

from .kind import Kind, RolloutRoom, Spec, share_of

POD_TEMPLATE_HASH = "pod-template-hash"
"""Label of its pods: their revision (apps/v1 Deployment)."""


def room(spec: Spec, replicas: int) -> RolloutRoom:
    """Defaults: a quarter of the replicas, rounded up for the surge, down for what may be unavailable, and one
    unavailable if both are 0."""
    strategy = spec.get("strategy") or {}
    if strategy.get("type") == "Recreate":
        return RolloutRoom(0, replicas, stops_first=True)
    rolling = strategy.get("rollingUpdate") or {}
    surge = share_of(rolling.get("maxSurge"), replicas, up=True)
    unavailable = share_of(rolling.get("maxUnavailable"), replicas, up=False)
    return RolloutRoom(surge, unavailable if surge or unavailable else 1)


DEPLOYMENT = Kind(
    "Deployment",
    "apps/v1",
    "deployments",
    virtual_machines=False,
    older_groups=("extensions",),
    makes="ReplicaSet",
    workload_rollout=True,
    room=room,
    revision_label=POD_TEMPLATE_HASH,
    deadline=True,
)
