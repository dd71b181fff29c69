# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which writes restore the placement fields of a rule set's workloads as they were before its last change?

The undo record of each workload has them. A workload that others have changed since is left as it is, as a whole: a
part of its fields without the others is a placement that nobody has asked for.
"""

from __future__ import annotations

import copy
import typing as t
from dataclasses import dataclass, replace

from ..model.findings import Finding, InputError, InvalidInput
from ..model.json_pointer import JSON
from ..model.kinds import KINDS, RULE_KINDS, RULES, UNDO
from ..model.objects import Ref
from ..model.rendering import listed
from ..model.snapshot import Snapshot, Workload, managed_by
from ..model.write import Write
from ..view.view import ClusterView
from .change import WorkloadChange, of_change, staged_change
from .checks import CHANGED_BY_WEBHOOK, is_refused
from .draft import placement_parts, present_terms
from .labels_first import needs_of_restored, ordered_stages
from .merge import Merged
from .ownership import (
    Fingerprint,
    Ownership,
    UnreadableAnnotation,
    digest,
    read_ownership,
)
from .plan import RulesPlan, RulesRequest, option_faults
from .term_slots import MAPS, TermLocation, ensure, tidy
from .undo import (
    RuleSetChange,
    UndoRecord,
    field_digest,
    read_undo_record,
    records_of,
)
from .write import Relabel, build_write, labels_of, relabels

NOT_REVERTED = "not_reverted"

_LABELS = MAPS[TermLocation.LABEL]


BY_HAND = "Compare its placement fields with those of its undo record, and change it by hand."


class NotRevertible(Exception):
    """Why a workload is left as it is: the end of a sentence about it. `advice`: what to do."""

    def __init__(self, reason: str, advice: str = BY_HAND) -> None:
        super().__init__(reason)
        self.advice = advice


@dataclass(frozen=True)
class _Candidate:
    """A workload that the change has written, with its record."""

    workload: Workload
    record: UndoRecord


def plan_revert(snapshot: Snapshot, request: RulesRequest) -> RulesPlan:
    """What `state: reverted` changes. Raises InvalidInput with every error of the options, and where no workload has
    a record of the rule set."""
    view = ClusterView(snapshot)
    faults = [*request.faults, *option_faults(request, view)]
    faults += _unread(request, view)
    candidates, findings = _candidates(request, view)
    if not candidates and not findings and not faults:
        faults.append(InputError("state", _no_record(request, view)))
    if faults:
        raise InvalidInput(faults)
    changes: list[WorkloadChange] = []
    reverted: set[Ref] = set()
    for candidate in candidates:
        try:
            change = _change(candidate, view)
        except NotRevertible as error:
            findings.append(_not_reverted(candidate.workload.ref, str(error), error.advice))
            continue
        reverted.add(candidate.workload.ref)
        if change.stages:
            changes.append(change)
            findings += of_change(change, request.workload_rollout)
    if not reverted:  # nothing of what was asked for can be done
        findings = [replace(finding, severity="error") for finding in findings]
    needs = needs_of_restored(changes)
    return RulesPlan(
        stages=ordered_stages(needs, changes),
        workloads=tuple(changes),
        findings=tuple(findings),
        refused=tuple(x for x in findings if is_refused(x, (), request.fail_on_findings)),
        recompute=RecomputeRevert({x.workload.ref: x.record.change for x in candidates}, changes),
        owner_of={relabel.target: change.ref for change in changes for relabel in change.relabels},
        needs=needs,
        requested={},
        about=len(reverted.union(*(finding.objects for finding in findings))),
        members=frozenset(reverted),
    )


def _unread(request: RulesRequest, view: ClusterView) -> list[InputError]:
    """A kind that cannot be listed may hide workloads that the change has written."""
    gaps = (
        view.snapshot.why_unreadable(KINDS[kind].plural, request.namespace) for kind in RULE_KINDS
    )
    return [InputError("state", str(gap)) for gap in gaps if gap is not None]


def _set_of(request: RulesRequest) -> str:
    return f"{request.namespace}/{request.rule_set}"


def _no_record(request: RulesRequest, view: ClusterView) -> str:
    known = set()
    for workload in _workloads(request, view):
        try:
            record = read_undo_record(workload)
        except UnreadableAnnotation:
            continue
        known |= {name.partition("/")[2] for name in (record.changes if record else ())}
    sets = f"rule sets with one are {listed(sorted(known))}" if known else "no rule set has one"
    return (
        f"there is nothing to undo: no workload in namespace {request.namespace} has an undo record ({UNDO}) of rule"
        f" set {request.rule_set!r}; {sets}"
    )


def _workloads(request: RulesRequest, view: ClusterView) -> list[Workload]:
    return [
        workload
        for ref, workload in sorted(view.workloads.items())
        if ref.kind in RULE_KINDS and ref.namespace == request.namespace
    ]


def _candidates(request: RulesRequest, view: ClusterView) -> tuple[list[_Candidate], list[Finding]]:
    """The workloads of the last change of the rule set. Findings: those that it has written and that cannot be
    restored, since the record is damaged or is about another rule set by now."""
    rule_set, workloads = _set_of(request), _workloads(request, view)
    records = records_of(rule_set, workloads)
    findings = [*_damaged(request, workloads)]
    last = max((record.changes[rule_set] for record in records.values()), default=0)
    candidates = []
    for workload in workloads:
        record = records.get(workload.ref)
        if record is None or record.changes[rule_set] != last:
            continue
        if record.change.rule_set != rule_set:
            other = record.change.rule_set.partition("/")[2]
            reason = (
                f"rule set {other!r} has changed it since, and only its last change has a record"
            )
            advice = "Write the rules of this rule set as they should be."
            findings.append(_not_reverted(workload.ref, reason, advice))
        else:
            candidates.append(_Candidate(workload, record))
    return candidates, findings


def _damaged(request: RulesRequest, workloads: t.Iterable[Workload]) -> t.Iterator[Finding]:
    """Workloads that carry rules of the set, and whose record cannot be read."""
    for workload in workloads:
        try:
            read_undo_record(workload)
        except UnreadableAnnotation as error:
            mention = f"{_set_of(request)}/" in workload.annotations.get(RULES, "")
            if mention or f'"{_set_of(request)}"' in workload.annotations[UNDO]:
                yield _not_reverted(workload.ref, str(error), "Change the workload by hand.")


def _annotated(workload: Workload, record: UndoRecord) -> dict[str, JSON]:
    """The metadata of the workload with the ownership before the change."""
    annotations = {} if record.rules is None else {RULES: record.rules}
    return {"metadata": {**workload.manifest["metadata"], "annotations": annotations}}


def _not_reverted(ref: Ref, reason: str, advice: str) -> Finding:
    return Finding(
        NOT_REVERTED,
        "warning",
        f"{ref} was left as it is: {reason}.",
        advice,
        (ref,),
    )


def _change(candidate: _Candidate, view: ClusterView) -> WorkloadChange:
    """The change that restores one workload; without writes where that was done before. Raises NotRevertible."""
    workload, record = candidate.workload, candidate.record
    merged = restore(workload, record)
    relabeled = relabels(workload, view, _labels_to_set(workload, record), merged.removed_terms)
    return staged_change(workload, merged, relabeled, view)


def _labels_to_set(workload: Workload, record: UndoRecord) -> list[tuple[str, str]]:
    """Labels that the change removed. What runs gets them where the template has them, or is given them now."""
    has = workload.template_labels
    return sorted(
        (key, record.labels[key])
        for key in record.written.labels
        if key in record.labels and (not record.reverted or has.get(key) == record.labels[key])
    )


def restore(workload: Workload, record: UndoRecord) -> Merged:
    """What restores the workload as `record` has it; without a write where that was done. Raises NotRevertible where
    others have changed since what the change has written."""
    if record.reverted:
        ownership = _ownership(workload)
        return Merged(None, ownership, placement_parts(workload)["spec"])
    _refuse_changed(workload, record)
    before = placement_parts(workload)
    after = copy.deepcopy(before)
    for name in record.written.fields:
        after["spec"].pop(name, None)
        if name in record.placement:
            after["spec"][name] = copy.deepcopy(record.placement[name])
    ownership = _ownership(workload)
    owned = _ownership(replace(workload, manifest=_annotated(workload, record)))
    created = set(ownership.created) - set(owned.created)
    labels = _LABELS.read(after, None)
    for key in sorted(record.written.labels):
        if key in record.labels:
            labels = ensure(after, _LABELS, {}, set())
            labels[key] = record.labels[key]
        elif labels is not None:
            labels.pop(key, None)
    tidy(after, [text for text in created if text.startswith("/metadata")])
    annotations = {RULES: record.rules, UNDO: replace(record, reverted=True).text()}
    terms = {*present_terms(before)}, {*present_terms(after)}
    locations = {fingerprint.location for fingerprint in terms[0] ^ terms[1]}
    if not locations and record.written.fields:
        locations = {
            TermLocation.NODE_TERM
        }  # another order or an empty list: the template is another one
    rules = set(ownership.rules), set(owned.rules)
    same = rules[0] & rules[1]
    updated = {
        rule
        for rule in same
        if ownership.rules[rule] != owned.rules[rule]
        or (rule in ownership.resting) != (rule in owned.resting)
    }
    return Merged(
        build_write(workload, before, after, annotations, (ownership, owned)),
        owned,
        after["spec"],
        added=tuple(sorted(rules[1] - rules[0])),
        updated=tuple(sorted(updated)),
        removed=tuple(sorted(rules[0] - rules[1])),
        locations=frozenset(locations),
        removed_terms=tuple(sorted(x for x in terms[0] - terms[1] if _is_label(x))),
    )


def _is_label(fingerprint: Fingerprint) -> bool:
    return fingerprint.location is TermLocation.LABEL


def _ownership(workload: Workload) -> Ownership:
    try:
        return read_ownership(workload)
    except UnreadableAnnotation as error:
        raise NotRevertible(str(error), "Change the workload by hand.") from error


def _refuse_changed(workload: Workload, record: UndoRecord) -> None:
    spec, labels = workload.template.get("spec") or {}, workload.template_labels
    written = record.written
    changed = [
        name
        for name, text in sorted(written.fields.items())
        if field_digest(spec.get(name)) != text
    ]
    changed += [
        f"label {key}" for key, value in sorted(written.labels.items()) if labels.get(key) != value
    ]
    if digest(workload.annotations.get(RULES), 12) != written.rules:
        changed.append(f"annotation {RULES}")
    if changed:
        raise NotRevertible(f"{listed(changed)} changed since the rules were written")
    manager = managed_by(workload)
    if manager is not None:
        raise NotRevertible(
            f"{manager} manages it and would revert the change", "Revert the change at its source."
        )


class RecomputeRevert:
    """Calling it gives the write for a freshly read manifest, None where nothing is left to do. Raises InvalidInput
    where the object has changed meanwhile, or was restored and is not as its record says."""

    def __init__(
        self,
        of_workload: t.Mapping[Ref, RuleSetChange],
        changes: t.Iterable[WorkloadChange],
    ) -> None:
        self._of_workload = of_workload
        self._relabels: dict[Ref, Relabel] = {
            relabel.target: relabel for change in changes for relabel in change.relabels
        }

    def __call__(self, write: Write, manifest: JSON) -> Write | None:
        if write.target in self._relabels:
            return self._relabels[write.target].again(write, labels_of(manifest))
        workload = Workload(write.target, manifest["metadata"]["uid"], manifest)
        record = read_undo_record(workload)
        if record is None or record.change != self._of_workload[write.target]:
            raise InvalidInput(
                [
                    InputError(
                        str(write.target), "was changed meanwhile: its undo record is another one"
                    )
                ]
            )
        if record.reverted:
            _check_restored(workload, record)
            return None
        try:
            return restore(workload, record).write
        except NotRevertible as error:
            raise InvalidInput([InputError(str(write.target), str(error))]) from error


def _check_restored(workload: Workload, record: UndoRecord) -> None:
    spec = workload.template.get("spec") or {}
    differ = [
        name
        for name in record.written.fields
        if field_digest(spec.get(name)) != field_digest(record.placement.get(name))
    ]
    if differ:
        text = f"{CHANGED_BY_WEBHOOK}: its {listed(differ)} are not as they were written"
        raise InvalidInput([InputError(str(workload.ref), text)])
