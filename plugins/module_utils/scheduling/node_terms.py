# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Whether one node satisfies node terms: what the filter asks, for who needs no index.

Source: component-helpers scheduling/corev1/nodeaffinity.
"""

from __future__ import annotations

import typing as t

from ..model.objects import Node, NodeTerm, Placement, Requirement
from .selectors import holds, is_readable

NAME_FIELD = "metadata.name"


def is_readable_term(term: NodeTerm) -> bool:
    """Whether the scheduler can parse a term; one that it cannot matches no node."""
    return all(is_readable(each, of_nodes=True) for each in term.expressions) and all(
        each.operator in ("In", "NotIn") and len(each.values) == 1 for each in term.fields
    )


def matches_term(term: NodeTerm, node: Node) -> bool:
    """Whether a term matches: everything in it holds. An empty or malformed one never does."""
    if not (term.expressions or term.fields) or not is_readable_term(term):
        return False
    return all(holds(each, node.labels) for each in term.expressions) and (
        not node.name or all(field_holds(each, node.name) for each in term.fields)
    )


def matches_terms(terms: t.Iterable[NodeTerm], node: Node) -> bool:
    """Whether any of OR-ed terms matches."""
    return any(matches_term(term, node) for term in terms)


def matches_node(placement: Placement, node: Node) -> bool:
    """Whether a node satisfies nodeSelector and required node affinity."""
    if any(node.labels.get(key) != value for key, value in placement.node_selector):
        return False
    return placement.node_terms is None or matches_terms(placement.node_terms, node)


def field_holds(requirement: Requirement, name: str) -> bool:
    """One of matchFields; metadata.name is the only field there is."""
    value = name if requirement.key == NAME_FIELD else ""
    return (value == requirement.values[0]) == (requirement.operator == "In")
