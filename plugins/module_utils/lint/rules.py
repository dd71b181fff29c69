# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Rules as carriers of terms before anything is looked up: each workload that they name becomes one.

The terms are those of the compile table, with the group's selector put in as a label that stands
for it: who the members really are is not known here.
"""

from __future__ import annotations

import typing as t
from dataclasses import replace

from ..model.kinds import KINDS
from ..model.manifest import placement_from_spec
from ..model.names import GROUP
from ..model.objects import (
    NodeTerm,
    Placement,
    PodTerm,
    Ref,
    Requirement,
    Selector,
    SpreadConstraint,
)
from ..model.rule import (
    Avoid,
    KeepApart,
    KeepTogether,
    PodSelector,
    Rule,
    RunOn,
    SpreadOver,
    Target,
    Terms,
    WorkloadSelector,
)
from ..rules.compile import POD_TEMPLATE_HASH
from ..verdicts.declared import Declared
from ..verdicts.platform_terms import CREATED_BY
from ..verdicts.terms import Term, TermSet, terms_of
from .scene import ANY_VALUE, Subject


def subjects_of(rules: t.Iterable[Rule]) -> tuple[Subject, ...]:
    """The workloads that the rules name, targets too, each with the terms of all its rules."""
    listed = tuple(rules)
    named = [*(rule.workloads for rule in listed), *map(_workload_targets, listed)]
    carriers = {ref: None for references in named for ref in _refs(references)}
    return tuple(_subject(ref, listed) for ref in carriers)


def _subject(ref: Ref, rules: t.Sequence[Rule]) -> Subject:
    placement = Placement()
    labels = _labels(ref, rules)
    owners: dict[Term, tuple[str, ...]] = {}
    for rule in rules:
        if ref not in _refs(rule.workloads):
            continue
        own = _placement(rule, ref)
        for term in terms_of(own, {}):
            owners[term] = (*owners.get(term, ()), str(rule.id))
        placement = _joined(placement, own)
    declared = Declared(ref, placement, labels, TermSet(placement), owners=owners)
    return Subject(ref, declared, labels, KINDS[ref.kind].virtual_machines)


def _refs(references: t.Iterable[WorkloadSelector]) -> list[Ref]:
    """One for each name; one for all that are chosen by labels."""
    found = []
    for each in references:
        chosen = ",".join(f"{k}={v}" for k, v in sorted((each.labels or {}).items()))
        names = each.names if each.labels is None else (f"({chosen})",)
        found += [Ref(each.kind, each.namespace, name) for name in names]
    return found


def _labels(ref: Ref, rules: t.Iterable[Rule]) -> dict[str, str]:
    """What stands for the groups and targets that a workload is in, and the labels that chose it."""
    labels = {CREATED_BY: ANY_VALUE}
    for rule in rules:
        for each in rule.workloads:
            if ref in _refs((each,)):
                labels.update(each.labels or {})
                labels[_group_label(rule)] = "true"
                labels.update([rule.label] if rule.label is not None else [])
        for number, target in enumerate(_targets(rule)):
            if isinstance(target, WorkloadSelector) and ref in _refs((target,)):
                labels[_target_label(rule, number)] = "true"
    return labels


def _targets(rule: Rule) -> tuple[Target, ...]:
    verb = rule.verb
    if isinstance(verb, KeepApart):
        return verb.others
    if isinstance(verb, KeepTogether) and verb.target is not None:
        return (verb.target,)
    return ()


def _workload_targets(rule: Rule) -> tuple[WorkloadSelector, ...]:
    return tuple(each for each in _targets(rule) if isinstance(each, WorkloadSelector))


def _placement(rule: Rule, ref: Ref) -> Placement:
    verb = rule.verb
    if isinstance(verb, (RunOn, Avoid)):
        return _nodes(rule, verb)
    if isinstance(verb, KeepApart):
        return _apart(rule, verb, ref)
    if isinstance(verb, KeepTogether):
        chosen = [_group(rule)] if verb.target is None else _chosen(rule)
        terms = tuple(PodTerm(verb.over, selector, names) for selector, names in chosen)
        return _pod_terms(rule, terms, apart=False)
    if isinstance(verb, SpreadOver):
        action = "ScheduleAnyway" if rule.preferred else "DoNotSchedule"
        constraint = SpreadConstraint(
            verb.over, verb.max_skew, action, _group(rule)[0], node_taints_policy="Honor"
        )
        return Placement(spread=(constraint,))
    if isinstance(verb, Terms):
        return placement_from_spec(verb.fields)
    return Placement()


def _nodes(rule: Rule, verb: RunOn | Avoid) -> Placement:
    operator = "In" if isinstance(verb, RunOn) else "NotIn"
    term = NodeTerm(tuple(Requirement(key, operator, values) for key, values in verb.nodes))
    if rule.preferred:
        return Placement(preferred_node_terms=((rule.weight, term),))
    return Placement(node_terms=(term,))


def _apart(rule: Rule, verb: KeepApart, ref: Ref) -> Placement:
    if verb.others:
        terms = tuple(PodTerm(verb.over, selector, names) for selector, names in _chosen(rule))
        return _pod_terms(rule, terms, apart=True)
    selector, names = _group(rule)
    if KINDS[ref.kind].virtual_machines:
        term = PodTerm(verb.over, selector, names, mismatch_label_keys=(CREATED_BY,))
    elif verb.strict:
        term = PodTerm(verb.over, selector, names)
    else:
        term = PodTerm(verb.over, selector, names, match_label_keys=(POD_TEMPLATE_HASH,))
    return _pod_terms(rule, (term,), apart=True)


def _pod_terms(rule: Rule, terms: tuple[PodTerm, ...], *, apart: bool) -> Placement:
    if rule.preferred:
        weighted = tuple((rule.weight, term) for term in terms)
        if apart:
            return Placement(preferred_anti_affinity=weighted)
        return Placement(preferred_affinity=weighted)
    return Placement(anti_affinity=terms) if apart else Placement(affinity=terms)


def _group(rule: Rule) -> tuple[Selector, tuple[str, ...]]:
    key, value = rule.label or (_group_label(rule), "true")
    return Selector((Requirement(key, "In", (value,)),)), ()


def _chosen(rule: Rule) -> list[tuple[Selector, tuple[str, ...]]]:
    """The selector and namespaces of each target."""
    found = []
    for number, target in enumerate(_targets(rule)):
        pairs = {_target_label(rule, number): "true"}
        names: tuple[str, ...] = ()
        if isinstance(target, PodSelector):
            pairs, names = dict(target.labels), target.namespaces
        elif target.namespace != rule.id.namespace:
            names = (target.namespace,)
        parts = tuple(Requirement(key, "In", (value,)) for key, value in sorted(pairs.items()))
        found.append((Selector(parts), names))
    return found


def _group_label(rule: Rule) -> str:
    return f"{GROUP}{rule.id.set}-{rule.id.name}"


def _target_label(rule: Rule, number: int) -> str:
    return f"{GROUP}{rule.id.set}-{rule.id.name}-target{number}"


def _joined(one: Placement, other: Placement) -> Placement:
    """Both at once: node terms are AND-ed, lists are put together."""
    terms = one.node_terms if other.node_terms is None else other.node_terms
    if one.node_terms is not None and other.node_terms is not None:
        terms = tuple(
            NodeTerm((*a.expressions, *b.expressions), (*a.fields, *b.fields))
            for a in one.node_terms
            for b in other.node_terms
        )
    return replace(
        one,
        node_selector=(*one.node_selector, *other.node_selector),
        node_terms=terms,
        preferred_node_terms=(*one.preferred_node_terms, *other.preferred_node_terms),
        affinity=(*one.affinity, *other.affinity),
        anti_affinity=(*one.anti_affinity, *other.anti_affinity),
        preferred_affinity=(*one.preferred_affinity, *other.preferred_affinity),
        preferred_anti_affinity=(*one.preferred_anti_affinity, *other.preferred_anti_affinity),
        spread=(*one.spread, *other.spread),
        tolerations=(*one.tolerations, *other.tolerations),
    )
