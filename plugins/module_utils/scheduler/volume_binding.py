# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""VolumeBinding: can the node reach the PersistentVolumes that the pod's claims are bound to?

Source: scheduler plugin volumebinding, component-helpers storage/volume CheckNodeAffinity. The
volume filter reads labels only: matchFields of a PersistentVolume are ignored.
"""

from __future__ import annotations

import typing as t

from ..model.objects import NodeTerm
from .framework import VOLUME_BINDING, Code, FilterReason, FilterStatus, PodInfo
from .node_affinity import nodes_of_terms
from .nodes import NodeSet, NodeTable

ClaimTerms = t.Mapping[tuple[str, str], tuple[NodeTerm, ...]]
"""(namespace, claim) to the required node terms of the PersistentVolume bound to it."""


class VolumeBinding:
    """The filter. A claim without a known volume excludes no node."""

    name = VOLUME_BINDING

    def __init__(self, table: NodeTable, terms: ClaimTerms) -> None:
        self._table = table
        self._terms = terms
        self._reachable: dict[tuple[NodeTerm, ...], NodeSet] = {}

    def nodes(self, pod_info: PodInfo) -> NodeSet:
        nodes = self._table.all
        for _claim, terms in self._bound(pod_info):
            nodes &= self._nodes_of(terms)
        return nodes

    def failure(self, pod_info: PodInfo, n: int) -> FilterStatus | None:
        if not self._terms or not pod_info.pod.claims:
            return None
        node = self._table.names[n]
        reasons = tuple(
            FilterReason(
                "volume", f"the volume of claim {claim} cannot be reached from {node}", terms
            )
            for claim, terms in self._bound(pod_info)
            if not self._nodes_of(terms) >> n & 1
        )
        return FilterStatus(self.name, Code.UNRESOLVABLE, reasons) if reasons else None

    def _bound(self, pod_info: PodInfo) -> t.Iterator[tuple[str, tuple[NodeTerm, ...]]]:
        pod = pod_info.pod
        for claim in pod.claims:
            terms = self._terms.get((pod.namespace, claim))
            if terms is not None:
                yield claim, terms

    def _nodes_of(self, terms: tuple[NodeTerm, ...]) -> NodeSet:
        nodes = self._reachable.get(terms)
        if nodes is None:
            nodes = nodes_of_terms(terms, self._table, with_fields=False)
            self._reachable[terms] = nodes
        return nodes
