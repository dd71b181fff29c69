# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What does a workload declare, and which rule owns each term?

The scheduler checks whether a node matches any of the required node terms. To name the rule that a node
violates, each rule's own expressions are evaluated here.
"""

from __future__ import annotations

import marshal
import typing as t
from dataclasses import dataclass, field, replace

from ..kubevirt.labels import AddedNodeSelectors, cluster_node_selector
from ..model.json_pointer import JSON
from ..model.kinds import RULES
from ..model.objects import Labels, Node, NodeTerm, Placement, Ref, Requirement, next_number
from ..model.placement_manifests import node_term_from_json, placement_from_spec
from ..model.rendering import label_text
from ..model.snapshot import Snapshot, Vmi, Workload
from ..model.topology import Topology
from ..rules.ownership import Ownership, UnreadableAnnotation, read_ownership, rules_of_term
from ..rules.term_slots import (
    FIELDS,
    IN_NODE_TERM,
    LISTS,
    NODE_TERMS,
    Effect,
    Fingerprint,
    TemplateTerm,
    TermLocation,
    entries_of,
    foreign_part,
    is_empty,
    pairs_of,
)
from ..scheduler.labels import holds, matches_term
from .terms import Term, TermKind, TermSet, describe, node_term, terms_of

JSONTerm = dict[str, JSON]


@dataclass(frozen=True, slots=True)
class NodeRule:
    """What one rule requires of nodes: all of `term`, one of `any_of` where there are some, and the
    `pairs` of the nodeSelector.

    `bypasses` are the numbers of the required terms that lack something of `term`: terms are
    OR-ed, so a node can match one of them and violate the rule. `removed`: a part that the rule
    wrote is missing everywhere.
    """

    rule: str
    term: NodeTerm = field(default_factory=NodeTerm)
    any_of: tuple[NodeTerm, ...] = ()
    pairs: tuple[tuple[str, str], ...] = ()
    bypasses: tuple[int, ...] = ()
    removed: bool = False

    @property
    def requires_nodes(self) -> bool:
        """Whether the workload still has a requirement of the rule."""
        return bool(self.term.expressions or self.term.fields or self.any_of or self.pairs)

    def unmet_by(self, node: Node) -> tuple[Requirement, ...]:
        """The requirements that a node does not satisfy. If it matches none of the rule's own OR-ed
        terms, those of the first term."""
        missing = [*_unmet_pairs(self.pairs, node), *_unmet(self.term, node)]
        return (*missing, *_unmet_terms(self.any_of, node)) if self.any_of else tuple(missing)


@dataclass(frozen=True, slots=True)
class ForeignNodeTerms:
    """Node requirements that no rule owns: pairs of the nodeSelector, and the required terms without
    the rules' expressions. `terms` None: nothing foreign is required."""

    pairs: tuple[tuple[str, str], ...] = ()
    terms: tuple[NodeTerm, ...] | None = None

    def unmet_by(self, node: Node) -> tuple[Requirement, ...]:
        missing = _unmet_pairs(self.pairs, node)
        return (*missing, *_unmet_terms(self.terms, node)) if self.terms is not None else missing


def _read_nodes(
    ownership: Ownership, template: t.Mapping[str, JSON]
) -> tuple[dict[str, NodeRule], ForeignNodeTerms]:
    """The node requirements of each rule that has some, and those that no rule owns."""
    any_of = NODE_TERMS.read(template, None)
    terms = _NodeTerms.of(any_of or (), ownership)
    selector = [
        (x.fingerprint, (x.value["key"], x.value["value"]))
        for x in pairs_of(template, TermLocation.NODE_SELECTOR)
    ]
    pairs = {fingerprint.effect: pair for fingerprint, pair in selector}
    rules = {
        str(rule): node_rule
        for rule, owned in ownership.rules.items()
        if (node_rule := _node_rule(str(rule), owned.terms, terms, pairs)) is not None
    }
    foreign_pairs = tuple(
        pair for fingerprint, pair in selector if not ownership.owned(fingerprint)
    )
    if any_of is None:
        return rules, ForeignNodeTerms(foreign_pairs)
    # A term with nothing but entries of rules has no foreign requirement. Terms are OR-ed, so then nothing
    # foreign is required.
    required = all(
        (rest or is_empty(term))
        and not ownership.owned(TemplateTerm(TermLocation.NODE_TERM, rest).fingerprint)
        for rest, term in zip(terms.rests, any_of, strict=True)
    )
    foreign = tuple(map(node_term_from_json, terms.rests)) if required else None
    return rules, ForeignNodeTerms(foreign_pairs, foreign)


@dataclass(frozen=True)
class _NodeTerms:
    """The required node terms of a template, each read once for all rules. `entries` are their expressions
    and fields, by meaning; `rests` the terms without the entries of rules, `whole` these by meaning;
    `entries_by_term` has the entries of each term that is not empty."""

    entries: t.Mapping[Effect, tuple[TermLocation, Requirement]]
    entries_by_term: t.Mapping[int, frozenset[Effect]]
    whole: t.Mapping[Effect, NodeTerm]
    rests: t.Sequence[JSONTerm]

    @classmethod
    def of(cls, any_of: t.Sequence[JSONTerm], ownership: Ownership) -> _NodeTerms:
        inside = {
            fingerprint.effect
            for fingerprint in ownership.rules_of
            if fingerprint.location in IN_NODE_TERM
        }
        entries: dict[Effect, tuple[TermLocation, Requirement]] = {}
        entries_by_term, whole, rests = {}, {}, []
        for number, term in enumerate(any_of):
            fingerprints = []
            for entry in entries_of(term):
                effect, part = entry.effect, entry.value
                values = tuple(part.get("values") or ())
                entries[effect] = (
                    entry.location,
                    Requirement(part["key"], part["operator"], values),
                )
                fingerprints.append(effect)
            if not is_empty(term):
                entries_by_term[number] = frozenset(fingerprints)
            rest = foreign_part(term, inside)
            rests.append(rest)
            whole[TemplateTerm(TermLocation.NODE_TERM, rest).effect] = node_term_from_json(rest)
        return cls(entries, entries_by_term, whole, rests)


def _node_rule(
    rule: str,
    fingerprints: t.Collection[Fingerprint],
    terms: _NodeTerms,
    selector: t.Mapping[Effect, tuple[str, str]],
) -> NodeRule | None:
    own = {fingerprint.effect for fingerprint in fingerprints}
    inside = frozenset(effect for effect in own if effect[0] in IN_NODE_TERM)
    whole = {effect for effect in own if effect[0] is TermLocation.NODE_TERM}
    chosen = {effect for effect in own if effect[0] is TermLocation.NODE_SELECTOR}
    if not (inside or whole or chosen):
        return None
    parts = [part for effect, part in terms.entries.items() if effect in inside]
    any_of = tuple(term for effect, term in terms.whole.items() if effect in whole)
    pairs = tuple(pair for effect, pair in selector.items() if effect in chosen)
    removed = len(parts) + len(any_of) + len(pairs) < len(inside) + len(whole) + len(chosen)
    bypasses = tuple(
        number for number, there in terms.entries_by_term.items() if not inside <= there
    )
    return NodeRule(
        rule,
        NodeTerm(
            tuple(part for location, part in parts if location is TermLocation.NODE_EXPRESSION),
            tuple(part for location, part in parts if location is TermLocation.NODE_FIELD),
        ),
        any_of,
        pairs,
        () if removed else bypasses,
        removed,
    )


def _unmet_pairs(pairs: t.Iterable[tuple[str, str]], node: Node) -> tuple[Requirement, ...]:
    return tuple(Requirement(k, "In", (v,)) for k, v in pairs if node.labels.get(k) != v)


def _unmet_terms(any_of: t.Sequence[NodeTerm], node: Node) -> list[Requirement]:
    """What a node lacks of OR-ed terms if it matches none: the parts of the first term that has any."""
    if any(matches_term(term, node) for term in any_of):
        return []
    missing = (parts for term in any_of if (parts := _unmet(term, node)))
    return next(missing, [Requirement("", "matches no node")])


def _unmet(term: NodeTerm, node: Node) -> list[Requirement]:
    missing = [part for part in term.expressions if not holds(part, node.labels)]
    named = {"metadata.name": node.name}
    return missing + [part for part in term.fields if not holds(part, named)]


@dataclass(frozen=True, slots=True)
class RuleTerms:
    """The terms and labels of one rule that a workload has. `removed`: a term that the rule wrote is
    missing."""

    rule: str
    terms: tuple[Term, ...] = ()
    nodes: NodeRule | None = None
    labels: tuple[tuple[str, str], ...] = ()
    removed: bool = False

    @property
    def is_required(self) -> bool:
        """Whether one of its terms is required."""
        nodes = self.nodes is not None and self.nodes.requires_nodes
        return nodes or not all(term.preferred for term in self.terms)

    def described(self, topology: Topology) -> list[str]:
        """The terms and labels in words."""
        texts = [describe(term, topology) for term in self.terms]
        if self.nodes is not None:
            any_of = self.nodes.any_of
            if self.nodes.term.expressions or self.nodes.term.fields:
                texts.append(f"{TermKind.NODE_AFFINITY} {node_term(self.nodes.term)}")
            if any_of:
                texts.append(f"{TermKind.NODE_AFFINITY} {' or '.join(map(node_term, any_of))}")
            texts += [f"{TermKind.NODE_SELECTOR} {label_text(*pair)}" for pair in self.nodes.pairs]
        return [*texts, *(f"label {label_text(*pair)}" for pair in self.labels)]


@dataclass(frozen=True, slots=True)
class Declared:
    """What a workload declares. `placement` is the template's, without the values of matchLabelKeys.
    `owners` has the rules of each term, `foreign` the node requirements that no rule owns. `copied_from`:
    the uid of the object from which the annotation with the rules was copied. `damaged`: why that
    annotation could not be read; empty if it could. `resting`: the rules that are not enabled, with their types; they
    are not among `rules`. `chosen`: the labels by which rules name the workload."""

    workload: Ref
    placement: Placement
    labels: Labels
    term_set: TermSet
    rules: tuple[RuleTerms, ...] = ()
    owners: t.Mapping[Term, tuple[str, ...]] = field(default_factory=dict)
    foreign: ForeignNodeTerms = field(default_factory=ForeignNodeTerms)
    copied_from: str = ""
    damaged: str = ""
    resting: t.Mapping[str, str] = field(default_factory=dict)
    chosen: t.Mapping[str, Labels] = field(default_factory=dict)
    number: int = field(default_factory=next_number, init=False, compare=False, repr=False)

    @property
    def terms(self) -> frozenset[Term]:
        return self.term_set.terms


class DeclaredReader:
    """Reads workloads. Equal placements are parsed once. With a `snapshot`, the node selectors of templates
    include what instance types and KubeVirt's configuration add; the one of a snapshot is
    `snapshot.derived(DeclaredReader)`, and reads no other workloads."""

    def __init__(self, snapshot: Snapshot | None = None) -> None:
        self._added = AddedNodeSelectors(snapshot) if snapshot is not None else None
        self._of_cluster = cluster_node_selector(snapshot.platform) if snapshot is not None else {}
        self._placements: dict[bytes, tuple[Placement, TermSet]] = {}
        self._read: dict[Ref, tuple[Workload, Declared]] = {}

    def placement(self, spec: t.Mapping[str, JSON]) -> tuple[Placement, TermSet]:
        """The placement of a pod-like spec and its terms."""
        key = marshal.dumps([spec.get(name) for name in FIELDS], 2)
        entry = self._placements.get(key)
        if entry is None:
            placement = placement_from_spec(dict(spec))
            entry = placement, TermSet(placement)
            self._placements[key] = entry
        return entry

    def of_vmi(self, vmi: Vmi) -> Placement:
        """The placement of the next pod of a VMI, without what the platform adds."""
        return self.placement(_selecting(vmi.spec, self._of_cluster))[0]

    def declared(self, workload: Workload) -> Declared:
        entry = self._read.get(workload.ref)
        if entry is None or entry[0] is not workload:  # files may have several of one name
            entry = self._read[workload.ref] = workload, self._declared(workload)
        return entry[1]

    def _declared(self, workload: Workload) -> Declared:
        template = workload.template
        added = self._added.of(workload) if self._added is not None else {}
        placement, term_set = self.placement(_selecting(template.get("spec") or {}, added))
        plain = Declared(
            workload.ref,
            placement,
            workload.template_labels,
            term_set,
            foreign=ForeignNodeTerms(placement.node_selector, placement.node_terms),
        )
        if RULES not in workload.annotations:
            return plain
        try:
            ownership = read_ownership(workload)
        except UnreadableAnnotation as error:
            return replace(plain, damaged=str(error))
        if ownership.uid != workload.uid:
            return replace(plain, copied_from=ownership.uid)
        return _with_rules(plain, ownership, template, tuple(added.items()))


def _selecting(spec: t.Mapping[str, JSON], added: Labels) -> t.Mapping[str, JSON]:
    """The spec with node labels added to its node selector."""
    if not added:
        return spec
    return {**spec, "nodeSelector": {**added, **(spec.get("nodeSelector") or {})}}


def _with_rules(
    plain: Declared,
    ownership: Ownership,
    template: t.Mapping[str, JSON],
    added: tuple[tuple[str, str], ...],
) -> Declared:
    owners: dict[Term, tuple[str, ...]] = {}
    for entry, term in _present(plain.placement, template):
        names = tuple(map(str, rules_of_term(ownership, entry)))
        if names:
            owners[term] = (*owners.get(term, ()), *names)
    nodes, foreign = _read_nodes(ownership, template)
    terms: dict[str, list[Term]] = {}
    for term, names in owners.items():
        for name in dict.fromkeys(names if term.kind is not TermKind.NODE_SELECTOR else ()):
            terms.setdefault(name, []).append(term)
    rules = tuple(
        _rule_terms(
            str(rule), owned.terms, terms.get(str(rule), ()), nodes.get(str(rule)), template
        )
        for rule, owned in ownership.rules.items()
        if owned.enabled and rule.namespace == plain.workload.namespace
    )
    foreign = replace(foreign, pairs=(*foreign.pairs, *added))
    resting = {
        str(rule): owned.type_name
        for rule, owned in sorted(ownership.rules.items())
        if not owned.enabled
    }
    chosen = {
        str(rule): dict(owned.chosen)
        for rule, owned in ownership.rules.items()
        if owned.chosen and owned.enabled
    }
    return replace(
        plain, rules=rules, owners=owners, foreign=foreign, resting=resting, chosen=chosen
    )


def _present(
    placement: Placement, template: t.Mapping[str, JSON]
) -> t.Iterator[tuple[TemplateTerm, Term]]:
    """Each entry of a list and each pair of the nodeSelector, with the term that it makes."""
    parsed: dict[TermLocation, Placement] = {
        location: Placement(**{name: getattr(placement, name)})
        for location, name in _FIELD_OF.items()
    }
    for location, pointer in LISTS.items():
        terms = terms_of(parsed[location], {})
        for entry, term in zip(pointer.read(template, None) or (), terms, strict=True):
            yield TemplateTerm(location, entry), term
    by_pair = {term.source: term for term in terms_of(parsed[TermLocation.NODE_SELECTOR], {})}
    for pair in pairs_of(template, TermLocation.NODE_SELECTOR):
        yield pair, by_pair[pair.value["key"], pair.value["value"]]


_FIELD_OF: t.Mapping[TermLocation, str] = {
    TermLocation.PREFERRED_NODE: "preferred_node_terms",
    TermLocation.AFFINITY: "affinity",
    TermLocation.PREFERRED_AFFINITY: "preferred_affinity",
    TermLocation.ANTI_AFFINITY: "anti_affinity",
    TermLocation.PREFERRED_ANTI_AFFINITY: "preferred_anti_affinity",
    TermLocation.SPREAD: "spread",
    TermLocation.TOLERATION: "tolerations",
    TermLocation.NODE_SELECTOR: "node_selector",
}


def _rule_terms(
    rule: str,
    fingerprints: tuple[Fingerprint, ...],
    terms: t.Sequence[Term],
    nodes: NodeRule | None,
    template: t.Mapping[str, JSON],
) -> RuleTerms:
    effects = {fingerprint.effect for fingerprint in fingerprints}
    labels = tuple(
        (x.value["key"], x.value["value"])
        for x in pairs_of(template, TermLocation.LABEL)
        if x.effect in effects
    )
    removed = (
        (nodes is not None and nodes.removed)
        or len(terms) < sum(location in LISTS for location, _meaning in effects)
        or len(labels) < sum(location is TermLocation.LABEL for location, _meaning in effects)
    )
    return RuleTerms(rule, tuple(terms), nodes, labels, removed)
