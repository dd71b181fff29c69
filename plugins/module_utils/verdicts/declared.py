# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a workload declares: its template's terms, each with the rules that it belongs to."""

from __future__ import annotations

import marshal
import typing as t
from dataclasses import dataclass, field, replace

from ..model.manifest import placement_from_spec
from ..model.names import RULES
from ..model.objects import Labels, Placement, Ref
from ..model.pointer import JSON
from ..model.snapshot import Workload
from ..rules.fingerprint import Fingerprint
from ..rules.ownership import Ownership, UnreadableAnnotation, read_ownership, rules_of_term
from ..rules.slots import FIELDS, LISTS, MAPS, Slot
from .node_rules import Foreign, NodeRule, foreign, read_node_rules
from .terms import Kind, Term, TermSet, terms_of


@dataclass(frozen=True, slots=True)
class RuleTerms:
    """What one rule put on a workload, as it stands there now. `gone` is true where a term that
    the rule wrote stands there no more."""

    rule: str
    terms: tuple[Term, ...] = ()
    nodes: NodeRule | None = None
    labels: tuple[tuple[str, str], ...] = ()
    gone: bool = False


@dataclass(frozen=True, slots=True)
class Declared:
    """`placement` is the template's, matchLabelKeys not resolved. `damaged` says why the
    annotation with the rules could not be used."""

    workload: Ref
    placement: Placement
    labels: Labels
    said: TermSet
    rules: tuple[RuleTerms, ...] = ()
    owners: t.Mapping[Term, tuple[str, ...]] = field(default_factory=dict)
    foreign: Foreign = field(default_factory=Foreign)
    cloned_from: str = ""
    damaged: str = ""

    @property
    def terms(self) -> frozenset[Term]:
        return self.said.terms


class Reader:
    """Reads workloads, and parses what many of them say alike only once."""

    def __init__(self) -> None:
        self._placements: dict[bytes, tuple[Placement, TermSet]] = {}
        self._read: dict[Ref, Declared] = {}

    def placement(self, spec: t.Mapping[str, JSON]) -> tuple[Placement, TermSet]:
        """The placement of a pod-like spec and its terms."""
        key = marshal.dumps([spec.get(name) for name in FIELDS], 2)
        found = self._placements.get(key)
        if found is None:
            placement = placement_from_spec(dict(spec))
            found = placement, TermSet(placement)
            self._placements[key] = found
        return found

    def declared(self, workload: Workload) -> Declared:
        found = self._read.get(workload.ref)
        if found is None:
            found = self._read[workload.ref] = self._declared(workload)
        return found

    def _declared(self, workload: Workload) -> Declared:
        template = workload.template
        placement, said = self.placement(template.get("spec") or {})
        plain = Declared(
            workload.ref,
            placement,
            workload.template_labels,
            said,
            foreign=Foreign(placement.node_selector, placement.node_terms),
        )
        if RULES not in workload.annotations:
            return plain
        try:
            ownership = read_ownership(workload)
        except UnreadableAnnotation as error:
            return replace(plain, damaged=str(error))
        if ownership.uid != workload.uid:
            return replace(plain, cloned_from=ownership.uid)
        return _with_rules(plain, ownership, template)


def _with_rules(plain: Declared, ownership: Ownership, template: t.Mapping[str, JSON]) -> Declared:
    owners: dict[Term, tuple[str, ...]] = {}
    for slot, entry, term in _standing(plain.placement, template):
        names = tuple(map(str, rules_of_term(ownership, slot, entry)))
        if names:
            owners[term] = (*owners.get(term, ()), *names)
    nodes = {rule.rule: rule for rule in read_node_rules(ownership, template)}
    rules = tuple(
        _rule_terms(str(rule), marks, owners, nodes.get(str(rule)), template)
        for rule, marks in ownership.rules.items()
    )
    return replace(plain, rules=rules, owners=owners, foreign=foreign(ownership, template))


def _standing(
    placement: Placement, template: t.Mapping[str, JSON]
) -> t.Iterator[tuple[Slot, JSON, Term]]:
    """Each entry of a list and each pair of the nodeSelector, with the term that it makes."""
    parsed: dict[Slot, Placement] = {
        slot: Placement(**{name: getattr(placement, name)}) for slot, name in _FIELD_OF.items()
    }
    for slot, pointer in LISTS.items():
        terms = terms_of(parsed[slot], {})
        yield from (
            (slot, e, x) for e, x in zip(pointer.read(template, None) or (), terms, strict=True)
        )
    selector = MAPS[Slot.NODE_SELECTOR].read(template, None) or {}
    by_pair = {term.said: term for term in terms_of(parsed[Slot.NODE_SELECTOR], {})}
    for key, value in selector.items():
        yield Slot.NODE_SELECTOR, {"key": key, "value": value}, by_pair[key, value]


_FIELD_OF: t.Mapping[Slot, str] = {
    Slot.PREFERRED_NODE: "preferred_node_terms",
    Slot.AFFINITY: "affinity",
    Slot.PREFERRED_AFFINITY: "preferred_affinity",
    Slot.ANTI_AFFINITY: "anti_affinity",
    Slot.PREFERRED_ANTI_AFFINITY: "preferred_anti_affinity",
    Slot.SPREAD: "spread",
    Slot.TOLERATION: "tolerations",
    Slot.NODE_SELECTOR: "node_selector",
}


def _rule_terms(
    rule: str,
    marks: tuple[Fingerprint, ...],
    owners: t.Mapping[Term, tuple[str, ...]],
    nodes: NodeRule | None,
    template: t.Mapping[str, JSON],
) -> RuleTerms:
    terms = tuple(
        term
        for term, names in owners.items()
        if rule in names and term.kind is not Kind.NODE_SELECTOR
    )
    labels = _labels(marks, MAPS[Slot.LABEL].read(template, None) or {})
    gone = (
        (nodes is not None and nodes.gone)
        or len(terms) < _meanings(marks, LISTS)
        or len(labels) < _meanings(marks, (Slot.LABEL,))
    )
    return RuleTerms(rule, terms, nodes, labels, gone)


def _meanings(marks: t.Iterable[Fingerprint], slots: t.Container[Slot]) -> int:
    return len({(mark.slot, mark.meaning) for mark in marks if mark.slot in slots})


def _labels(
    marks: t.Iterable[Fingerprint], labels: t.Mapping[str, str]
) -> tuple[tuple[str, str], ...]:
    wanted = {mark.meaning for mark in marks if mark.slot is Slot.LABEL}
    if not wanted:
        return ()
    return tuple(
        (key, value)
        for key, value in labels.items()
        if Fingerprint.of(Slot.LABEL, {"key": key, "value": value}).meaning in wanted
    )
