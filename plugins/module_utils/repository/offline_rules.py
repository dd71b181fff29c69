# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What is wrong with rules when they are compiled into manifests, without a cluster?

A rule whose workloads all have a manifest is written into these, as it would be on a cluster.
Every rule is also written into stand-ins for the workloads that it names: findings about these
hold for any manifest of the workloads.

The manifests may not be all there is. So nothing is found about what runs, and no rule is refused.
"""

from __future__ import annotations

import typing as t
from dataclasses import dataclass, replace

from ..compliance.declared import DeclaredReader
from ..kinds.registry import RULE_KINDS
from ..kinds.vmi import VMIS
from ..lint.lint_input import LintedWorkload, LintInput, linted_workload
from ..lint.registry import findings_about
from ..model.findings import Finding
from ..model.input import nearest
from ..model.json_pointer import JSON
from ..model.kinds import RULES
from ..model.objects import Node, Ref
from ..model.rendering import listed
from ..model.rule import Rule, WorkloadSelector
from ..model.snapshot import Platform, Snapshot, Unreadable, Workload, bare_workload
from ..model.write import Write, written
from ..rules.change import EXTERNALLY_MANAGED
from ..rules.checks import CHECK_SKIPPED, matches_others
from ..rules.compile import compile_rule
from ..rules.members import GroupSelectorBuilder, resolve, targets_of
from ..rules.ownership import (
    UnreadableAnnotation,
    invalid_rules_annotation,
    read_ownership,
)
from ..rules.plan import is_named, plan_rules
from ..rules.record import read_undo_record
from ..rules.rules_request import RulesRequest
from ..scheduler.labels import matches
from ..view.view import view_of

NEWEST = Platform(kubernetes=(999, 0), kubevirt="v999.0.0")
"""Knows every field: lint says by itself what a server lacks."""


@dataclass(frozen=True)
class WrittenRules:
    """`rules` are those whose workloads all have a manifest, `findings` what is wrong once they
    are written there, and with annotations of ours that cannot be read."""

    rules: tuple[Rule, ...]
    findings: tuple[Finding, ...]


def write_into_manifests(rules: t.Iterable[Rule], lint_input: LintInput) -> WrittenRules:
    """The rules written into the workloads that `lint_input` looks at."""
    listed = tuple(rules)
    workloads = {s.ref: s.workload for s in lint_input.subjects if s.workload is not None}
    unreadable = dict(_unreadable(workloads.values()))
    writable = {
        ref: workload
        for ref, workload in workloads.items()
        if ref.kind in RULE_KINDS
        and ref not in unreadable
        and isinstance(workload.template.get("spec"), dict)  # an overlay may have none
    }
    placed = tuple(rule for rule in listed if _has_manifests(rule, workloads, writable))
    findings = list(_unreadable_findings(listed, workloads, unreadable))
    if placed:
        snapshot = offline_snapshot(tuple(writable.values()), lint_input.nodes)
        findings += _planned(placed, snapshot, lint_input)
        findings += _others(placed, snapshot, lint_input)
    return WrittenRules(placed, tuple(findings))


def checked_without_manifests(
    rules: t.Iterable[Rule], manifests: t.Iterable[t.Mapping[str, JSON]]
) -> tuple[str, ...]:
    """One sentence for each rule that names a workload without a manifest where there are some of
    its kind and namespace, or one of its name in another namespace: name or namespace may be wrong, and then
    findings about the real workload are missing. `manifests` have names and namespaces."""
    names_by_kind: dict[tuple[str, str], set[str]] = {}
    for manifest in manifests:
        metadata = manifest["metadata"]
        place = str(manifest["kind"]), str(metadata.get("namespace", ""))
        names_by_kind.setdefault(place, set()).add(str(metadata.get("name", "")))
    sentences = []
    for rule in rules:
        missing = [text for x in references_of(rule) for text in _missing(x, names_by_kind)]
        if missing:
            sentences.append(
                f"rule {rule.id.name} was checked without the manifests of its workloads: {' and '.join(missing)}"
            )
    return tuple(sentences)


def _missing(
    reference: WorkloadSelector, names_by_kind: t.Mapping[tuple[str, str], t.Collection[str]]
) -> t.Iterator[str]:
    """The names without a manifest, and where each may be. Nothing where no manifest is alike."""
    kind, namespace = reference.kind, reference.namespace
    names = names_by_kind.get((kind, namespace), ())
    for name in (x for x in reference.names if x not in names):
        text = f"no {kind} {name} among the manifests"
        others = [ns for (x, ns), there in names_by_kind.items() if x == kind and name in there]
        if others:
            yield f"{text} of {namespace}, but in {listed(others)}: set namespace"
        elif names:
            yield f"{text}{nearest(name, names)}"


def _unreadable(
    workloads: t.Iterable[Workload],
) -> t.Iterator[tuple[Ref, UnreadableAnnotation]]:
    for workload in workloads:
        if workload.ref.kind not in RULE_KINDS:
            continue
        try:
            read_ownership(workload)
            read_undo_record(workload)
        except UnreadableAnnotation as error:
            yield workload.ref, error


def _has_manifests(
    rule: Rule, workloads: t.Mapping[Ref, Workload], writable: t.Container[Ref]
) -> bool:
    """Whether every workload of the rule has a manifest that rules can be written into."""
    for reference in references_of(rule):
        if reference.labels is None:
            refs = [Ref(reference.kind, reference.namespace, name) for name in reference.names]
        else:
            refs = [ref for ref, w in workloads.items() if is_named((reference,), w)]
        if not refs or not all(ref in writable for ref in refs):
            return False
    return True


def references_of(rule: Rule) -> list[WorkloadSelector]:
    """The workloads that a rule names, its targets too."""
    targets = [target for _where, target in targets_of(rule)]
    return [*rule.workloads, *(x for x in targets if isinstance(x, WorkloadSelector))]


def _unreadable_findings(
    rules: t.Sequence[Rule],
    workloads: t.Mapping[Ref, Workload],
    unreadable: t.Mapping[Ref, UnreadableAnnotation],
) -> t.Iterator[Finding]:
    """A warning where no rule names the object, an error for each rule that does."""
    for ref, error in unreadable.items():
        finding = invalid_rules_annotation(ref, error)
        naming = [rule for rule in rules if is_named(references_of(rule), workloads[ref])]
        if not naming and rules:
            yield finding
        for rule in naming:
            advice = "Repair or remove the annotation. Then write the rule."
            yield replace(finding, severity="error", advice=advice, rule=rule.id.name)


def offline_snapshot(
    workloads: tuple[Workload, ...], nodes: tuple[Node, ...] | None, platform: Platform = NEWEST
) -> Snapshot:
    """What is known without a cluster: the workloads, and nodes where there are some."""
    unknown = ["namespaces", "pods", VMIS]
    unknown += ["nodes"] if nodes is None else []
    return Snapshot(
        nodes=nodes or (),
        workloads=workloads,
        platform=platform,
        unreadable=tuple(
            Unreadable(resource, "", "list", "not among the input") for resource in unknown
        ),
    )


def written_request(rules: t.Sequence[Rule]) -> RulesRequest:
    """That the rules are written; terms that already say the same are taken over."""
    first = rules[0].id
    return RulesRequest(
        first.namespace, first.rule_set, tuple(rules), adopt=True, workload_rollout="allow"
    )


def _planned(rules: tuple[Rule, ...], before: Snapshot, lint_input: LintInput) -> list[Finding]:
    """What stands against writing the rules, and what lint finds once they are written."""

    def afterwards(
        snapshot: Snapshot, written_rules: tuple[Rule, ...], writes: tuple[Write, ...]
    ) -> tuple[Finding, ...]:
        return findings_about(_after(lint_input, snapshot, writes), written_rules)

    findings = plan_rules(before, written_request(rules), extra_findings=afterwards).findings
    carrying = {w.ref for w in before.workloads if RULES in w.annotations}
    return [
        finding
        for finding in findings
        if finding.name != CHECK_SKIPPED
        and not (finding.name == EXTERNALLY_MANAGED and carrying.issuperset(finding.objects))
    ]


def _after(lint_input: LintInput, before: Snapshot, writes: tuple[Write, ...]) -> LintInput:
    """`lint_input` with the workloads as the writes leave them."""
    known, reader = lint_input.by_ref, DeclaredReader()
    subjects = {
        workload.ref: lint_input.typed(linted_workload(workload, reader, known[workload.ref].vmis))
        for workload in written(before, writes).workloads
    }
    unchanged = (subject for subject in lint_input.all_subjects if subject.ref not in subjects)
    all_subjects = (*subjects.values(), *unchanged)
    return replace(lint_input, subjects=tuple(subjects.values()), all_subjects=all_subjects)


def _others(
    rules: tuple[Rule, ...], snapshot: Snapshot, lint_input: LintInput
) -> t.Iterator[Finding]:
    """Workloads, VMIs and pods that the selector of a group selects and the rule does not name."""
    view = view_of(snapshot)
    selectors = GroupSelectorBuilder(view, read_ownership)
    for rule in rules:  # one that rests has no selections
        compiled = compile_rule(resolve(rule, view, []), selectors)
        for selection in compiled.selections:
            members = {workload.ref for workload in selection.members}
            selector = selection.selector()
            other_workloads = dict.fromkeys(
                subject.ref
                for subject in lint_input.all_subjects
                if subject.ref.namespace == selection.namespace
                and subject.ref not in members
                and not subject.owned
                and not (subject.workload and is_named(references_of(rule), subject.workload))
                and matches(selector, subject.labels)
            )
            if members and other_workloads:
                yield matches_others(rule, selection, tuple(other_workloads))


def stand_in_workloads(rules: t.Sequence[Rule]) -> tuple[LintedWorkload, ...]:
    """The workloads that the rules name, targets too, with the terms that the rules compile to.

    No workload is looked up: a stand-in without a placement of its own takes the place of each name,
    and one for each set of labels that workloads are chosen by."""
    if not rules:
        return ()
    stand_ins: dict[Ref, Workload] = {}
    for rule in rules:
        for reference in references_of(rule):
            for workload in stand_ins_for(reference):
                stand_ins.setdefault(workload.ref, workload)
    snapshot = offline_snapshot(tuple(stand_ins.values()), None)
    plan = plan_rules(snapshot, written_request(rules))
    reader = DeclaredReader()
    subjects = (
        linted_workload(workload, reader) for workload in written(snapshot, plan.writes).workloads
    )
    return tuple(replace(subject, workload=None, replicas=None, spec=None) for subject in subjects)


def stand_ins_for(reference: WorkloadSelector) -> t.Iterator[Workload]:
    """One for each name; one for all that are chosen by labels."""
    labels = reference.labels or {}
    chosen = ",".join(f"{key}={value}" for key, value in sorted(labels.items()))
    for name in reference.names if reference.labels is None else (f"({chosen})",):
        yield bare_workload(Ref(reference.kind, reference.namespace, name), "", labels)
