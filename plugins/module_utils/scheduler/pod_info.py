# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""A pod as the filters see it: with the node sets, terms and constraints of its placement."""

from __future__ import annotations

import typing as t
from dataclasses import dataclass, field

from ..model.objects import Labels, Placement, Pod

if t.TYPE_CHECKING:
    from .inter_pod_affinity import AffinityTerms
    from .pod_topology_spread import Constraint
    from .selector_index import SelectorCount


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
    selected_by: tuple[SelectorCount, ...] = ()
    generation: int = -1
    """The generation of the SelectorIndex that `selected_by` belongs to."""
    constraints: tuple[Constraint, ...] = ()
    node: int = -1
    node_labels: Labels = field(default_factory=dict)
