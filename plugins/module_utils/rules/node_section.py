# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The required node affinity of a template while terms of rules go in and out."""

from __future__ import annotations

import copy
import typing as t

from . import conflicts
from .claims import Claims
from .containers import ensure, remove
from .draft import Draft
from .fingerprint import Fingerprint
from .node_terms import NodeTerm, is_empty, put, standing, take_out
from .slots import IN_NODE_TERM, MAPS, NODE_REQUIRED, NODE_TERMS, CompiledTerm, Slot

_SLOTS = (*IN_NODE_TERM, Slot.NODE_TERM)
_SELECTOR = MAPS[Slot.NODE_SELECTOR]


def settle_nodes(draft: Draft, claims: Claims) -> None:
    """Take out what is gone, put in what is wanted; add findings where that cannot be."""
    _take_out(draft, claims)
    inside = claims.of(IN_NODE_TERM)
    whole = claims.of((Slot.NODE_TERM,))
    slots = {mark.slot for marks in claims.rules.values() for mark in marks}
    if Slot.NODE_TERM in slots and slots & set(IN_NODE_TERM) and (inside or whole):
        _refuse_to_mix(draft, claims)
    elif whole:
        _put_whole(draft, claims, whole)
    elif inside:
        _put_inside(draft, claims, inside)


def take_over_selector(draft: Draft, claims: Claims) -> None:
    """Keys of nodeSelector that say the same as a wanted expression go: the expression is ours and
    says it alone. Only where it stands in every term, so that no node more is allowed than before.
    """
    selector = _SELECTOR.read(draft.root, None) or {}
    owned = {mark for marks in claims.rules.values() for mark in marks}
    for each in claims.of((Slot.NODE_EXPRESSION,)):
        key = each.value["key"]
        mark = Fingerprint.of(Slot.NODE_SELECTOR, {"key": key, "value": selector.get(key)})
        same = each.value["operator"] == "In" and each.value["values"] == [selector.get(key)]
        if same and not any(map(mark.says_the_same, owned)) and _is_everywhere(draft, each):
            del selector[key]
            draft.touched.add(mark)
            if not selector:
                remove(draft.root, _SELECTOR)


def _is_everywhere(draft: Draft, wanted: CompiledTerm) -> bool:
    mark = Fingerprint.of(wanted.slot, wanted.value)
    terms = NODE_TERMS.read(draft.root, None) or ()
    speaking = [term for term in terms if not is_empty(term)]
    return bool(speaking) and all(
        any(found.says_the_same(mark) for _slot, _entry, found in standing(term))
        for term in speaking
    )


def _put_inside(draft: Draft, claims: Claims, wanted: t.Sequence[CompiledTerm]) -> None:
    """Expressions and fields: into every term, or into a new one where there is none."""
    if NODE_REQUIRED.read(draft.root, None) is None:
        ensure(draft.root, NODE_TERMS, [], draft.created).append({})
        terms: list[NodeTerm] = NODE_TERMS.read(draft.root)
        draft.touched |= put(terms[0], wanted, claims.ours, draft.created)
        return
    terms = NODE_TERMS.read(draft.root, None) or []
    silent = sum(map(is_empty, terms))
    if silent == len(terms) or silent:
        rules = _wanting(claims)
        draft.findings += conflicts.empty_node_term(rules, draft.ref, silent == len(terms))
    for term in terms:
        if not is_empty(term):
            draft.touched |= put(term, wanted, claims.ours, draft.created)


def _put_whole(draft: Draft, claims: Claims, wanted: t.Sequence[CompiledTerm]) -> None:
    """OR-ed terms: only where no others stand, since each one more widens what is allowed."""
    marks = [Fingerprint.of(Slot.NODE_TERM, term.value) for term in wanted]
    ours = [mark for mark in marks if claims.is_ours(mark)]
    there = NODE_TERMS.read(draft.root, None) or []
    seen = [Fingerprint.of(Slot.NODE_TERM, term) for term in there]
    foreign = [mark for mark in seen if not any(map(mark.says_the_same, ours))]
    if foreign or (not there and NODE_REQUIRED.read(draft.root, None) is not None):
        _refuse_to_mix(draft, claims)
        return
    terms = ensure(draft.root, NODE_TERMS, [], draft.created)
    for term, mark in zip(wanted, marks, strict=True):
        if not any(map(mark.says_the_same, seen)):
            terms.append(copy.deepcopy(term.value))
            draft.touched.add(mark)


def _take_out(draft: Draft, claims: Claims) -> None:
    """A list that loses its last term goes, with its selector: the API takes no empty one, and it
    would match no node."""
    inside = [mark for mark in claims.gone if mark.slot in IN_NODE_TERM]
    whole = [mark for mark in claims.gone if mark.slot is Slot.NODE_TERM]
    terms = NODE_TERMS.read(draft.root, None)
    if not terms or not (inside or whole):
        return
    kept = [term for term in terms if not _goes(draft, term, inside, whole, claims)]
    if not kept:
        remove(draft.root, NODE_REQUIRED)
    terms[:] = kept


def _goes(
    draft: Draft,
    term: NodeTerm,
    inside: t.Sequence[Fingerprint],
    whole: list[Fingerprint],
    claims: Claims,
) -> bool:
    """Take what is gone out of one term; True if nothing of it is left."""
    if is_empty(term):
        return False
    mark = Fingerprint.of(Slot.NODE_TERM, term)
    same = next((own for own in whole if own.says_the_same(mark)), None)
    if same is not None:
        whole.remove(same)
        draft.touched.add(same)
        return True
    before = len(list(standing(term)))
    stays = take_out(term, inside, claims.ours, draft.created)
    if len(list(standing(term))) < before:
        draft.touched |= set(inside)
    return not stays


def _wanting(claims: Claims) -> list[t.Any]:
    return sorted({rule for slot in _SLOTS for rule in claims.wanted_by.get(slot, ())})


def _refuse_to_mix(draft: Draft, claims: Claims) -> None:
    draft.findings += conflicts.node_terms_of_others(_wanting(claims), draft.ref)
