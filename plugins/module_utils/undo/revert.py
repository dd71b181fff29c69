# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which writes restore the placement fields of a rule set's workloads as they were before its last change?

The undo record of each workload has them. A workload that others have changed since is left as it is, as a whole: a
part of its fields without the others is a placement that no rule set has asked for.
"""

from __future__ import annotations

import copy
import typing as t
from dataclasses import replace

from ..kinds.registry import KINDS, RULE_KINDS
from ..model.findings import Finding, InputError, InvalidInput, Severity
from ..model.json_pointer import JSON
from ..model.kinds import RULES, UNDO
from ..model.objects import Ref
from ..model.rendering import Entry, listed
from ..model.rule import RuleId
from ..model.snapshot import Snapshot, Workload, managed_by, unreadable_texts
from ..model.write import Write
from ..rules.change import (
    WorkloadChange,
    staged_change,
)
from ..rules.checks import CHANGED_BY_WEBHOOK, NOT_REVERTED
from ..rules.draft import placement_parts, present_terms
from ..rules.labels_first import needs_of_restored
from ..rules.merge import Merged
from ..rules.ownership import NoRoomForRules, Ownership, UnreadableAnnotation, read_ownership
from ..rules.record import (
    RuleSetChange,
    UndoRecord,
    field_digest,
    read_undo_record,
)
from ..rules.rules_plan import ExtraFindings, Restoration, RulesPlan, plan_of_changes
from ..rules.rules_request import RulesRequest, option_faults
from ..rules.term_slots import MAPS, TermLocation, digest, ensure, tidy
from ..rules.write import Relabel, build_write, labels_of, relabels
from ..view.view import ClusterView, view_of
from .last_change import (
    WRITE_RULES,
    Candidate,
    NotRevertible,
    before_change,
    candidates_of,
    created_with_rules,
    keep_required_labels,
    known_rules,
    no_record,
    other_change,
)
from .restorable import KnownBy, RuleSetOnWorkload

_LABELS = MAPS[TermLocation.LABEL]


def plan_revert(
    snapshot: Snapshot, request: RulesRequest, extra_findings: ExtraFindings | None = None
) -> RulesPlan:
    """What `state: reverted` changes. Raises InvalidInput with every error of the options, and where no workload has
    a record of the rule set."""
    view = view_of(snapshot)
    faults = [
        InputError(
            name, "does not go with state reverted, which restores the whole rule set: omit it"
        )
        for name in ("rules", "prune", "adopt")
        if getattr(request, name) or (name == "rules" and request.broken)
    ]
    faults = [*request.faults, *faults, *option_faults(request, view, ("reverted",))]
    faults += _unread(request, view)
    candidates, left = candidates_of(request, view)
    if not candidates and not left and not faults:
        faults.append(InputError("state", no_record(request, view)))
    elif (other := other_change(request, view)) is not None:
        faults.append(other)
    if faults:
        raise InvalidInput(faults)
    restored: dict[Ref, WorkloadChange] = {}
    known = known_rules(request, view)
    for candidate in candidates:
        try:
            restored[candidate.ref] = _change(candidate, view, known)
        except NotRevertible as error:
            left[candidate.ref] = error
    keep_required_labels(candidates, restored, left, view)
    left |= created_with_rules(restored, left, view)
    severity: Severity = "warning" if restored else "error"  # nothing of the request can be done
    findings = [
        Finding(NOT_REVERTED, severity, f"{ref} was left as it is: {error}.", error.advice, (ref,))
        for ref, error in sorted(left.items())
    ]
    changes = [change for change in restored.values() if change.stages]
    needs = needs_of_restored(
        changes, {x.ref: _labels_to_set(x.workload, x.record) for x in candidates}
    )
    recompute = RecomputeRevert({x.ref: x.record.change for x in candidates}, changes, known)
    plan = plan_of_changes(view, request, changes, findings, needs, recompute, extra_findings)
    return replace(plan, about=len({*restored, *left}), members=frozenset(restored))


def restored_and_left(restored: t.Sequence[JSON], findings: t.Iterable[Finding]) -> dict[str, JSON]:
    """The workloads that are as they were before the last change, and those that are left as they are, with the
    reason."""
    left = [
        {**ref._asdict(), "reason": finding.why}
        for finding in findings
        if finding.name == NOT_REVERTED
        for ref in finding.objects
    ]
    return {"reverted": restored, "not_reverted": left}


def entries(
    plan: RulesPlan, written: t.Sequence[WorkloadChange], check: bool
) -> tuple[list[Entry], list[Entry]]:
    """The workloads that get back what others than the last change have declared, or that an earlier task has
    restored; and those that are left as they are."""
    back = [x.ref.namespaced_name for x in written if x.merged.added or x.merged.updated]
    text = f"{'would get' if check else 'got'} constraints back, by their undo records"
    done = [Entry("constraints_restored", text, tuple(back))] if back else []
    if plan.members and not plan.workloads:
        names = tuple(ref.namespaced_name for ref in sorted(plan.members))
        done = [Entry("unchanged", "restored by an earlier run", names)]
    left = [
        Entry(NOT_REVERTED, finding.why, tuple(ref.namespaced_name for ref in finding.objects))
        for finding in plan.findings
        if finding.name == NOT_REVERTED
    ]
    return done, left


REVERT = Restoration(plan_revert, restored_and_left, entries)


def _unread(request: RulesRequest, view: ClusterView) -> list[InputError]:
    """A kind that cannot be listed may hide workloads that the change has written."""
    gaps = (
        view.snapshot.why_unreadable(KINDS[kind].plural, request.namespace) for kind in RULE_KINDS
    )
    return [InputError("state", text) for text in unreadable_texts(x for x in gaps if x)]


def _change(candidate: Candidate, view: ClusterView, known: KnownBy) -> WorkloadChange:
    """The change that restores one workload; without writes where that was done before. Raises NotRevertible."""
    workload, record = candidate.workload, candidate.record
    merged = restore(workload, record, known)
    relabeled = relabels(workload, view, _labels_to_set(workload, record), merged.removed_terms)
    for relabel, current in relabeled:
        for key, present, value in relabel.conflicts(current):
            raise NotRevertible(
                f"{relabel.target} has the label {key}={present} by now, and not {value}",
                "Remove that label by hand if nothing depends on it, and run again.",
            )
    return staged_change(workload, merged, relabeled, view)


def _labels_to_set(workload: Workload, record: UndoRecord) -> list[tuple[str, str]]:
    """Labels that the change removed. What runs gets them where the template has them, or is given them now."""
    has = workload.template_labels
    return sorted(
        (key, record.labels[key])
        for key in record.written.labels
        if key in record.labels and (not record.reverted or has.get(key) == record.labels[key])
    )


def restore(workload: Workload, record: UndoRecord, known: KnownBy) -> Merged:
    """What restores the workload as `record` has it; without a write where that was done. Raises NotRevertible where
    others have changed since what the change has written, or the record has what no change of the rules wrote. `known`
    are the rules of the set by workload (last_change.known_rules)."""
    if record.reverted:
        return Merged(None, _ownership(workload), placement_parts(workload)["spec"])
    _refuse_changed(workload, record)
    ownership, owned = _ownership(workload), _ownership(before_change(workload, record))
    before = placement_parts(workload)
    after = _placement_before(before, record, {*ownership.created} - {*owned.created})
    on_workload = RuleSetOnWorkload(
        workload, record.change, ownership, owned, (before, after), known
    )
    if (fault := on_workload.fault()) is not None:
        raise NotRevertible(fault, WRITE_RULES)
    annotations = {RULES: record.rules, UNDO: replace(record, reverted=True).text()}
    try:
        write = build_write(workload, before, after, annotations, (ownership, owned))
    except NoRoomForRules as error:
        raise NotRevertible(str(error), "Shorten or remove other annotations.") from error
    terms = {*present_terms(before)}, {*present_terms(after)}
    locations = {fingerprint.location for fingerprint in terms[0] ^ terms[1]}
    if not locations and record.written.fields:
        # Another order, or an empty list: the template is another one.
        locations = {TermLocation.NODE_TERM}
    return Merged(
        write,
        owned,
        after["spec"],
        added=tuple(sorted(owned.rules.keys() - ownership.rules.keys())),
        updated=tuple(sorted(_updated(ownership, owned, record))),
        removed=tuple(sorted(ownership.rules.keys() - owned.rules.keys())),
        locations=frozenset(locations),
        removed_terms=tuple(
            sorted(x for x in terms[0] - terms[1] if x.location is TermLocation.LABEL)
        ),
    )


def _placement_before(present: JSON, record: UndoRecord, created: t.Collection[str]) -> JSON:
    """The parts of the template before the change. `created` are pointers to maps and lists that it has added."""
    parts = copy.deepcopy(present)
    for name in record.written.fields:
        parts["spec"].pop(name, None)
        if name in record.placement:
            parts["spec"][name] = copy.deepcopy(record.placement[name])
    labels = _LABELS.read(parts, None)
    for key in sorted(record.written.labels):
        if key in record.labels:
            labels = ensure(parts, _LABELS, {}, set())
            labels[key] = record.labels[key]
        elif labels is not None:
            labels.pop(key, None)
    tidy(parts, [text for text in created if text.startswith("/metadata")])
    return parts


def _updated(ownership: Ownership, owned: Ownership, record: UndoRecord) -> set[RuleId]:
    """The rules that the workload keeps, and whose terms or options change: those of the rule set where only terms of
    others come back."""
    same = ownership.rules.keys() & owned.rules.keys()
    if ownership.uid != owned.uid:
        return same
    if ownership.rules == owned.rules:  # similar terms of others come back
        return {x for x in same if f"{x.namespace}/{x.rule_set}" == record.change.rule_set}
    return {rule for rule in same if ownership.rules[rule] != owned.rules[rule]}


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
        known: KnownBy,
    ) -> None:
        self._of_workload = of_workload
        self._known = known
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
            return restore(workload, record, self._known).write
        except NotRevertible as error:
            raise InvalidInput([InputError(str(write.target), str(error))]) from error


def _check_restored(workload: Workload, record: UndoRecord) -> None:
    spec = workload.template.get("spec") or {}
    labels = workload.template_labels
    differ = [
        name
        for name in record.written.fields
        if field_digest(spec.get(name)) != field_digest(record.placement.get(name))
    ]
    differ += [
        f"label {key}" for key in record.written.labels if labels.get(key) != record.labels.get(key)
    ]
    if differ:
        text = f"{CHANGED_BY_WEBHOOK}: its {listed(differ)} changed again after the write"
        raise InvalidInput([InputError(str(workload.ref), text)])
