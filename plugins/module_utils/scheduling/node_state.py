# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""NodeName and NodeUnschedulable: a pod pinned to another node, and cordoned nodes."""

from __future__ import annotations

from ..model.objects import Taint
from .candidate import Candidate
from .failure import Code, Failure, Reason
from .node_table import NodeSet, NodeTable
from .options import NODE_NAME, NODE_UNSCHEDULABLE
from .tolerations import tolerates

UNSCHEDULABLE_TAINT = Taint("node.kubernetes.io/unschedulable", "", "NoSchedule")


class NodeName:
    """A pod that names its node in spec.nodeName may run nowhere else."""

    name = NODE_NAME

    def __init__(self, table: NodeTable) -> None:
        self._table = table

    def nodes(self, candidate: Candidate) -> NodeSet:
        wanted = candidate.pod.required_node_name
        if not wanted:
            return self._table.all
        n = self._table.numbers.get(wanted)
        return 0 if n is None else 1 << n

    def failure(self, candidate: Candidate, n: int) -> Failure | None:
        wanted = candidate.pod.required_node_name
        if not wanted or wanted == self._table.names[n]:
            return None
        reason = Reason("node-name", f"spec.nodeName is {wanted}")
        return Failure(self.name, Code.UNRESOLVABLE, (reason,))


class NodeUnschedulable:
    """A cordoned node, unless the pod tolerates the taint that stands for it."""

    name = NODE_UNSCHEDULABLE

    def __init__(self, table: NodeTable, *, comparison: bool) -> None:
        self._table = table
        self._comparison = comparison

    def nodes(self, candidate: Candidate) -> NodeSet:
        if not self._table.cordoned or self._tolerated(candidate):
            return self._table.all
        return self._table.all & ~self._table.cordoned

    def failure(self, candidate: Candidate, n: int) -> Failure | None:
        if not self._table.nodes[n].unschedulable or self._tolerated(candidate):
            return None
        reason = Reason("cordoned", f"node {self._table.names[n]} is cordoned")
        return Failure(self.name, Code.UNRESOLVABLE, (reason,))

    def _tolerated(self, candidate: Candidate) -> bool:
        return any(
            tolerates(each, UNSCHEDULABLE_TAINT, comparison=self._comparison)
            for each in candidate.pod.placement.tolerations
        )
