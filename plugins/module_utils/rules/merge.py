# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which write brings the terms of rules into the template of one workload, and out again?

Only what is ours is touched. What others wrote stays byte for byte, in its order; ours is
appended. Taking the last rule away leaves the placement fields as they were before the first. For
required node terms, which are OR-ed, see `required_node_terms`.
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
from . import checks
from .draft import (
    OwnershipChange,
    RequestedRules,
    TemplateDraft,
    TermOfRules,
    ownership_change,
    placement_parts,
    remove_entry,
)
from .ownership import (
    MOST_RULES,
    NoRoomForRules,
    Ownership,
    owners_of,
    read_ownership,
)
from .record import (
    read_undo_record,
    undo_record_of,
    written_placement,
    written_since,
)
from .required_node_terms import merge_node_terms, take_over_selector
from .similar import SelectablePods, select_the_same
from .term_slots import (
    LISTS,
    MAPS,
    Fingerprint,
    TemplateTerm,
    TermLocation,
    ensure,
    pair,
    pairs_of,
    remove,
    tidy,
)
from .write import build_write


@dataclass(frozen=True)
class Merged:
    """What a request does to one workload. `locations` are the kinds of terms that change, `after` the
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
    restored: tuple[TemplateTerm, ...] = ()
    """Terms that rules had written before, and that were no longer there."""
    findings: tuple[Finding, ...] = ()


def merge(workload: Workload, wanted: RequestedRules) -> Merged:
    """What `wanted` changes on the workload.

    A finding of severity error means that the write would not do what the rules say: it is for
    the caller to refuse. Raises UnreadableAnnotation where ours is damaged, or has no room for more rules: nothing may
    be written then.
    """
    ownership = read_ownership(workload)
    change = ownership_change(ownership, wanted, workload.template, workload.ref.namespace)
    before = placement_parts(workload)
    draft = TemplateDraft(workload.ref, copy.deepcopy(before), set(ownership.created))
    merge_node_terms(draft, change)
    if wanted.adopt:
        take_over_selector(draft, change)
    _replace(draft, change.stripped)
    if wanted.adopt_similar:
        _replace(draft, change.similar)
    else:
        draft.findings += [
            finding
            for term, rules_of_term in change.similar
            for finding in checks.similar_term(rules_of_term, draft.ref, term)
        ]
    _take_out(draft, change)
    _put_in(draft, change)
    _check_affinity(draft, change, wanted.pods)
    owned = _ownership_after(workload, ownership, change, draft)
    rules = owned.text() if owned.rules else None
    if owned == ownership:
        rules = workload.annotations.get(RULES)
    # A term of a rule that was lost and is written again is no change of the rules. Terms of a copy that become its
    # own are one.
    changed = (ownership.uid, ownership.rules) != (owned.uid, owned.rules) or bool(draft.replacing)
    undo = workload.annotations.get(UNDO)
    previous = read_undo_record(workload)
    # The record of a request that is made again has the placement before it.
    again = previous is not None and previous.is_of(wanted.change)
    if (previous is None and draft.touched) or (changed and not again):
        written = written_placement(before, draft.root, rules)
        since = written_since(ownership, owned, previous, wanted.change.at)
        undo = undo_record_of(workload, wanted.change, written, previous, since).text()
    annotations = {RULES: rules, UNDO: undo}
    return Merged(
        build_write(workload, before, draft.root, annotations, (ownership, owned)),
        owned,
        draft.root["spec"],
        added=tuple(sorted(set(owned.rules) - set(ownership.rules))),
        updated=_updated(ownership, owned, draft),
        removed=tuple(sorted(set(ownership.rules) - set(owned.rules))),
        locations=frozenset(fingerprint.location for fingerprint in draft.touched),
        removed_terms=change.removed,
        restored=tuple(
            TemplateTerm(fingerprint.location, value)
            for fingerprint, value in change.values.items()
            if fingerprint in draft.touched and ownership.owned(fingerprint) is not None
        ),
        findings=tuple(draft.findings),
    )


def _replace(draft: TemplateDraft, terms: t.Iterable[TermOfRules]) -> None:
    """Remove terms whose place those of rules take."""
    for term, rules in terms:
        if remove_entry(LISTS[term.location].read(draft.root, None) or [], term.fingerprint):
            draft.touched.add(term.fingerprint)
            draft.replacing |= {*rules}


def _take_out(draft: TemplateDraft, change: OwnershipChange) -> None:
    for fingerprint in change.removed:
        if fingerprint.location in LISTS:
            entries = LISTS[fingerprint.location].read(draft.root, None) or []
            if remove_entry(entries, fingerprint):
                draft.touched.add(fingerprint)
        elif fingerprint.location in MAPS:
            for term in [*pairs_of(draft.root, fingerprint.location)]:
                if fingerprint.has_same_effect(term.fingerprint):
                    remove(draft.root, MAPS[fingerprint.location] / term.value["key"])
                    draft.touched.add(fingerprint)


def _put_in(draft: TemplateDraft, change: OwnershipChange) -> None:
    for fingerprint, value in change.values.items():
        if fingerprint.location in LISTS:
            _append(draft, change, fingerprint, value)
        elif fingerprint.location in MAPS:
            _set_key(draft, change, fingerprint, value)


def _append(
    draft: TemplateDraft, change: OwnershipChange, fingerprint: Fingerprint, value: JSON
) -> None:
    entries = LISTS[fingerprint.location].read(draft.root, None) or []
    alike = any(
        fingerprint.effect == TemplateTerm(fingerprint.location, entry).effect for entry in entries
    )
    if alike and change.is_ours(fingerprint):
        return
    fields = ("topologyKey", "whenUnsatisfiable")
    duplicates = [x for x in entries if all(x.get(name) == value.get(name) for name in fields)]
    if fingerprint.location is TermLocation.SPREAD and duplicates:
        rules = change.rules_with(fingerprint)
        first = TemplateTerm(TermLocation.SPREAD, duplicates[0])
        present = [] if alike else owners_of(change.rules, first)
        similar = any(term.value == first.value for term, _rules in change.similar)
        option = "similar" if similar else "true" if alike else ""
        draft.findings += checks.duplicate_spread(rules, draft.ref, value, present, option)
        return
    ensure(draft.root, LISTS[fingerprint.location], [], draft.created).append(copy.deepcopy(value))
    draft.touched.add(fingerprint)


def _set_key(
    draft: TemplateDraft, change: OwnershipChange, fingerprint: Fingerprint, wanted: JSON
) -> None:
    key, value = wanted["key"], wanted["value"]
    present = (MAPS[fingerprint.location].read(draft.root, None) or {}).get(key)
    if present == value:
        return
    if present is not None:
        name, field_name = (
            (checks.LABEL_CONFLICT, "label")
            if fingerprint.location is TermLocation.LABEL
            else (checks.NODE_SELECTOR_CONFLICT, "nodeSelector")
        )
        owners = owners_of(change.rules, pair(fingerprint.location, key, present))
        draft.findings += checks.value_conflict(
            change.rules_with(fingerprint), draft.ref, name, field_name, wanted, present, owners
        )
        return
    ensure(draft.root, MAPS[fingerprint.location], {}, draft.created)[key] = value
    draft.touched.add(fingerprint)


def _check_affinity(
    draft: TemplateDraft, change: OwnershipChange, pods: SelectablePods | None
) -> None:
    """Several required affinity terms do no harm if they select the same pods: these match all of them."""
    affinity = TermLocation.AFFINITY
    terms = [TemplateTerm(affinity, x) for x in LISTS[affinity].read(draft.root, None) or ()]
    meanings = {term.effect for term in terms}
    rules = change.wanted_by.get(affinity, ())
    if not rules or len(meanings) < 2:
        return
    namespace = draft.ref.namespace
    if pods is None or not select_the_same(terms, namespace, pods):
        carried = [
            rule
            for rule, owned in change.rules.items()
            if any(fingerprint.location is affinity for fingerprint in owned.terms)
        ]
        draft.findings += checks.multiple_required_affinity(
            rules, draft.ref, len(meanings), carried
        )


def _ownership_after(
    workload: Workload, before: Ownership, change: OwnershipChange, draft: TemplateDraft
) -> Ownership:
    """Bookkeeping alone is no reason to write: then it stays as it was."""
    created = tidy(draft.root, draft.created)
    if not change.rules:
        return Ownership(workload.uid)
    if len(change.rules) > MOST_RULES:
        raise NoRoomForRules(
            f"{workload.ref} would have {len(change.rules)} rules, at most {MOST_RULES} are possible: put constraints"
            " that belong together into one rule"
        )
    if not draft.touched and dict(change.rules) == dict(before.rules):
        created = set(before.created)
    return Ownership(workload.uid, change.rules, frozenset(created))


def _updated(before: Ownership, after: Ownership, draft: TemplateDraft) -> tuple[RuleId, ...]:
    """Rules that stay and have other terms or options now, or had lost a term, and those that begin or end to rest."""
    both = set(before.rules) & set(after.rules)
    return tuple(
        sorted(
            rule
            for rule in both
            if before.uid != after.uid
            or rule in draft.replacing
            or before.rules[rule] != after.rules[rule]
            or draft.touched & {*after.rules[rule].terms}
        )
    )
