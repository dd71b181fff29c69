# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""NodeName and NodeUnschedulable: is the pod bound to another node, is the node cordoned?"""

from __future__ import annotations

from ..model.objects import Taint
from .framework import NODE_NAME, NODE_UNSCHEDULABLE, Code, FilterReason, FilterStatus, PodInfo
from .nodes import NodeSet, NodeTable
from .taint_toleration import tolerates

UNSCHEDULABLE_TAINT = Taint("node.kubernetes.io/unschedulable", "", "NoSchedule")


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
