# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Terms in words, for reasons, findings and tables. Nothing is decided by what stands here."""

from __future__ import annotations

import typing as t

from ..model.objects import (
    NodeTerm,
    PodTerm,
    Requirement,
    Selector,
    SpreadConstraint,
    Toleration,
)
from ..model.topology import Topology
from .terms import Kind, Term

NO_SELECTOR = "no selector"


def describe(term: Term, topology: Topology) -> str:
    """`pod anti-affinity over zone to app In (web)`."""
    said = term.said
    if term.kind is Kind.NODE_SELECTOR:
        return f"{term.kind} {said[0]}={said[1]}"
    if term.kind is Kind.NODE_AFFINITY:
        return f"{term.kind} {' or '.join(map(node_term, said))}"
    if term.kind is Kind.PREFERRED_NODE_AFFINITY:
        return f"{term.kind} {node_term(said)}"
    if term.kind is Kind.TOLERATION:
        return f"{term.kind} of {t.cast(Toleration, said).key or 'every taint'}"
    if isinstance(said, SpreadConstraint):
        over = topology.name_of(said.topology_key)
        return f"{term.kind} over {over} of {selector(said.selector)}, max_skew {said.max_skew}"
    return f"{term.kind} over {topology.name_of(said.topology_key)} to {pods_of(said)}"


def pods_of(term: PodTerm) -> str:
    """The pods that a term selects."""
    where = ""
    if term.namespaces:
        where = f" in {', '.join(term.namespaces)}"
    if term.namespace_selector is not None:
        where += f" in namespaces with {selector(term.namespace_selector)}"
    return f"{selector(term.selector)}{where}"


def selector(said: Selector | None) -> str:
    if said is None:
        return NO_SELECTOR
    return " and ".join(map(requirement, said.requirements)) or "everything"


def node_term(term: NodeTerm) -> str:
    parts = (*term.expressions, *term.fields)
    return " and ".join(map(requirement, parts)) or "nothing"


def requirement(said: Requirement) -> str:
    values = f" ({', '.join(said.values)})" if said.values else ""
    return f"{said.key} {said.operator}{values}"


def listed(names: t.Collection[str], most: int = 5, *, count: int | None = None) -> str:
    """`a, b, c and 4 more`. `count`: how many there are, where `names` are only the first."""
    shown = list(names)[:most]
    rest = (len(names) if count is None else count) - len(shown)
    return f"{', '.join(shown)} and {rest} more" if rest else ", ".join(shown)
