# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""NodeName, NodeUnschedulable, TaintToleration: a bound pod, a cordoned node, a taint that is not tolerated.

Source of tolerations: api core/v1 Toleration.ToleratesTaint, component-helpers FindMatchingUntoleratedTaint.
"""

from __future__ import annotations

import typing as t

from ..model.objects import Taint, Toleration
from .framework import (
    NODE_NAME,
    NODE_UNSCHEDULABLE,
    TAINT_TOLERATION,
    Code,
    FilterReason,
    FilterStatus,
    PodInfo,
)
from .nodes import NodeSet, NodeTable

UNSCHEDULABLE_TAINT = Taint("node.kubernetes.io/unschedulable", "", "NoSchedule")

TRANSIENT_TAINTS = "node.kubernetes.io/"
"""Prefix of the taints that come and go with a node's state: cordon, not ready, pressure
(Kubernetes core/v1 well_known_taints.go)."""


class NodeName:
    """A pod that names its node in spec.nodeName may run nowhere else."""

    name = NODE_NAME

    def __init__(self, table: NodeTable) -> None:
        self._table = table

    def nodes(self, pod_info: PodInfo) -> NodeSet:
        name = pod_info.pod.required_node_name
        if not name:
            return self._table.all
        n = self._table.numbers.get(name)
        return 0 if n is None else 1 << n

    def failure(self, pod_info: PodInfo, n: int) -> FilterStatus | None:
        name = pod_info.pod.required_node_name
        if not name or name == self._table.names[n]:
            return None
        reason = FilterReason("node-name", f"spec.nodeName is {name}")
        return FilterStatus(self.name, Code.UNRESOLVABLE, (reason,))


class NodeUnschedulable:
    """A cordoned node, unless the pod tolerates the taint that stands for it."""

    name = NODE_UNSCHEDULABLE

    def __init__(self, table: NodeTable) -> None:
        self._table = table

    def nodes(self, pod_info: PodInfo) -> NodeSet:
        if not self._table.cordoned or self._tolerated(pod_info):
            return self._table.all
        return self._table.all & ~self._table.cordoned

    def failure(self, pod_info: PodInfo, n: int) -> FilterStatus | None:
        if not self._table.nodes[n].unschedulable or self._tolerated(pod_info):
            return None
        reason = FilterReason("cordoned", f"node {self._table.names[n]} is cordoned")
        return FilterStatus(self.name, Code.UNRESOLVABLE, (reason,))

    def _tolerated(self, pod_info: PodInfo) -> bool:
        return any(
            tolerates(toleration, UNSCHEDULABLE_TAINT)
            for toleration in pod_info.pod.placement.tolerations
        )


SCHEDULING_EFFECTS = frozenset({"NoSchedule", "NoExecute"})


def tolerates(toleration: Toleration, taint: Taint) -> bool:
    """Whether one toleration covers one taint; tolerationSeconds is ignored. The operators Gt and Lt
    (alpha in Kubernetes 1.35) cover none."""
    if toleration.effect and toleration.effect != taint.effect:
        return False
    if toleration.key and toleration.key != taint.key:
        return False
    if toleration.operator in ("Equal", ""):
        return toleration.value == taint.value
    return toleration.operator == "Exists"


def untolerated(
    taints: t.Iterable[Taint],
    tolerations: t.Sequence[Toleration],
    *,
    effects: frozenset[str] = SCHEDULING_EFFECTS,
) -> t.Iterator[Taint]:
    """The taints with one of `effects` that no toleration covers, in their order on the node."""
    for taint in taints:
        if taint.effect in effects and not any(
            tolerates(toleration, taint) for toleration in tolerations
        ):
            yield taint


class TaintToleration:
    """The filter."""

    name = TAINT_TOLERATION

    def __init__(self, table: NodeTable) -> None:
        self._table = table
        self._tolerated: dict[tuple[Toleration, ...], NodeSet] = {}

    def tolerated_nodes(self, tolerations: tuple[Toleration, ...]) -> NodeSet:
        """The nodes without a scheduling taint that the tolerations do not cover."""
        tolerated = self._tolerated.get(tolerations)
        if tolerated is None:
            tolerated = 0
            for taints, nodes in self._table.by_taints.items():
                if next(untolerated(taints, tolerations), None) is None:
                    tolerated |= nodes
            self._tolerated[tolerations] = tolerated
        return tolerated

    def nodes(self, pod_info: PodInfo) -> NodeSet:
        return pod_info.placement_info.tolerated_nodes

    def failure(self, pod_info: PodInfo, n: int) -> FilterStatus | None:
        if pod_info.placement_info.tolerated_nodes >> n & 1:
            return None
        node = self._table.nodes[n]
        tolerations = pod_info.pod.placement.tolerations
        reasons = tuple(
            FilterReason(
                "taint",
                f"node {node.name} has the taint {taint.key}={taint.value}:{taint.effect},"
                " which the pod does not tolerate",
                taint,
            )
            for taint in untolerated(node.taints, tolerations)
        )
        return FilterStatus(self.name, Code.UNRESOLVABLE, reasons)
