# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which workloads have a term of no rule beside a term of a rule that means the same?

The module rules finds them among the terms that it is to write. Here they are found in the templates, so that a
verification names what is left of a rule that was written by hand first.
"""

from __future__ import annotations

import typing as t
from collections import defaultdict

from ..model.findings import Finding
from ..model.objects import PodTerm, SpreadConstraint
from ..model.rule import RuleId
from ..model.snapshot import Snapshot, Unreadable, Workload
from ..rules import checks
from ..rules.ownership import read_ownership, rules_of_term
from ..rules.similar import SelectablePods, is_similar
from ..rules.term_slots import LISTS, TemplateTerm, terms_of
from ..view.view import view_of
from .lint_input import LintInput

_UNKNOWN_PODS = Snapshot(unreadable=(Unreadable("pods", "", "list", "not among the input"),))


def findings(lint_input: LintInput) -> t.Iterator[Finding]:
    known = lint_input.view if lint_input.pods is not None else None
    pods = SelectablePods(known or view_of(_UNKNOWN_PODS), {})
    for subject in lint_input.subjects:
        owners = subject.declared.owners
        has_others = owners and any(
            isinstance(term.source, (PodTerm, SpreadConstraint)) and term not in owners
            for term in subject.terms
        )
        if subject.workload is not None and has_others:
            yield from _of_workload(subject.workload, pods)


def _of_workload(workload: Workload, pods: SelectablePods) -> t.Iterator[Finding]:
    ownership = read_ownership(workload)
    rules: dict[RuleId, list[TemplateTerm]] = defaultdict(list)
    others: list[TemplateTerm] = []
    for term in terms_of(workload.template):
        if term.location not in LISTS:
            continue
        owners = rules_of_term(ownership, term)
        for rule in owners:
            rules[rule].append(term)
        if not owners:
            others.append(term)
    namespace = workload.ref.namespace
    for term in others:
        alike = [
            rule
            for rule, terms in sorted(rules.items())
            if is_similar(term, terms, namespace, pods)
        ]
        yield from checks.similar_term(alike, workload.ref, term)
