# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which workloads has the last change of a rule set written, and which of them must stay as they are?

A workload that is left as it is may need the labels of others, and others its labels: required pod affinity to a
label that no pod has leaves the next pod Pending.
"""

from __future__ import annotations

import contextlib
import typing as t
from collections import defaultdict
from dataclasses import dataclass, replace

from ..kinds.registry import RULE_KINDS
from ..model.findings import InputError
from ..model.kinds import RULES, UNDO
from ..model.objects import Labels, Ref
from ..model.rendering import label_text, listed
from ..model.snapshot import Workload
from ..rules.change import WorkloadChange
from ..rules.draft import placement_parts
from ..rules.labels_first import Label, unmet_requirements
from ..rules.ownership import UnreadableAnnotation, read_ownership
from ..rules.ownership_index import OwnershipIndex
from ..rules.record import UndoRecord, read_undo_record, records_of
from ..rules.rules_request import RulesRequest
from ..view.view import ClusterView
from .restorable import KnownRules, Traits, traits

BY_HAND = "Compare its placement fields with those of its undo record, and change it by hand."
WRITE_RULES = "Write the rules of this rule set as they should be."


class NotRevertible(Exception):
    """Why a workload is left as it is: the end of a sentence about it. `advice`: what to do."""

    def __init__(self, reason: str, advice: str = BY_HAND) -> None:
        super().__init__(reason)
        self.advice = advice


@dataclass(frozen=True)
class Candidate:
    """A workload that the change has written, with its record. `labels` are those of its template, `labels_before`
    those that it gets back."""

    workload: Workload
    record: UndoRecord

    @property
    def ref(self) -> Ref:
        return self.workload.ref

    @property
    def labels(self) -> frozenset[Label]:
        return _labels(self.ref, self.workload.template_labels)

    @property
    def labels_before(self) -> frozenset[Label]:
        labels = dict(self.workload.template_labels)
        for key in () if self.record.reverted else self.record.written.labels:
            labels.pop(key, None)
            if key in self.record.labels:
                labels[key] = self.record.labels[key]
        return _labels(self.ref, labels)


def _labels(ref: Ref, labels: Labels) -> frozenset[Label]:
    return frozenset((ref.namespace, key, value) for key, value in labels.items())


def _set_of(request: RulesRequest) -> str:
    return f"{request.namespace}/{request.rule_set}"


def no_record(request: RulesRequest, view: ClusterView) -> str:
    """The message about a rule set without a record, with the rule sets that have one."""
    known = set()
    for workload in _workloads(request, view):
        try:
            record = read_undo_record(workload)
        except UnreadableAnnotation:
            continue
        for rule_set in record.changes if record else ():
            namespace, _slash, name = rule_set.partition("/")
            known |= {name} if namespace == request.namespace else set()
    sets = f"rule sets with one are {listed(sorted(known))}" if known else "no rule set has one"
    return (
        f"there is nothing to undo: no workload in namespace {request.namespace} has an undo record ({UNDO}) of rule"
        f" set {request.rule_set!r}; {sets}"
    )


def before_change(workload: Workload, record: UndoRecord) -> Workload:
    """The workload with no annotation but that of the rules before the change."""
    annotations = {} if record.rules is None else {RULES: record.rules}
    metadata = {**workload.manifest["metadata"], "annotations": annotations}
    return replace(workload, manifest={"metadata": metadata})


def known_rules(request: RulesRequest, view: ClusterView) -> dict[Ref, KnownRules]:
    """The rules of the set by workload, of those that know one."""
    known = {}
    for workload in _workloads(request, view):
        texts = (workload.annotations.get(name, "") for name in (RULES, UNDO))
        if not any(_set_of(request) in text for text in texts):
            continue
        with contextlib.suppress(UnreadableAnnotation):
            record = read_undo_record(workload)
            now = traits(read_ownership(workload), placement_parts(workload))
            before = {}
            if record is not None:
                parts = {"spec": record.placement, "metadata": {"labels": record.labels}}
                before = traits(read_ownership(before_change(workload, record)), parts)
            change = record.change if record is not None else None
            of_set = KnownRules(_only(request, now), _only(request, before), change)
            if of_set.rules:
                known[workload.ref] = of_set
    return known


def _only(request: RulesRequest, of_rules: Traits) -> Traits:
    return {
        x: found
        for x, found in of_rules.items()
        if f"{x.namespace}/{x.rule_set}" == _set_of(request)
    }


def other_change(request: RulesRequest, view: ClusterView) -> InputError | None:
    """The last change of the rule set is not the one that is to be undone."""
    if not request.undoes:
        return None
    rule_set = _set_of(request)
    records = list(records_of(rule_set, _workloads(request, view)).values())
    last = max((record.changes[rule_set] for record in records), default=0)
    changes = {
        x.change.id for x in records if (x.change.rule_set, x.change.number) == (rule_set, last)
    }
    only_others = not changes and request.undoes.startswith(f"{last}-")
    if request.undoes in changes or only_others:  # other rule sets, which the findings name
        return None
    seen = f"its last change is {listed(sorted(changes) or [str(last)])}"
    return InputError(
        "change",
        f"change {request.undoes} of rule set {request.rule_set!r} in namespace {request.namespace} cannot be undone:"
        f" {seen}. Either that change was not written, or another task has changed the rule set since. Write the rules"
        " of this rule set as they should be",
    )


def _workloads(request: RulesRequest, view: ClusterView) -> list[Workload]:
    return [
        workload
        for ref, workload in sorted(view.snapshot.workloads_by_ref.items())
        if ref.kind in RULE_KINDS and ref.namespace == request.namespace
    ]


def candidates_of(
    request: RulesRequest, view: ClusterView
) -> tuple[list[Candidate], dict[Ref, NotRevertible]]:
    """The workloads of the last change of the rule set, and those that it has written and that cannot be restored."""
    rule_set, workloads = _set_of(request), _workloads(request, view)
    uids = {workload.uid for workload in workloads}
    # A copy of an object that is still there is another object, which the change has not written.
    records = {
        ref: record
        for ref, record in records_of(rule_set, workloads).items()
        if record.uid == view.snapshot.workloads_by_ref[ref].uid or record.uid not in uids
    }
    last = max((record.changes[rule_set] for record in records.values()), default=0)
    candidates: list[Candidate] = []
    left = dict(_damaged(request, workloads))
    for workload in workloads:
        record = records.get(workload.ref)
        if record is None or record.changes[rule_set] != last:
            continue
        if record.uid != workload.uid:
            reason = (
                f"its undo record is of another object (uid {record.uid}): it was restored from a"
                " backup, or copied"
            )
            left[workload.ref] = NotRevertible(reason)
        elif record.change.rule_set != rule_set:
            other = record.change.rule_set.partition("/")[2]
            reason = (
                f"rule set {other!r} has changed it since, and only its last change has a record"
            )
            left[workload.ref] = NotRevertible(reason, WRITE_RULES)
        else:
            candidates.append(Candidate(workload, record))
    if len({candidate.record.change.request for candidate in candidates}) > 1:
        reason = (
            "two changes of the rule set were made at the same time, and which of them was the last"
            " is not known"
        )
        left |= {candidate.ref: NotRevertible(reason, WRITE_RULES) for candidate in candidates}
        candidates = []
    return candidates, left


def _damaged(
    request: RulesRequest, workloads: t.Iterable[Workload]
) -> t.Iterator[tuple[Ref, NotRevertible]]:
    """Workloads that carry rules of the set, and whose record cannot be read."""
    for workload in workloads:
        try:
            read_undo_record(workload)
        except UnreadableAnnotation as error:
            mention = f"{_set_of(request)}/" in workload.annotations.get(RULES, "")
            if mention or f'"{_set_of(request)}"' in workload.annotations[UNDO]:
                yield workload.ref, NotRevertible(str(error), "Change the workload by hand.")


def keep_required_labels(
    candidates: t.Sequence[Candidate],
    restored: dict[Ref, WorkloadChange],
    left: dict[Ref, NotRevertible],
    view: ClusterView,
) -> None:
    """Moves workloads from `restored` to `left` that would keep a pod Pending: those that lose the last label which
    required pod affinity selects, and those with a term that selects by a label which another one does not get back."""
    if not any(candidate.labels ^ candidate.labels_before for candidate in candidates):
        return
    while found := _pending_by_label(candidates, restored, view):
        left |= found
        for ref in found:
            del restored[ref]


def created_with_rules(
    restored: t.Mapping[Ref, WorkloadChange], left: t.Collection[Ref], view: ClusterView
) -> dict[Ref, NotRevertible]:
    """Workloads without an undo record that have rules which the change has added: a policy wrote them at their
    creation. Not where others had such a rule before the change: so may these."""
    merged = [change.merged for change in restored.values()]
    before = {rule for x in merged for rule in x.ownership.rules}
    carriers = OwnershipIndex.of(view).carriers
    found: dict[Ref, list[str]] = {}
    for rule in sorted({rule for x in merged for rule in x.removed} - before):
        others = sorted(carriers.get(rule, frozenset()).difference(restored, left))
        if not any(UNDO in view.snapshot.workloads_by_ref[ref].annotations for ref in others):
            for ref in others:
                found.setdefault(ref, []).append(rule.name)
    return {
        ref: NotRevertible(
            f"it has {listed(names)} of the change, and no undo record: it was created later",
            f"Remove {listed(names)} with state absent.",
        )
        for ref, names in found.items()
    }


def _pending_by_label(
    candidates: t.Iterable[Candidate], restored: t.Mapping[Ref, WorkloadChange], view: ClusterView
) -> dict[Ref, NotRevertible]:
    """The workloads that must not be restored, and why."""
    before = {x.ref: x.labels_before for x in candidates if x.ref in restored}
    held: dict[str, set[Label]] = defaultdict(set)
    for label in _labels_left(before, view):
        held[label[1]].add(label)
    unmet = []
    for ref, workload in view.snapshot.workloads_by_ref.items():
        template = {"spec": restored[ref].merged.after} if ref in restored else workload.template
        for requirement in unmet_requirements(template, ref.namespace, held):
            unmet.append((requirement, ref))
    found: dict[Ref, NotRevertible] = {}
    for candidate in candidates:
        ref, is_restored = candidate.ref, candidate.ref in restored
        sides = candidate.labels, candidate.labels_before
        for label in sorted(sides[0] - sides[1] if is_restored else sides[1] - sides[0]):
            text = label_text(*label[1:])
            for other in [of for requirement, of in unmet if requirement.concerns(label)]:
                if is_restored:
                    found[ref] = NotRevertible(
                        f"{other} requires pods with its label {text}, and no other pod has it",
                        f"Remove that term of {other} and run again, or write the rules of this rule set as they"
                        " should be.",
                    )
                elif other in restored:
                    found[other] = NotRevertible(
                        f"its terms require the label {text}, which {ref} does not get back",
                        WRITE_RULES,
                    )
    return found


def _labels_left(before: t.Mapping[Ref, frozenset[Label]], view: ClusterView) -> t.Iterator[Label]:
    """The labels of templates and running pods once these workloads have those of `before` again."""
    for ref, workload in view.snapshot.workloads_by_ref.items():
        yield from before[ref] if ref in before else _labels(ref, workload.template_labels)
    changing = {
        pod.ref for ref in before for pod in view.pods_of(view.snapshot.workloads_by_ref[ref])
    }
    for pod in view.snapshot.pods:
        if pod.ref not in changing and not (pod.terminating or pod.finished):
            yield from _labels(pod.ref, pod.labels)
