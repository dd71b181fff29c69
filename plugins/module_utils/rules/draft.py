# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which rule owns which term of a workload after a request?

`OwnershipChange` has the terms that are kept, requested, adopted, replaced and removed; `TemplateDraft`, a copy
of the template, is the only value in a merge that changes in place.
"""

from __future__ import annotations

import json
import typing as t
from collections import defaultdict
from dataclasses import dataclass, field, replace

from ..model.findings import Finding
from ..model.json_pointer import JSON
from ..model.objects import Ref
from ..model.rule import RuleId
from ..model.snapshot import Workload
from .ownership import OwnedRule, Ownership
from .record import RuleSetChange
from .similar import SelectablePods, is_similar
from .term_slots import (
    FIELDS,
    LISTS,
    MAPS,
    NODE_TERMS,
    Fingerprint,
    TemplateTerm,
    TermLocation,
    pairs_of,
    terms_of,
)


@dataclass(frozen=True)
class RequestedRules:
    """What a request wants of one workload.

    `listed` has the terms of each rule that is to be carried, None for a rule that is to go.
    With `prune`, (namespace, set), every rule of that set that is not listed goes too. With `adopt` terms that are
    equal to those of the rules become theirs, with `adopt_similar` similar terms are replaced by them. `pods` tell
    what terms select; without them no term is similar. `stored` is what the annotation gets of each listed rule that
    has the workload as a member, beside the terms. `change` is what the undo record of the workload names.
    """

    listed: t.Mapping[RuleId, tuple[TemplateTerm, ...] | None]
    change: RuleSetChange
    prune: tuple[str, str] | None = None
    adopt: bool = False
    adopt_similar: bool = False
    pods: SelectablePods | None = None
    stored: t.Mapping[RuleId, OwnedRule] = field(default_factory=dict)

    @property
    def carries(self) -> bool:
        """Whether the workload is to carry one of the listed rules."""
        return any(terms is not None for terms in self.listed.values())

    def keeps(self, rule: RuleId) -> bool:
        """Whether a rule that the workload carries stays as it is."""
        return rule not in self.listed and self.prune != (rule.namespace, rule.rule_set)


TermOfRules = tuple[TemplateTerm, tuple[RuleId, ...]]
"""A term of others that means the same as a term of these rules, as it is in the template."""


@dataclass(frozen=True)
class OwnershipChange:
    """`rules` is the ownership afterwards. `values` are the terms of the listed rules, `removed` the
    terms that no rule owns any more, `wanted_by` the listed rules by the locations of their terms. A term of
    `ours` that is in the template is owned; other requested terms are added, even beside a term with the
    same meaning. `stripped` are terms of rules that a console wrote again with less in them, `similar` terms of
    others that mean the same as those of rules."""

    rules: t.Mapping[RuleId, OwnedRule]
    values: t.Mapping[Fingerprint, JSON]
    removed: tuple[Fingerprint, ...]
    ours: frozenset[Fingerprint]
    wanted_by: t.Mapping[TermLocation, t.Sequence[RuleId]]
    stripped: tuple[TermOfRules, ...] = ()
    similar: tuple[TermOfRules, ...] = ()

    def of(self, locations: t.Collection[TermLocation]) -> tuple[TemplateTerm, ...]:
        """The wanted terms of some locations, in the order of their rules."""
        return tuple(
            TemplateTerm(fingerprint.location, value)
            for fingerprint, value in self.values.items()
            if fingerprint.location in locations
        )

    def is_ours(self, fingerprint: Fingerprint) -> bool:
        return any(own.has_same_effect(fingerprint) for own in self.ours)

    def rules_with(self, fingerprint: Fingerprint) -> list[RuleId]:
        """The listed rules that have this term."""
        listed = self.wanted_by.get(fingerprint.location, ())
        return [rule for rule in listed if fingerprint in self.rules[rule].terms]


def ownership_change(
    ownership: Ownership,
    wanted: RequestedRules,
    template: t.Mapping[str, JSON],
    namespace: str,
) -> OwnershipChange:
    """Which rule owns which term after the request. Rules are processed in the order of their ids,
    so that the order of a list never matters."""
    rules = {rule: owned for rule, owned in ownership.rules.items() if wanted.keeps(rule)}
    present = present_terms(template)
    values: dict[Fingerprint, JSON] = {}
    adopted: set[Fingerprint] = set()
    wanted_by: dict[TermLocation, list[RuleId]] = defaultdict(list)
    for rule, terms in sorted(wanted.listed.items()):
        if terms is None:
            continue
        fingerprints: list[Fingerprint] = []
        for term in terms:
            fingerprint = _claim(term, ownership, present, wanted.adopt, adopted)
            if fingerprint is None:
                continue
            fingerprint = next((m for m in values if m.has_same_effect(fingerprint)), fingerprint)
            values.setdefault(fingerprint, term.value)
            fingerprints.append(fingerprint)
        if rule.namespace != namespace and not fingerprints:
            continue  # others have set its label here, and such a rule has nothing else
        for location in {term.location for term in terms}:
            wanted_by[location].append(rule)
        rules[rule] = replace(
            wanted.stored.get(rule, OwnedRule()), terms=tuple(sorted(set(fingerprints)))
        )
    claimed = {fingerprint for owned in rules.values() for fingerprint in owned.terms}
    removed = tuple(sorted(ownership.fingerprints() - claimed))
    stripped = tuple(_stripped(ownership, wanted, [*values, *removed], template))
    return OwnershipChange(
        rules=rules,
        values=values,
        removed=removed,
        ours=ownership.fingerprints() | adopted,
        wanted_by=wanted_by,
        stripped=stripped,
        similar=tuple(_similar(ownership, wanted, values, stripped, template, namespace)),
    )


def _stripped(
    ownership: Ownership,
    wanted: RequestedRules,
    concerned: t.Sequence[Fingerprint],
    template: t.Mapping[str, JSON],
) -> t.Iterator[TermOfRules]:
    """What a console has left of terms of rules that the request is about. It is ours only if the term itself is
    no longer there."""
    present = [term for term in terms_of(template) if term.location in LISTS]
    there = {term.effect for term in present}
    for own in concerned:
        recorded = ownership.owned(own)
        if recorded is None or own.effect in there:
            continue
        term = next((x for x in present if recorded.is_stripped_to(x.fingerprint)), None)
        if term is not None:
            rules = ownership.rules_of[recorded]
            yield term, tuple(x for x in rules if not wanted.keeps(x))


def _similar(
    ownership: Ownership,
    wanted: RequestedRules,
    values: t.Mapping[Fingerprint, JSON],
    stripped: t.Sequence[TermOfRules],
    template: t.Mapping[str, JSON],
    namespace: str,
) -> t.Iterator[TermOfRules]:
    if wanted.pods is None:
        return
    known = [*values, *(term.fingerprint for term, _rules in stripped)]
    for term in terms_of(template):
        fingerprint = term.fingerprint
        ours = ownership.owned(fingerprint) or any(map(fingerprint.has_same_effect, known))
        if term.location not in LISTS or ours:
            continue
        rules = tuple(
            rule
            for rule, terms in sorted(wanted.listed.items())
            if terms and is_similar(term, terms, namespace, wanted.pods)
        )
        if rules:
            yield term, rules


def _claim(
    term: TemplateTerm,
    ownership: Ownership,
    present: t.Sequence[Fingerprint],
    adopt: bool,
    adopted: set[Fingerprint],
) -> Fingerprint | None:
    """The fingerprint under which a requested term becomes ours; None for a key of a map that has
    this value already: no rule set it, so no rule removes it later."""
    fingerprint = term.fingerprint
    own = ownership.owned(fingerprint)
    alike = [x for x in present if x.has_same_effect(fingerprint)]
    if own is not None:
        # A console may have written ours anew; what no longer stands is added as it is now.
        return own if own in alike else next(iter(alike), fingerprint)
    if alike and adopt:
        adopted.add(alike[0])
        return alike[0]
    return None if alike and term.location in MAPS else fingerprint


def present_terms(template: t.Mapping[str, JSON]) -> list[Fingerprint]:
    node_terms = NODE_TERMS.read(template, None) or ()
    terms = (
        *terms_of(template),
        *pairs_of(template, TermLocation.LABEL),
        *(TemplateTerm(TermLocation.NODE_TERM, term) for term in node_terms),
    )
    return [term.fingerprint for term in terms]


@dataclass
class TemplateDraft:
    """`root` is a copy of the template's metadata and of its placement fields, the only value in
    the merge that changes in place. `created` are the containers that rules created, `touched` the
    terms that were added or removed, `replacing` the rules whose terms took the place of others."""

    ref: Ref
    root: dict[str, JSON]
    created: set[str] = field(default_factory=set)
    touched: set[Fingerprint] = field(default_factory=set)
    replacing: set[RuleId] = field(default_factory=set)
    findings: list[Finding] = field(default_factory=list)


def placement_parts(workload: Workload) -> dict[str, JSON]:
    """The parts of the template that a merge may change: what is absent there is absent here. No two of them
    are one object, as equal parts of what was read are (model/manifests), also after copy.deepcopy."""
    template = workload.template
    spec = template.get("spec") or {}
    parts: dict[str, JSON] = {"spec": {name: spec[name] for name in FIELDS if name in spec}}
    if template.get("metadata") is not None:
        parts["metadata"] = template["metadata"]
    return t.cast(dict[str, JSON], json.loads(json.dumps(parts)))


def remove_entry(entries: list[JSON], fingerprint: Fingerprint) -> bool:
    """Remove the last entry that is written as `fingerprint` has it, or else the last with the same effect.

    The last: a term of ours was appended to what stood there.
    """
    present = [TemplateTerm(fingerprint.location, entry).fingerprint for entry in entries]
    same = [i for i, x in enumerate(present) if x == fingerprint]
    alike = [i for i, x in enumerate(present) if x.has_same_effect(fingerprint)]
    for index in (same or alike)[-1:]:
        del entries[index]
        return True
    return False
