# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What is a StatefulSet? Its replicas have numbers; a partition keeps the first of them on the previous revision."""

from __future__ import annotations

from .kind import Kind, Spec, UpdateStrategy


def partition_of(spec: Spec) -> int:
    """spec.updateStrategy.rollingUpdate.partition (kubernetes pkg/controller/statefulset/stateful_set_utils.go)."""
    rolling = (spec.get("updateStrategy") or {}).get("rollingUpdate") or {}
    return int(rolling.get("partition") or 0)


STATEFUL_SET = Kind(
    "StatefulSet",
    "apps/v1",
    "statefulsets",
    virtual_machines=False,
    ordinals=True,
    partition=partition_of,
    workload_rollout=True,
    update_strategy=UpdateStrategy("RollingUpdate", "OnDelete", typed=True),
    refused_by_events=True,
    keeps_names=True,
)
