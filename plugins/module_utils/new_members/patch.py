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
import json
import typing as t
from dataclasses import dataclass

from ..kinds.kind import Kind
from ..model.json_pointer import Pointer
from ..model.placement_manifests import PREFERRED, REQUIRED
from ..rules.checks import EMPTY_NODE_TERM, MULTIPLE_REQUIRED_AFFINITY
from ..rules.term_slots import (
    IN_NODE_TERM,
    LISTS,
    MAPS,
    NODE_REQUIRED,
    NODE_TERMS,
    Effect,
    TemplateTerm,
    TermLocation,
)
from . import annotation, cel
from .members import NewMember

NO_LIST = "[]"


@dataclass(frozen=True)
class Choice:
    """Objects that a rule chooses, and whether the new object is one of them: the variable `applies`, with the
    expression `condition`."""

    member: NewMember
    applies: str
    condition: str


class Occurrence(t.NamedTuple):
    """A term of a rule. `condition`: the rule applies, and no rule before it has the same term, nor one of another set;
    a key of a map is not there already."""

    term: TemplateTerm
    choice: Choice
    condition: str


@dataclass(frozen=True)
class PolicyExpressions:
    """`variables` by their names, in the order in which they depend on each other; `patch` is the jsonPatch
    expression."""

    variables: t.Mapping[str, str]
    patch: str


def policy_expressions(members: t.Sequence[NewMember]) -> PolicyExpressions:
    """The expressions of the policy of one namespace and rule set."""
    return _Expressions(tuple(sorted(members, key=lambda member: member.rule))).all()


def chosen(members: t.Iterable[NewMember]) -> str:
    """Whether a rule chooses the new object, without variables. One part that fails, as for labels that are no map,
    leaves the others."""
    return cel.any_of(cel.all_of(_is_kind(x.kind), _chooses_new(x)) for x in members)


class _Expressions:
    def __init__(self, members: tuple[NewMember, ...]) -> None:
        self._kinds = tuple({member.kind.name: member.kind for member in members}.values())
        self._choices = choices_of(members)
        self._occurrences = tuple(_occurrences(self._choices))
        self._locations = [
            location
            for location in TermLocation
            if any(x.term.location is location for x in self._occurrences)
        ]

    def all(self) -> PolicyExpressions:
        variables = {
            "before": annotation.TEXT,
            "template": self._by_kind(lambda kind: _object_part(kind.template)),
            "path": self._by_kind(lambda kind: cel.literal(str(Pointer(kind.template)))),
            **self._containers(),
            "labels": cel.either(
                "variables.at_metadata_labels == null", "{}", "variables.at_metadata_labels"
            ),
            **{choice.applies: choice.condition for choice in self._choices},
            **{_wanted_name(location): self._wanted(location) for location in self._locations},
            **self._made(),
            "refused": cel.any_of(self._refusals()),
            **self._annotation(),
        }
        patch = cel.list_of([*self._operations(), *annotation.operations()])
        return PolicyExpressions(variables, cel.either("variables.refused", NO_LIST, patch))

    def _by_kind(self, value: t.Callable[[Kind], str]) -> str:
        """The value for the kind of the new object."""
        *others, last = self._kinds
        text = value(last)
        for kind in reversed(others):
            text = cel.either(_is_kind(kind), value(kind), text)
        return text

    @functools.cached_property
    def _pointers(self) -> list[Pointer]:
        """The maps and lists that terms go into, each after the map that holds it."""
        leaves = [MAPS[TermLocation.LABEL], *(_leaf(location) for location in self._locations)]
        pointers = [
            Pointer(leaf.parts[:depth])
            for leaf in leaves
            for depth in range(1, len(leaf.parts) + 1)
        ]
        return sorted(
            dict.fromkeys(pointers), key=lambda pointer: (len(pointer.parts), str(pointer))
        )

    def _containers(self) -> dict[str, str]:
        variables = {}
        for pointer in self._pointers:
            *holder, key = pointer.parts
            parent = _at(Pointer(tuple(holder))) if holder else "variables.template"
            variables[_name("at", pointer)] = cel.member(parent, key)
        return variables

    def _wanted(self, location: TermLocation) -> str:
        return cel.list_of(
            cel.optional(x.condition, cel.literal(x.term.value))
            for x in self._occurrences
            if x.term.location is location
        )

    def _filled(self, locations: t.Iterable[TermLocation]) -> str:
        """Whether terms of one of the locations are wanted."""
        return cel.any_of(cel.is_filled(_wanted(x)) for x in locations if x in self._locations)

    def _made(self) -> dict[str, str]:
        """Maps and lists that are to be made: those that are missing, and into which a term goes."""
        variables = {}
        for pointer in self._pointers:
            depth = len(pointer.parts)
            within = [x for x in self._locations if _leaf(x).parts[:depth] == pointer.parts]
            if within and pointer.parts != ("spec",):
                missing = f"{_at(NODE_REQUIRED if pointer == NODE_TERMS else pointer)} == null"
                variables[_name("new", pointer)] = cel.all_of(missing, self._filled(within))
        return variables

    def _refusals(self) -> t.Iterator[str]:
        """The findings of rules/merge for which `rules` writes nothing."""
        locations = {*self._locations}
        yield annotation.too_many(cel.variable(x.applies) for x in self._choices)
        if inside := locations & {*IN_NODE_TERM}:
            yield from self._empty_node_terms(inside)
            yield from map(_marked_in_part, sorted(inside))
            whole = annotation.has_location(TermLocation.NODE_TERM)
            yield cel.all_of(self._applies(inside), whole)
        if TermLocation.NODE_TERM in locations:
            wanted = self._filled([TermLocation.NODE_TERM])
            others = cel.any_of([f"{_at(NODE_REQUIRED)} != null", self._filled(inside)])
            yield cel.all_of(wanted, others)
        if TermLocation.SPREAD in locations:
            yield _duplicate_spread()
        for location in locations & {*MAPS}:
            yield _other_value(location)
        if TermLocation.AFFINITY in locations:
            terms = f"({_list_at(_leaf(TermLocation.AFFINITY))} + {_wanted(TermLocation.AFFINITY)})"
            several = f"!{terms}.all(term, term == {terms}[0])"
            yield cel.all_of(
                self._refusing(TermLocation.AFFINITY, MULTIPLE_REQUIRED_AFFINITY), several
            )

    def _applies(self, locations: t.Iterable[TermLocation]) -> str:
        """Whether a rule applies that has a term of one of the locations."""
        return cel.any_of(
            cel.variable(x.choice.applies)
            for x in self._occurrences
            if x.term.location in locations
        )

    def _refusing(self, location: TermLocation, finding: str) -> str:
        """Whether a rule with a term of this location applies that does not allow the finding."""
        return cel.any_of(
            cel.variable(x.choice.applies)
            for x in self._occurrences
            if x.term.location is location and finding not in x.choice.member.allowed
        )

    def _empty_node_terms(self, inside: t.Iterable[TermLocation]) -> t.Iterator[str]:
        """All required node terms are empty, so that the pod runs nowhere."""
        refusing = cel.any_of(self._refusing(x, EMPTY_NODE_TERM) for x in sorted(inside))
        terms = f"{_list_at(NODE_TERMS)}.exists(term, {_has_entries('term')})"
        yield cel.all_of(refusing, f"{_at(NODE_REQUIRED)} != null", f"!{terms}")

    def _annotation(self) -> dict[str, str]:
        rules = [cel.optional(cel.variable(x.applies), self._rule_text(x)) for x in self._choices]
        marks = {
            f"{NODE_TERMS}/#/{IN_NODE_TERM[x]}": cel.all_of(self._filled([x]), _lacks_list(x))
            for x in self._locations
            if x in IN_NODE_TERM
        }
        made = {
            str(pointer): cel.variable(_name("new", pointer))
            for pointer in self._pointers
            if _name("new", pointer) in self._made()
        }
        return annotation.texts(rules, sorted({**made, **marks}.items()))

    def _rule_text(self, choice: Choice) -> str:
        """The rule in the annotation."""
        own = [x for x in self._occurrences if x.choice is choice]
        terms = [
            self._fingerprint_text(x) for x in sorted(own, key=lambda x: str(x.term.fingerprint))
        ]
        content = choice.member.stored.content()
        del content["terms"]
        return annotation.rule_text(choice.member.rule, content, terms)

    def _fingerprint_text(self, occurrence: Occurrence) -> str:
        """The fingerprint of a term: that of the first rule with the term, which may be written in another way. A key
        of a map that is there already, and that no rule has set, is of no rule."""
        term, fingerprint = occurrence.term, occurrence.term.fingerprint
        text = cel.literal(json.dumps(str(fingerprint)))
        earlier = self._occurrences[: self._occurrences.index(occurrence)]
        for other in reversed([x for x in earlier if x.term.effect == term.effect]):
            if not _may_both_apply(other.choice.member, occurrence.choice.member):
                continue
            form = cel.literal(json.dumps(str(other.term.fingerprint)))
            if form != text:
                text = cel.either(cel.variable(other.choice.applies), form, text)
        text = annotation.recorded_fingerprint(fingerprint, text)
        if term.location not in MAPS:
            return text
        ours = cel.any_of([_is_absent(term), annotation.has_term(term.effect)])
        return cel.optional(ours, text)

    def _operations(self) -> t.Iterator[str]:
        """What sets maps, lists and keys, each map before what is in it."""
        leaves = {_leaf(location) for location in self._locations}
        for pointer in self._pointers:
            name = _name("new", pointer)
            if (
                name in self._made()
                and (pointer not in leaves or pointer in MAPS.values())
                and pointer != NODE_REQUIRED
            ):
                yield cel.optional(cel.variable(name), cel.add("variables.path", pointer, "{}"))
        for location in self._locations:
            if location in LISTS:
                terms = f"{_list_at(_leaf(location))} + {_wanted(location)}"
                yield cel.optional(
                    cel.is_filled(_wanted(location)),
                    cel.add("variables.path", _leaf(location), terms),
                )
        yield from self._map_operations()
        yield from self._node_operations()

    def _map_operations(self) -> t.Iterator[str]:
        for occurrence in self._occurrences:
            term = occurrence.term
            if term.location in MAPS:
                pointer = MAPS[term.location] / term.value["key"]
                operation = cel.add("variables.path", pointer, cel.literal(term.value["value"]))
                yield cel.optional(occurrence.condition, operation)

    def _node_operations(self) -> t.Iterator[str]:
        inside = [x for x in self._locations if x in IN_NODE_TERM]
        if inside:
            term = cel.list_of([f"{{{', '.join(map(_new_list, inside))}}}"])
            new = f'{{"nodeSelectorTerms": {term}}}'
            yield cel.optional(
                cel.all_of(f"{_at(NODE_REQUIRED)} == null", self._filled(inside)),
                cel.add("variables.path", NODE_REQUIRED, new),
            )
            kept = ", ".join(_list_of_term(x, x in inside) for x in IN_NODE_TERM)
            terms = f"{_at(NODE_TERMS)}.map(term, {cel.either(_has_entries('term'), f'{{{kept}}}', 'term')})"
            yield cel.optional(
                cel.all_of(f"{_at(NODE_TERMS)} != null", self._filled(inside)),
                cel.add("variables.path", NODE_TERMS, terms),
            )
        if TermLocation.NODE_TERM in self._locations:
            new = f'{{"nodeSelectorTerms": {_wanted(TermLocation.NODE_TERM)}}}'
            yield cel.optional(
                self._filled([TermLocation.NODE_TERM]),
                cel.add("variables.path", NODE_REQUIRED, new),
            )


def choices_of(members: t.Iterable[NewMember]) -> tuple[Choice, ...]:
    """The variables of the rules. Where several parts of a rule choose an object, the first one counts."""
    choices: list[Choice] = []
    for number, member in enumerate(members):
        earlier = [
            cel.variable(x.applies)
            for x in choices
            if x.member.rule == member.rule and _may_both_apply(x.member, member)
        ]
        conditions = [_is_kind(member.kind), _chooses(member)]
        conditions += [cel.none_of(earlier)] if earlier else []
        choices.append(Choice(member, f"rule_{number}", cel.all_of(*conditions)))
    return tuple(choices)


def _occurrences(choices: t.Iterable[Choice]) -> t.Iterator[Occurrence]:
    before: dict[Effect, list[Choice]] = {}
    for choice in choices:
        applies = cel.variable(choice.applies)
        first: dict[Effect, TemplateTerm] = {}
        for term in choice.member.terms:
            first.setdefault(term.effect, term)
        for effect, term in first.items():
            earlier = [
                cel.variable(x.applies)
                for x in before.get(effect, ())
                if _may_both_apply(x.member, choice.member)
            ]
            conditions = [applies, *([cel.none_of(earlier)] if earlier else [])]
            conditions.append(f"!{annotation.has_term(effect)}")
            conditions += [_is_absent(term)] if term.location in MAPS else []
            yield Occurrence(term, choice, cel.all_of(*conditions))
            before.setdefault(effect, []).append(choice)


def _may_both_apply(one: NewMember, other: NewMember) -> bool:
    """Whether both may choose the same object."""
    by_names = one.labels is None and other.labels is None
    return one.kind is other.kind and not (by_names and {*one.names}.isdisjoint(other.names))


def _is_kind(kind: Kind) -> str:
    return f"request.kind.kind == {cel.literal(kind.name)}"


def _object_part(parts: t.Iterable[str]) -> str:
    return ".".join(["dyn(object)", *parts])


def _chooses(member: NewMember, labels: str = "variables.labels") -> str:
    """Whether the rule chooses the new object, which is of its kind. `labels`: those of its template."""
    if member.labels is None:
        return f"{annotation.NAME} in {cel.texts(member.names)}"
    pairs = [cel.has_pair(labels, key, x) for key, x in sorted(member.labels.items())]
    return cel.all_of(*pairs) if pairs else "true"


def _chooses_new(member: NewMember) -> str:
    """The same without a variable."""
    labels = f"{_object_part(member.kind.template)}.?metadata.?labels.orValue({{}})"
    return _chooses(member, labels)


def _leaf(location: TermLocation) -> Pointer:
    """The map or list that a term goes into."""
    return {**LISTS, **MAPS}.get(location, NODE_TERMS)


def _name(prefix: str, pointer: Pointer) -> str:
    """The name of a variable about a part of the template."""
    short = {REQUIRED: "required", PREFERRED: "preferred"}
    return "_".join((prefix, *(short.get(part, part) for part in pointer.parts)))


def _at(pointer: Pointer) -> str:
    return cel.variable(_name("at", pointer))


def _list_at(pointer: Pointer) -> str:
    return cel.either(f"{_at(pointer)} == null", NO_LIST, _at(pointer))


def _wanted_name(location: TermLocation) -> str:
    return f"want_{str(location).replace('-', '_')}"


def _wanted(location: TermLocation) -> str:
    return cel.variable(_wanted_name(location))


def _is_absent(term: TemplateTerm) -> str:
    """Whether a map of the template lacks this value of a key."""
    map_ = _at(MAPS[term.location])
    pair = cel.has_pair(map_, term.value["key"], term.value["value"])
    return f"!({map_} != null && {pair})"


def _entries(term: str, location: TermLocation) -> str:
    """A list of a node term; empty where it is missing."""
    value = f"{term}[?{cel.literal(IN_NODE_TERM[location])}].orValue(dyn(null))"
    return cel.either(f"{value} == null", NO_LIST, value)


def _has_entries(term: str) -> str:
    return cel.any_of(cel.is_filled(_entries(term, location)) for location in IN_NODE_TERM)


def _lacks_list(location: TermLocation) -> str:
    """Whether a term with entries has no list for those of this location."""
    value = f"term[?{cel.literal(IN_NODE_TERM[location])}].orValue(dyn(null))"
    return f"{_list_at(NODE_TERMS)}.exists(term, {cel.all_of(_has_entries('term'), f'{value} == null')})"


def _marked_in_part(location: TermLocation) -> str:
    """One term lacks the list, and that of another is empty: the annotation would have to tell them apart by a digest,
    which CEL cannot make."""
    value = f"term[?{cel.literal(IN_NODE_TERM[location])}].orValue(dyn(null))"
    empty = f"{value} != null && size({value}) == 0"
    has_empty = f"{_list_at(NODE_TERMS)}.exists(term, {cel.all_of(_has_entries('term'), empty)})"
    return cel.all_of(cel.is_filled(_wanted(location)), _lacks_list(location), has_empty)


def _new_list(location: TermLocation) -> str:
    """The list of a new node term."""
    wanted = _wanted(location)
    value = cel.optional(cel.is_filled(wanted), wanted).removeprefix("?")
    return f"?{cel.literal(IN_NODE_TERM[location])}: {value}"


def _list_of_term(location: TermLocation, wanted: bool) -> str:
    """The list of a node term with entries, with those that are wanted at its end."""
    key = cel.literal(IN_NODE_TERM[location])
    kept = cel.either(f"{key} in term", f"optional.of(term[{key}])", "optional.none()")
    if not wanted:
        return f"?{key}: {kept}"
    more = f"optional.of({_entries('term', location)} + {_wanted(location)})"
    return f"?{key}: {cel.either(cel.is_filled(_wanted(location)), more, kept)}"


def _duplicate_spread() -> str:
    """The API takes one constraint for each pair of topologyKey and whenUnsatisfiable."""
    wanted, present = _wanted(TermLocation.SPREAD), _list_at(_leaf(TermLocation.SPREAD))
    same = " && ".join(
        f"other[?{cel.literal(key)}] == term[?{cel.literal(key)}]"
        for key in ("topologyKey", "whenUnsatisfiable")
    )
    return f"{wanted}.exists(term, ({present} + {wanted}).filter(other, {same}).size() > 1)"


def _other_value(location: TermLocation) -> str:
    """A key is there with another value, or two rules want different ones."""
    map_, wanted = _at(MAPS[location]), _wanted(location)
    present = f"({map_} != null && term.key in {map_})"
    twice = f"{wanted}.filter(other, other.key == term.key).size() > 1"
    return f"{wanted}.exists(term, {present} || {twice})"
