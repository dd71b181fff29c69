# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which write brings the terms of rules into the template of one workload, and out again?

Only what is ours is touched. What others wrote stays byte for byte, in its order; ours is
appended. Taking the last rule away leaves the placement fields as they were before the first.

Required node terms are OR-ed, the expressions inside a term are AND-ed. So an expression of a rule stands in
*every* term, or in one new term where there is none. A term without expressions and fields matches no node
(kube-scheduler skips it): it is left as it is, since an expression in it would make it match. The same holds
for an empty list of terms.
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
    SimilarTerm,
    TemplateDraft,
    ownership_change,
    placement_parts,
)
from .ownership import (
    Fingerprint,
    NodeTerm,
    Ownership,
    digest,
    entries_of,
    is_empty,
    owners_of,
    read_ownership,
    read_undo_record,
    undo_record_of,
)
from .similar import SelectablePods, select_the_same
from .term_slots import (
    IN_NODE_TERM,
    LISTS,
    MAPS,
    NODE_REQUIRED,
    NODE_TERMS,
    CompiledTerm,
    TermLocation,
    ensure,
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
    restored: tuple[CompiledTerm, ...] = ()
    """Terms that rules had written before, and that were no longer there."""
    findings: tuple[Finding, ...] = ()


def merge(workload: Workload, wanted: RequestedRules) -> Merged:
    """What `wanted` changes on the workload.

    A finding of severity error means that the write would not do what the rules say: it is for
    the caller to refuse. Raises UnreadableAnnotation where ours is damaged: nothing may be
    written then.
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
            for term in change.similar
            for finding in checks.similar_term(term.rules, draft.ref, term.location, term.value)
        ]
    _take_out(draft, change)
    _put_in(draft, change)
    _check_affinity(draft, change, wanted.pods)
    owned = _ownership_after(workload, ownership, change, draft)
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
        locations=frozenset(fingerprint.location for fingerprint in draft.touched),
        removed_terms=change.removed,
        restored=tuple(
            CompiledTerm(fingerprint.location, value)
            for fingerprint, value in change.values.items()
            if fingerprint in draft.touched and ownership.owned(fingerprint) is not None
        ),
        findings=tuple(draft.findings),
    )


def _replace(draft: TemplateDraft, terms: t.Iterable[SimilarTerm]) -> None:
    """Remove terms whose place those of rules take."""
    for term in terms:
        fingerprint = Fingerprint.of(term.location, term.value)
        if remove_entry(LISTS[term.location].read(draft.root, None) or [], fingerprint):
            draft.touched.add(fingerprint)
            draft.replacing |= {*term.rules}


def _take_out(draft: TemplateDraft, change: OwnershipChange) -> None:
    for fingerprint in change.removed:
        if fingerprint.location in LISTS:
            entries = LISTS[fingerprint.location].read(draft.root, None) or []
            if remove_entry(entries, fingerprint):
                draft.touched.add(fingerprint)
        elif fingerprint.location in MAPS:
            entries = MAPS[fingerprint.location].read(draft.root, None) or {}
            for key, value in list(entries.items()):
                if fingerprint.has_same_effect(
                    Fingerprint.of(fingerprint.location, {"key": key, "value": value})
                ):
                    del entries[key]
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
        fingerprint.has_same_effect(Fingerprint.of(fingerprint.location, entry))
        for entry in entries
    )
    if alike and change.is_ours(fingerprint):
        return
    fields = ("topologyKey", "whenUnsatisfiable")
    duplicates = [x for x in entries if all(x.get(name) == value.get(name) for name in fields)]
    if fingerprint.location is TermLocation.SPREAD and duplicates:
        rules = _rules_with(change, fingerprint)
        present = [] if alike else owners_of(change.rules, fingerprint.location, duplicates[0])
        similar = any(term.value == duplicates[0] for term in change.similar)
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
        owners = owners_of(change.rules, fingerprint.location, {"key": key, "value": present})
        draft.findings += checks.value_conflict(
            _rules_with(change, fingerprint), draft.ref, name, field_name, wanted, present, owners
        )
        return
    ensure(draft.root, MAPS[fingerprint.location], {}, draft.created)[key] = value
    draft.touched.add(fingerprint)


def _check_affinity(
    draft: TemplateDraft, change: OwnershipChange, pods: SelectablePods | None
) -> None:
    """Several required affinity terms do no harm if they select the same pods: these match all of them."""
    entries = LISTS[TermLocation.AFFINITY].read(draft.root, None) or ()
    meanings = {Fingerprint.of(TermLocation.AFFINITY, entry).meaning for entry in entries}
    rules = change.wanted_by.get(TermLocation.AFFINITY, ())
    if not rules or len(meanings) < 2:
        return
    namespace = draft.ref.namespace
    if pods is None or not select_the_same(TermLocation.AFFINITY, entries, namespace, pods):
        carried = [
            rule
            for rule, fingerprints in change.rules.items()
            if any(fingerprint.location is TermLocation.AFFINITY for fingerprint in fingerprints)
        ]
        draft.findings += checks.multiple_required_affinity(
            rules, draft.ref, len(meanings), carried
        )


def _rules_with(change: OwnershipChange, fingerprint: Fingerprint) -> list[RuleId]:
    rules = change.wanted_by.get(fingerprint.location, ())
    return [rule for rule in rules if fingerprint in change.rules.get(rule, ())]


def _ownership_after(
    workload: Workload, before: Ownership, change: OwnershipChange, draft: TemplateDraft
) -> Ownership:
    """Bookkeeping alone is no reason to write: then it stays as it was."""
    created = tidy(draft.root, draft.created)
    if not change.rules:
        return Ownership(workload.uid)
    if not draft.touched and dict(change.rules) == dict(before.rules):
        created = set(before.created)
    return Ownership(workload.uid, change.rules, frozenset(created), change.resting)


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
    """Rules that stay and have other terms now, or had lost one, and those that begin or end to rest."""
    both = set(before.rules) & set(after.rules)
    return tuple(
        sorted(
            rule
            for rule in both
            if before.uid != after.uid
            or rule in draft.replacing
            or before.resting.get(rule) != after.resting.get(rule)
            or set(before.rules[rule]) != set(after.rules[rule])
            or draft.touched & set(after.rules[rule])
        )
    )


def remove_entry(entries: list[JSON], fingerprint: Fingerprint) -> bool:
    """Remove the last entry that is written as `fingerprint` has it, or else the last with the same effect.

    The last: a term of ours was appended to what stood there.
    """
    present = [Fingerprint.of(fingerprint.location, entry) for entry in entries]
    same = [i for i, x in enumerate(present) if x == fingerprint]
    alike = [i for i, x in enumerate(present) if x.has_same_effect(fingerprint)]
    for index in (same or alike)[-1:]:
        del entries[index]
        return True
    return False


def _list_pointer(term: NodeTerm, key: str, ours: t.Iterable[Fingerprint]) -> str:
    """The pointer in `created` that stands for the list `key` of a term. The term is recognized by the
    entries of others in it. One entry for each effect of ours is ours: others may have written the same."""
    rest = {k: v for k, v in copy.deepcopy(term).items() if k != key}
    for own in {own.effect: own for own in ours if own.location in IN_NODE_TERM}.values():
        remove_entry(rest.get(IN_NODE_TERM[own.location]) or [], own)
    foreign = {k: v for k, v in rest.items() if v or k not in IN_NODE_TERM.values()}
    return f"{NODE_TERMS}/#{digest(foreign, 10)}/{key}"


_NODE_LOCATIONS = (*IN_NODE_TERM, TermLocation.NODE_TERM)
_SELECTOR = MAPS[TermLocation.NODE_SELECTOR]


def merge_node_terms(draft: TemplateDraft, change: OwnershipChange) -> None:
    """Take out what is gone, put in what is wanted; add findings where that cannot be."""
    _take_out_of_node_terms(draft, change)
    inside = change.of(IN_NODE_TERM)
    whole = change.of((TermLocation.NODE_TERM,))
    locations = {
        fingerprint.location
        for fingerprints in change.rules.values()
        for fingerprint in fingerprints
    }
    if TermLocation.NODE_TERM in locations and locations & set(IN_NODE_TERM) and (inside or whole):
        _refuse_to_mix(draft, change)
    elif whole:
        _put_whole(draft, change, whole)
    elif inside:
        _put_inside(draft, change, inside)


def take_over_selector(draft: TemplateDraft, change: OwnershipChange) -> None:
    """Keys of nodeSelector that say the same as a wanted expression go: the expression is ours and
    says it alone. Only where it stands in every term, so that no node more is allowed than before.
    """
    selector = _SELECTOR.read(draft.root, None) or {}
    owned = {fingerprint for fingerprints in change.rules.values() for fingerprint in fingerprints}
    for expression in change.of((TermLocation.NODE_EXPRESSION,)):
        key = expression.value["key"]
        wanted_fingerprint = Fingerprint.of(expression.location, expression.value)
        fingerprint = Fingerprint.of(
            TermLocation.NODE_SELECTOR, {"key": key, "value": selector.get(key)}
        )
        same = expression.value["operator"] == "In" and expression.value["values"] == [
            selector.get(key)
        ]
        if (
            same
            and not any(map(fingerprint.has_same_effect, owned))
            and _is_everywhere(draft, expression)
        ):
            del selector[key]
            draft.touched.add(fingerprint)
            draft.replacing |= {*_rules_with(change, wanted_fingerprint)}
            if not selector:
                remove(draft.root, _SELECTOR)


def _is_everywhere(draft: TemplateDraft, wanted: CompiledTerm) -> bool:
    fingerprint = Fingerprint.of(wanted.location, wanted.value)
    terms = NODE_TERMS.read(draft.root, None) or ()
    nonempty_terms = [term for term in terms if not is_empty(term)]
    return bool(nonempty_terms) and all(
        any(x.has_same_effect(fingerprint) for _location, _entry, x in entries_of(term))
        for term in nonempty_terms
    )


def _put_inside(
    draft: TemplateDraft, change: OwnershipChange, wanted: t.Sequence[CompiledTerm]
) -> None:
    """Expressions and fields: into every term, or into a new one where there is none."""
    if NODE_REQUIRED.read(draft.root, None) is None:
        ensure(draft.root, NODE_TERMS, [], draft.created).append({})
        terms: list[NodeTerm] = NODE_TERMS.read(draft.root)
    else:
        terms = [x for x in NODE_TERMS.read(draft.root, None) or () if not is_empty(x)]
    if not terms:
        draft.findings += checks.empty_node_terms(_requesting_rules(change), draft.ref)
    for term in terms:
        _put_into_term(draft, term, wanted, change)


def _put_into_term(
    draft: TemplateDraft,
    term: NodeTerm,
    wanted: t.Sequence[CompiledTerm],
    change: OwnershipChange,
) -> None:
    """AND what is missing of `wanted` into the term."""
    added: set[Fingerprint] = set()
    for compiled in wanted:
        fingerprint = Fingerprint.of(compiled.location, compiled.value)
        is_there = any(x.has_same_effect(fingerprint) for _location, _entry, x in entries_of(term))
        if is_there and change.is_ours(fingerprint):
            continue
        key = IN_NODE_TERM[compiled.location]
        if term.get(key) is None:
            if not is_empty(term):
                draft.created.add(_list_pointer(term, key, {*change.ours, *added}))
            term[key] = []
        term[key].append(copy.deepcopy(compiled.value))
        added.add(fingerprint)
    draft.touched |= added


def _put_whole(
    draft: TemplateDraft, change: OwnershipChange, wanted: t.Sequence[CompiledTerm]
) -> None:
    """OR-ed terms: only where no others stand, since each one more widens what is allowed."""
    fingerprints = [Fingerprint.of(TermLocation.NODE_TERM, term.value) for term in wanted]
    ours = [fingerprint for fingerprint in fingerprints if change.is_ours(fingerprint)]
    there = NODE_TERMS.read(draft.root, None) or []
    present = [Fingerprint.of(TermLocation.NODE_TERM, term) for term in there]
    foreign = [
        fingerprint for fingerprint in present if not any(map(fingerprint.has_same_effect, ours))
    ]
    if foreign or (not there and NODE_REQUIRED.read(draft.root, None) is not None):
        _refuse_to_mix(draft, change)
        return
    terms = ensure(draft.root, NODE_TERMS, [], draft.created)
    for term, fingerprint in zip(wanted, fingerprints, strict=True):
        if not any(map(fingerprint.has_same_effect, present)):
            terms.append(copy.deepcopy(term.value))
            draft.touched.add(fingerprint)


def _take_out_of_node_terms(draft: TemplateDraft, change: OwnershipChange) -> None:
    """A list that loses its last term goes, with its selector: the API takes no empty one, and it
    would match no node."""
    inside = [fingerprint for fingerprint in change.removed if fingerprint.location in IN_NODE_TERM]
    whole = [
        fingerprint
        for fingerprint in change.removed
        if fingerprint.location is TermLocation.NODE_TERM
    ]
    terms = NODE_TERMS.read(draft.root, None)
    if not terms or not (inside or whole):
        return
    kept = [term for term in terms if not _remove_from_term(draft, term, inside, whole, change)]
    if not kept:
        remove(draft.root, NODE_REQUIRED)
    terms[:] = kept


def _remove_from_term(
    draft: TemplateDraft,
    term: NodeTerm,
    inside: t.Sequence[Fingerprint],
    whole: list[Fingerprint],
    change: OwnershipChange,
) -> bool:
    """Take what is gone out of one term; True if nothing of it is left."""
    fingerprint = Fingerprint.of(TermLocation.NODE_TERM, term)
    same = next((own for own in whole if own.has_same_effect(fingerprint)), None)
    if same is not None:
        whole.remove(same)
        draft.touched.add(same)
        return True
    if is_empty(term):
        return False
    gone = {x for x in inside if remove_entry(term.get(IN_NODE_TERM[x.location]) or [], x)}
    if not gone:
        return False
    draft.touched |= gone
    left = [own for own in change.ours if own not in inside]
    for key in IN_NODE_TERM.values():
        pointer = _list_pointer(term, key, left)
        if term.get(key) == [] and pointer in draft.created:
            draft.created.discard(pointer)
            del term[key]
    return is_empty(term)


def _requesting_rules(change: OwnershipChange) -> list[t.Any]:
    return sorted(
        {rule for location in _NODE_LOCATIONS for rule in change.wanted_by.get(location, ())}
    )


def _refuse_to_mix(draft: TemplateDraft, change: OwnershipChange) -> None:
    draft.findings += checks.node_terms_conflict(_requesting_rules(change), draft.ref)
