# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""NodeAffinity: which nodes satisfy nodeSelector and required node affinity?

Source: component-helpers scheduling/corev1/nodeaffinity, scheduler plugin nodeaffinity.
"""

from __future__ import annotations

import typing as t

from ..model.objects import Node, NodeTerm, Placement, Requirement
from .framework import NODE_AFFINITY, Code, FilterReason, FilterStatus, PodInfo
from .labels import NAME_FIELD, field_holds, holds, is_readable_term, matches_node, matches_terms

if t.TYPE_CHECKING:
    from .nodes import NodeSet, NodeTable


def nodes_of_term(term: NodeTerm, table: NodeTable, *, with_fields: bool = True) -> NodeSet:
    """The nodes that a term matches. Without fields, matchFields are ignored, as the volume filter
    does for the terms of a PersistentVolume."""
    if not (term.expressions or term.fields) or not is_readable_term(term):
        return 0
    nodes = table.all
    for requirement in term.expressions:
        nodes &= _nodes_of_expression(requirement, table)
    if with_fields:
        for requirement in term.fields:
            nodes &= _nodes_of_field(requirement, table) | table.nameless
    return nodes


def nodes_of_terms(
    terms: t.Iterable[NodeTerm], table: NodeTable, *, with_fields: bool = True
) -> NodeSet:
    """The nodes that any of OR-ed terms matches."""
    nodes = 0
    for term in terms:
        nodes |= nodes_of_term(term, table, with_fields=with_fields)
    return nodes


def nodes_of_placement(placement: Placement, table: NodeTable) -> NodeSet:
    """The nodes that satisfy nodeSelector and required node affinity."""
    nodes = table.all
    for key, value in placement.node_selector:
        nodes &= table.domains(key).get(value, 0)
    if placement.node_terms is not None:
        nodes &= nodes_of_terms(placement.node_terms, table)
    return nodes


def allows_only(placement: Placement, node_name: str, nodes: t.Iterable[Node]) -> bool:
    """Whether nodeSelector and required node affinity allow no node but this one, where an instance runs.
    False where there is neither, and where the node is not among `nodes` (they may not be readable)."""
    if not placement.node_selector and placement.node_terms is None:
        return False
    known = False
    for node in nodes:
        if node.name == node_name:
            known = True
        elif matches_node(placement, node):
            return False
    return known


def _nodes_of_field(requirement: Requirement, table: NodeTable) -> NodeSet:
    name = requirement.values[0]
    if requirement.key != NAME_FIELD:
        named = table.all if name == "" else 0
    else:
        n = table.numbers.get(name)
        named = 0 if n is None else 1 << n
    return named if requirement.operator == "In" else table.all & ~named


def _nodes_of_expression(requirement: Requirement, table: NodeTable) -> NodeSet:
    operator, key = requirement.operator, requirement.key
    if operator == "In":
        return table.in_domains(key, requirement.values)
    if operator == "NotIn":
        return table.all & ~table.in_domains(key, requirement.values)
    if operator == "Exists":
        return table.with_key(key)
    if operator == "DoesNotExist":
        return table.all & ~table.with_key(key)
    values = [value for value in table.domains(key) if holds(requirement, {key: value})]
    return table.in_domains(key, values)


def narrowed_names(terms: t.Iterable[NodeTerm] | None) -> frozenset[str] | None:
    """The node names that `metadata.name In` leaves, where every term has such a field: the union
    over terms of the intersection inside each. None: not narrowed; empty: the terms conflict."""
    names: frozenset[str] = frozenset()
    for term in terms or ():
        named = [
            frozenset(requirement.values)
            for requirement in term.fields
            if requirement.key == NAME_FIELD and requirement.operator == "In"
        ]
        if not named:
            return None
        names |= frozenset.intersection(*named)
    return names if terms else None


class NodeAffinity:
    """The filter."""

    name = NODE_AFFINITY

    def __init__(self, table: NodeTable) -> None:
        self._table = table

    def nodes(self, pod_info: PodInfo) -> NodeSet:
        return pod_info.placement_info.nodes

    def failure(self, pod_info: PodInfo, n: int) -> FilterStatus | None:
        if pod_info.placement_info.nodes >> n & 1:
            return None
        return FilterStatus(self.name, Code.UNRESOLVABLE, tuple(self._reasons(pod_info, n)))

    def _reasons(self, pod_info: PodInfo, n: int) -> t.Iterator[FilterReason]:
        placement = pod_info.pod.placement
        node = self._table.nodes[n]
        conflict = narrowed_names(placement.node_terms) == frozenset()
        if conflict:
            yield FilterReason(
                "name-conflict", "no node name satisfies the metadata.name fields of any term"
            )
        for key, value in placement.node_selector:
            if node.labels.get(key) != value:
                requirement = Requirement(key, "In", (value,))
                text = f"nodeSelector requires {_seen(requirement, node)}"
                yield FilterReason("node-affinity", text, requirement)
        if placement.node_terms is None or conflict or matches_terms(placement.node_terms, node):
            return
        if not placement.node_terms:
            yield FilterReason(
                "node-affinity", "the list of node terms is empty: it matches no node"
            )
        for term in placement.node_terms:
            yield FilterReason("node-affinity", _mismatch(term, node), term)


def _mismatch(term: NodeTerm, node: Node) -> str:
    if not (term.expressions or term.fields):
        return "an empty node term matches no node"
    if not is_readable_term(term):
        return "a node term that the scheduler cannot parse matches no node"
    failing = [
        _seen(requirement, node)
        for requirement in term.expressions
        if not holds(requirement, node.labels)
    ]
    failing += [
        f"{requirement.key} {requirement.operator} {list(requirement.values)}, which is {node.name}"
        for requirement in term.fields
        if not field_holds(requirement, node.name)
    ]
    return "node affinity requires " + " and ".join(failing)


def _seen(requirement: Requirement, node: Node) -> str:
    values = f" ({', '.join(requirement.values)})" if requirement.values else ""
    value = node.labels.get(requirement.key)
    has = f"has no label {requirement.key}" if value is None else f"has '{value}'"
    return f"{requirement.key} {requirement.operator}{values}; node {node.name} {has}"
