# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""VolumeBinding, as far as it is a rule about nodes: a PersistentVolume that some nodes cannot reach.

Source: scheduler plugin volumebinding, component-helpers storage/volume CheckNodeAffinity. The
volume filter looks at labels alone: matchFields of a PersistentVolume are passed over.
"""

from __future__ import annotations

import typing as t

from ..model.objects import NodeTerm
from .candidate import Candidate
from .failure import Code, Failure, Reason
from .node_sets import nodes_of_terms
from .node_table import NodeSet, NodeTable
from .options import VOLUME_BINDING

ClaimTerms = t.Mapping[tuple[str, str], tuple[NodeTerm, ...]]
"""(namespace, claim) to the required node terms of the PersistentVolume bound to it."""


class VolumeBinding:
    """The filter. A claim that is not known here rules nothing out."""

    name = VOLUME_BINDING

    def __init__(self, table: NodeTable, terms: ClaimTerms) -> None:
        self._table = table
        self._terms = terms
        self._reachable: dict[tuple[NodeTerm, ...], NodeSet] = {}

    def nodes(self, candidate: Candidate) -> NodeSet:
        found = self._table.all
        for _claim, terms in self._bound(candidate):
            found &= self._nodes_of(terms)
        return found

    def failure(self, candidate: Candidate, n: int) -> Failure | None:
        if not self._terms or not candidate.pod.claims:
            return None
        node = self._table.names[n]
        reasons = tuple(
            Reason("volume", f"the volume of claim {claim} cannot be reached from {node}", terms)
            for claim, terms in self._bound(candidate)
            if not self._nodes_of(terms) >> n & 1
        )
        return Failure(self.name, Code.UNRESOLVABLE, reasons) if reasons else None

    def _bound(self, candidate: Candidate) -> t.Iterator[tuple[str, tuple[NodeTerm, ...]]]:
        pod = candidate.pod
        for claim in pod.claims:
            terms = self._terms.get((pod.namespace, claim))
            if terms is not None:
                yield claim, terms

    def _nodes_of(self, terms: tuple[NodeTerm, ...]) -> NodeSet:
        found = self._reachable.get(terms)
        if found is None:
            found = nodes_of_terms(terms, self._table, with_fields=False)
            self._reachable[terms] = found
        return found
