# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""NodeAffinity: nodeSelector, required node affinity, and what the scheduler's configuration adds.

Source: component-helpers scheduling/corev1/nodeaffinity, scheduler plugin nodeaffinity.
"""

from __future__ import annotations

import typing as t

from ..model.objects import Node, NodeTerm, Placement, Requirement
from .candidate import Candidate
from .failure import Code, Failure, Kind, Reason
from .node_sets import nodes_of_terms
from .node_table import NodeSet, NodeTable
from .node_terms import (
    NAME_FIELD,
    field_holds,
    is_readable_term,
    matches_terms,
)
from .options import NODE_AFFINITY
from .selectors import holds


def narrowed_names(terms: t.Iterable[NodeTerm] | None) -> frozenset[str] | None:
    """The node names that `metadata.name In` leaves, where every term has such a field: the union
    over terms of the intersection inside each. None: not narrowed; empty: the terms conflict."""
    names: frozenset[str] = frozenset()
    for term in terms or ():
        named = [
            frozenset(each.values)
            for each in term.fields
            if each.key == NAME_FIELD and each.operator == "In"
        ]
        if not named:
            return None
        names |= frozenset.intersection(*named)
    return names if terms else None


class NodeAffinity:
    """The filter."""

    name = NODE_AFFINITY

    def __init__(self, table: NodeTable, added: Placement | None) -> None:
        self._table = table
        self._enforced = table.all
        if added is not None and added.node_terms is not None:
            self._enforced = nodes_of_terms(added.node_terms, table)

    def nodes(self, candidate: Candidate) -> NodeSet:
        return candidate.spec.nodes & self._enforced

    def failure(self, candidate: Candidate, n: int) -> Failure | None:
        if (candidate.spec.nodes & self._enforced) >> n & 1:
            return None
        return Failure(self.name, Code.UNRESOLVABLE, tuple(self._reasons(candidate, n)))

    def _reasons(self, candidate: Candidate, n: int) -> t.Iterator[Reason]:
        placement = candidate.pod.placement
        node = self._table.nodes[n]
        conflict = narrowed_names(placement.node_terms) == frozenset()
        if conflict:
            yield Reason(
                "name-conflict", "no node name satisfies the metadata.name fields of any term"
            )
        if not self._enforced >> n & 1:
            yield Reason(
                "enforced-node-affinity",
                f"node {node.name} does not match what the scheduler's configuration adds",
            )
        for key, value in placement.node_selector:
            if node.labels.get(key) != value:
                yield _mismatch(Requirement(key, "In", (value,)), node)
        if placement.node_terms is None or conflict or matches_terms(placement.node_terms, node):
            return
        if not placement.node_terms:
            yield Reason("node-affinity", "the list of node terms is empty: it matches no node")
        for term in placement.node_terms:
            yield Reason("node-affinity", _why_not(term, node), term)


def _mismatch(requirement: Requirement, node: Node, kind: Kind = "node-affinity") -> Reason:
    return Reason(kind, f"nodeSelector wants {_seen(requirement, node)}", requirement)


def _why_not(term: NodeTerm, node: Node) -> str:
    if not (term.expressions or term.fields):
        return "an empty node term matches no node"
    if not is_readable_term(term):
        return "a node term that the scheduler cannot parse matches no node"
    failing = [_seen(each, node) for each in term.expressions if not holds(each, node.labels)]
    failing += [
        f"{each.key} {each.operator} {list(each.values)}, which is {node.name}"
        for each in term.fields
        if not field_holds(each, node.name)
    ]
    return "node affinity wants " + " and ".join(failing)


def _seen(requirement: Requirement, node: Node) -> str:
    values = f" [{', '.join(requirement.values)}]" if requirement.values else ""
    value = node.labels.get(requirement.key)
    has = "has no such label" if value is None else f"has '{value}'"
    return f"{requirement.key} {requirement.operator}{values}; node {node.name} {has}"
