# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""How do the node expressions and node terms of rules get into the required node affinity of a new object, in CEL?

As `rules/required_node_terms` does it: expressions into each term that has some, or into one new term.
"""

from __future__ import annotations

import typing as t

from ..rules.term_slots import IN_NODE_TERM, NODE_REQUIRED, NODE_TERMS, TermLocation
from . import annotation, cel
from .places import are_wanted, at, list_at, wanted

Locations = t.Sequence[TermLocation]


def _inside(locations: Locations) -> Locations:
    """Those of the locations that are inside a node term."""
    return [location for location in locations if location in IN_NODE_TERM]


def operations(locations: Locations) -> t.Iterator[str]:
    """What writes them, as entries of a list."""
    if inside := _inside(locations):
        lists = ", ".join(f"?{_key(x)}: {_if_wanted(x, wanted(x))}" for x in inside)
        yield _set_required(are_wanted(inside), f"[{{{lists}}}]")
        lists = ", ".join(f"?{_key(x)}: {_list_after(x, x in inside)}" for x in IN_NODE_TERM)
        terms = f"{at(NODE_TERMS)}.map(term, {cel.either(_has_entries(), f'{{{lists}}}', 'term')})"
        is_there = cel.all_of(f"{at(NODE_TERMS)} != null", are_wanted(inside))
        yield cel.optional(is_there, cel.add("variables.path", NODE_TERMS, terms))
    if TermLocation.NODE_TERM in locations:
        is_wanted = are_wanted([TermLocation.NODE_TERM])
        yield _set_required(is_wanted, wanted(TermLocation.NODE_TERM))


def refusals(locations: Locations, refuses_empty: str) -> t.Iterator[str]:
    """Where rules would be refused, or the policy cannot do what they do. `refuses_empty`: a rule applies that does not
    allow that all terms are empty."""
    if inside := _inside(locations):
        yield cel.all_of(refuses_empty, f"{at(NODE_REQUIRED)} != null", f"!{_any_term()}")
        yield cel.all_of(are_wanted(inside), annotation.has_location(TermLocation.NODE_TERM))
        yield from map(_needs_digest, inside)
    if TermLocation.NODE_TERM in locations:
        others = cel.any_of([f"{at(NODE_REQUIRED)} != null", are_wanted(inside)])
        yield cel.all_of(are_wanted([TermLocation.NODE_TERM]), others)


def created(locations: Locations) -> dict[str, str]:
    """The pointers in `created` of lists that are added to each term that has none, with the conditions."""
    return {
        f"{NODE_TERMS}/#/{IN_NODE_TERM[x]}": cel.all_of(are_wanted([x]), _a_term_lacks(x))
        for x in _inside(locations)
    }


def _set_required(condition: str, terms: str) -> str:
    """Required node affinity where there is none."""
    missing = f"{at(NODE_REQUIRED)} == null"
    new = cel.add("variables.path", NODE_REQUIRED, f'{{"nodeSelectorTerms": {terms}}}')
    return cel.optional(cel.all_of(missing, condition), new)


def _key(location: TermLocation) -> str:
    return cel.literal(IN_NODE_TERM[location])


def _list(location: TermLocation) -> str:
    """A list of the node term `term`; null where it is missing."""
    return cel.entry("term", IN_NODE_TERM[location])


def _entries(location: TermLocation) -> str:
    return cel.either(f"{_list(location)} == null", "[]", _list(location))


def _has_entries() -> str:
    return cel.any_of(f"size({_entries(location)}) > 0" for location in IN_NODE_TERM)


def _any_term(*conditions: str) -> str:
    """Whether the conditions hold for a term with entries."""
    return f"{list_at(NODE_TERMS)}.exists(term, {cel.all_of(_has_entries(), *conditions)})"


def _a_term_lacks(location: TermLocation) -> str:
    """Whether a term with entries has no list for those of this location."""
    return _any_term(f"{_list(location)} == null")


def _needs_digest(location: TermLocation) -> str:
    """One term lacks the list, and that of another is empty: the annotation would have to tell them apart by a digest,
    which CEL cannot make."""
    is_empty = f"{_list(location)} != null && size({_list(location)}) == 0"
    return cel.all_of(are_wanted([location]), _a_term_lacks(location), _any_term(is_empty))


def _if_wanted(location: TermLocation, value: str, otherwise: str = "optional.none()") -> str:
    return cel.either(are_wanted([location]), f"optional.of({value})", otherwise)


def _list_after(location: TermLocation, has_wanted: bool) -> str:
    """The list of a node term with entries, with those that are wanted at its end."""
    key = _key(location)
    kept = cel.either(f"{key} in term", f"optional.of(term[{key}])", "optional.none()")
    more = f"{_entries(location)} + {wanted(location)}"
    return _if_wanted(location, more, kept) if has_wanted else kept
