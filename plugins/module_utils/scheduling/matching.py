# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which pods are selected by which terms, kept current while pods come and go.

Every distinct (namespaces, selector) of any term is one Match. It knows the placed pods that it
selects and counts them by domain for each topology key that somebody asks about. A pod finds the
Matches that select it through an inverted index: by namespace, label key and value. So a question
such as "is there a pod of this group in this zone" is one look-up, and a move touches only the
counters of the Matches that select the pod.
"""

from __future__ import annotations

import typing as t

from ..model.objects import Labels, Namespace, PodTerm, Requirement, Selector
from .candidate import Candidate
from .selectors import holds, matches

if t.TYPE_CHECKING:
    from .spread import SpreadCount

ANY: t.Final = "\0any"
"""Stands for every value of a key; no label value contains NUL."""

Counts = dict[str, int]
"""Domain to a number above zero."""

Located = dict[str, set[Candidate]]
"""Domain to the pods in it."""


class Scope:
    """The namespaces of a term: some by name, and those whose labels a selector matches."""

    __slots__ = ("_known", "names", "selector")

    def __init__(self, names: frozenset[str], selector: Selector | None) -> None:
        self.names = names
        self.selector = selector
        self._known: dict[str, bool] = {}

    def covers(self, namespace: str, labels: t.Mapping[str, Labels]) -> bool:
        """Whether a namespace belongs to it. One without an object has no labels."""
        if namespace in self.names:
            return True
        if self.selector is None:
            return False
        known = self._known.get(namespace)
        if known is None:
            known = self._known[namespace] = matches(self.selector, labels.get(namespace, {}))
        return known


Part = tuple[Scope, Selector]


class Match:
    """The pods that satisfy every part, and how many of them are in which domain."""

    __slots__ = ("counts", "exact", "located", "members", "owners", "parts", "scored", "spreads")

    def __init__(self, parts: frozenset[Part]) -> None:
        self.parts = parts
        self.exact = False
        """The inverted index alone tells who is selected: no test is needed."""
        self.members: set[Candidate] = set()
        self.counts: dict[str, Counts] = {}
        self.located: dict[str, Located] = {}
        """The members themselves by domain, for the keys where somebody asked who is in the way."""
        self.owners: list[Owners] = []
        """Required anti-affinity terms whose target this is."""
        self.scored: list[Owners] = []
        """Other terms of placed pods that give a pod selected by this a score."""
        self.spreads: list[SpreadCount] = []

    def by_domain(self, key: str) -> Counts:
        """The members by domain of a topology key; the mapping stays current."""
        found = self.counts.get(key)
        if found is None:
            found = self.counts[key] = {}
            for member in self.members:
                _count(found, member.node_labels.get(key), 1)
        return found

    def in_domain(self, key: str, domain: str) -> t.Iterable[Candidate]:
        """The members in one domain."""
        found = self.located.get(key)
        if found is None:
            found = self.located[key] = _locate(self.members, key)
        return found.get(domain, ())

    def enter(self, candidate: Candidate) -> None:
        self.members.add(candidate)
        for key, located in self.located.items():
            _put(located, candidate, key)
        labels = candidate.node_labels
        for key, counts in self.counts.items():
            domain = labels.get(key)
            if domain is not None:
                counts[domain] = counts.get(domain, 0) + 1
        for spread in self.spreads:
            spread.enter(candidate)

    def leave(self, candidate: Candidate) -> None:
        self.members.discard(candidate)
        for key, located in self.located.items():
            _take(located, candidate, key)
        labels = candidate.node_labels
        for key, counts in self.counts.items():
            domain = labels.get(key)
            if domain is not None:
                left = counts[domain] - 1
                if left:
                    counts[domain] = left
                else:
                    del counts[domain]
        for spread in self.spreads:
            spread.leave(candidate)


class Owners:
    """The placed pods that own one term (or equal ones) about `match`, by domain of its key.

    `differs_in`: see PodTerm. `weight` 0 is a required anti-affinity term.
    """

    __slots__ = ("counts", "differs_in", "key", "located", "match", "members", "weight")

    def __init__(self, match: Match, key: str, differs_in: str, weight: int) -> None:
        self.match = match
        self.key = key
        self.differs_in = differs_in
        self.weight = weight
        self.counts: Counts = {}
        self.members: set[Candidate] = set()
        self.located: Located | None = None

    def in_domain(self, domain: str) -> t.Iterable[Candidate]:
        """The owners in one domain."""
        if self.located is None:
            self.located = _locate(self.members, self.key)
        return self.located.get(domain, ())

    def enter(self, candidate: Candidate) -> None:
        self.members.add(candidate)
        if self.located is not None:
            _put(self.located, candidate, self.key)
        _count(self.counts, candidate.node_labels.get(self.key), 1)

    def leave(self, candidate: Candidate) -> None:
        self.members.discard(candidate)
        if self.located is not None:
            _take(self.located, candidate, self.key)
        _count(self.counts, candidate.node_labels.get(self.key), -1)


def _count(counts: Counts, domain: str | None, change: int) -> None:
    if domain is None:
        return
    left = counts.get(domain, 0) + change
    if left:
        counts[domain] = left
    else:
        del counts[domain]


def _locate(members: t.Iterable[Candidate], key: str) -> Located:
    found: Located = {}
    for each in members:
        _put(found, each, key)
    return found


def _put(located: Located, candidate: Candidate, key: str) -> None:
    domain = candidate.node_labels.get(key)
    if domain is not None:
        located.setdefault(domain, set()).add(candidate)


def _take(located: Located, candidate: Candidate, key: str) -> None:
    domain = candidate.node_labels.get(key)
    if domain is not None:
        located[domain].discard(candidate)


class Matching:
    """All Matches and Owners of an index."""

    def __init__(self, namespaces: t.Iterable[Namespace]) -> None:
        self.namespaces: dict[str, Labels] = {each.name: each.labels for each in namespaces}
        self.generation = 0
        """How many Matches there are: what selects a pod is found again when it has grown."""
        self._scopes: dict[tuple[frozenset[str], Selector | None], Scope] = {}
        self._matches: dict[frozenset[Part], Match] = {}
        self._owners: dict[tuple[Match, str, str, int], Owners] = {}
        self._anchored: dict[str | None, dict[str, dict[str, list[Match]]]] = {}
        self._loose: dict[str | None, list[Match]] = {}
        self._placed: set[Candidate] = set()
        self._postings: dict[str, dict[str, set[Candidate]]] = {}
        """Label key and value to placed pods, for the keys that were asked for."""

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
        """The namespaces of a term of a placed pod: a selector is asked about the namespace of
        the pod being placed, which need not exist as an object."""
        if term.selector is None:
            return None
        return self._scope(_named(term, owner), term.namespace_selector), term.selector

    def part_for_namespace(self, namespace: str, selector: Selector) -> Part:
        """One namespace, as topology spread constraints have it."""
        return self._scope(frozenset({namespace}), None), selector

    def match(self, parts: t.Iterable[Part]) -> Match:
        """The Match of all these parts at once."""
        key = frozenset(parts)
        found = self._matches.get(key)
        if found is None:
            found = self._matches[key] = Match(key)
            self.generation += 1
            self._anchor(found)
            self._fill(found)
        return found

    def owners(self, match: Match, key: str, differs_in: str, weight: int) -> Owners:
        """The Owners of a term; none yet where it is new."""
        found = self._owners.get((match, key, differs_in, weight))
        if found is None:
            found = self._owners[match, key, differs_in, weight] = Owners(
                match, key, differs_in, weight
            )
            (match.scored if weight else match.owners).append(found)
        return found

    def selecting(self, namespace: str, labels: Labels) -> tuple[Match, ...]:
        """The Matches that select a pod with these labels."""
        found: list[Match] = []
        for where in (namespace, None):
            anchored = self._anchored.get(where)
            if anchored is not None:
                for key in anchored if len(anchored) < len(labels) else labels:
                    by_value = anchored.get(key)
                    value = labels.get(key)
                    if by_value is not None and value is not None:
                        self._keep(by_value.get(value), namespace, labels, found)
                        self._keep(by_value.get(ANY), namespace, labels, found)
            self._keep(self._loose.get(where), namespace, labels, found)
        return tuple(found)

    def find(self, candidate: Candidate) -> None:
        """Bring what selects a pod up to date."""
        if candidate.as_of != self.generation:
            candidate.matches = self.selecting(candidate.pod.namespace, candidate.pod.labels)
            candidate.as_of = self.generation

    def enter(self, candidate: Candidate) -> None:
        self.find(candidate)
        self._placed.add(candidate)
        self.come_back(candidate)
        if self._postings:
            for key, value in candidate.pod.labels.items():
                if key in self._postings:
                    self._postings[key].setdefault(value, set()).add(candidate)

    def leave(self, candidate: Candidate) -> None:
        self._placed.discard(candidate)
        self.step_aside(candidate)
        if self._postings:
            for key, value in candidate.pod.labels.items():
                if key in self._postings:
                    self._postings[key][value].discard(candidate)

    def step_aside(self, candidate: Candidate) -> None:
        """Leave for one question, for which no new Match is made; then `come_back`."""
        for match in candidate.matches:
            match.leave(candidate)
        for owners in candidate.spec.rules.owners:
            owners.leave(candidate)

    def come_back(self, candidate: Candidate) -> None:
        for match in candidate.matches:
            match.enter(candidate)
        for owners in candidate.spec.rules.owners:
            owners.enter(candidate)

    def sharing(self, key: str, value: str) -> t.AbstractSet[Candidate]:
        """The placed pods whose label `key` has this value."""
        return self._posting(key).get(value, frozenset())

    def _keep(
        self, offered: list[Match] | None, namespace: str, labels: Labels, found: list[Match]
    ) -> None:
        for match in offered or ():
            if match.exact or self._selects(match, namespace, labels):
                found.append(match)

    def _selects(self, match: Match, namespace: str, labels: Labels) -> bool:
        return all(
            scope.covers(namespace, self.namespaces)
            and all(holds(each, labels) for each in selector.requirements)
            for scope, selector in match.parts
        )

    def _scope(self, names: frozenset[str], selector: Selector | None) -> Scope:
        found = self._scopes.get((names, selector))
        if found is None:
            found = self._scopes[names, selector] = Scope(names, selector)
        return found

    def _anchor(self, match: Match) -> None:
        """List it under the narrowest requirement that every pod it selects satisfies."""
        scope, requirement = min(_anchors(match), key=_width)
        single = len(match.parts) == 1 and scope.selector is None
        for where in [None] if scope.selector is not None else list(scope.names):
            if requirement is None:
                self._loose.setdefault(where, []).append(match)
                continue
            values = self._anchored.setdefault(where, {}).setdefault(requirement.key, {})
            for value in set(requirement.values) if requirement.operator == "In" else {ANY}:
                values.setdefault(value, []).append(match)
        tests = sum(len(selector.requirements) for _scope, selector in match.parts)
        match.exact = single and tests == (requirement is not None)

    def _fill(self, match: Match) -> None:
        """Find the pods already placed that a new Match selects."""
        if not self._placed:
            return
        requirement = min(_anchors(match), key=_width)[1]
        candidates: t.Iterable[Candidate] = self._placed
        if requirement is not None:
            posting = self._posting(requirement.key)
            values = requirement.values if requirement.operator == "In" else tuple(posting)
            candidates = set().union(*(posting.get(value, ()) for value in values))
        for candidate in candidates:
            if self._selects(match, candidate.pod.namespace, candidate.pod.labels):
                candidate.matches = (*candidate.matches, match)
                match.members.add(candidate)

    def _posting(self, key: str) -> dict[str, set[Candidate]]:
        found = self._postings.get(key)
        if found is None:
            found = self._postings[key] = {}
            for candidate in self._placed:
                value = candidate.pod.labels.get(key)
                if value is not None:
                    found.setdefault(value, set()).add(candidate)
        return found


def _named(term: PodTerm, owner: str) -> frozenset[str]:
    if term.namespaces or term.namespace_selector is not None:
        return frozenset(term.namespaces)
    return frozenset({owner})


def _anchors(match: Match) -> t.Iterator[tuple[Scope, Requirement | None]]:
    for scope, selector in match.parts:
        yield scope, None
        for each in selector.requirements:
            if each.operator in ("In", "Exists"):
                yield scope, each


def _width(anchor: tuple[Scope, Requirement | None]) -> tuple[int, int]:
    """How many pods an anchor lets through, roughly: the fewer values and namespaces the fewer."""
    scope, requirement = anchor
    everywhere = 1_000_000 if scope.selector is not None else len(scope.names)
    if requirement is None:
        return 1_000_000, everywhere
    return len(requirement.values) if requirement.operator == "In" else 1_000, everywhere
