# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""How do the required node terms of a template change when terms of rules are added or removed?

The terms of a node selector are OR-ed, the expressions inside a term are AND-ed. So an expression of
a rule stands in *every* term, or in one new term where there is none. A term without expressions and
fields matches no node (kube-scheduler skips it): it is left as it is, since an expression in it would
make it match. The same holds for an empty list of terms.
"""

from __future__ import annotations

import copy
import typing as t

from ..model.json_pointer import JSON
from . import conflicts
from .draft import OwnershipChange, TemplateDraft
from .ownership import Fingerprint, NodeTerm, digest, entries_of, is_empty
from .term_slots import (
    IN_NODE_TERM,
    MAPS,
    NODE_REQUIRED,
    NODE_TERMS,
    CompiledTerm,
    TermLocation,
    ensure,
    remove,
)


def put(
    term: NodeTerm,
    wanted: t.Sequence[CompiledTerm],
    ours: t.Collection[Fingerprint],
    created: set[str],
) -> set[Fingerprint]:
    """AND what is missing of `wanted` into the term, which may already hold some of `ours`.

    Returns what was missing.
    """
    added: set[Fingerprint] = set()
    marks = [Fingerprint.of(compiled.location, compiled.value) for compiled in wanted]
    for compiled, mark in zip(wanted, marks, strict=True):
        present = [
            fingerprint
            for _slot, _entry, fingerprint in entries_of(term)
            if fingerprint.has_same_effect(mark)
        ]
        if present and _among(mark, ours):
            continue
        key = IN_NODE_TERM[compiled.location]
        if term.get(key) is None:
            if not is_empty(term):
                created.add(_list_mark(term, key, {*ours, *added}))
            term[key] = []
        term[key].append(copy.deepcopy(compiled.value))
        added.add(mark)
    return added


def take_out(
    term: NodeTerm,
    removed: t.Collection[Fingerprint],
    ours: t.Collection[Fingerprint],
    created: set[str],
) -> bool:
    """Remove one entry for each of `removed`. False if the term has become empty by that."""
    was_there = [
        remove_entry(term.get(IN_NODE_TERM[mark.location]) or [], mark) for mark in removed
    ]
    if not any(was_there):
        return True
    left = [own for own in ours if own not in removed]
    for key in IN_NODE_TERM.values():
        mark = _list_mark(term, key, left)
        if term.get(key) == [] and mark in created:
            created.discard(mark)
            del term[key]
    return not is_empty(term)


def remove_entry(entries: list[JSON], mark: Fingerprint) -> bool:
    """Remove the last entry that is written as `mark` has it, or else the last with the same effect.

    The last: a term of ours was appended to what stood there.
    """
    marks = [Fingerprint.of(mark.location, entry) for entry in entries]
    same = [i for i, fingerprint in enumerate(marks) if fingerprint == mark]
    alike = [i for i, fingerprint in enumerate(marks) if fingerprint.has_same_effect(mark)]
    for index in (same or alike)[-1:]:
        del entries[index]
        return True
    return False


def _among(mark: Fingerprint, ours: t.Collection[Fingerprint]) -> bool:
    return any(own.has_same_effect(mark) for own in ours)


def _list_mark(term: NodeTerm, key: str, ours: t.Iterable[Fingerprint]) -> str:
    """The note that we made the list `key` of a term, recognized by the entries of others in it. One
    entry for each effect of ours is ours: others may have written the same."""
    rest = {k: v for k, v in copy.deepcopy(term).items() if k != key}
    for own in {own.effect: own for own in ours if own.location in IN_NODE_TERM}.values():
        remove_entry(rest.get(IN_NODE_TERM[own.location]) or [], own)
    foreign = {k: v for k, v in rest.items() if v or k not in IN_NODE_TERM.values()}
    return f"{NODE_TERMS}/#{digest(foreign, 10)}/{key}"


_SLOTS = (*IN_NODE_TERM, TermLocation.NODE_TERM)
_SELECTOR = MAPS[TermLocation.NODE_SELECTOR]


def merge_node_terms(draft: TemplateDraft, claims: OwnershipChange) -> None:
    """Take out what is gone, put in what is wanted; add findings where that cannot be."""
    _take_out(draft, claims)
    inside = claims.of(IN_NODE_TERM)
    whole = claims.of((TermLocation.NODE_TERM,))
    slots = {mark.location for marks in claims.rules.values() for mark in marks}
    if TermLocation.NODE_TERM in slots and slots & set(IN_NODE_TERM) and (inside or whole):
        _refuse_to_mix(draft, claims)
    elif whole:
        _put_whole(draft, claims, whole)
    elif inside:
        _put_inside(draft, claims, inside)


def take_over_selector(draft: TemplateDraft, claims: OwnershipChange) -> None:
    """Keys of nodeSelector that say the same as a wanted expression go: the expression is ours and
    says it alone. Only where it stands in every term, so that no node more is allowed than before.
    """
    selector = _SELECTOR.read(draft.root, None) or {}
    owned = {mark for marks in claims.rules.values() for mark in marks}
    for expression in claims.of((TermLocation.NODE_EXPRESSION,)):
        key = expression.value["key"]
        mark = Fingerprint.of(TermLocation.NODE_SELECTOR, {"key": key, "value": selector.get(key)})
        same = expression.value["operator"] == "In" and expression.value["values"] == [
            selector.get(key)
        ]
        if same and not any(map(mark.has_same_effect, owned)) and _is_everywhere(draft, expression):
            del selector[key]
            draft.touched.add(mark)
            if not selector:
                remove(draft.root, _SELECTOR)


def _is_everywhere(draft: TemplateDraft, wanted: CompiledTerm) -> bool:
    mark = Fingerprint.of(wanted.location, wanted.value)
    terms = NODE_TERMS.read(draft.root, None) or ()
    nonempty_terms = [term for term in terms if not is_empty(term)]
    return bool(nonempty_terms) and all(
        any(fingerprint.has_same_effect(mark) for _slot, _entry, fingerprint in entries_of(term))
        for term in nonempty_terms
    )


def _put_inside(
    draft: TemplateDraft, claims: OwnershipChange, wanted: t.Sequence[CompiledTerm]
) -> None:
    """Expressions and fields: into every term, or into a new one where there is none."""
    if NODE_REQUIRED.read(draft.root, None) is None:
        ensure(draft.root, NODE_TERMS, [], draft.created).append({})
        terms: list[NodeTerm] = NODE_TERMS.read(draft.root)
        draft.touched |= put(terms[0], wanted, claims.ours, draft.created)
        return
    terms = [x for x in NODE_TERMS.read(draft.root, None) or () if not is_empty(x)]
    if not terms:
        draft.findings += conflicts.empty_node_terms(_requesting_rules(claims), draft.ref)
    for term in terms:
        draft.touched |= put(term, wanted, claims.ours, draft.created)


def _put_whole(
    draft: TemplateDraft, claims: OwnershipChange, wanted: t.Sequence[CompiledTerm]
) -> None:
    """OR-ed terms: only where no others stand, since each one more widens what is allowed."""
    marks = [Fingerprint.of(TermLocation.NODE_TERM, term.value) for term in wanted]
    ours = [mark for mark in marks if claims.is_ours(mark)]
    there = NODE_TERMS.read(draft.root, None) or []
    present = [Fingerprint.of(TermLocation.NODE_TERM, term) for term in there]
    foreign = [mark for mark in present if not any(map(mark.has_same_effect, ours))]
    if foreign or (not there and NODE_REQUIRED.read(draft.root, None) is not None):
        _refuse_to_mix(draft, claims)
        return
    terms = ensure(draft.root, NODE_TERMS, [], draft.created)
    for term, mark in zip(wanted, marks, strict=True):
        if not any(map(mark.has_same_effect, present)):
            terms.append(copy.deepcopy(term.value))
            draft.touched.add(mark)


def _take_out(draft: TemplateDraft, claims: OwnershipChange) -> None:
    """A list that loses its last term goes, with its selector: the API takes no empty one, and it
    would match no node."""
    inside = [mark for mark in claims.removed if mark.location in IN_NODE_TERM]
    whole = [mark for mark in claims.removed if mark.location is TermLocation.NODE_TERM]
    terms = NODE_TERMS.read(draft.root, None)
    if not terms or not (inside or whole):
        return
    kept = [term for term in terms if not _remove_from_term(draft, term, inside, whole, claims)]
    if not kept:
        remove(draft.root, NODE_REQUIRED)
    terms[:] = kept


def _remove_from_term(
    draft: TemplateDraft,
    term: NodeTerm,
    inside: t.Sequence[Fingerprint],
    whole: list[Fingerprint],
    claims: OwnershipChange,
) -> bool:
    """Take what is gone out of one term; True if nothing of it is left."""
    if is_empty(term):
        return False
    mark = Fingerprint.of(TermLocation.NODE_TERM, term)
    same = next((own for own in whole if own.has_same_effect(mark)), None)
    if same is not None:
        whole.remove(same)
        draft.touched.add(same)
        return True
    before = len(list(entries_of(term)))
    stays = take_out(term, inside, claims.ours, draft.created)
    if len(list(entries_of(term))) < before:
        draft.touched |= set(inside)
    return not stays


def _requesting_rules(claims: OwnershipChange) -> list[t.Any]:
    return sorted({rule for slot in _SLOTS for rule in claims.wanted_by.get(slot, ())})


def _refuse_to_mix(draft: TemplateDraft, claims: OwnershipChange) -> None:
    draft.findings += conflicts.node_terms_conflict(_requesting_rules(claims), draft.ref)
