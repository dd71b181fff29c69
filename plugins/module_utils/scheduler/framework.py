# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What do all filters share? Plugin names and the status of a filter.

FilterStatus and FilterReason say why a pod may not run on a node, as one filter of kube-scheduler
reports it.
"""

from __future__ import annotations

import enum
import typing as t
from dataclasses import dataclass

from ..model.objects import Ref

ReasonKind = t.Literal[
    "node-name",
    "cordoned",
    "taint",
    "node-affinity",
    "name-conflict",
    "ports",
    "resources",
    "too-many-pods",
    "volume",
    "missing-label",
    "skew",
    "affinity",
    "anti",
    "existing-anti",
    "invalid",
]


class Code(str, enum.Enum):
    """The scheduler's outcome codes (kube-scheduler, framework.Code)."""

    UNSCHEDULABLE = "Unschedulable"
    """Other pods are in the way: the pod may fit when some of them are removed."""

    UNRESOLVABLE = "UnschedulableAndUnresolvable"
    """Removing other pods does not help: only a change of the node or of the pod does."""

    ERROR = "Error"
    """A field of the pod cannot be parsed by the scheduler."""

    def __str__(self) -> str:
        return self.value


@dataclass(frozen=True, slots=True)
class FilterReason:
    """One failed check.

    `term` is what was checked, as a value of model.objects: NodeTerm or Requirement (node
    affinity), PodTerm, SpreadConstraint, Taint, or the name of a resource. For `existing-anti`
    the term belongs to `counterpart`; for `anti` the counterpart is a pod that it matches.
    `text` is for display only: code decides by `kind` and `term`.
    """

    kind: ReasonKind
    text: str
    term: object = None
    topology_key: str = ""
    counterpart: Ref | None = None


@dataclass(frozen=True, slots=True)
class FilterStatus:
    """Why one filter rejects a node. `code` and the first reason are what the scheduler reports.
    Further reasons are checks of the same filter that the scheduler skips after the first."""

    plugin: str
    code: Code
    reasons: tuple[FilterReason, ...]

    @property
    def reported(self) -> tuple[FilterReason, ...]:
        """The reasons that the scheduler gives: the first, or every resource that is short."""
        if self.plugin == "NodeResourcesFit":
            return self.reasons
        return self.reasons[:1]


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
"""The plugin names of all filters, in the order in which the scheduler runs them."""

PLUGINS = frozenset(ORDER)
