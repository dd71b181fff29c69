# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which required pod affinity can never be met, or ties workloads to each other?"""

from __future__ import annotations

import heapq
import typing as t
from collections import defaultdict
from dataclasses import replace

from ..compliance.terms import Term, TermKind
from ..kinds.registry import DEFAULT_KIND, kind_of
from ..model.findings import Finding, rules_text
from ..model.objects import Ref
from ..model.placement_manifests import CREATED_BY
from ..model.rendering import listed
from ..model.topology import HOSTNAME
from .capacity import to_run
from .lint_input import (
    LintedWorkload,
    LintInput,
    of_each_rule,
    pod_term_of,
    without_node_terms,
)


def required_affinity_findings(lint_input: LintInput) -> t.Iterator[Finding]:
    needs = _Needs(lint_input)
    for subject in lint_input.subjects:
        for term in subject.terms:
            if term.kind is TermKind.AFFINITY:
                yield from _of_term(lint_input, subject, term, needs)


class _Needs:
    """`may_be_first` are workloads that need themselves: their first pod needs no other."""

    def __init__(self, lint_input: LintInput) -> None:
        self._lint_input = lint_input
        self._by_terms: dict[tuple[frozenset[Ref], ...], _Refs] = {}
        self._by_refs: dict[frozenset[Ref], _Refs] = {}
        self._owners: dict[_Refs, dict[_Refs, set[Ref]]] = {}
        self._partners: dict[tuple[_Refs, ...], _Refs] = {}
        self._of: dict[Ref, _Refs] = {}
        self.may_be_first: set[Ref] = set()
        both: dict[tuple[_Refs, _Refs], _Refs] = {}
        for subject in lint_input.all_subjects:
            leaders = self.leaders(subject)
            if subject.ref in leaders.refs:
                self.may_be_first.add(subject.ref)
            other = self._of.setdefault(subject.ref, leaders)
            if other is not leaders:  # what each form of it needs
                if (other, leaders) not in both:
                    both[other, leaders] = self._group(frozenset(other.refs & leaders.refs))
                self._of[subject.ref] = both[other, leaders]

    def leaders(self, subject: LintedWorkload) -> _Refs:
        """The workloads of which one must run near before a pod of a workload can run: those that all its required
        terms select, since one pod has to match them all. Equal sets are one object."""
        terms = tuple(
            self._lint_input.selected_refs(subject, term)
            for term in subject.declared.terms
            if term.kind is TermKind.AFFINITY
        )
        if terms not in self._by_terms:
            self._by_terms[terms] = self._group(
                frozenset.intersection(*terms) if terms else frozenset()
            )
        return self._by_terms[terms]

    def _group(self, refs: frozenset[Ref]) -> _Refs:
        return self._by_refs.setdefault(refs, _Refs(refs))

    def partners(self, subject: LintedWorkload) -> _Refs:
        """The workloads that the workload needs, and that need it; itself, if it needs itself."""
        leaders, ref = self.leaders(subject), subject.ref
        if leaders not in self._owners:
            owners = self._owners[leaders] = defaultdict(set)
            for leader in leaders.refs:
                owners[self._of[leader]].add(leader)
        mutual = {needed: x for needed, x in self._owners[leaders].items() if ref in needed.refs}
        key = leaders, *mutual
        if key not in self._partners:
            self._partners[key] = _Refs(frozenset().union(*mutual.values()))
        return self._partners[key]


def _of_term(
    lint_input: LintInput, subject: LintedWorkload, term: Term, needs: _Needs
) -> t.Iterator[Finding]:
    leaders, partners = needs.leaders(subject), needs.partners(subject)
    itself = subject.ref in leaders.refs
    if len(partners.refs) > itself or (itself and (subject.replicas or 2) > 1):
        none_is_first = not itself and needs.may_be_first.isdisjoint(partners.refs)
        yield from _mutual(lint_input, subject, term, partners, none_is_first)
    elif finding := _elsewhere(lint_input, subject, term):
        yield from of_each_rule(finding, [finding.rule, *(x for x, _parts in subject.node_rules())])
    elif followed := leaders.but(subject.ref):
        yield subject.finding(
            term,
            "depends_on_other_workload",
            "info",
            f"It follows {followed}: it cannot start, or move to another domain, before these run.",
            "No action is needed if this is intended: a rollout moves the followed workload first.",
        )


def _elsewhere(lint_input: LintInput, subject: LintedWorkload, term: Term) -> Finding | None:
    """A finding where the one workload that a subject follows may run where the subject cannot: it has no node then."""
    selected = lint_input.selected(subject, term)
    if not lint_input.nodes or not selected or len(selected) != 1 or selected[0].ref == subject.ref:
        return None
    if len(lint_input.forms[selected[0].ref]) > 1:
        return None  # one that belongs to another environment may run elsewhere
    leader, key, lasting = selected[0], term.source.topology_key, lint_input.lasting
    own, of_leader = (lasting.eligible_domains(x, key).keys() for x in (subject, leader))
    wider = lasting.eligible_domains(without_node_terms(subject), key).keys()
    missing = sorted((of_leader - own) & wider)
    if not missing or not own:
        return None
    advice = f"Write its node terms for {leader.ref}, too."
    if own <= of_leader:
        advice = f"Let {leader.ref} follow it instead, which can run wherever it can, or write its node terms for both."
    return subject.finding(
        term,
        "depends_on_other_workload",
        "warning",
        f"It follows {leader.ref}, which may run in {lint_input.over(term)} {listed(missing)}, where its own node terms"
        " allow none of its pods: then it has no node.",
        advice,
    )


_NAMED = 5


def _mutual(
    lint_input: LintInput,
    subject: LintedWorkload,
    term: Term,
    partners: _Refs,
    none_is_first: bool,
) -> t.Iterator[Finding]:
    over = lint_input.over(term)
    itself = subject.ref in partners.refs
    others = len(partners.refs) - itself
    first = tuple(sorted({subject.ref, *partners.first})[:_NAMED])
    group = listed(first, count=others + 1)
    reason = f"{group} need one another" if others else "its replicas need one another"
    named = first if others else ()
    domains = lint_input.table.domains(term.source.topology_key).values()
    one_node_each = domains and all(nodes & (nodes - 1) == 0 for nodes in domains)
    if subject.is_vm and (term.source.topology_key == HOSTNAME or one_node_each):
        kind = "" if first[0].kind == DEFAULT_KIND else f"kind: {first[0].kind}, "
        follow_one = (
            f"Let the others follow one of them (keep_together: {{topology_key: {over}, with: {{{kind}name:"
            f" {first[0].name}}}}}), or make the term preferred."
        )
        finding = subject.finding(
            term,
            "mutual_affinity",
            "error",
            f"The VMs can never be live-migrated: they must share a node, since {reason}.",
            follow_one if others else "Make the term preferred.",
            named=named,
        )
        yield replace(finding, never_migrates=True)
    elif none_is_first:
        yield subject.finding(
            term,
            "mutual_affinity",
            "error",
            f"Each can start only after a pod that its affinity selects, and {reason}, so none can be the first.",
            "Remove the term from one of them: the others then follow it.",
            named=named,
        )
    elif subject.is_vm:
        yield subject.finding(
            term,
            "mutual_affinity",
            "warning",
            f"The VMs can never be live-migrated to another {over}, since {reason}.",
            "Make the term preferred, or let the others follow one workload.",
            named=named,
        )


NAMED = 7
"""The number of names in a sentence, plus two that it may leave out."""


def remove_one(owners: t.Collection[str]) -> str:
    """What to do about two terms that contradict each other; `owners` are their rules."""
    noun = "rules" if all(owners) and len(set(owners)) > 1 else "terms"
    return f"Remove one of the two {noun}, or make it preferred."


def anti_affinity_among_followers(lint_input: LintInput) -> t.Iterator[Finding]:
    """A VM that has affinity to the same leader as another VM, and anti-affinity with that VM or
    with the leader."""
    following: dict[tuple[str, Ref], set[Ref]] = defaultdict(set)
    for ref, subject in lint_input.by_ref.items():
        for near, leader in _leaders(lint_input, subject):
            following[near.source.topology_key, leader] |= {ref, leader}
    cache: dict[t.Hashable, _Refs] = {}
    for subject in lint_input.subjects:
        for near, leader in _leaders(lint_input, subject):
            key = near.source.topology_key
            for term in _clashing(subject, near):
                away = lint_input.selected(subject, term) or ()
                cache_key = key, leader, away
                if cache_key not in cache:
                    cache[cache_key] = _Refs(
                        following[key, leader] & {avoided.ref for avoided in away}
                    )
                if others := cache[cache_key].but(subject.ref):
                    follow = cache[cache_key].but(subject.ref, leader)
                    also = f", like {follow}" if follow else ""
                    yield from _contradiction(
                        lint_input, subject, (near, str(leader), also), (term, others)
                    )


def affinity_and_anti_affinity_to_same_vms(lint_input: LintInput) -> t.Iterator[Finding]:
    """A VM that has affinity to the VMs of its group and anti-affinity with each of them. The first
    of them may run alone (the scheduler admits a first pod that its own term selects), so two that
    are to run are one too many."""
    cache: dict[t.Hashable, _Refs | None] = {}
    for subject in lint_input.subjects:
        for near in subject.terms if _is_vm(subject) and to_run(subject) else ():
            if near.kind is not TermKind.AFFINITY or not lint_input.selects_itself(subject, near):
                continue
            group = lint_input.selected(subject, near) or ()
            for term in _clashing(subject, near) if len(group) > 1 else ():
                away = lint_input.selected(subject, term) or ()
                cache_key = group, away
                if cache_key not in cache:
                    covered = _covers(lint_input, subject, near, group, away)
                    cache[cache_key] = (
                        _Refs({x.ref for x in group if to_run(x)}) if covered else None
                    )
                if others := cache[cache_key]:
                    selected = near, others.but(subject.ref), ""
                    yield from _contradiction(lint_input, subject, selected, (term, "the same"))


def anti_affinity_of_leader(lint_input: LintInput) -> t.Iterator[Finding]:
    """A VM that has affinity to another VM, which has anti-affinity to it."""
    by_ref = lint_input.by_ref
    checked = {subject.ref for subject in lint_input.subjects}

    def avoids(one: LintedWorkload, term: Term, other: Ref) -> bool:
        return other in lint_input.selected_refs(one, term)

    for subject in lint_input.all_subjects:
        for near, leader in _leaders(lint_input, subject):
            if not checked & {subject.ref, leader} or any(
                avoids(subject, term, leader) for term in _clashing(subject, near)
            ):
                continue  # the latter is a finding of the subject's own terms
            if not all(
                any(avoids(form, term, subject.ref) for term in _clashing(form, near))
                for form in lint_input.forms[leader]
            ):
                continue
            for term in _clashing(by_ref[leader], near):
                if avoids(by_ref[leader], term, subject.ref):
                    owners = subject.owner(near), by_ref[leader].owner(term)
                    why = (
                        f"It can never run: {subject.ref} has affinity to {leader} over {lint_input.over(near)},"
                        f" which has anti-affinity to it over {lint_input.over(term)}{rules_text(owners)}."
                    )
                    finding = subject.finding(
                        near,
                        "unsatisfiable",
                        "error",
                        why,
                        remove_one(owners),
                        named=(subject.ref,),
                    )
                    yield from of_each_rule(finding, owners)


def _covers(
    lint_input: LintInput,
    subject: LintedWorkload,
    near: Term,
    group: t.Sequence[LintedWorkload],
    away: t.Sequence[LintedWorkload],
) -> bool:
    """Whether the subject avoids all VMs of a group, at least two of them are to run, and no other
    pod meets its affinity term."""
    return (
        all(map(_is_vm, group))
        and {member.ref for member in group} <= {member.ref for member in away}
        and sum(map(to_run, group)) > 1
        and not _others(lint_input, subject, near, group)
    )


class _Refs:
    """References of a large group, of which a sentence names the first."""

    def __init__(self, refs: frozenset[Ref] | set[Ref]) -> None:
        self.refs = refs
        self.first = heapq.nsmallest(NAMED, refs)

    def but(self, *without: Ref) -> str:
        """The first names, and how many more, without some (two at most); "" without another one."""
        names = [str(ref) for ref in self.first if ref not in without]
        count = len(self.refs) - len(self.refs.intersection(without))
        return listed(names, count=count)


def _clashing(subject: LintedWorkload, near: Term) -> t.Iterator[Term]:
    """The required anti-affinity terms that apply inside every domain of `near`. Terms that select the
    same pods as `near` are a finding of node_terms."""
    for term in subject.terms:
        if term.kind is TermKind.ANTI_AFFINITY:
            same_pods = selected_pods(subject, near) == selected_pods(subject, term)
            if near.source.topology_key in (HOSTNAME, term.source.topology_key) and not same_pods:
                yield term


def selected_pods(subject: LintedWorkload, term: Term) -> t.Hashable:
    """Equal for terms that select the same pods. VMs differ in created-by, which is not known."""
    pod_term = pod_term_of(subject, term)
    return pod_term.selector, pod_term.namespaces, pod_term.namespace_selector


def _leaders(lint_input: LintInput, subject: LintedWorkload) -> tuple[tuple[Term, Ref], ...]:
    """(term, VM) of each required affinity term that only one other VM meets."""
    leaders = []
    for term in subject.terms if subject.is_vm else ():
        if term.kind is TermKind.AFFINITY:
            chosen = lint_input.selected(subject, term)
            if chosen and len(chosen) == 1 and _is_vm(chosen[0]):
                leader = chosen[0].ref
                if leader != subject.ref and not _others(lint_input, subject, term, chosen):
                    leaders.append((term, leader))
    return tuple(leaders)


def _is_vm(subject: LintedWorkload) -> bool:
    return kind_of(subject.ref.kind).run_strategy


def _others(
    lint_input: LintInput, subject: LintedWorkload, term: Term, expected: t.Iterable[LintedWorkload]
) -> bool:
    """Whether pods of workloads other than `expected` meet the term, or may."""
    running = lint_input.running(subject, term)
    own = {vmi.uid for workload in expected for vmi in workload.vmis}
    return running is None or any(pod.labels.get(CREATED_BY, "") not in own for pod in running)


def _contradiction(
    lint_input: LintInput,
    subject: LintedWorkload,
    near: tuple[Term, str, str],
    away: tuple[Term, str],
) -> t.Iterator[Finding]:
    """A finding for each rule concerned. `near` is the affinity term, what it selects in words, and
    the other followers in words; `away` is the anti-affinity term and what it selects in words."""
    (near_term, near_text, also), (away_term, away_text) = near, away
    over, apart = lint_input.over(near_term), lint_input.over(away_term)
    owners = subject.owner(near_term), subject.owner(away_term)
    why = (
        f"It can never run: {subject.ref} has affinity to {near_text} over {over}{also}, and anti-affinity to"
        f" {away_text} over {apart}{rules_text(owners)}."
    )
    finding = subject.finding(
        near_term, "unsatisfiable", "error", why, remove_one(owners), named=(subject.ref,)
    )
    yield from of_each_rule(finding, owners)
