# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which rules choose a new object, and which of their terms does it get, in CEL?"""

from __future__ import annotations

import typing as t

from ..kinds.kind import Kind
from ..kinds.registry import KINDS, RULE_KINDS
from ..rules.term_slots import MAPS, Effect, TemplateTerm
from . import annotation, cel
from .members import NewMember
from .places import at


class RuleChoice(t.NamedTuple):
    """Objects that a rule chooses. The variable `name` says whether the new object is one of them, by the expression
    `condition`."""

    member: NewMember
    name: str
    condition: str

    @property
    def applies(self) -> str:
        return cel.variable(self.name)


class Occurrence(t.NamedTuple):
    """A term of a rule. `earlier` are those of other rules with the same effect before it."""

    term: TemplateTerm
    choice: RuleChoice
    earlier: tuple[Occurrence, ...]

    @property
    def is_wanted(self) -> str:
        """The rule applies, no rule before it has the same term, nor has one of another set; a key of a map is not
        there already."""
        conditions = [self.choice.applies]
        if self.earlier:
            conditions.append(f"!{cel.any_of(x.choice.applies for x in self.earlier)}")
        conditions.append(f"!{annotation.has_term(self.term.fingerprint)}")
        if self.term.location in MAPS:
            conditions.append(f"!{_has_value(self.term)}")
        return cel.all_of(*conditions)

    @property
    def fingerprint(self) -> str:
        """The fingerprint of the term in the annotation, as an entry of a list: that of the first rule with the term,
        which may be written in another way. A key of a map that is there already, and that no rule has set, is of no
        rule."""
        own = text = annotation.fingerprint_text(self.term.fingerprint)
        for other in reversed(self.earlier):
            form = annotation.fingerprint_text(other.term.fingerprint)
            if form != own:
                text = cel.either(other.choice.applies, form, text)
        text = annotation.recorded_fingerprint(self.term.fingerprint, text)
        if self.term.location not in MAPS:
            return text
        is_set = annotation.has_term(self.term.fingerprint)
        return cel.optional(cel.any_of([f"!{_has_value(self.term)}", is_set]), text)


def choices_of(members: t.Iterable[NewMember]) -> tuple[RuleChoice, ...]:
    """The rules in their order. Where several parts of a rule choose an object, the first one counts."""
    choices: list[RuleChoice] = []
    for number, member in enumerate(sorted(members, key=lambda member: member.rule)):
        condition = cel.all_of(is_kind(member.kind), _chooses(member, cel.variable("labels")))
        of_rule = (x for x in choices if x.member.rule == member.rule)
        if earlier := [x.applies for x in of_rule if x.member.meets(member)]:
            condition = cel.all_of(condition, f"!{cel.any_of(earlier)}")
        choices.append(RuleChoice(member, f"rule_{number}", condition))
    return tuple(choices)


def occurrences_of(choices: t.Iterable[RuleChoice]) -> tuple[Occurrence, ...]:
    """Each term of each rule, terms with the same effect once in a rule."""
    by_effect: dict[Effect, list[Occurrence]] = {}
    occurrences = []
    for choice in choices:
        for term in choice.member.terms:
            same = by_effect.setdefault(term.effect, [])
            if not same or same[-1].choice is not choice:
                earlier = tuple(x for x in same if x.choice.member.meets(choice.member))
                same.append(Occurrence(term, choice, earlier))
                occurrences.append(same[-1])
    return tuple(occurrences)


def is_chosen(members: t.Iterable[NewMember]) -> str:
    """Whether a rule chooses the new object, without variables. A part that fails, as for labels that are no map,
    leaves the others."""
    labels = ".?metadata.?labels.orValue({})"
    return cel.any_of(
        cel.all_of(is_kind(x.kind), _chooses(x, f"{cel.part_of_object(x.kind.template)}{labels}"))
        for x in members
    )


def has_no_maker() -> str:
    """Whether the new object gets its template from no other workload, as a VM of a pool does: the rule is for the
    pool."""
    is_maker = cel.any_of(
        cel.all_of(
            f"owner.kind == {cel.literal(kind.name)}",
            f"owner.apiVersion.startsWith({cel.literal(f'{kind.group}/')})",
        )
        for kind in KINDS.values()
        if kind.makes in RULE_KINDS
    )
    return f"!object.metadata.?ownerReferences.orValue([]).exists(owner, {is_maker})"


def is_kind(kind: Kind) -> str:
    """Whether the new object is of this kind."""
    return f"request.kind.kind == {cel.literal(kind.name)}"


def _chooses(member: NewMember, labels: str) -> str:
    """Whether names or labels choose the new object."""
    if member.labels is None:
        return f"{annotation.NAME} in {cel.list_of(map(cel.literal, member.names))}"
    return cel.all_of(*(cel.has_pair(labels, *pair) for pair in sorted(member.labels.items())))


def _has_value(term: TemplateTerm) -> str:
    """Whether a map of the template has this value of a key."""
    map_ = at(MAPS[term.location])
    has_pair = cel.has_pair(map_, term.value["key"], term.value["value"])
    return cel.all_of(f"{map_} != null", has_pair)
