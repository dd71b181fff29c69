# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which CEL expressions write to a new object what `rules/merge` writes to one that exists?

The variables of the policy are, in their order:

    before                  what the policy of another rule set has just written into the annotation
    template, path, labels  of the new object: its template, where that is, and the labels of it
    rule_0, rule_1 ...      whether a rule chooses it
    at_...                  the maps and lists of its template that terms go into; null where they are missing
    want_...                the terms that it is to get, by location
    new_...                 whether a map or list has to be made
    refused                 whether `rules` would refuse it: then nothing is written at all
    rules, created          what these rules add to the annotation `placement.virt/rules`
    annotation              the value of it

The uid of an object is not known at admission (apiserver, pkg/registry/rest/create.go, BeforeCreate), so the annotation
has its name (`rules/ownership`).
"""

from __future__ import annotations

import functools
import typing as t

from ..kinds.kind import Kind
from ..model.json_pointer import Pointer
from ..rules.checks import EMPTY_NODE_TERM, MULTIPLE_REQUIRED_AFFINITY
from ..rules.term_slots import (
    IN_NODE_TERM,
    LISTS,
    MAPS,
    NODE_REQUIRED,
    NODE_TERMS,
    SPEC,
    TermLocation,
)
from . import annotation, cel, node_terms
from .choices import choices_of, is_kind, occurrences_of
from .members import NewMember
from .places import are_wanted, at, extended, name_of, place_of, wanted, wanted_name

_LABELS = MAPS[TermLocation.LABEL]


class PolicyExpressions:
    """The expressions of the policy of one namespace and rule set. `_locations` are those of the terms of its members,
    in the order of TermLocation."""

    def __init__(self, members: t.Iterable[NewMember]) -> None:
        self._choices = choices_of(members)
        self._occurrences = occurrences_of(self._choices)
        locations = {x.term.location for x in self._occurrences}
        self._locations = [location for location in TermLocation if location in locations]

    def variables(self) -> dict[str, str]:
        """The variables by their names, in the order in which they depend on each other."""
        return {
            "before": annotation.TEXT,
            "template": self._by_kind(lambda kind: cel.part_of_object(kind.template)),
            "path": self._by_kind(lambda kind: cel.literal(str(Pointer(kind.template)))),
            **{name_of("at", x): _container(x) for x in self._pointers},
            "labels": cel.either(f"{at(_LABELS)} == null", "{}", at(_LABELS)),
            **{choice.name: choice.condition for choice in self._choices},
            **{wanted_name(location): self._wanted(location) for location in self._locations},
            **{name_of("new", x): condition for x, condition in self._new.items()},
            "refused": cel.any_of(self._refusals()),
            **self._annotation(),
        }

    def patch(self) -> str:
        """The operations of JSON Patch."""
        operations = cel.list_of([*self._operations(), *annotation.operations()])
        return cel.either("variables.refused", "[]", operations)

    def _by_kind(self, value: t.Callable[[Kind], str]) -> str:
        """The value for the kind of the new object."""
        *others, last = dict.fromkeys(choice.member.kind for choice in self._choices)
        text = value(last)
        for kind in reversed(others):
            text = cel.either(is_kind(kind), value(kind), text)
        return text

    @functools.cached_property
    def _pointers(self) -> list[Pointer]:
        """The maps and lists that terms go into, each after the map that holds it."""
        pointers = {
            Pointer(place.parts[:depth])
            for place in (_LABELS, *map(place_of, self._locations))
            for depth in range(1, len(place.parts) + 1)
        }
        return sorted(pointers, key=lambda pointer: (len(pointer.parts), pointer.parts))

    def _wanted(self, location: TermLocation) -> str:
        """The terms of one location that the new object is to get."""
        return cel.list_of(
            cel.optional(x.is_wanted, cel.literal(x.term.value))
            for x in self._occurrences
            if x.term.location is location
        )

    @functools.cached_property
    def _new(self) -> dict[Pointer, str]:
        """Maps and lists that are missing, and into which a term goes, with that condition. A template has a spec."""
        conditions = {}
        for pointer in self._pointers:
            depth = len(pointer.parts)
            within = [x for x in self._locations if place_of(x).parts[:depth] == pointer.parts]
            if within and pointer != SPEC:
                missing = f"{at(NODE_REQUIRED if pointer == NODE_TERMS else pointer)} == null"
                conditions[pointer] = cel.all_of(missing, are_wanted(within))
        return conditions

    def _refusals(self) -> t.Iterator[str]:
        """The findings of rules/merge for which `rules` writes nothing."""
        yield annotation.too_many(choice.applies for choice in self._choices)
        refuses_empty = self._applies(IN_NODE_TERM, EMPTY_NODE_TERM)
        yield from node_terms.refusals(self._locations, refuses_empty)
        if TermLocation.AFFINITY in self._locations:
            refuses_several = self._applies([TermLocation.AFFINITY], MULTIPLE_REQUIRED_AFFINITY)
            terms = f"({extended(TermLocation.AFFINITY)})"
            yield cel.all_of(refuses_several, f"!{terms}.all(term, term == {terms}[0])")
        if TermLocation.SPREAD in self._locations:
            yield _duplicate_spread()
        yield from (_other_value(location) for location in MAPS if location in self._locations)

    def _applies(self, locations: t.Collection[TermLocation], finding: str) -> str:
        """Whether a rule with a term of these locations applies that does not allow the finding."""
        return cel.any_of(
            x.choice.applies
            for x in self._occurrences
            if x.term.location in locations and finding not in x.choice.member.allowed
        )

    def _annotation(self) -> dict[str, str]:
        rules = []
        for choice in self._choices:
            own = [x for x in self._occurrences if x.choice is choice]
            terms = [x.fingerprint for x in sorted(own, key=lambda x: str(x.term.fingerprint))]
            text = annotation.rule_text(choice.member.rule, choice.member.stored, terms)
            rules.append(cel.optional(choice.applies, text))
        made = {str(pointer): cel.variable(name_of("new", pointer)) for pointer in self._new}
        created = {**made, **node_terms.created(self._locations)}
        return annotation.texts(rules, sorted(created.items()))

    def _operations(self) -> t.Iterator[str]:
        """What sets maps, lists and keys, each map before what is in it."""
        lists = {NODE_REQUIRED, NODE_TERMS, *LISTS.values()}
        for pointer in [x for x in self._new if x not in lists]:
            new = cel.variable(name_of("new", pointer))
            yield cel.optional(new, cel.add("variables.path", pointer, "{}"))
        for location in [x for x in self._locations if x in LISTS]:
            operation = cel.add("variables.path", LISTS[location], extended(location))
            yield cel.optional(are_wanted([location]), operation)
        for x in self._occurrences:
            if x.term.location in MAPS:
                pointer, value = MAPS[x.term.location] / x.term.value["key"], x.term.value["value"]
                yield cel.optional(
                    x.is_wanted, cel.add("variables.path", pointer, cel.literal(value))
                )
        yield from node_terms.operations(self._locations)


def _container(pointer: Pointer) -> str:
    """The map or list at a pointer; null where it is missing, or the map that holds it is."""
    *parts, key = pointer.parts
    holder = at(Pointer(tuple(parts))) if parts else "variables.template"
    return cel.either(f"{holder} == null", cel.NULL, cel.entry(holder, key))


def _duplicate_spread() -> str:
    """The API takes one constraint for each pair of topologyKey and whenUnsatisfiable."""
    added = wanted(TermLocation.SPREAD)
    keys = map(cel.literal, ("topologyKey", "whenUnsatisfiable"))
    same = " && ".join(f"other[?{key}] == term[?{key}]" for key in keys)
    terms = extended(TermLocation.SPREAD)
    return f"{added}.exists(term, ({terms}).filter(other, {same}).size() > 1)"


def _other_value(location: TermLocation) -> str:
    """A key is there with another value, or two rules want different ones."""
    map_, added = at(MAPS[location]), wanted(location)
    present = f"({map_} != null && term.key in {map_})"
    twice = f"{added}.filter(other, other.key == term.key).size() > 1"
    return f"{added}.exists(term, {present} || {twice})"
