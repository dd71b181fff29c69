# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""VolumeBinding: can the node reach the PersistentVolumes of the pod's claims, and can the claims be used?

Source: scheduler plugin volumebinding, component-helpers storage/volume CheckNodeAffinity. The
volume filter reads labels only: matchFields of a PersistentVolume are ignored. What a claim without a
volume means is in `claims`.
"""

from __future__ import annotations

import typing as t

from ..model.objects import NodeTerm, Pod
from ..model.obstacle import NO_NODE, Obstacle
from ..model.storage import ClaimKey, ClaimState
from .framework import VOLUME_BINDING, Code, FilterReason, FilterStatus, PodInfo
from .node_affinity import nodes_of_terms
from .nodes import NodeSet, NodeTable

ClaimTerms = t.Mapping[tuple[str, str], tuple[NodeTerm, ...]]
"""(namespace, claim) to the required node terms of the PersistentVolume bound to it."""


ClaimStates = t.Mapping[ClaimKey, ClaimState]


class VolumeBinding:
    """The filter. A claim without a known state and volume excludes no node."""

    name = VOLUME_BINDING

    def __init__(self, table: NodeTable, terms: ClaimTerms, states: ClaimStates) -> None:
        self._table = table
        self._terms = terms
        self._states = states
        self._reachable: dict[tuple[NodeTerm, ...], NodeSet] = {}

    def nodes(self, pod_info: PodInfo) -> NodeSet:
        if self._refusals(pod_info.pod):
            return 0
        nodes = self._table.all
        for _claim, terms in self._bound(pod_info):
            nodes &= self._nodes_of(terms)
        return nodes

    def failure(self, pod_info: PodInfo, n: int) -> FilterStatus | None:
        if not pod_info.pod.claims or not (self._terms or self._states):
            return None
        if refusals := self._refusals(pod_info.pod):
            claims = tuple(FilterReason("claim", text, text) for text in refusals)
            return FilterStatus(self.name, Code.UNRESOLVABLE, claims)
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
            key = pod.namespace, claim
            terms = self._terms.get(key)
            if terms is None and key in self._states:
                terms = self._states[key].terms
            if terms is not None:
                yield claim, terms

    def refusal(self, pod: Pod) -> Obstacle | None:
        """Why a pod may run on no node, for the first claim for which that is so."""
        return next((Obstacle(NO_NODE, text, True) for text in self._refusals(pod)), None)

    def _refusals(self, pod: Pod) -> list[str]:
        if not pod.claims or not self._states:
            return []
        states = (self._states.get((pod.namespace, claim)) for claim in pod.claims)
        return [state.refusal for state in states if state is not None and state.refusal]

    def _nodes_of(self, terms: tuple[NodeTerm, ...]) -> NodeSet:
        nodes = self._reachable.get(terms)
        if nodes is None:
            nodes = nodes_of_terms(terms, self._table, with_fields=False)
            self._reachable[terms] = nodes
        return nodes
