# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which terms of one workload belong to which rule after a request: kept, wanted, taken over, gone."""

from __future__ import annotations

import typing as t
from dataclasses import dataclass, field

from ..model.pointer import JSON
from ..model.rule import RuleId
from .fingerprint import Fingerprint
from .ownership import Ownership
from .slots import MAPS, NODE_TERMS, CompiledTerm, Slot, terms_of


@dataclass(frozen=True)
class Wanted:
    """What a request wants of one workload.

    `listed` has the terms of each rule that is to be carried, None for a rule that is to go.
    With `prune`, (namespace, set), every rule of that set that is not listed goes too.
    """

    listed: t.Mapping[RuleId, tuple[CompiledTerm, ...] | None]
    prune: tuple[str, str] | None = None
    adopt: bool = False

    @property
    def carries(self) -> bool:
        """Whether the workload is to carry one of the listed rules."""
        return any(terms is not None for terms in self.listed.values())

    def keeps(self, rule: RuleId) -> bool:
        """Whether a rule that the workload carries stays as it is."""
        return rule not in self.listed and self.prune != (rule.namespace, rule.set)


@dataclass(frozen=True)
class Claims:
    """`rules` is the ownership afterwards. `values` are the terms of the listed rules, `gone` the
    terms that belong to nobody any more. A term of `ours` counts as ours where it stands; one
    that is not among them is added beside whatever says the same."""

    rules: t.Mapping[RuleId, tuple[Fingerprint, ...]]
    values: t.Mapping[Fingerprint, JSON]
    gone: tuple[Fingerprint, ...]
    ours: frozenset[Fingerprint]
    wanted_by: t.Mapping[Slot, tuple[RuleId, ...]] = field(default_factory=dict)

    def of(self, slots: t.Collection[Slot]) -> tuple[CompiledTerm, ...]:
        """The wanted terms of some slots, in the order of their rules."""
        return tuple(
            CompiledTerm(mark.slot, value)
            for mark, value in self.values.items()
            if mark.slot in slots
        )

    def is_ours(self, mark: Fingerprint) -> bool:
        return any(own.says_the_same(mark) for own in self.ours)


def settle(ownership: Ownership, wanted: Wanted, template: t.Mapping[str, JSON]) -> Claims:
    """Who owns what after the request. Rules are taken in the order of their ids, so that the
    order of a list never decides."""
    rules = {rule: marks for rule, marks in ownership.rules.items() if wanted.keeps(rule)}
    standing = _standing(template)
    values: dict[Fingerprint, JSON] = {}
    adopted: set[Fingerprint] = set()
    for rule, terms in sorted(wanted.listed.items()):
        if terms is None:
            continue
        marks: list[Fingerprint] = []
        for term in terms:
            mark = _claim(term, ownership, standing, wanted.adopt, adopted)
            if mark is None:
                continue
            mark = next((m for m in values if m.says_the_same(mark)), mark)
            values.setdefault(mark, term.value)
            marks.append(mark)
        rules[rule] = tuple(sorted(set(marks)))
    claimed = {mark for marks in rules.values() for mark in marks}
    return Claims(
        rules=rules,
        values=values,
        gone=tuple(sorted(ownership.marks() - claimed)),
        ours=ownership.marks() | adopted,
        wanted_by=_wanted_by(wanted),
    )


def _claim(
    term: CompiledTerm,
    ownership: Ownership,
    standing: t.Sequence[Fingerprint],
    adopt: bool,
    adopted: set[Fingerprint],
) -> Fingerprint | None:
    """The fingerprint under which a wanted term becomes ours; None for a key of a map that
    somebody else has set to the same value: it is not ours to take away later."""
    mark = Fingerprint.of(term.slot, term.value)
    own = ownership.owned(mark)
    alike = [found for found in standing if found.says_the_same(mark)]
    if own is not None:
        # A console may have written ours anew; what no longer stands is added as it is now.
        return own if own in alike else next(iter(alike), mark)
    if alike and adopt:
        adopted.add(alike[0])
        return alike[0]
    return None if alike and term.slot in MAPS else mark


def _standing(template: t.Mapping[str, JSON]) -> list[Fingerprint]:
    marks = [Fingerprint.of(slot, entry) for slot, entry in terms_of(template)]
    labels = MAPS[Slot.LABEL].read(template, None) or {}
    marks += [
        Fingerprint.of(Slot.LABEL, {"key": key, "value": value}) for key, value in labels.items()
    ]
    marks += [
        Fingerprint.of(Slot.NODE_TERM, term) for term in NODE_TERMS.read(template, None) or ()
    ]
    return marks


def _wanted_by(wanted: Wanted) -> dict[Slot, tuple[RuleId, ...]]:
    by_slot: dict[Slot, set[RuleId]] = {}
    for rule, terms in wanted.listed.items():
        for term in terms or ():
            by_slot.setdefault(term.slot, set()).add(rule)
    return {slot: tuple(sorted(rules)) for slot, rules in by_slot.items()}
