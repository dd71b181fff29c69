# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Who depends on whom: which pods the terms of which others select.

Pure. Answers are worked out for one pod at a time, each distinct term once, from postings of
labels, so that many small groups cost no more than they have members.
"""

from __future__ import annotations

import typing as t
from collections import defaultdict
from dataclasses import dataclass

from ..model.objects import Labels, Namespace, Placement, Pod, PodTerm, Selector, SpreadConstraint
from ..scheduling.selectors import matches

Uid = str
Uids = frozenset[str]
Role = t.Literal["leads", "apart", "spread"]

_NOBODY: Uids = frozenset()


@dataclass(frozen=True, slots=True)
class _Term:
    """What a term selects, and in which namespaces (None: by `namespace_selector`)."""

    role: Role
    selector: Selector | None
    namespaces: tuple[str, ...]
    namespace_selector: Selector | None = None


class Links:
    """The links among `pods` (by uid), as their placement says."""

    def __init__(self, pods: t.Mapping[Uid, Pod], namespaces: t.Iterable[Namespace] = ()) -> None:
        self._pods = pods
        self._namespaces = {found.name: found.labels for found in namespaces}
        self._postings: dict[tuple[str, str], list[Uid]] = defaultdict(list)
        self._terms: dict[Uid, tuple[_Term, ...]] = {}
        self._owners: dict[_Term, set[Uid]] = defaultdict(set)
        self._selected: dict[_Term, Uids] = {}
        self._selecting: dict[Uid, list[_Term]] | None = None
        by_placement: dict[tuple[int, str], tuple[_Term, ...]] = {}
        for uid, pod in pods.items():
            for pair in pod.labels.items():
                self._postings[pair].append(uid)
            key = (id(pod.placement), pod.namespace)
            if key not in by_placement:
                by_placement[key] = tuple(_terms(pod.placement, pod.namespace))
            self._terms[uid] = by_placement[key]
            for term in self._terms[uid]:
                self._owners[term].add(uid)

    def leaders(self, uid: Uid) -> Uids:
        """Those whom the pod's affinity follows."""
        return self._of(uid, "leads")

    def followers(self, uid: Uid) -> Uids:
        """Those whose affinity follows the pod."""
        return self._owning(uid, "leads")

    def apart(self, uid: Uid) -> Uids:
        """Those that the pod keeps away from, or that keep away from it."""
        return self._of(uid, "apart") | self._owning(uid, "apart")

    def linked(self, uid: Uid) -> Uids:
        """All that a move of the pod may matter to, or whose move may matter to it."""
        mine = (self._of(uid, role) | self._owning(uid, role) for role in _ROLES)
        return frozenset().union(*mine)

    def _of(self, uid: Uid, role: Role) -> Uids:
        found = [self._select(term) for term in self._terms[uid] if term.role == role]
        return frozenset().union(*found) - {uid} if found else _NOBODY

    def _owning(self, uid: Uid, role: Role) -> Uids:
        found = [self._owners[x] for x in self._terms_selecting(uid) if x.role == role]
        return frozenset().union(*found) - {uid} if found else _NOBODY

    def _terms_selecting(self, uid: Uid) -> t.Sequence[_Term]:
        if self._selecting is None:
            self._selecting = defaultdict(list)
            for term in self._owners:
                for selected in self._select(term):
                    self._selecting[selected].append(term)
        return self._selecting.get(uid, ())

    def _select(self, term: _Term) -> Uids:
        """Whom it selects. An owner's own value (`differs_in`, matchLabelKeys) is left out of
        account: at worst that links two that have nothing to do with each other."""
        if term not in self._selected:
            self._selected[term] = frozenset(
                uid
                for uid in self._candidates(term.selector)
                if matches(term.selector, self._pods[uid].labels)
                and self._in_namespace(term, self._pods[uid].namespace)
            )
        return self._selected[term]

    def _candidates(self, selector: Selector | None) -> t.Iterable[Uid]:
        """The fewest pods that one requirement of the selector leaves."""
        if selector is None:
            return ()
        listed: list[t.Collection[Uid]] = [
            [uid for value in found.values for uid in self._postings.get((found.key, value), ())]
            for found in selector.requirements
            if found.operator == "In"
        ]
        return min(listed, key=len, default=self._pods)

    def _in_namespace(self, term: _Term, namespace: str) -> bool:
        if namespace in term.namespaces:
            return True
        if term.namespace_selector is None:
            return False
        labels: Labels = self._namespaces.get(namespace, {})
        return matches(term.namespace_selector, labels)


_ROLES: tuple[Role, ...] = ("leads", "apart", "spread")


def _terms(placement: Placement, namespace: str) -> t.Iterator[_Term]:
    yield from (_of_pods("leads", x, namespace) for x in placement.affinity)
    yield from (_of_pods("leads", x, namespace) for _weight, x in placement.preferred_affinity)
    yield from (_of_pods("apart", x, namespace) for x in placement.anti_affinity)
    yield from (_of_pods("apart", x, namespace) for _w, x in placement.preferred_anti_affinity)
    yield from (_of_spread(x, namespace) for x in placement.spread)


def _of_pods(role: Role, term: PodTerm, namespace: str) -> _Term:
    own = () if term.namespaces or term.namespace_selector is not None else (namespace,)
    return _Term(role, term.selector, term.namespaces or own, term.namespace_selector)


def _of_spread(constraint: SpreadConstraint, namespace: str) -> _Term:
    return _Term("spread", constraint.selector, (namespace,))
