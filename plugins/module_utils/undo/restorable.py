# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""May an undo write what the undo record of a workload has?

Each client that may write a workload may write its record, and the identity of an undo may have rights that such a
client lacks, for example where an admission policy refuses tolerations. So an undo restores only what a change of the
rule set can have written: it takes away terms that the set owns, and brings back terms that the set owned, or whose
place a term of the set has taken. A record may not stand alone against other workloads of the set: a rule that it
brings back has to be known of one of them, or one of them has a record of the same change. A term of a rule that
others have, too, has to be one that they have of it, or had before the same change.
"""

from __future__ import annotations

import typing as t
from dataclasses import dataclass

from ..model.json_pointer import JSON
from ..model.kinds import GROUP
from ..model.objects import Ref
from ..model.rendering import listed
from ..model.rule import RuleId
from ..model.snapshot import Workload
from ..rules.ownership import OwnedRule, Ownership
from ..rules.record import RuleSetChange
from ..rules.similar import have_one_place
from ..rules.term_slots import (
    IN_NODE_TERM,
    NODE_TERMS,
    POD_TERMS,
    REVISION_KEYS,
    WEIGHTED_POD_TERMS,
    Effect,
    TemplateTerm,
    TermLocation,
    foreign_part,
    is_empty,
    pairs_of,
    terms_of,
)

Terms = dict[Effect, TemplateTerm]
Traits = t.Mapping[RuleId, frozenset[Effect]]
"""What the terms of each rule are, apart from the pods that they select: that differs between its workloads."""


class KnownRules(t.NamedTuple):
    """The rules of a set that a workload has now, those that it had before its last change, and that change."""

    now: Traits
    before: Traits
    change: RuleSetChange | None

    @property
    def rules(self) -> frozenset[RuleId]:
        return frozenset((*self.now, *self.before))

    def of(self, rule: RuleId, change: RuleSetChange) -> frozenset[Effect]:
        """What the rule has here, or had before the change."""
        before = self.before if self.change == change else {}
        return self.now.get(rule, frozenset()) | before.get(rule, frozenset())


KnownBy = t.Mapping[Ref, KnownRules]


@dataclass(frozen=True)
class RuleSetOnWorkload:
    """The rule set of a change on a workload: `now`, and `before` that change, which is to be undone. `parts` are those
    of the template (draft.placement_parts) at both times. `known`: the rules of the set by workload."""

    workload: Workload
    change: RuleSetChange
    now: Ownership
    before: Ownership
    parts: tuple[JSON, JSON]
    known: KnownBy

    def fault(self) -> str | None:
        """What is wrong with the record, as the end of a sentence about the workload; None where it can be restored."""
        faults = (
            self._fault_of_rules,
            self._fault_of_terms,
            self._fault_of_unknown_terms,
            self._fault_of_node_terms,
        )
        return next(filter(None, (fault() for fault in faults)), None)

    def _of_set(self, ownership: Ownership) -> frozenset[RuleId]:
        return frozenset(ownership.of_set(*self.change.rule_set.split("/", 1)))

    def _effects(self, ownership: Ownership) -> frozenset[Effect]:
        rules = self._of_set(ownership)
        return frozenset(x.effect for rule in rules for x in ownership.rules[rule].terms)

    def _fault_of_rules(self) -> str | None:
        now, before = self._of_set(self.now), self._of_set(self.before)
        name = self.change.rule_set.partition("/")[2]
        if not now | before:
            return f"it has no rule of rule set {name!r}, neither now nor in its undo record"
        others = [
            {rule: owned for rule, owned in x.rules.items() if rule not in of_set}
            for x, of_set in ((self.now, now), (self.before, before))
        ]
        if others[0] != others[1]:
            return "its undo record changes rules of other rule sets"
        known = [x for ref, x in self.known.items() if ref != self.workload.ref]
        alone = before - now - frozenset().union(*(x.rules for x in known))
        if alone and known and all(x.change != self.change for x in known):
            names = listed([rule.name for rule in sorted(alone)])
            return f"its undo record brings back {names}, and no other workload knows that rule or that change"
        return None

    def _fault_of_terms(self) -> str | None:
        now, before = map(_terms, self.parts)
        ours = self._effects(self.now)
        taken = [now[x] for x in now.keys() - before.keys() - ours]
        if taken:
            return f"its undo record takes away what no rule of the set has written: {_text(taken)}"
        of_rules = [now[x] for x in now.keys() & ours]
        back = [before[x] for x in before.keys() - now.keys() - self._effects(self.before)]
        namespace = self.workload.ref.namespace
        foreign = [x for x in back if not any(_replaces(y, x, namespace) for y in of_rules)]
        if foreign:
            return (
                f"its undo record brings back what no rule of the set had written: {_text(foreign)}"
            )
        return None

    def _fault_of_unknown_terms(self) -> str | None:
        """A term that comes back with a rule that has no such term anywhere else."""
        now, before = map(_terms, self.parts)
        for rule in sorted(self._of_set(self.before)):
            back = {x.effect for x in self.before.rules[rule].terms} & (before.keys() - now.keys())
            if unknown := [before[x] for x in back if not self._is_known(rule, before[x])]:
                name = rule.name
                return f"its undo record brings back what rule {name} has nowhere else: {_text(unknown)}"
        return None

    def _is_known(self, rule: RuleId, term: TemplateTerm) -> bool:
        """Of another workload of the rule, else, for its kind, of the rule as it is now. True where none has terms."""
        location = term.location
        looked_for = {_trait(term), term.effect}
        if GROUP_LABEL in looked_for:
            return True
        of_targets = {GROUP_LABEL} if location in (*_ABOUT_PODS, TermLocation.LABEL) else set()
        compared = False
        for ref, known in self.known.items():
            others = known.of(rule, self.change) - of_targets
            if ref != self.workload.ref and others:
                if looked_for & others:
                    return True
                compared = True
        if compared or location is TermLocation.LABEL:
            return not compared
        there = _terms(self.parts[0])
        owned = self.now.rules.get(rule, OwnedRule())
        here = {_kind(x.location) for x in owned.terms if x.effect in there}
        return not here or _kind(location) in here

    def _fault_of_node_terms(self) -> str | None:
        """Required node terms are OR-ed: one more or one less is another requirement."""
        effects = [self._effects(self.now), self._effects(self.before)]
        ours = {effect for effect in effects[0] | effects[1] if effect[0] in IN_NODE_TERM}
        now, before = (_rests(parts, ours) for parts in self.parts)
        if now - before - effects[0] or before - now - effects[1]:
            return "its undo record changes node terms that no rule of the set has written"
        return None


def _terms(parts: JSON) -> Terms:
    return {x.effect: x for x in (*terms_of(parts), *pairs_of(parts, TermLocation.LABEL))}


def traits(ownership: Ownership, parts: JSON) -> dict[RuleId, frozenset[Effect]]:
    """Of the terms of each rule, given the parts of the template."""
    there = _terms(parts)
    return {
        rule: frozenset(
            _trait(there[x.effect]) if x.effect in there else x.effect for x in owned.terms
        )
        for rule, owned in ownership.rules.items()
    }


GROUP_LABEL: Effect = (TermLocation.LABEL, GROUP)
"""The trait of all labels of ours: also workloads that a rule is not about, but its targets, have them."""

_ABOUT_PODS = (*POD_TERMS, *WEIGHTED_POD_TERMS, TermLocation.SPREAD)
_SELECTION = ("labelSelector", *REVISION_KEYS)


def _trait(term: TemplateTerm) -> Effect:
    location, value = term.location, term.value
    if location is TermLocation.LABEL and value["key"].startswith(GROUP):
        return GROUP_LABEL
    if location in WEIGHTED_POD_TERMS:
        of_pods = _without_selection(value.get("podAffinityTerm") or {})
        value = {**value, "podAffinityTerm": of_pods}
    elif location in _ABOUT_PODS:
        value = _without_selection(value)
    return TemplateTerm(location, value).effect


def _without_selection(term: t.Mapping[str, JSON]) -> dict[str, JSON]:
    return {key: value for key, value in term.items() if key not in _SELECTION}


def _kind(location: TermLocation) -> str:
    """A rule that becomes preferred, or is about other nodes or pods, has terms of the same kind."""
    if location in (TermLocation.TOLERATION, TermLocation.LABEL):
        return str(location)
    return "pods" if location in _ABOUT_PODS else "nodes"


def _rests(parts: JSON, ours: t.Collection[Effect]) -> frozenset[Effect]:
    """The required node terms without entries of the set."""
    terms = NODE_TERMS.read(parts, None) or ()
    rests = [foreign_part(term, ours) for term in terms]
    return frozenset(
        TemplateTerm(TermLocation.NODE_TERM, x).effect for x in rests if not is_empty(x)
    )


def _replaces(ours: TemplateTerm, other: TemplateTerm, namespace: str) -> bool:
    """Whether a rule with this term may have taken the place of the other one, as `adopt` does."""
    locations = ours.location, other.location
    if locations == (TermLocation.NODE_EXPRESSION, TermLocation.NODE_SELECTOR):
        same = {"key": other.value["key"], "operator": "In", "values": [other.value["value"]]}
        return bool(ours.value == same)
    stripped = ours.fingerprint.is_stripped_to(other.fingerprint)
    return stripped or have_one_place(ours, other, namespace)


def _text(terms: t.Sequence[TemplateTerm]) -> str:
    return listed(sorted({str(term.location) for term in terms}))
