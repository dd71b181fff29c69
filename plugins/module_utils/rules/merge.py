# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which write brings the terms of rules into the template of one workload, and out again?

Only what is ours is touched. What others wrote stays byte for byte, in its order; ours is
appended. Taking the last rule away leaves the placement fields as they were before the first.
"""

from __future__ import annotations

import copy
import typing as t
from dataclasses import dataclass

from ..model.findings import Finding
from ..model.json_pointer import JSON
from ..model.kinds import RULES, UNDO
from ..model.rule import RuleId
from ..model.snapshot import Workload
from ..model.write import Write
from . import conflicts
from .draft import OwnershipChange, RequestedRules, TemplateDraft, ownership_change, placement_parts
from .merge_node_terms import merge_node_terms, remove_entry, take_over_selector
from .ownership import (
    Fingerprint,
    Ownership,
    owners_of,
    read_ownership,
    read_undo_record,
    undo_record_of,
)
from .term_slots import LISTS, MAPS, TermLocation, ensure, tidy
from .write import build_write


@dataclass(frozen=True)
class Merged:
    """What a request does to one workload. `slots` are the kinds of terms that change, `after` the
    template's placement fields as they are to be."""

    write: Write | None
    ownership: Ownership
    after: t.Mapping[str, JSON]
    added: tuple[RuleId, ...] = ()
    updated: tuple[RuleId, ...] = ()
    removed: tuple[RuleId, ...] = ()
    locations: frozenset[TermLocation] = frozenset()
    removed_terms: tuple[Fingerprint, ...] = ()
    """Terms that were ours and belong to no rule any more."""
    findings: tuple[Finding, ...] = ()


def merge(workload: Workload, wanted: RequestedRules) -> Merged:
    """What `wanted` changes on the workload.

    A finding of severity error means that the write would not do what the rules say: it is for
    the caller to refuse. Raises UnreadableAnnotation where ours is damaged: nothing may be
    written then.
    """
    ownership = read_ownership(workload)
    claims = ownership_change(ownership, wanted, workload.template)
    before = placement_parts(workload)
    draft = TemplateDraft(workload.ref, copy.deepcopy(before), set(ownership.created))
    merge_node_terms(draft, claims)
    if wanted.adopt:
        take_over_selector(draft, claims)
    _take_out(draft, claims)
    _put_in(draft, claims)
    _check_affinity(draft, claims)
    owned = _ownership_after(workload, ownership, claims, draft)
    annotations = {
        RULES: owned.text() if owned.rules else None,
        UNDO: _undo_record_after(workload, owned, draft),
    }
    if owned == ownership:
        annotations[RULES] = workload.annotations.get(RULES)
    return Merged(
        build_write(workload, before, draft.root, annotations, (ownership, owned)),
        owned,
        draft.root["spec"],
        added=tuple(sorted(set(owned.rules) - set(ownership.rules))),
        updated=_updated(ownership, owned, draft),
        removed=tuple(sorted(set(ownership.rules) - set(owned.rules))),
        locations=frozenset(mark.location for mark in draft.touched),
        removed_terms=claims.removed,
        findings=tuple(draft.findings),
    )


def _take_out(draft: TemplateDraft, claims: OwnershipChange) -> None:
    for mark in claims.removed:
        if mark.location in LISTS:
            entries = LISTS[mark.location].read(draft.root, None) or []
            if remove_entry(entries, mark):
                draft.touched.add(mark)
        elif mark.location in MAPS:
            entries = MAPS[mark.location].read(draft.root, None) or {}
            for key, value in list(entries.items()):
                if mark.has_same_effect(
                    Fingerprint.of(mark.location, {"key": key, "value": value})
                ):
                    del entries[key]
                    draft.touched.add(mark)


def _put_in(draft: TemplateDraft, claims: OwnershipChange) -> None:
    for mark, value in claims.values.items():
        if mark.location in LISTS:
            _append(draft, claims, mark, value)
        elif mark.location in MAPS:
            _set_key(draft, claims, mark, value)


def _append(draft: TemplateDraft, claims: OwnershipChange, mark: Fingerprint, value: JSON) -> None:
    entries = LISTS[mark.location].read(draft.root, None) or []
    alike = any(mark.has_same_effect(Fingerprint.of(mark.location, entry)) for entry in entries)
    if alike and claims.is_ours(mark):
        return
    fields = ("topologyKey", "whenUnsatisfiable")
    duplicates = [x for x in entries if all(x.get(name) == value.get(name) for name in fields)]
    if mark.location is TermLocation.SPREAD and duplicates:
        rules, present = (
            _rules_with(claims, mark),
            owners_of(claims.rules, mark.location, duplicates[0]),
        )
        draft.findings += conflicts.duplicate_spread(rules, draft.ref, value, present)
        return
    ensure(draft.root, LISTS[mark.location], [], draft.created).append(copy.deepcopy(value))
    draft.touched.add(mark)


def _set_key(
    draft: TemplateDraft, claims: OwnershipChange, mark: Fingerprint, wanted: JSON
) -> None:
    key, value = wanted["key"], wanted["value"]
    present = (MAPS[mark.location].read(draft.root, None) or {}).get(key)
    if present == value:
        return
    if present is not None:
        name, field_name = (
            (conflicts.LABEL_CONFLICT, "label")
            if mark.location is TermLocation.LABEL
            else (conflicts.NODE_SELECTOR_CONFLICT, "nodeSelector")
        )
        owners = owners_of(claims.rules, mark.location, {"key": key, "value": present})
        draft.findings += conflicts.value_conflict(
            _rules_with(claims, mark), draft.ref, name, field_name, wanted, present, owners
        )
        return
    ensure(draft.root, MAPS[mark.location], {}, draft.created)[key] = value
    draft.touched.add(mark)


def _check_affinity(draft: TemplateDraft, claims: OwnershipChange) -> None:
    entries = LISTS[TermLocation.AFFINITY].read(draft.root, None) or ()
    meanings = {Fingerprint.of(TermLocation.AFFINITY, entry).meaning for entry in entries}
    rules = claims.wanted_by.get(TermLocation.AFFINITY, ())
    if rules and len(meanings) > 1:
        carried = [
            rule
            for rule, marks in claims.rules.items()
            if any(mark.location is TermLocation.AFFINITY for mark in marks)
        ]
        draft.findings += conflicts.multiple_required_affinity(
            rules, draft.ref, len(meanings), carried
        )


def _rules_with(claims: OwnershipChange, mark: Fingerprint) -> list[RuleId]:
    rules = claims.wanted_by.get(mark.location, ())
    return [rule for rule in rules if mark in claims.rules.get(rule, ())]


def _ownership_after(
    workload: Workload, before: Ownership, claims: OwnershipChange, draft: TemplateDraft
) -> Ownership:
    """Bookkeeping alone is no reason to write: then it stays as it was."""
    created = tidy(draft.root, draft.created)
    if not claims.rules:
        return Ownership(workload.uid)
    if not draft.touched and dict(claims.rules) == dict(before.rules):
        created = set(before.created)
    return Ownership(workload.uid, claims.rules, frozenset(created))


def _undo_record_after(workload: Workload, owned: Ownership, draft: TemplateDraft) -> str | None:
    """The first change of a workload writes the record, a change back to the previous placement removes it."""
    text = workload.annotations.get(UNDO)
    record = read_undo_record(workload)
    if not draft.touched:
        return text
    if record is None:
        return undo_record_of(workload).text()
    is_previous_placement = (
        record.placement == draft.root["spec"]
        and record.labels == (MAPS[TermLocation.LABEL].read(draft.root, None) or {})
        and record.rules == (owned.text() if owned.rules else None)
    )
    return None if is_previous_placement else text


def _updated(before: Ownership, after: Ownership, draft: TemplateDraft) -> tuple[RuleId, ...]:
    """Rules that stay and have other terms now, or had lost one."""
    both = set(before.rules) & set(after.rules)
    return tuple(
        sorted(
            rule
            for rule in both
            if before.uid != after.uid
            or set(before.rules[rule]) != set(after.rules[rule])
            or draft.touched & set(after.rules[rule])
        )
    )
