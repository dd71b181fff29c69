# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""TaintToleration: NoSchedule and NoExecute taints that a pod does not tolerate."""

from __future__ import annotations

from ..model.objects import Toleration
from .candidate import Candidate
from .failure import Code, Failure, Reason
from .node_table import NodeSet, NodeTable
from .options import TAINT_TOLERATION
from .tolerations import Tolerating


class TaintToleration:
    """The filter."""

    name = TAINT_TOLERATION

    def __init__(self, table: NodeTable, *, comparison: bool) -> None:
        self._table = table
        self._tolerating = Tolerating(table, comparison=comparison)

    def tolerating(self, tolerations: tuple[Toleration, ...]) -> NodeSet:
        """The nodes whose scheduling taints are all tolerated."""
        return self._tolerating.nodes(tolerations)

    def nodes(self, candidate: Candidate) -> NodeSet:
        return candidate.spec.tolerating

    def failure(self, candidate: Candidate, n: int) -> Failure | None:
        if candidate.spec.tolerating >> n & 1:
            return None
        node = self._table.nodes[n]
        tolerations = candidate.pod.placement.tolerations
        reasons = tuple(
            Reason(
                "taint",
                f"node {node.name} has the taint {taint.key}={taint.value}:{taint.effect},"
                " which the pod does not tolerate",
                taint,
            )
            for taint in self._tolerating.untolerated(node.taints, tolerations)
        )
        return Failure(self.name, Code.UNRESOLVABLE, reasons)
