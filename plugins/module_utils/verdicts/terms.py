# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Placement terms in a form that compares: what two objects say alike is equal here.

Order does not matter, nor does whether the API server has resolved matchLabelKeys yet (it appends
`key In [own value]`, `key NotIn [own value]` at pod creation), nor what platform_terms lists.
"""

from __future__ import annotations

import enum
import typing as t
from dataclasses import dataclass, field, replace

from ..model.objects import (
    Labels,
    NodeTerm,
    Placement,
    PodTerm,
    Requirement,
    Selector,
    SpreadConstraint,
    Toleration,
)
from . import platform_terms


class Kind(str, enum.Enum):
    NODE_SELECTOR = "nodeSelector"
    NODE_AFFINITY = "node affinity"
    PREFERRED_NODE_AFFINITY = "preferred node affinity"
    AFFINITY = "pod affinity"
    PREFERRED_AFFINITY = "preferred pod affinity"
    ANTI_AFFINITY = "pod anti-affinity"
    PREFERRED_ANTI_AFFINITY = "preferred pod anti-affinity"
    SPREAD = "spread"
    PREFERRED_SPREAD = "preferred spread"
    TOLERATION = "toleration"

    def __str__(self) -> str:
        return self.value


PREFERRED = frozenset(
    {
        Kind.PREFERRED_NODE_AFFINITY,
        Kind.PREFERRED_AFFINITY,
        Kind.PREFERRED_ANTI_AFFINITY,
        Kind.PREFERRED_SPREAD,
    }
)


@dataclass(frozen=True, slots=True)
class Term:
    """One term. `value` is canonical; `said` is the model value that it was made from."""

    kind: Kind
    value: t.Hashable
    said: t.Any = field(default=None, compare=False)
    weight: int = 0

    @property
    def preferred(self) -> bool:
        return self.kind in PREFERRED


class TermSet:
    """The terms of a placement, worked out when they are first asked for."""

    __slots__ = ("_labels", "_placement", "_terms")

    def __init__(self, placement: Placement, labels: Labels | None = None) -> None:
        self._placement = placement
        self._labels = labels or {}
        self._terms: frozenset[Term] | None = None

    @property
    def terms(self) -> frozenset[Term]:
        if self._terms is None:
            self._terms = frozenset(terms_of(self._placement, self._labels))
        return self._terms


def terms_of(placement: Placement, labels: Labels) -> tuple[Term, ...]:
    """The terms of a placement, required node affinity as one. `labels` are those of the pod that
    carries it: they tell what matchLabelKeys resolved to."""
    found = [Term(Kind.NODE_SELECTOR, pair, pair) for pair in placement.node_selector]
    if placement.node_terms is not None and (any_of := node_terms(placement.node_terms)):
        found.append(Term(Kind.NODE_AFFINITY, any_of, placement.node_terms))
    found += [
        Term(Kind.PREFERRED_NODE_AFFINITY, _node_term(term), term, weight)
        for weight, term in placement.preferred_node_terms
    ]
    found += [Term(Kind.AFFINITY, pod_term(x, labels), x) for x in placement.affinity]
    found += [Term(Kind.ANTI_AFFINITY, pod_term(x, labels), x) for x in placement.anti_affinity]
    found += [
        Term(kind, pod_term(term, labels), term, weight)
        for kind, weighted in (
            (Kind.PREFERRED_AFFINITY, placement.preferred_affinity),
            (Kind.PREFERRED_ANTI_AFFINITY, placement.preferred_anti_affinity),
        )
        for weight, term in weighted
    ]
    found += [spread_term(constraint, labels) for constraint in placement.spread]
    found += [Term(Kind.TOLERATION, x, x) for x in placement.tolerations]
    return tuple(found)


def pod_terms_of(placement: Placement) -> tuple[PodTerm, ...]:
    """All terms about other pods, required and preferred."""
    return (
        *placement.affinity,
        *placement.anti_affinity,
        *(term for _weight, term in placement.preferred_affinity),
        *(term for _weight, term in placement.preferred_anti_affinity),
    )


def added_by_platform(term: Term) -> bool:
    """Whether the term may stand on a pod that nobody declared it for."""
    said = term.said
    if term.kind is Kind.NODE_SELECTOR:
        return platform_terms.adds_node_key(said[0])
    if term.kind is Kind.TOLERATION:
        return platform_terms.adds_toleration(t.cast(Toleration, said))
    return term.kind is Kind.ANTI_AFFINITY and platform_terms.adds_anti_affinity(said)


def node_terms(any_of: t.Iterable[NodeTerm]) -> frozenset[t.Hashable]:
    """OR-ed node terms without the expressions that KubeVirt adds. A term that says nothing but
    those is no constraint of the user's, and neither are the others beside it then."""
    found = {_node_term(term) for term in any_of}
    if any(not expressions and not fields for expressions, fields in found):
        return frozenset()
    return frozenset(found)


def without_platform(term: Term) -> Term:
    """The term with nothing but what people declare said in it."""
    if term.kind is not Kind.NODE_AFFINITY:
        return term
    said = (replace(each, expressions=_declared(each)) for each in term.said)
    return replace(term, said=tuple(said))


def pod_term(term: PodTerm, labels: Labels) -> t.Hashable:
    """The canonical form of a pod term of a pod with these labels."""
    resolved = _resolved(term.match_label_keys, "In", labels)
    resolved |= _resolved(term.mismatch_label_keys, "NotIn", labels)
    return (
        term.topology_key,
        _selector(term.selector, resolved),
        frozenset(term.namespaces),
        _selector(term.namespace_selector, frozenset()),
        frozenset(term.match_label_keys),
        frozenset(term.mismatch_label_keys),
    )


def spread_term(constraint: SpreadConstraint, labels: Labels) -> Term:
    """The term of a topology spread constraint of a pod with these labels."""
    hard = constraint.when_unsatisfiable == "DoNotSchedule"
    resolved = _resolved(constraint.match_label_keys, "In", labels)
    value = (
        constraint.topology_key,
        constraint.max_skew,
        _selector(constraint.selector, resolved),
        frozenset(constraint.match_label_keys),
        constraint.min_domains or 1,
        constraint.node_affinity_policy,
        constraint.node_taints_policy,
    )
    return Term(Kind.SPREAD if hard else Kind.PREFERRED_SPREAD, value, constraint)


def requirements_of(term: Term) -> tuple[Requirement, ...]:
    """The node labels that a term asks about."""
    if term.kind is Kind.NODE_SELECTOR:
        key, value = term.said
        return (Requirement(key, "In", (value,)),)
    if term.kind is Kind.NODE_AFFINITY:
        return tuple(part for each in term.said for part in each.expressions)
    if isinstance(term.said, NodeTerm):
        return term.said.expressions
    return ()


def requirement(said: Requirement) -> tuple[str, str, frozenset[str]]:
    return said.key, said.operator, frozenset(said.values)


def _node_term(term: NodeTerm) -> tuple[frozenset[t.Hashable], frozenset[t.Hashable]]:
    return frozenset(map(requirement, _declared(term))), frozenset(map(requirement, term.fields))


def _declared(term: NodeTerm) -> tuple[Requirement, ...]:
    return tuple(x for x in term.expressions if not platform_terms.adds_node_key(x.key))


def _selector(
    selector: Selector | None, resolved: frozenset[t.Hashable]
) -> frozenset[t.Hashable] | None:
    if selector is None:
        return None
    return frozenset(map(requirement, selector.requirements)) - resolved


def _resolved(keys: t.Iterable[str], operator: str, labels: Labels) -> frozenset[t.Hashable]:
    return frozenset((k, operator, frozenset((labels[k],))) for k in keys if k in labels)


def selecting_keys(placements: t.Iterable[Placement]) -> frozenset[str]:
    """The label keys that terms of these placements select pods by."""
    found: set[str] = set()
    for placement in placements:
        for term in pod_terms_of(placement):
            found.update(_selected(term.selector), term.match_label_keys, term.mismatch_label_keys)
        for constraint in placement.spread:
            found.update(_selected(constraint.selector), constraint.match_label_keys)
    return frozenset(found)


def _selected(selector: Selector | None) -> tuple[str, ...]:
    return tuple(each.key for each in selector.requirements) if selector is not None else ()
