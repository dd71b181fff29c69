# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What is a StatefulSet? Its replicas have numbers; a partition keeps the first of them on the previous revision."""

from __future__ import annotations

from .kind import Kind, Spec, UpdateStrategy

STATEFUL_SET = Kind(
    "StatefulSet",
    "apps/v1",
    "statefulsets",
    virtual_machines=False,
    ordinals=True,
    workload_rollout=True,
    update_strategy=UpdateStrategy("RollingUpdate", "OnDelete", typed=True),
    refused_by_events=True,
    keeps_names=True,
)


def partition_of(spec: Spec) -> int:
    """How many replicas of a StatefulSet, from the first, stay on the revision before its present template."""
    rolling = (spec.get("updateStrategy") or {}).get("rollingUpdate") or {}
    return int(rolling.get("partition") or 0)
