# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Rules put into the manifests of the workloads that they are about, as a cluster would have them.

Nobody knows that the manifests are all there is. So only a rule whose workloads are all among
them is put there, nothing is said of what runs, and no rule is refused.
"""

from __future__ import annotations

import typing as t
from dataclasses import dataclass, replace

from ..model.finding import Finding
from ..model.names import RULES
from ..model.objects import Ref
from ..model.platform import Platform
from ..model.pointer import JSON
from ..model.rule import PodSelector, Rule, WorkloadSelector
from ..model.snapshot import Snapshot, Unreadable, Workload
from ..model.write import Write
from ..planning.written import written
from ..rules.carriers import is_named
from ..rules.compile import compile_rule
from ..rules.conflicts import EMPTY_TERM
from ..rules.findings import STRICT_NEEDS_HOLD
from ..rules.group_selector import Chooser
from ..rules.inventory import Inventory
from ..rules.journal import read_journal
from ..rules.members import resolve, targets_of
from ..rules.ownership import UnreadableAnnotation, read_ownership
from ..rules.references import SUPPORTED
from ..rules.request import RulesRequest, plan_rules
from ..rules.selector_findings import NOT_CHECKED, matches_others
from ..rules.values import nearest
from ..rules.workload_findings import CLONED, MANAGED_BY, unreadable_ownership
from ..scheduling.selectors import matches
from ..verdicts.declared import Reader
from . import server
from .request import FAMILIES, findings_about
from .scene import Scene, subject_of

NEWEST = Platform(kubernetes=(999, 0), kubevirt="v999.0.0")
"""Knows every field: lint says by itself what a server lacks."""

OF_MANIFESTS = frozenset({CLONED, EMPTY_TERM})
"""What lint says of the manifests as they are, whatever rules come."""


@dataclass(frozen=True)
class InPlace:
    """`rules` are those whose workloads all have a manifest, `findings` what is wrong once they
    stand there, and with annotations of ours that nobody can read."""

    rules: tuple[Rule, ...]
    findings: tuple[Finding, ...]


def put_in_place(rules: t.Iterable[Rule], scene: Scene) -> InPlace:
    """The rules put into the workloads that `scene` looks at."""
    listed = tuple(rules)
    there = {s.ref: s.workload for s in scene.subjects if s.workload is not None}
    unreadable = dict(_unreadable(there.values()))
    sound = {ref: each for ref, each in there.items() if _takes_rules(each, unreadable)}
    placed = tuple(rule for rule in listed if _all_there(rule, there, sound))
    found = list(_about_unreadable(listed, there, unreadable))
    if placed:
        seen = _snapshot(scene, sound)
        found += _planned(placed, seen, scene)
        found += _others(placed, seen, scene)
    return InPlace(placed, tuple(found))


def by_themselves(
    rules: t.Iterable[Rule], manifests: t.Iterable[t.Mapping[str, JSON]]
) -> tuple[str, ...]:
    """One sentence for each rule that names a workload without a manifest where there are some of
    its kind and namespace: the name may be wrong, and then nothing is said of what stands against
    the rule. `manifests` have names and namespaces."""
    there: dict[tuple[str, str], set[str]] = {}
    for each in manifests:
        metadata = each["metadata"]
        where = str(each["kind"]), str(metadata.get("namespace", ""))
        there.setdefault(where, set()).add(str(metadata.get("name", "")))
    found = []
    for rule in rules:
        missing = [
            f"no {reference.kind} {name} among the manifests{nearest(name, names, 0.6)}"
            for reference in _references(rule)
            if (names := there.get((reference.kind, reference.namespace))) is not None
            for name in (reference.names if reference.labels is None else ())
            if name not in names
        ]
        if missing:
            found.append(f"rule {rule.id.name} is judged by itself: {' and '.join(missing)}")
    return tuple(found)


def _unreadable(
    workloads: t.Iterable[Workload],
) -> t.Iterator[tuple[Ref, UnreadableAnnotation]]:
    for workload in workloads:
        if workload.ref.kind not in SUPPORTED:
            continue
        try:
            read_ownership(workload)
            read_journal(workload)
        except UnreadableAnnotation as error:
            yield workload.ref, error


def _takes_rules(workload: Workload, unreadable: t.Container[Ref]) -> bool:
    """Whether a manifest has a template, as an overlay may not, and annotations that can be read."""
    spec = workload.template.get("spec")
    kind = workload.ref.kind
    return kind in SUPPORTED and workload.ref not in unreadable and isinstance(spec, dict)


def _all_there(
    rule: Rule, there: t.Mapping[Ref, Workload], sound: t.Mapping[Ref, Workload]
) -> bool:
    """Whether every name has a manifest, and everybody who is chosen by labels can be used."""
    for reference in _references(rule):
        if reference.labels is None:
            refs = [Ref(reference.kind, reference.namespace, name) for name in reference.names]
        else:
            refs = [ref for ref, workload in there.items() if is_named((reference,), workload)]
        if not refs or not all(ref in sound for ref in refs):
            return False
    return True


def _references(rule: Rule) -> list[WorkloadSelector]:
    targets = [target for _where, target in targets_of(rule)]
    return [*rule.workloads, *(each for each in targets if not isinstance(each, PodSelector))]


def _is_about(rule: Rule, workload: Workload | None) -> bool:
    return workload is not None and is_named(_references(rule), workload)


def _about_unreadable(
    rules: t.Sequence[Rule],
    there: t.Mapping[Ref, Workload],
    unreadable: t.Mapping[Ref, UnreadableAnnotation],
) -> t.Iterator[Finding]:
    """An object that rules leave alone, or that stands in the way of those that name it."""
    for ref, error in unreadable.items():
        told = unreadable_ownership(ref, error)
        meant = [rule for rule in rules if is_named(_references(rule), there[ref])]
        if not meant and rules:
            yield told
        for rule in meant:
            advice = "Until then the rule cannot be put on it."
            yield replace(told, severity="error", advice=advice, rule=rule.id.name)


def _snapshot(scene: Scene, workloads: t.Mapping[Ref, Workload]) -> Snapshot:
    unknown = ["namespaces", "pods", "virtualmachineinstances"]
    unknown += ["nodes"] if scene.nodes is None else []
    return Snapshot(
        nodes=scene.nodes or (),
        workloads=tuple(workloads.values()),
        platform=NEWEST,
        unreadable=tuple(Unreadable(each, "", "list", "not among the input") for each in unknown),
    )


def _planned(rules: tuple[Rule, ...], seen: Snapshot, scene: Scene) -> list[Finding]:
    """What stands against writing the rules, and what lint says of them once they are written.
    Terms that already say the same are taken for those of the rule."""

    def afterwards(
        snapshot: Snapshot, written_rules: tuple[Rule, ...], writes: tuple[Write, ...]
    ) -> tuple[Finding, ...]:
        after = _after(scene, snapshot, writes)
        return findings_about(after, written_rules, (*FAMILIES, server))

    first = rules[0].id
    request = RulesRequest(first.namespace, first.set, rules, adopt=True, self_rolling="now")
    found = plan_rules(seen, request, extra_findings=afterwards).findings
    held = {f.rule for f in found if f.name == STRICT_NEEDS_HOLD and scene.nodes is None}
    carrying = {each.ref for each in seen.workloads if RULES in each.annotations}
    return [
        finding
        for finding in found
        if finding.name not in (NOT_CHECKED, *OF_MANIFESTS)
        and not (finding.name == MANAGED_BY and carrying.issuperset(finding.objects))
        and not (finding.name == "own_rollout_deadlock" and finding.rule in held)
    ]


def _after(scene: Scene, seen: Snapshot, writes: tuple[Write, ...]) -> Scene:
    """The scene with the workloads as the writes leave them."""
    machines = {subject.ref: subject.machines for subject in scene.subjects}
    reader = Reader()
    subjects = {
        each.ref: subject_of(each, reader, machines[each.ref])
        for each in written(seen, writes).workloads
    }
    others = (subject for subject in scene.everybody if subject.ref not in subjects)
    everybody = (*subjects.values(), *others)
    return replace(scene, subjects=tuple(subjects.values()), all_subjects=everybody)


def _others(rules: tuple[Rule, ...], seen: Snapshot, scene: Scene) -> t.Iterator[Finding]:
    """Workloads, machines and pods that the selector of a group selects, too."""
    inventory = Inventory.of(seen)
    chooser = Chooser(inventory, read_ownership)
    for rule in rules:
        compiled = compile_rule(resolve(rule, inventory, []), chooser, seen.platform)
        for selection in compiled.selections:
            members = {workload.ref for workload in selection.members}
            selector = selection.selector()
            others = dict.fromkeys(
                subject.ref
                for subject in scene.everybody
                if subject.ref.namespace == selection.namespace
                and subject.ref not in members
                and not subject.owned
                and not _is_about(rule, subject.workload)
                and matches(selector, subject.labels)
            )
            if members and others:
                yield matches_others(rule, selection, tuple(others))
