# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which label selectors of terms select no pods, all pods, or probably the wrong ones?"""

from __future__ import annotations

import typing as t

from ..compliance import terms as wording
from ..compliance.terms import Term, TermKind
from ..model.findings import Finding, Severity
from ..model.json_pointer import Pointer
from ..model.objects import Labels, PodTerm, Selector, SpreadConstraint
from ..model.placement_manifests import selector_from_json
from ..model.rendering import label_text, listed
from ..scheduler.labels import matches
from .label_places import LabelPlaces
from .lint_input import LintedWorkload, LintInput
from .node_terms import contradiction

_SPREADS = (TermKind.SPREAD, TermKind.PREFERRED_SPREAD)
_AFFINITIES = (TermKind.AFFINITY, TermKind.PREFERRED_AFFINITY)


def findings(lint_input: LintInput) -> t.Iterator[Finding]:
    places = LabelPlaces(lint_input)
    for subject in lint_input.subjects:
        yield from _own_selector(subject)
        for term in subject.terms:
            if isinstance(term.source, (PodTerm, SpreadConstraint)):
                yield from _of_term(lint_input, subject, term, places)
            if isinstance(term.source, PodTerm):
                yield from _namespaces(lint_input, subject, term, term.source)


def _of_term(
    lint_input: LintInput, subject: LintedWorkload, term: Term, places: LabelPlaces
) -> t.Iterator[Finding]:
    selector: Selector | None = term.source.selector
    if selector is None:
        yield _nothing(
            lint_input, subject, term, "has no labelSelector, which selects no pod", "error"
        )
    elif excluded := contradiction(selector.requirements):
        asked = " and ".join(map(wording.requirement_text, excluded))
        yield _nothing(lint_input, subject, term, f"asks for {asked}, which no pod has", "error")
    # matchLabelKeys put requirements into an empty selector when a pod is made.
    elif not selector.requirements and not getattr(term.source, "match_label_keys", ()):
        yield _everything(lint_input, subject, term)
    elif term.kind in _SPREADS:
        if not lint_input.selects_itself(subject, term):
            yield _counts_others(subject, term, selector, places.sentence(subject, term, own=True))
    elif lint_input.selects_any_pod(subject, term) is False:
        severity: Severity = "error" if term.kind is TermKind.AFFINITY else "warning"
        problem = f"selects {wording.pods_of(term.source)}, and there is no such pod"
        where = places.sentence(subject, term)
        yield _nothing(lint_input, subject, term, problem, severity, where)
    elif lint_input.pods is None and lint_input.selects_any_workload(subject, term) is False:
        if where := places.sentence(subject, term):
            problem = f"selects {wording.pods_of(term.source)}, and no template has such labels"
            yield _nothing(lint_input, subject, term, problem, "warning", where)
        elif term.kind is not TermKind.AFFINITY and all(
            part.operator == "In" and part.key in subject.declared.labels
            for part in selector.requirements
        ):
            yield _near_miss(subject, term, selector)


def _nothing(
    lint_input: LintInput,
    subject: LintedWorkload,
    term: Term,
    problem: str,
    severity: Severity,
    where: str | None = None,
) -> Finding:
    """`where` says where the labels stand that the pods lack."""
    harm = "has no effect"
    if term.kind is TermKind.AFFINITY:
        harm = "leaves every pod of it Pending"
    why = f"The {term.kind} term over {lint_input.over(term)} {problem}, so it {harm}"
    return subject.finding(
        term,
        "selector_matches_nothing",
        "warning" if term.preferred else severity,
        f"{why}: {where}." if where else f"{why}.",
        _PUT_INTO_TEMPLATE
        if where
        else "Give it a labelSelector that the labels of the pods' template satisfy.",
    )


_PUT_INTO_TEMPLATE = "Put the label into the template, or select by a label that the template has."


def _everything(lint_input: LintInput, subject: LintedWorkload, term: Term) -> Finding:
    harm = "any pod of the namespace blocks it"
    if term.kind in _AFFINITIES:
        harm = "any pod of the namespace satisfies it"
    if term.kind in _SPREADS:
        harm = "the scheduler counts nothing, and it never keeps a pod out"
    return subject.finding(
        term,
        "selector_matches_everything",
        "warning" if term.preferred else "error",
        f"The {term.kind} term over {lint_input.over(term)} has an empty labelSelector: {harm}.",
        "Select the pods by one of their labels.",
    )


def _counts_others(
    subject: LintedWorkload, term: Term, selector: Selector, where: str | None
) -> Finding:
    placed = "so its pods are placed by the counts of other pods"
    return subject.finding(
        term,
        "template_and_selector_disagree",
        "warning",
        f"The {term.kind} constraint counts {wording.selector(selector)}, which its own template"
        f" does not match ({where or _labels_of(subject, selector)}), {placed}.",
        _PUT_INTO_TEMPLATE,
    )


def _near_miss(subject: LintedWorkload, term: Term, selector: Selector) -> Finding:
    """Only the values differ from the subject's own labels, and the term selects no workload."""
    return subject.finding(
        term,
        "template_and_selector_disagree",
        "warning",
        f"The {term.kind} term selects {wording.selector(selector)}. Its own template has the"
        f" same keys with other values ({_labels_of(subject, selector)}), and no other template matches.",
        "If the workload's own pods are meant, make the values equal.",
    )


def _labels_of(subject: LintedWorkload, selector: Selector) -> str:
    return _labels_text(subject.declared.labels, selector)


def _labels_text(labels: Labels, selector: Selector | None) -> str:
    """The labels of a template that a selector is about, or all of them if it has none of these."""
    asked = {part.key for part in selector.requirements} if selector is not None else set()
    chosen = {key: value for key, value in labels.items() if key in asked} or labels
    texts = [label_text(key, str(value)) for key, value in chosen.items()]
    return f"it has {listed(texts)}" if texts else "it has no labels"


def _own_selector(subject: LintedWorkload) -> t.Iterator[Finding]:
    """The selector by which the workload finds its own pods."""
    workload = subject.workload
    if workload is None or not workload.kind.selected:
        return
    if isinstance(workload.spec.get("selector"), dict):
        selector = selector_from_json(workload.spec["selector"])
        labels = Pointer(workload.kind.selected).read(workload.manifest, None) or {}
        if not matches(selector, labels):
            yield subject.finding(
                None,
                "template_and_selector_disagree",
                "error",
                "`selector` does not match template `labels`: it selects"
                f" {wording.selector(selector)}, and the template: {_labels_text(labels, selector)}.",
                "Make the labels of the template satisfy the selector.",
            )


def _namespaces(
    lint_input: LintInput, subject: LintedWorkload, term: Term, pod_term: PodTerm
) -> t.Iterator[Finding]:
    chosen = pod_term.namespace_selector
    negative = ("NotIn", "DoesNotExist")
    if chosen is None or not any(part.operator in negative for part in chosen.requirements):
        return
    if lint_input.platform is None or lint_input.platform.negative_namespace_selector_fault:
        yield subject.finding(
            term,
            "negative_namespace_selector",
            "warning",
            "From Kubernetes 1.34 on the scheduler treats a namespaceSelector with NotIn or"
            " DoesNotExist of a new pod as all namespaces (kubernetes issue 141526).",
            "Name the namespaces, or select them by a label that they have.",
        )
