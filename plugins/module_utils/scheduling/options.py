# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What an administrator may set in the scheduler's configuration, with its defaults."""

from __future__ import annotations

from dataclasses import dataclass

from ..model.objects import Placement, SpreadConstraint
from ..model.topology import HOSTNAME, ZONE

NODE_NAME = "NodeName"
NODE_UNSCHEDULABLE = "NodeUnschedulable"
TAINT_TOLERATION = "TaintToleration"
NODE_AFFINITY = "NodeAffinity"
NODE_PORTS = "NodePorts"
NODE_RESOURCES_FIT = "NodeResourcesFit"
VOLUME_BINDING = "VolumeBinding"
POD_TOPOLOGY_SPREAD = "PodTopologySpread"
INTER_POD_AFFINITY = "InterPodAffinity"

ORDER = (
    NODE_NAME,
    NODE_UNSCHEDULABLE,
    TAINT_TOLERATION,
    NODE_AFFINITY,
    NODE_PORTS,
    NODE_RESOURCES_FIT,
    VOLUME_BINDING,
    POD_TOPOLOGY_SPREAD,
    INTER_POD_AFFINITY,
)
"""Every filter in the scheduler's order, by the name that kube-scheduler's configuration gives it."""

PLUGINS = frozenset(ORDER)

SYSTEM_CONSTRAINTS = (
    SpreadConstraint(HOSTNAME, 3, "ScheduleAnyway"),
    SpreadConstraint(ZONE, 5, "ScheduleAnyway"),
)
"""PodTopologySpreadArgs with defaultingType System."""


@dataclass(frozen=True, slots=True)
class Options:
    """`added_affinity`: node terms and preferred node terms of NodeAffinityArgs.addedAffinity.
    `default_constraints` None: the scheduler's own (System); else those of the List type.
    `taint_comparison`: the gate TaintTolerationComparisonOperators (operators Gt and Lt).
    `plugins`: the filters that are asked at all.
    """

    added_affinity: Placement | None = None
    default_constraints: tuple[SpreadConstraint, ...] | None = None
    hard_pod_affinity_weight: int = 1
    ignore_preferred_terms_of_existing_pods: bool = False
    taint_comparison: bool = False
    ignored_resources: frozenset[str] = frozenset()
    ignored_resource_groups: frozenset[str] = frozenset()
    plugins: frozenset[str] = PLUGINS
