# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which taints are tolerated, and the nodes of a table that carry no other.

Source: api core/v1 Toleration.ToleratesTaint, component-helpers FindMatchingUntoleratedTaint.
"""

from __future__ import annotations

import typing as t

from ..model.objects import Taint, Toleration
from .node_table import NodeSet, NodeTable
from .syntax import parse_canonical_integer

SCHEDULING_EFFECTS = frozenset({"NoSchedule", "NoExecute"})
PREFERENCE_EFFECTS = frozenset({"PreferNoSchedule"})


def tolerates(toleration: Toleration, taint: Taint, *, comparison: bool = False) -> bool:
    """Whether one toleration covers one taint. `comparison` switches Gt and Lt on (alpha in
    Kubernetes 1.35); tolerationSeconds plays no part."""
    if toleration.effect and toleration.effect != taint.effect:
        return False
    if toleration.key and toleration.key != taint.key:
        return False
    if toleration.operator in ("Equal", ""):
        return toleration.value == taint.value
    if toleration.operator == "Exists":
        return True
    return comparison and compares(toleration.operator, taint.value, toleration.value)


def compares(operator: str, taint_value: str, toleration_value: str) -> bool:
    """Gt: the taint's number is above the toleration's; Lt: below. Both must be canonical."""
    taint = parse_canonical_integer(taint_value)
    bound = parse_canonical_integer(toleration_value)
    if taint is None or bound is None or operator not in ("Gt", "Lt"):
        return False
    return taint > bound if operator == "Gt" else taint < bound


def untolerated(
    taints: t.Iterable[Taint],
    tolerations: t.Sequence[Toleration],
    *,
    effects: frozenset[str] = SCHEDULING_EFFECTS,
    comparison: bool = False,
) -> t.Iterator[Taint]:
    """The taints with one of `effects` that no toleration covers, in their order on the node."""
    for taint in taints:
        if taint.effect in effects and not any(
            tolerates(each, taint, comparison=comparison) for each in tolerations
        ):
            yield taint


class Tolerating:
    """Sets of nodes by the tolerations of a pod; equal ones are worked out once."""

    def __init__(self, table: NodeTable, *, comparison: bool) -> None:
        self._table = table
        self._comparison = comparison
        self._known: dict[tuple[Toleration, ...], NodeSet] = {}

    def nodes(self, tolerations: tuple[Toleration, ...]) -> NodeSet:
        """The nodes whose scheduling taints are all tolerated."""
        found = self._known.get(tolerations)
        if found is None:
            found = 0
            for taints, nodes in self._table.tainted.items():
                if next(self.untolerated(taints, tolerations), None) is None:
                    found |= nodes
            self._known[tolerations] = found
        return found

    def untolerated(
        self, taints: tuple[Taint, ...], tolerations: tuple[Toleration, ...]
    ) -> t.Iterator[Taint]:
        """The scheduling taints among `taints` that are not tolerated."""
        return untolerated(taints, tolerations, comparison=self._comparison)
