# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""When do two objects declare the same term, and how is a term put in words?

A canonical term ignores order, what KubeVirt adds (kubevirt.labels), and whether the API server has
resolved matchLabelKeys yet: at pod creation it appends `key In [own value]`, `key NotIn [own value]`.
Descriptions are shown only; nothing is decided by them.
"""

from __future__ import annotations

import enum
import typing as t
from dataclasses import dataclass, field, replace
from functools import cached_property

from ..kubevirt import labels as platform_terms
from ..model.json_pointer import JSON
from ..model.objects import (
    Labels,
    NodeTerm,
    Placement,
    PodTerm,
    Requirement,
    Selector,
    SpreadConstraint,
    Toleration,
    next_number,
)
from ..model.placement_manifests import placement_from_spec
from ..model.rendering import label_text, one_line, value_text
from ..model.topology import Topology

if t.TYPE_CHECKING:
    from ..model.write import Write


class TermKind(str, enum.Enum):
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
        TermKind.PREFERRED_NODE_AFFINITY,
        TermKind.PREFERRED_AFFINITY,
        TermKind.PREFERRED_ANTI_AFFINITY,
        TermKind.PREFERRED_SPREAD,
    }
)


@dataclass(frozen=True, slots=True)
class Term:
    """One term. `value` is canonical; `source` is the model value that it was made from."""

    kind: TermKind
    value: t.Hashable
    source: t.Any = field(default=None, compare=False)
    weight: int = 0
    number: int = field(default_factory=next_number, init=False, compare=False, repr=False)

    @property
    def preferred(self) -> bool:
        return self.kind in PREFERRED


class TermSet:
    """The terms of a placement, made when they are first asked for."""

    def __init__(self, placement: Placement, labels: Labels | None = None) -> None:
        self._placement = placement
        self._labels = labels or {}

    @cached_property
    def terms(self) -> frozenset[Term]:
        return frozenset(terms_of(self._placement, self._labels))

    @cached_property
    def ordered(self) -> tuple[Term, ...]:
        """The terms in an order that does not change."""
        return tuple(sorted(self.terms, key=lambda x: (x.kind, str(x.source))))


def terms_of(placement: Placement, labels: Labels) -> tuple[Term, ...]:
    """The terms of a placement, required node affinity as one. `labels` are those of the pod that
    has it: they show what matchLabelKeys resolved to."""
    terms = [Term(TermKind.NODE_SELECTOR, pair, pair) for pair in placement.node_selector]
    if placement.node_terms is not None and (any_of := node_terms(placement.node_terms)):
        terms.append(Term(TermKind.NODE_AFFINITY, any_of, placement.node_terms))
    terms += [
        Term(TermKind.PREFERRED_NODE_AFFINITY, _node_term(term), term, weight)
        for weight, term in placement.preferred_node_terms
    ]
    terms += [Term(TermKind.AFFINITY, pod_term(x, labels), x) for x in placement.affinity]
    terms += [Term(TermKind.ANTI_AFFINITY, pod_term(x, labels), x) for x in placement.anti_affinity]
    terms += [
        Term(kind, pod_term(term, labels), term, weight)
        for kind, weighted in (
            (TermKind.PREFERRED_AFFINITY, placement.preferred_affinity),
            (TermKind.PREFERRED_ANTI_AFFINITY, placement.preferred_anti_affinity),
        )
        for weight, term in weighted
    ]
    terms += [spread_term(constraint, labels) for constraint in placement.spread]
    terms += [Term(TermKind.TOLERATION, x, x) for x in placement.tolerations]
    return tuple(terms)


def pod_terms_of(placement: Placement) -> tuple[PodTerm, ...]:
    """All terms about other pods, required and preferred."""
    return (
        *placement.affinity,
        *placement.anti_affinity,
        *(term for _weight, term in placement.preferred_affinity),
        *(term for _weight, term in placement.preferred_anti_affinity),
    )


def added_by_platform(term: Term) -> bool:
    """Whether KubeVirt or Kubernetes adds the term to pods that do not declare it."""
    source = term.source
    if term.kind is TermKind.NODE_SELECTOR:
        return platform_terms.adds_node_key(source[0])
    if term.kind is TermKind.TOLERATION:
        return platform_terms.adds_toleration(t.cast(Toleration, source))
    return term.kind is TermKind.ANTI_AFFINITY and platform_terms.adds_anti_affinity(source)


def node_terms(any_of: t.Iterable[NodeTerm]) -> frozenset[t.Hashable]:
    """OR-ed node terms without the expressions that KubeVirt adds. If a term has nothing else, the
    user requires nothing, since the other terms are alternatives to it."""
    canonical = {_node_term(term) for term in any_of}
    if any(not expressions and not fields for expressions, fields in canonical):
        return frozenset()
    return frozenset(canonical)


def without_platform(term: Term) -> Term:
    """The term without what KubeVirt adds to it."""
    if term.kind is not TermKind.NODE_AFFINITY:
        return term
    source = (
        replace(alternative, expressions=_declared(alternative)) for alternative in term.source
    )
    return replace(term, source=tuple(source))


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
    return Term(TermKind.SPREAD if hard else TermKind.PREFERRED_SPREAD, value, constraint)


def requirements_of(term: Term) -> tuple[Requirement, ...]:
    """The node labels that a term asks about."""
    if term.kind is TermKind.NODE_SELECTOR:
        key, value = term.source
        return (Requirement(key, "In", (value,)),)
    if term.kind is TermKind.NODE_AFFINITY:
        return tuple(part for alternative in term.source for part in alternative.expressions)
    if isinstance(term.source, NodeTerm):
        return term.source.expressions
    return ()


def requirement(source: Requirement) -> tuple[str, str, frozenset[str]]:
    return source.key, source.operator, frozenset(source.values)


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
    keys: set[str] = set()
    for placement in placements:
        for term in pod_terms_of(placement):
            keys.update(_selected(term.selector), term.match_label_keys, term.mismatch_label_keys)
        for constraint in placement.spread:
            keys.update(_selected(constraint.selector), constraint.match_label_keys)
    return frozenset(keys)


def _selected(selector: Selector | None) -> tuple[str, ...]:
    return tuple(part.key for part in selector.requirements) if selector is not None else ()


NO_SELECTOR = "no selector"


def describe(term: Term, topology: Topology) -> str:
    """`pod anti-affinity over zone to app In (web)`."""
    source = term.source
    if term.kind is TermKind.NODE_SELECTOR:
        return f"{term.kind} {label_text(*source)}"
    if term.kind is TermKind.NODE_AFFINITY:
        return f"{term.kind} {' or '.join(map(node_term, source))}"
    if term.kind is TermKind.PREFERRED_NODE_AFFINITY:
        return f"{term.kind} {node_term(source)}"
    if term.kind is TermKind.TOLERATION:
        return f"{term.kind} of {t.cast(Toleration, source).key or 'every taint'}"
    if isinstance(source, SpreadConstraint):
        over = topology.name_of(source.topology_key)
        return f"{term.kind} over {over} of {selector(source.selector)}, max_skew {source.max_skew}"
    return f"{term.kind} over {topology.name_of(source.topology_key)} to {pods_of(source)}"


def pods_of(term: PodTerm) -> str:
    """The pods that a term selects."""
    where = ""
    if term.namespaces:
        where = f" in {', '.join(term.namespaces)}"
    if term.namespace_selector is not None:
        where += f" in namespaces with {selector(term.namespace_selector)}"
    return f"{selector(term.selector)}{where}"


def selector(source: Selector | None) -> str:
    if source is None:
        return NO_SELECTOR
    return " and ".join(map(requirement_text, source.requirements)) or "everything"


def node_term(term: NodeTerm) -> str:
    parts = (*term.expressions, *term.fields)
    return " and ".join(map(requirement_text, parts)) or "nothing"


def requirement_text(source: Requirement) -> str:
    values = f" ({', '.join(map(value_text, source.values))})" if source.values else ""
    return f"{source.key} {source.operator}{values}"


def term_changes(write: Write, topology: Topology) -> list[str]:
    """`- node affinity zone In (a)`, `+ rule shop/default/web-apart`. Of a policy for workloads that are created later
    `+ at creation of VirtualMachine db-2: rule shop/default/web-apart, ...`, with those for which something changes."""
    before, after = (_words(side, topology) for side in (write.before, write.after))
    had, have = (_of_new_members(side, topology) for side in (write.before, write.after))
    return [
        *(f"- {text}" for text in before if text not in after),
        *(f"+ {text}" for text in after if text not in before),
        *_differing("-", had, have),
        *_differing("+", have, had),
    ]


_OfNewMembers = t.Mapping[str, t.Collection[str]]


def _of_new_members(side: JSON, topology: Topology) -> _OfNewMembers:
    """What a policy gives, each with the new workloads that get it."""
    given: dict[str, list[str]] = {}
    for member in (side or {}).get("new_members") or ():
        what = ", ".join(_words(member, topology))
        text = f"warning without {what}" if member.get("warns") else what
        given.setdefault(text, []).extend(member["workloads"])
    return given


def _differing(sign: str, given: _OfNewMembers, other: _OfNewMembers) -> t.Iterator[str]:
    for what, workloads in given.items():
        if names := [x for x in workloads if x not in other.get(what, ())]:
            yield one_line(f"{sign} at creation of {', '.join(names)}: {what}")


def _words(side: JSON, topology: Topology) -> dict[str, None]:
    """Of one side of a diff, in order: its rules, those that are not enabled, the terms and the labels."""
    shown: dict[str, JSON] = side or {}
    resting = shown.get("resting") or ()
    texts = [
        f"rule {rule}{', not enabled' if rule in resting else ''}"
        for rule in shown.get("rules") or ()
    ]
    for term in TermSet(placement_from_spec(shown)).ordered:
        weight = f", weight {term.weight}" if term.weight else ""
        texts.append(f"{describe(term, topology)}{weight}")
    texts += [f"label {label_text(*pair)}" for pair in (shown.get("labels") or {}).items()]
    return dict.fromkeys(map(one_line, texts))
