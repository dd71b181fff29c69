# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which placed pods does each selector match, and how many of them are in each domain?

Each distinct (namespaces, selector) of any term is one SelectorCount. It holds the placed pods
that it selects and counts them by domain, for each topology key that a term uses. A pod finds the
SelectorCounts that select it through an inverted index: by namespace, label key and value. The
question whether a pod of a group is in a zone is then one lookup. A move changes only the
counters of the SelectorCounts that select the pod.
"""

from __future__ import annotations

import typing as t
from dataclasses import dataclass, field

from ..model.objects import Labels, Namespace, PodTerm, Requirement, Selector
from .framework import PodInfo
from .labels import holds, matches

if t.TYPE_CHECKING:
    from .pod_topology_spread import SpreadCount


ANY: t.Final = "\0any"
"""Stands for every value of a key; no label value contains NUL."""

Counts = dict[str, int]
"""Domain to a number above zero."""

Located = dict[str, set[PodInfo]]
"""Domain to the pods in it."""


@dataclass(eq=False, repr=False, slots=True)
class NamespaceScope:
    """The namespaces of a term: some by name, others by a selector of namespace labels."""

    names: frozenset[str]
    selector: Selector | None
    _covered: dict[str, bool] = field(default_factory=dict)

    def covers(self, namespace: str, labels: t.Mapping[str, Labels]) -> bool:
        """Whether the scope contains a namespace. A namespace without an object has no labels."""
        if namespace in self.names:
            return True
        if self.selector is None:
            return False
        covered = self._covered.get(namespace)
        if covered is None:
            covered = self._covered[namespace] = matches(self.selector, labels.get(namespace, {}))
        return covered


Part = tuple[NamespaceScope, Selector]


@dataclass(eq=False, repr=False, slots=True)
class SelectorCount:
    """The pods that satisfy every part, and how many of them are in which domain."""

    parts: frozenset[Part]
    exact: bool = False
    """The inverted index alone finds the selected pods: no test is needed."""
    members: set[PodInfo] = field(default_factory=set)
    counts: dict[str, Counts] = field(default_factory=dict)
    members_by_domain: dict[str, Located] = field(default_factory=dict)
    """The members by domain, for the keys where a reason names a pod."""
    anti_affinity: list[ExistingTerms] = field(default_factory=list)
    """Required anti-affinity terms of placed pods about these pods."""
    weighted: list[ExistingTerms] = field(default_factory=list)
    """Scored terms of placed pods about these pods."""
    spread_counts: list[SpreadCount] = field(default_factory=list)

    def by_domain(self, key: str) -> Counts:
        """The members by domain of a topology key; the mapping stays current."""
        counts = self.counts.get(key)
        if counts is None:
            counts = self.counts[key] = {}
            for member in self.members:
                _count(counts, member.node_labels.get(key), 1)
        return counts

    def in_domain(self, key: str, domain: str) -> t.Iterable[PodInfo]:
        """The members in one domain."""
        members = self.members_by_domain.get(key)
        if members is None:
            members = self.members_by_domain[key] = _locate(self.members, key)
        return members.get(domain, ())

    def add(self, pod_info: PodInfo) -> None:
        self.members.add(pod_info)
        for key, located in self.members_by_domain.items():
            _insert(located, pod_info, key)
        labels = pod_info.node_labels
        for key, counts in self.counts.items():
            domain = labels.get(key)
            if domain is not None:
                counts[domain] = counts.get(domain, 0) + 1
        for spread in self.spread_counts:
            spread.add(pod_info)

    def remove(self, pod_info: PodInfo) -> None:
        self.members.discard(pod_info)
        for key, located in self.members_by_domain.items():
            _discard(located, pod_info, key)
        labels = pod_info.node_labels
        for key, counts in self.counts.items():
            domain = labels.get(key)
            if domain is not None:
                left = counts[domain] - 1
                if left:
                    counts[domain] = left
                else:
                    del counts[domain]
        for spread in self.spread_counts:
            spread.remove(pod_info)


@dataclass(eq=False, repr=False, slots=True)
class ExistingTerms:
    """The placed pods that own one term (or equal ones) about `selector_count`, by domain of its key.

    `differs_in`: see PodTerm. `weight` 0 is a required anti-affinity term, and a required affinity term
    has a weight, too.
    """

    selector_count: SelectorCount
    key: str
    differs_in: str
    weight: int
    preferred: bool
    counts: Counts = field(default_factory=dict)
    owners: set[PodInfo] = field(default_factory=set)
    owners_by_domain: Located | None = None

    def in_domain(self, domain: str) -> t.Iterable[PodInfo]:
        """The owners in one domain."""
        if self.owners_by_domain is None:
            self.owners_by_domain = _locate(self.owners, self.key)
        return self.owners_by_domain.get(domain, ())

    def add(self, pod_info: PodInfo) -> None:
        self.owners.add(pod_info)
        if self.owners_by_domain is not None:
            _insert(self.owners_by_domain, pod_info, self.key)
        _count(self.counts, pod_info.node_labels.get(self.key), 1)

    def remove(self, pod_info: PodInfo) -> None:
        self.owners.discard(pod_info)
        if self.owners_by_domain is not None:
            _discard(self.owners_by_domain, pod_info, self.key)
        _count(self.counts, pod_info.node_labels.get(self.key), -1)


class SelectorIndex:
    """All SelectorCounts and ExistingTerms of an index."""

    def __init__(self, namespaces: t.Iterable[Namespace]) -> None:
        self.namespaces: dict[str, Labels] = {
            namespace.name: namespace.labels for namespace in namespaces
        }
        self.generation = 0
        """The number of SelectorCounts. A PodInfo with a lower number has an outdated `selected_by`."""
        self._scopes: dict[tuple[frozenset[str], Selector | None], NamespaceScope] = {}
        self._selector_counts: dict[frozenset[Part], SelectorCount] = {}
        self._existing_terms: dict[tuple[SelectorCount, str, str, int, bool], ExistingTerms] = {}
        self._anchored: dict[str | None, dict[str, dict[str, list[SelectorCount]]]] = {}
        self._loose: dict[str | None, list[SelectorCount]] = {}
        self._placed: set[PodInfo] = set()
        self._postings: dict[str, dict[str, set[PodInfo]]] = {}
        """Label key and value to placed pods, for the keys that were looked up so far."""

    def part_for_incoming(self, term: PodTerm, owner: str) -> Part | None:
        """The namespaces of a term of the pod being placed: a selector is expanded over the
        namespaces that exist (scheduler plugin interpodaffinity, mergeAffinityTermNamespaces).
        None: the term selects nothing."""
        if term.selector is None:
            return None
        names = _named(term, owner)
        chosen = term.namespace_selector
        if chosen is not None and chosen.requirements:
            names |= {name for name, labels in self.namespaces.items() if matches(chosen, labels)}
            chosen = None
        return self._scope(names, chosen), term.selector

    def part_for_placed(self, term: PodTerm, owner: str) -> Part | None:
        """The namespaces of a term of a placed pod: a selector is evaluated for the
        namespace of the pod being placed, which need not exist as an object."""
        if term.selector is None:
            return None
        return self._scope(_named(term, owner), term.namespace_selector), term.selector

    def part_for_namespace(self, namespace: str, selector: Selector) -> Part:
        """The part of a selector in one namespace, as for topology spread constraints."""
        return self._scope(frozenset({namespace}), None), selector

    def selector_count(self, parts: t.Iterable[Part]) -> SelectorCount:
        """The SelectorCount of the pods that satisfy all these parts."""
        key = frozenset(parts)
        count = self._selector_counts.get(key)
        if count is None:
            count = self._selector_counts[key] = SelectorCount(key)
            self.generation += 1
            self._anchor(count)
            self._fill(count)
        return count

    def existing_terms(
        self,
        selector_count: SelectorCount,
        key: str,
        differs_in: str,
        weight: int,
        *,
        preferred: bool = False,
    ) -> ExistingTerms:
        """The ExistingTerms of a term; without owners where it is new."""
        identity = selector_count, key, differs_in, weight, preferred
        existing = self._existing_terms.get(identity)
        if existing is None:
            existing = self._existing_terms[identity] = ExistingTerms(*identity)
            (selector_count.weighted if weight else selector_count.anti_affinity).append(existing)
        return existing

    def selecting(self, namespace: str, labels: Labels) -> list[SelectorCount]:
        """The SelectorCounts that select a pod with these labels."""
        selecting: list[SelectorCount] = []
        for where in (namespace, None):
            anchored = self._anchored.get(where)
            if anchored is not None:
                for key in anchored if len(anchored) < len(labels) else labels:
                    by_value = anchored.get(key)
                    value = labels.get(key)
                    if by_value is not None and value is not None:
                        self._keep(by_value.get(value), namespace, labels, selecting)
                        self._keep(by_value.get(ANY), namespace, labels, selecting)
            self._keep(self._loose.get(where), namespace, labels, selecting)
        return selecting

    def update_selected_by(self, pod_info: PodInfo) -> None:
        """Bring `selected_by` of a pod up to date."""
        if pod_info.generation != self.generation:
            pod_info.selected_by = self.selecting(pod_info.pod.namespace, pod_info.pod.labels)
            pod_info.generation = self.generation

    def add(self, pod_info: PodInfo) -> None:
        self.update_selected_by(pod_info)
        self._placed.add(pod_info)
        self.add_counts(pod_info)
        if self._postings:
            for key, value in pod_info.pod.labels.items():
                if key in self._postings:
                    self._postings[key].setdefault(value, set()).add(pod_info)

    def remove(self, pod_info: PodInfo) -> None:
        self._placed.discard(pod_info)
        self.subtract_counts(pod_info)
        if self._postings:
            for key, value in pod_info.pod.labels.items():
                if key in self._postings:
                    self._postings[key][value].discard(pod_info)

    def subtract_counts(self, pod_info: PodInfo) -> None:
        """Subtract a placed pod for a check that makes no new SelectorCount; add_counts must follow."""
        for selector_count in pod_info.selected_by:
            selector_count.remove(pod_info)
        for existing in pod_info.placement_info.affinity_terms.existing:
            existing.remove(pod_info)

    def add_counts(self, pod_info: PodInfo) -> None:
        for selector_count in pod_info.selected_by:
            selector_count.add(pod_info)
        for existing in pod_info.placement_info.affinity_terms.existing:
            existing.add(pod_info)

    def with_label(self, key: str, value: str) -> t.AbstractSet[PodInfo]:
        """The placed pods with this value of the label `key`."""
        return self._posting(key).get(value, frozenset())

    def _keep(
        self,
        candidates: list[SelectorCount] | None,
        namespace: str,
        labels: Labels,
        selecting: list[SelectorCount],
    ) -> None:
        for selector_count in candidates or ():
            if selector_count.exact or self._selects(selector_count, namespace, labels):
                selecting.append(selector_count)

    def _selects(self, selector_count: SelectorCount, namespace: str, labels: Labels) -> bool:
        for scope, selector in selector_count.parts:
            if not scope.covers(namespace, self.namespaces):
                return False
            for requirement in selector.requirements:
                if not holds(requirement, labels):
                    return False
        return True

    def _scope(self, names: frozenset[str], selector: Selector | None) -> NamespaceScope:
        scope = self._scopes.get((names, selector))
        if scope is None:
            scope = self._scopes[names, selector] = NamespaceScope(names, selector)
        return scope

    def _anchor(self, selector_count: SelectorCount) -> None:
        """Put it under the narrowest requirement that all its pods satisfy."""
        scope, requirement = min(_anchors(selector_count), key=_width)
        single = len(selector_count.parts) == 1 and scope.selector is None
        for where in [None] if scope.selector is not None else list(scope.names):
            if requirement is None:
                self._loose.setdefault(where, []).append(selector_count)
                continue
            values = self._anchored.setdefault(where, {}).setdefault(requirement.key, {})
            for value in set(requirement.values) if requirement.operator == "In" else {ANY}:
                values.setdefault(value, []).append(selector_count)
        tests = sum(len(selector.requirements) for _scope, selector in selector_count.parts)
        selector_count.exact = single and tests == (requirement is not None)

    def _fill(self, selector_count: SelectorCount) -> None:
        """Find the pods already placed that a new SelectorCount selects."""
        if not self._placed:
            return
        requirement = min(_anchors(selector_count), key=_width)[1]
        pod_infos: t.Iterable[PodInfo] = self._placed
        if requirement is not None:
            posting = self._posting(requirement.key)
            values = requirement.values if requirement.operator == "In" else tuple(posting)
            pod_infos = set().union(*(posting.get(value, ()) for value in values))
        for pod_info in pod_infos:
            if self._selects(selector_count, pod_info.pod.namespace, pod_info.pod.labels):
                pod_info.selected_by.append(selector_count)
                selector_count.members.add(pod_info)

    def _posting(self, key: str) -> dict[str, set[PodInfo]]:
        posting = self._postings.get(key)
        if posting is None:
            posting = self._postings[key] = {}
            for pod_info in self._placed:
                value = pod_info.pod.labels.get(key)
                if value is not None:
                    posting.setdefault(value, set()).add(pod_info)
        return posting


def _named(term: PodTerm, owner: str) -> frozenset[str]:
    if term.namespaces or term.namespace_selector is not None:
        return frozenset(term.namespaces)
    return frozenset({owner})


def _anchors(
    selector_count: SelectorCount,
) -> t.Iterator[tuple[NamespaceScope, Requirement | None]]:
    for scope, selector in selector_count.parts:
        yield scope, None
        for requirement in selector.requirements:
            if requirement.operator in ("In", "Exists"):
                yield scope, requirement


def _width(anchor: tuple[NamespaceScope, Requirement | None]) -> tuple[int, int]:
    """A rough order of how many pods an anchor matches: by its values, then its namespaces."""
    scope, requirement = anchor
    everywhere = 1_000_000 if scope.selector is not None else len(scope.names)
    if requirement is None:
        return 1_000_000, everywhere
    return len(requirement.values) if requirement.operator == "In" else 1_000, everywhere


def _count(counts: Counts, domain: str | None, change: int) -> None:
    if domain is None:
        return
    left = counts.get(domain, 0) + change
    if left:
        counts[domain] = left
    else:
        del counts[domain]


def _locate(members: t.Iterable[PodInfo], key: str) -> Located:
    located: Located = {}
    for member in members:
        _insert(located, member, key)
    return located


def _insert(located: Located, pod_info: PodInfo, key: str) -> None:
    domain = pod_info.node_labels.get(key)
    if domain is not None:
        located.setdefault(domain, set()).add(pod_info)


def _discard(located: Located, pod_info: PodInfo, key: str) -> None:
    domain = pod_info.node_labels.get(key)
    if domain is not None:
        located[domain].discard(pod_info)
