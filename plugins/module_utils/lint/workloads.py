# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which workloads block their own rollout, bypass or copy rules, or are managed by GitOps?"""

from __future__ import annotations

import typing as t

from ..compliance.terms import Term, TermKind
from ..model.findings import Finding
from ..model.kinds import POD_TEMPLATE_HASH
from ..model.objects import Placement, Ref
from ..model.rule import RuleId
from ..model.snapshot import Workload, managed_by
from ..rules.ownership import (
    UnreadableAnnotation,
    invalid_rules_annotation,
    read_undo_record,
)
from .lint_input import LintedWorkload, LintInput


def rollout_findings(lint_input: LintInput) -> t.Iterator[Finding]:
    for subject in lint_input.subjects:
        room = subject.workload.rollout_room if subject.workload is not None else None
        stops_old_pods = room is not None and (room.unavailable > 0 or room.surge == 0)
        if subject.ref.kind != "Deployment" or stops_old_pods:
            continue
        for term in subject.terms:
            if term.kind is TermKind.ANTI_AFFINITY and lint_input.selects_itself(subject, term):
                yield from _deadlock(lint_input, subject, term)


def _deadlock(lint_input: LintInput, subject: LintedWorkload, term: Term) -> t.Iterator[Finding]:
    if POD_TEMPLATE_HASH in term.source.match_label_keys:
        return
    room = len(lint_input.eligible_domains(subject, term.source.topology_key))
    if lint_input.nodes is not None and subject.replicas is not None and subject.replicas < room:
        return
    over = lint_input.over(term)
    room_text = f" of which there are {room}" if lint_input.nodes is not None else ""
    yield subject.finding(
        term,
        "rollout_deadlock",
        "warning" if lint_input.nodes is None else "error",
        f"Each old pod keeps the new ones out of its domain of {over},{room_text or ' if all are taken,'}"
        " and none may stop before a new one is Ready: any change of the template, by whatever"
        " client, then waits forever.",
        f"Add matchLabelKeys: [{POD_TEMPLATE_HASH}] to the term, as keep_apart does, or set"
        " maxSurge 0 and maxUnavailable 1.",
    )


def workload_findings(lint_input: LintInput) -> t.Iterator[Finding]:
    """Findings about the rules on a workload: `bypassed_by_node_term`, `copied_annotation`,
    `invalid_rules_annotation` and `externally_managed`."""
    for subject in lint_input.subjects:
        if damage := subject.declared.damaged or _damaged_undo_record(subject.workload):
            yield invalid_rules_annotation(subject.ref, damage)
        for rule in subject.declared.rules:
            if rule.nodes is not None and rule.nodes.bypasses:
                yield _bypassed(rule.rule, subject.ref)
        if subject.declared.copied_from:
            yield _cloned(subject.ref)
        carrying = subject.workload if subject.declared.rules else None
        if carrying is not None and (manager := managed_by(carrying)):
            yield subject.finding(
                None,
                "externally_managed",
                "warning",
                f"It carries rules and is managed by {manager}, which may revert them.",
                "Commit the terms to the source of the object, and let the rules adopt them.",
            )


TERMS_LIMIT = 32
"""Terms of one pod whose cost grows with the pods of the cluster. The rules of this collection write one
for each rule."""


def count_findings(lint_input: LintInput) -> t.Iterator[Finding]:
    """Each term is compared with every pod, by kube-scheduler for each pod that it places, too."""
    for subject in lint_input.subjects:
        yield from too_many_terms(subject.ref, subject.declared.placement)


def too_many_terms(ref: Ref, placement: Placement) -> t.Iterator[Finding]:
    """The finding about an object whose pods have this placement, if there is one."""
    lists: tuple[t.Sequence[object], ...] = (
        placement.affinity,
        placement.anti_affinity,
        placement.preferred_affinity,
        placement.preferred_anti_affinity,
        placement.spread,
    )
    number = sum(map(len, lists))
    if number > TERMS_LIMIT:
        yield Finding(
            "too_many_terms",
            "warning",
            f"Its pods have {number} pod affinity, anti-affinity and spread terms, more than"
            f" {TERMS_LIMIT}: each is compared with every pod, which slows down kube-scheduler and this"
            " collection.",
            "Select all pods that are meant with one term: by a common label, or by several values of"
            " one label.",
            (ref,),
        )


def _damaged_undo_record(workload: Workload | None) -> str:
    try:
        if workload is not None:
            read_undo_record(workload)
    except UnreadableAnnotation as error:
        return str(error)
    return ""


def _bypassed(rule: str, workload: Ref) -> Finding:
    """Required node terms are OR-ed: one that lacks the rule's expression allows other nodes."""
    return Finding(
        "bypassed_by_node_term",
        "error",
        "An added required node term lacks the rule's expression, and terms are OR-ed,"
        " so a node that matches that term need not satisfy the rule.",
        "Write the rules again, which puts the expression into every term, or remove the term.",
        (workload,),
        RuleId.parse(rule).name,
    )


def _cloned(workload: Ref) -> Finding:
    return Finding(
        "copied_annotation",
        "warning",
        "The annotation with the rules was written for another object, so this one is a copy: it"
        " carries the terms, but no rule owns them.",
        "List the copy in a rule with adopt set to true, or remove the terms and the annotation"
        " from it.",
        (workload,),
    )
