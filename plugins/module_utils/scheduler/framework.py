# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What do all filters share? Plugin names, the status of a filter, and a pod as the filters see it.

FilterStatus and FilterReason say why a pod may not run on a node, as one filter of kube-scheduler
reports it. PodInfo has the node sets, terms and constraints of a pod's placement.
"""

from __future__ import annotations

import re
import typing as t
from dataclasses import dataclass, field

from ..model.objects import Labels, Placement, Pod, Ref
from ..model.rendering import TextEnum

if t.TYPE_CHECKING:
    from .inter_pod_affinity import AffinityTerms
    from .node_resources import RequestFit
    from .pod_topology_spread import Constraint
    from .selector_index import SelectorCount

ReasonKind = t.Literal[
    "node-name",
    "cordoned",
    "taint",
    "node-affinity",
    "name-conflict",
    "ports",
    "resources",
    "too-many-pods",
    "exclusive-claim",
    "volume-limit",
    "claim",
    "volume",
    "missing-label",
    "skew",
    "affinity",
    "anti",
    "existing-anti",
    "invalid",
]


class Code(TextEnum):
    """The scheduler's outcome codes (kube-scheduler, framework.Code)."""

    UNSCHEDULABLE = "Unschedulable"
    """Other pods are in the way: the pod may fit when some of them are removed."""

    UNRESOLVABLE = "UnschedulableAndUnresolvable"
    """Removing other pods does not help: only a change of the node or of the pod does."""

    ERROR = "Error"
    """A field of the pod cannot be parsed by the scheduler."""


@dataclass(frozen=True, slots=True)
class FilterReason:
    """One failed check.

    `term` is what was checked, as a value of model.objects: NodeTerm or Requirement (node
    affinity), PodTerm, SpreadConstraint, Taint, or the name of a resource. For `existing-anti`
    the term belongs to `counterpart`; for `anti` the counterpart is a pod that it matches.
    `text` and `named`, the counterpart as users name it, are for display only: code decides by `kind` and `term`.
    """

    kind: ReasonKind
    text: str
    term: object = None
    topology_key: str = ""
    counterpart: Ref | None = None
    named: str = ""


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
VOLUME_RESTRICTIONS = "VolumeRestrictions"
NODE_VOLUME_LIMITS = "NodeVolumeLimits"
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
    VOLUME_RESTRICTIONS,
    NODE_VOLUME_LIMITS,
    VOLUME_BINDING,
    POD_TOPOLOGY_SPREAD,
    INTER_POD_AFFINITY,
)
"""The plugin names of all filters, in the order in which the scheduler runs them."""

PLUGINS = frozenset(ORDER)


def pod_key(pod: Pod) -> str:
    """How the index names a pod: its uid, or namespace/name where it has none."""
    return pod.uid or f"{pod.namespace}/{pod.name}"


@dataclass(eq=False, repr=False, slots=True)
class PlacementInfo:
    """What one placement means in one namespace; shared by all pods that have both.

    `nodes` satisfy nodeSelector and required node affinity; `tolerated_nodes` have no scheduling
    taint without a toleration. Both are sets of the node table.
    """

    placement: Placement
    nodes: int
    tolerated_nodes: int
    affinity_terms: AffinityTerms


@dataclass(eq=False, repr=False, slots=True)
class PodInfo:
    """A pod with its PlacementInfo, the selectors that match it, and its hard spread constraints.

    `node` is the number of the node on which it is placed, and `node_labels` are that node's;
    -1 and nothing for a pod that is not placed.
    """

    key: str
    pod: Pod
    placement_info: PlacementInfo
    selected_by: list[SelectorCount] = field(default_factory=list)
    generation: int = -1
    """The generation of the SelectorIndex that `selected_by` belongs to."""
    constraints: tuple[Constraint, ...] = ()
    request_fit: RequestFit | None = None
    node: int = -1
    node_labels: Labels = field(default_factory=dict)


_PREEMPTION = re.compile(r"[.,]? (no new claims to deallocate, )?preemption: .*$")


def without_preemption(message: str) -> str:
    """A message of kube-scheduler without what it says of preemption."""
    return _PREEMPTION.sub("", message)
