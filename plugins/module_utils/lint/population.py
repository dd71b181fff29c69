# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Who is selected by a term, among many: by an inverted index over the keys that terms select by."""

from __future__ import annotations

import typing as t

from ..model.objects import Labels, Namespace, PodTerm, Requirement, Selector
from ..scheduling.selectors import holds, matches

_Member = t.TypeVar("_Member")


class Population(t.Generic[_Member]):
    """Members with namespace and labels. `namespaces` None: their labels are not known."""

    def __init__(
        self,
        entries: t.Iterable[tuple[str, Labels, _Member]],
        namespaces: t.Iterable[Namespace] | None,
        keys: frozenset[str],
    ) -> None:
        self._entries = list(entries)
        self._labels = None if namespaces is None else {n.name: n.labels for n in namespaces}
        self._postings: dict[str, dict[str, list[int]]] = {key: {} for key in keys}
        self._known: dict[t.Hashable, tuple[_Member, ...] | None] = {}
        for number, (_namespace, labels, _member) in enumerate(self._entries):
            for key in labels.keys() & keys:
                self._postings[key].setdefault(labels[key], []).append(number)

    def selected(self, term: PodTerm, owner: str) -> tuple[_Member, ...] | None:
        """The members that a term of a pod in namespace `owner` selects. None: that hangs on
        labels of namespaces that are not known."""
        if term.selector is None:
            return ()
        chosen = term.namespace_selector
        if chosen is not None and chosen.requirements and self._labels is None:
            return None
        own = owner if not term.namespaces and chosen is None else ""
        key = (term.selector, term.namespaces, chosen, own)
        if key not in self._known:
            self._known[key] = tuple(self._find(term.selector, term, own))
        return self._known[key]

    def _find(self, selector: Selector, term: PodTerm, own: str) -> t.Iterator[_Member]:
        for number in self._narrowed(selector):
            namespace, labels, member = self._entries[number]
            if self._covers(term, own, namespace) and all(
                holds(each, labels) for each in selector.requirements
            ):
                yield member

    def _covers(self, term: PodTerm, own: str, namespace: str) -> bool:
        if own:
            return namespace == own
        chosen = term.namespace_selector
        return namespace in term.namespaces or (
            chosen is not None and matches(chosen, (self._labels or {}).get(namespace, {}))
        )

    def _narrowed(self, selector: Selector) -> t.Iterable[int]:
        """Few numbers, among them all that are selected."""
        lists = [self._listed(each) for each in selector.requirements if each.operator == "In"]
        return min(lists, key=len, default=range(len(self._entries)))

    def _listed(self, requirement: Requirement) -> list[int]:
        posting = self._postings.get(requirement.key)
        if posting is None:
            return list(range(len(self._entries)))
        values = dict.fromkeys(requirement.values)
        return sorted(number for value in values for number in posting.get(value, ()))
