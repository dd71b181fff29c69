# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which anti-affinity has more instances than domains?"""

from __future__ import annotations

import functools
import operator
import typing as t
from collections import defaultdict

from ..compliance.terms import Term, TermKind
from ..kinds.deployment import POD_TEMPLATE_HASH
from ..kinds.registry import kind_of
from ..kinds.virtual_machine import run_strategy_named
from ..model.findings import Finding, rules_text
from ..model.objects import Ref
from ..model.placement_manifests import CREATED_BY
from ..model.rendering import listed, value_text
from .lint_input import LintedWorkload, LintInput, of_each_rule, without_node_terms

Group = list[tuple[LintedWorkload, Term]]
"""Workloads with a term that selects them all, each with its own instance of the term."""


def domain_findings(lint_input: LintInput) -> t.Iterator[Finding]:
    """More instances with anti-affinity than domains for them: in a whole group, or in the part of
    it that may use only some domains."""
    if not lint_input.nodes:
        return
    lasting = lint_input.lasting
    looked_at = {subject.ref for subject in lint_input.subjects}
    places: dict[str, _DomainSets] = {}
    for group in _groups_apart(lint_input):
        reported: set[Ref] = set()
        key = group[0][1].source.topology_key
        if key not in places:
            places[key] = _DomainSets(lasting, key)
        for crowd in _crowds(places[key], group):
            why, advice = _no_room(lint_input, crowd)
            for subject, term in crowd.members:
                if subject.ref in looked_at and subject.ref not in reported:
                    finding = subject.finding(term, "unsatisfiable", "error", why, advice)
                    yield from of_each_rule(finding, _rules_of(subject, term, crowd))
            reported.update(subject.ref for subject, _term in crowd.members)


def _rules_of(subject: LintedWorkload, term: Term, crowd: _CrowdedGroup) -> list[str]:
    """The rules that together leave too few domains to a workload of the group."""
    node_rules = [rule for rule, _parts in subject.node_rules()] if crowd.barred else []
    return [subject.owner(term), *node_rules]


class _CrowdedGroup(t.NamedTuple):
    """Workloads with a common term and more instances than the `domains` that they may use. `open`
    are the domains that would take them without their node selectors and node affinity."""

    members: list[tuple[LintedWorkload, Term]]
    instances: int
    domains: tuple[str, ...]
    open: tuple[str, ...]

    @property
    def barred(self) -> list[str]:
        """The domains that only node selectors and node affinity exclude."""
        return sorted(set(self.open) - set(self.domains))


def _crowds(places: _DomainSets, group: Group) -> t.Iterator[_CrowdedGroup]:
    """The crowded groups, the smallest first. A set of domains is too small if more instances can
    only run inside it. Checked are the sets of each workload, and their union (Hall's theorem)."""
    inside: dict[int, list[tuple[LintedWorkload, Term]]] = defaultdict(list)
    for subject, term in group:
        if within := places.of(subject):
            inside[within].append((subject, term))
    running = {
        within: sum(to_run(subject) for subject, _term in members)
        for within, members in inside.items()
    }
    if not inside or sum(running.values()) <= min(map(int.bit_count, inside)):
        return
    together = functools.reduce(operator.or_, inside)
    for few in sorted({*inside, together}, key=lambda domains: (domains.bit_count(), domains)):
        instances = sum(count for within, count in running.items() if not within & ~few)
        if instances > few.bit_count():
            chosen = [x for within, members in inside.items() if not within & ~few for x in members]
            able = functools.reduce(operator.or_, (places.open_to(s) for s, _term in chosen))
            yield _CrowdedGroup(chosen, instances, places.names(few), places.names(able))


class _DomainSets:
    """The domains of a key that take a workload's pods, as a set of bits."""

    def __init__(self, lasting: LintInput, key: str) -> None:
        self._lasting = lasting
        self._carrying = lasting.table.with_key(key)
        self._domains = tuple(lasting.table.domains(key).items())
        self._known: dict[int, int] = {}

    def of(self, subject: LintedWorkload) -> int:
        """Empty if a node without the key takes the pods: the term never keeps a pod off that node."""
        eligible = self._lasting.eligible(subject)
        return 0 if eligible & ~self._carrying else self._touched(eligible)

    def open_to(self, subject: LintedWorkload) -> int:
        """The domains without the node selector and node affinity of its template."""
        return self._touched(self._lasting.eligible(without_node_terms(subject)))

    def _touched(self, eligible: int) -> int:
        if eligible not in self._known:
            bits = (1 << n for n, (_name, nodes) in enumerate(self._domains) if nodes & eligible)
            self._known[eligible] = sum(bits)
        return self._known[eligible]

    def names(self, places: int) -> tuple[str, ...]:
        return tuple(name for n, (name, _nodes) in enumerate(self._domains) if places >> n & 1)


def _no_room(lint_input: LintInput, crowd: _CrowdedGroup) -> tuple[str, str]:
    """Why the instances can never all run, and what to do."""
    only_vms = all(kind_of(subject.ref.kind).run_strategy for subject, _term in crowd.members)
    noun = "VMs" if only_vms else "instances"
    term = crowd.members[0][1]
    over = lint_input.over(term)
    room = lint_input.topology.counted(term.source.topology_key, len(crowd.domains))
    why = (
        f"Cannot be satisfied: {crowd.instances} {noun} have anti-affinity over {over}, but only {room}"
        f" can run them ({listed(list(map(value_text, crowd.domains)))})."
    )
    if crowd.barred:
        rules = rules_text(rule for x, term in crowd.members for rule in _rules_of(x, term, crowd))
        return (
            f"{why} Their nodeSelector or node affinity excludes {listed(list(map(value_text, crowd.barred)))}{rules}.",
            f"Let their nodeSelector and node affinity allow more values of {over}, run fewer {noun},"
            " or make the term preferred.",
        )
    return (
        why,
        f"Run fewer {noun}, label nodes with more values of {over}, or make the term preferred.",
    )


def _groups_apart(lint_input: LintInput) -> t.Iterator[Group]:
    """Workloads of one namespace with the same term, which selects them all; or one with replicas. Of several manifests
    of one workload the group has that with the fewest instances, and each other one is a group of its own."""
    carriers: dict[t.Hashable, dict[Ref, Group]] = defaultdict(lambda: defaultdict(list))
    for subject in lint_input.all_subjects:
        for term in () if subject.workload is None and not subject.is_vm else subject.terms:
            pod_term = term.source
            if (
                term.kind is TermKind.ANTI_AFFINITY
                # Any two instances are apart, whatever their other labels are, or any two pods of one
                # revision, which all instances have after a rollout.
                and {POD_TEMPLATE_HASH}.issuperset(pod_term.match_label_keys)
                and {CREATED_BY}.issuperset(pod_term.mismatch_label_keys)
                and not subject.owned
            ):
                key = (
                    pod_term.topology_key,
                    pod_term.selector,
                    pod_term.namespaces,
                    pod_term.namespace_selector,
                )
                alone = subject.ref if pod_term.match_label_keys else None
                # A term of its own and an equal one of a rule count once.
                carriers[subject.ref.namespace, key, alone][subject.ref].append((subject, term))
    for by_ref in carriers.values():
        members = tuple(min(reversed(forms), key=_to_run) for forms in by_ref.values())
        chosen = {target.ref for target in lint_input.selected(*members[0]) or ()}
        group = [(subject, term) for subject, term in members if subject.ref in chosen]
        if len(group) > 1 or any((subject.replicas or 0) > 1 for subject, _term in group):
            yield group
        forms = {form[0].number: form for forms in by_ref.values() for form in forms}
        for subject, _term in group:
            del forms[subject.number]
        yield from (
            [form] for form in forms.values() if form[0].ref in chosen and _to_run(form) > 1
        )


def _to_run(form: tuple[LintedWorkload, Term]) -> int:
    return to_run(form[0])


def to_run(subject: LintedWorkload) -> int:
    """How many instances are to run."""
    if subject.workload is None or not subject.workload.kind.run_strategy:
        return subject.replicas or 0
    strategy = run_strategy_named(subject.workload.run_strategy)
    return int(strategy.again in ("always", "if_failed") or bool(subject.vmis))
