# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The nodes of a table that nodeSelector and required node affinity leave.

Source: component-helpers scheduling/corev1/nodeaffinity.
"""

from __future__ import annotations

import typing as t

from ..model.objects import NodeTerm, Placement, Requirement
from .node_table import NodeSet, NodeTable
from .node_terms import NAME_FIELD, is_readable_term
from .syntax import parse_integer


def nodes_of_term(term: NodeTerm, table: NodeTable, *, with_fields: bool = True) -> NodeSet:
    """The nodes that a term matches. Without fields, matchFields are passed over: so the volume
    filter reads the terms of a PersistentVolume."""
    if not (term.expressions or term.fields) or not is_readable_term(term):
        return 0
    found = table.all
    for each in term.expressions:
        found &= _nodes_of_expression(each, table)
    if with_fields:
        for each in term.fields:
            found &= _nodes_of_field(each, table) | table.nameless
    return found


def nodes_of_terms(
    terms: t.Iterable[NodeTerm], table: NodeTable, *, with_fields: bool = True
) -> NodeSet:
    """The nodes that any of OR-ed terms matches."""
    found = 0
    for term in terms:
        found |= nodes_of_term(term, table, with_fields=with_fields)
    return found


def nodes_of_placement(placement: Placement, table: NodeTable) -> NodeSet:
    """The nodes that satisfy nodeSelector and required node affinity."""
    found = table.all
    for key, value in placement.node_selector:
        found &= table.domains(key).get(value, 0)
    if placement.node_terms is not None:
        found &= nodes_of_terms(placement.node_terms, table)
    return found


def _nodes_of_field(requirement: Requirement, table: NodeTable) -> NodeSet:
    wanted = requirement.values[0]
    if requirement.key != NAME_FIELD:
        named = table.all if wanted == "" else 0
    else:
        n = table.numbers.get(wanted)
        named = 0 if n is None else 1 << n
    return named if requirement.operator == "In" else table.all & ~named


def _nodes_of_expression(requirement: Requirement, table: NodeTable) -> NodeSet:
    operator, key = requirement.operator, requirement.key
    if operator == "In":
        return table.in_domains(key, requirement.values)
    if operator == "NotIn":
        return table.all & ~table.in_domains(key, requirement.values)
    if operator == "Exists":
        return table.carrying(key)
    if operator == "DoesNotExist":
        return table.all & ~table.carrying(key)
    bound = parse_integer(requirement.values[0])
    values = ((value, parse_integer(value)) for value in table.domains(key))
    return table.in_domains(
        key,
        (
            value
            for value, number in values
            if number is not None
            and bound is not None
            and (number > bound if operator == "Gt" else number < bound)
        ),
    )
