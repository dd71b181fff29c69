# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Terms of rules into the template of one workload, and out again: one write, or none.

Only what is ours is touched. What others wrote stays byte for byte, in its order; ours is
appended. Taking the last rule away leaves the placement fields as they were before the first.
"""

from __future__ import annotations

import copy
import typing as t
from dataclasses import dataclass

from ..model.finding import Finding
from ..model.names import JOURNAL, RULES
from ..model.pointer import JSON
from ..model.rule import RuleId
from ..model.snapshot import Workload
from ..model.write import Write
from . import conflicts
from .claims import Claims, Wanted, settle
from .containers import ensure, tidy
from .draft import Draft, placement_parts
from .fingerprint import Fingerprint
from .journal import journal_of, read_journal
from .node_section import settle_nodes, take_over_selector
from .node_terms import remove_entry
from .ownership import Ownership, read_ownership
from .patch import build_write
from .slots import LISTS, MAPS, Slot


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
    slots: frozenset[Slot] = frozenset()
    gone: tuple[Fingerprint, ...] = ()
    """Terms that were ours and belong to no rule any more."""
    findings: tuple[Finding, ...] = ()


def merge(workload: Workload, wanted: Wanted) -> Merged:
    """What `wanted` changes on the workload.

    A finding of severity error means that the write would not do what the rules say: it is for
    the caller to refuse. Raises UnreadableAnnotation where ours is damaged: nothing may be
    written then.
    """
    ownership = read_ownership(workload)
    claims = settle(ownership, wanted, workload.template)
    before = placement_parts(workload)
    draft = Draft(workload.ref, copy.deepcopy(before), set(ownership.created))
    settle_nodes(draft, claims)
    if wanted.adopt:
        take_over_selector(draft, claims)
    _take_out(draft, claims)
    _put_in(draft, claims)
    _check_affinity(draft, claims)
    owned = _ownership_after(workload, ownership, claims, draft)
    annotations = {
        RULES: owned.text() if owned.rules else None,
        JOURNAL: _journal_after(workload, owned, draft),
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
        slots=frozenset(mark.slot for mark in draft.touched),
        gone=claims.gone,
        findings=tuple(draft.findings),
    )


def _take_out(draft: Draft, claims: Claims) -> None:
    for mark in claims.gone:
        if mark.slot in LISTS:
            entries = LISTS[mark.slot].read(draft.root, None) or []
            if remove_entry(entries, mark):
                draft.touched.add(mark)
        elif mark.slot in MAPS:
            found = MAPS[mark.slot].read(draft.root, None) or {}
            for key, value in list(found.items()):
                if mark.says_the_same(Fingerprint.of(mark.slot, {"key": key, "value": value})):
                    del found[key]
                    draft.touched.add(mark)


def _put_in(draft: Draft, claims: Claims) -> None:
    for mark, value in claims.values.items():
        if mark.slot in LISTS:
            _append(draft, claims, mark, value)
        elif mark.slot in MAPS:
            _set_key(draft, claims, mark, value)


def _append(draft: Draft, claims: Claims, mark: Fingerprint, value: JSON) -> None:
    entries = LISTS[mark.slot].read(draft.root, None) or []
    alike = any(mark.says_the_same(Fingerprint.of(mark.slot, entry)) for entry in entries)
    if alike and claims.is_ours(mark):
        return
    if mark.slot is Slot.SPREAD and any(_same_pair(entry, value) for entry in entries):
        rules = _rules_with(claims, mark)
        draft.findings += conflicts.duplicate_spread(rules, draft.ref, value)
        return
    ensure(draft.root, LISTS[mark.slot], [], draft.created).append(copy.deepcopy(value))
    draft.touched.add(mark)


def _same_pair(one: JSON, other: JSON) -> bool:
    names = ("topologyKey", "whenUnsatisfiable")
    return all(one.get(name) == other.get(name) for name in names)


def _set_key(draft: Draft, claims: Claims, mark: Fingerprint, wanted: JSON) -> None:
    key, value = wanted["key"], wanted["value"]
    seen = (MAPS[mark.slot].read(draft.root, None) or {}).get(key)
    if seen == value:
        return
    if seen is not None:
        name, what = (
            (conflicts.LABEL_CONFLICT, "label")
            if mark.slot is Slot.LABEL
            else (conflicts.NODE_SELECTOR_CONFLICT, "nodeSelector")
        )
        rules = _rules_with(claims, mark)
        draft.findings += conflicts.other_value(rules, draft.ref, name, what, wanted, seen)
        return
    ensure(draft.root, MAPS[mark.slot], {}, draft.created)[key] = value
    draft.touched.add(mark)


def _check_affinity(draft: Draft, claims: Claims) -> None:
    entries = LISTS[Slot.AFFINITY].read(draft.root, None) or ()
    meanings = {Fingerprint.of(Slot.AFFINITY, entry).meaning for entry in entries}
    rules = claims.wanted_by.get(Slot.AFFINITY, ())
    if rules and len(meanings) > 1:
        draft.findings += conflicts.second_affinity(rules, draft.ref, len(meanings))


def _rules_with(claims: Claims, mark: Fingerprint) -> list[RuleId]:
    rules = claims.wanted_by.get(mark.slot, ())
    return [rule for rule in rules if mark in claims.rules.get(rule, ())]


def _ownership_after(
    workload: Workload, before: Ownership, claims: Claims, draft: Draft
) -> Ownership:
    """Bookkeeping alone is no reason to write: then it stays as it was."""
    created = tidy(draft.root, draft.created)
    if not claims.rules:
        return Ownership(workload.uid)
    if not draft.touched and dict(claims.rules) == dict(before.rules):
        created = set(before.created)
    return Ownership(workload.uid, claims.rules, frozenset(created))


def _journal_after(workload: Workload, owned: Ownership, draft: Draft) -> str | None:
    """Written with the first change, and taken away by one that leads back."""
    text = workload.annotations.get(JOURNAL)
    journal = read_journal(workload)
    if not draft.touched:
        return text
    if journal is None:
        return journal_of(workload).text()
    back = (
        journal.placement == draft.root["spec"]
        and journal.labels == (MAPS[Slot.LABEL].read(draft.root, None) or {})
        and journal.rules == (owned.text() if owned.rules else None)
    )
    return None if back else text


def _updated(before: Ownership, after: Ownership, draft: Draft) -> tuple[RuleId, ...]:
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
