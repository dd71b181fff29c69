# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""How do the node expressions and node terms of rules get into the required node affinity of a template, and out?

Required node terms are OR-ed, the expressions inside a term are AND-ed. So an expression of a rule stands in
*every* term, or in one new term where there is none. A term without expressions and fields matches no node
(kube-scheduler skips it): it is left as it is, since an expression in it would make it match. The same holds
for an empty list of terms.
"""

from __future__ import annotations

import copy
import typing as t

from ..model.rule import RuleId
from . import checks
from .draft import OwnershipChange, TemplateDraft, remove_entry
from .term_slots import (
    IN_NODE_TERM,
    MAPS,
    NODE_REQUIRED,
    NODE_TERMS,
    Fingerprint,
    NodeTerm,
    TemplateTerm,
    TermLocation,
    digest,
    ensure,
    entries_of,
    is_empty,
    pair,
    remove,
)

_NODE_LOCATIONS = (*IN_NODE_TERM, TermLocation.NODE_TERM)
_SELECTOR = MAPS[TermLocation.NODE_SELECTOR]


def merge_node_terms(draft: TemplateDraft, change: OwnershipChange) -> None:
    """Take out what is gone, put in what is wanted; add findings where that cannot be."""
    _take_out_of_node_terms(draft, change)
    inside = change.of(IN_NODE_TERM)
    whole = change.of((TermLocation.NODE_TERM,))
    locations = {
        fingerprint.location for rule in change.rules.values() for fingerprint in rule.terms
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
    owned = {fingerprint for rule in change.rules.values() for fingerprint in rule.terms}
    for expression in change.of((TermLocation.NODE_EXPRESSION,)):
        key, values = expression.value["key"], expression.value.get("values")
        if expression.value["operator"] != "In" or values != [selector.get(key)]:
            continue
        fingerprint = pair(TermLocation.NODE_SELECTOR, key, values[0]).fingerprint
        ours = any(map(fingerprint.has_same_effect, owned))
        if not ours and _is_everywhere(draft, expression):
            del selector[key]
            draft.touched.add(fingerprint)
            draft.replacing |= {*change.rules_with(expression.fingerprint)}
            if not selector:
                remove(draft.root, _SELECTOR)


def _is_everywhere(draft: TemplateDraft, wanted: TemplateTerm) -> bool:
    terms = NODE_TERMS.read(draft.root, None) or ()
    nonempty_terms, effect = [term for term in terms if not is_empty(term)], wanted.effect
    return bool(nonempty_terms) and all(
        any(x.effect == effect for x in entries_of(term)) for term in nonempty_terms
    )


def _put_inside(
    draft: TemplateDraft, change: OwnershipChange, wanted: t.Sequence[TemplateTerm]
) -> None:
    """Expressions and fields: into every term, or into a new one where there is none."""
    if NODE_REQUIRED.read(draft.root, None) is None:
        ensure(draft.root, NODE_TERMS, [], draft.created).append({})
        terms: list[NodeTerm] = NODE_TERMS.read(draft.root)
    else:
        terms = [x for x in NODE_TERMS.read(draft.root, None) or () if not is_empty(x)]
    if not terms:
        draft.findings += checks.empty_node_terms(_requesting_rules(change), draft.ref)
    empty_lists = {key for key in IN_NODE_TERM.values() if any(x.get(key) == [] for x in terms)}
    for term in terms:
        _put_into_term(draft, term, wanted, change, empty_lists)


def _put_into_term(
    draft: TemplateDraft,
    term: NodeTerm,
    wanted: t.Sequence[TemplateTerm],
    change: OwnershipChange,
    empty_lists: t.Collection[str],
) -> None:
    """AND what is missing of `wanted` into the term. Lists of `empty_lists` are empty in one of the terms."""
    added: set[Fingerprint] = set()
    is_new = is_empty(term)
    for compiled in wanted:
        fingerprint = compiled.fingerprint
        is_there = any(x.effect == fingerprint.effect for x in entries_of(term))
        if is_there and change.is_ours(fingerprint):
            continue
        key = IN_NODE_TERM[compiled.location]
        if term.get(key) is None:
            if not is_new:
                by_digest = key in empty_lists
                draft.created.add(
                    _list_pointer(term, key, {*change.ours, *added}) if by_digest else _mark(key)
                )
            term[key] = []
        term[key].append(copy.deepcopy(compiled.value))
        added.add(fingerprint)
    draft.touched |= added


def _mark(key: str) -> str:
    """The pointer in `created` for the list `key` of each term that had none. No term had an empty one, so that none is
    to be told from it; a policy for new members makes no other, since CEL has no digests."""
    return f"{NODE_TERMS}/#/{key}"


def _list_pointer(term: NodeTerm, key: str, ours: t.Iterable[Fingerprint]) -> str:
    """The pointer in `created` that stands for the list `key` of a term. The term is recognized by the
    entries of others in it. One entry for each effect of ours is ours: others may have written the same."""
    rest = {k: v for k, v in copy.deepcopy(term).items() if k != key}
    for own in {own.effect: own for own in ours if own.location in IN_NODE_TERM}.values():
        remove_entry(rest.get(IN_NODE_TERM[own.location]) or [], own)
    foreign = {k: v for k, v in rest.items() if v or k not in IN_NODE_TERM.values()}
    return f"{NODE_TERMS}/#{digest(foreign, 10)}/{key}"


def _put_whole(
    draft: TemplateDraft, change: OwnershipChange, wanted: t.Sequence[TemplateTerm]
) -> None:
    """OR-ed terms: only where no others stand, since each one more widens what is allowed."""
    fingerprints = [term.fingerprint for term in wanted]
    ours = [fingerprint for fingerprint in fingerprints if change.is_ours(fingerprint)]
    there = NODE_TERMS.read(draft.root, None) or []
    present = [TemplateTerm(TermLocation.NODE_TERM, term).fingerprint for term in there]
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
    staying = {x.location for rule in change.rules.values() for x in rule.terms}
    draft.created -= {_mark(key) for x, key in IN_NODE_TERM.items() if x not in staying}


def _remove_from_term(
    draft: TemplateDraft,
    term: NodeTerm,
    inside: t.Sequence[Fingerprint],
    whole: list[Fingerprint],
    change: OwnershipChange,
) -> bool:
    """Take what is gone out of one term; True if nothing of it is left."""
    fingerprint = TemplateTerm(TermLocation.NODE_TERM, term).fingerprint
    same = next((own for own in whole if own.has_same_effect(fingerprint)), None)
    if same is not None:
        whole.remove(same)
        draft.touched.add(same)
        return True
    if is_empty(term):
        return False
    removed = {x for x in inside if remove_entry(term.get(IN_NODE_TERM[x.location]) or [], x)}
    if not removed:
        return False
    draft.touched |= removed
    left = [own for own in change.ours if own not in inside]
    for key in IN_NODE_TERM.values():
        pointers = {_mark(key), _list_pointer(term, key, left)}
        if term.get(key) == [] and pointers & draft.created:
            draft.created.discard(_list_pointer(term, key, left))
            del term[key]
    return is_empty(term)


def _requesting_rules(change: OwnershipChange) -> list[RuleId]:
    return sorted(
        {rule for location in _NODE_LOCATIONS for rule in change.wanted_by.get(location, ())}
    )


def _refuse_to_mix(draft: TemplateDraft, change: OwnershipChange) -> None:
    draft.findings += checks.node_terms_conflict(_requesting_rules(change), draft.ref)
