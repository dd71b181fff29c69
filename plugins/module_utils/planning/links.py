# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Who depends on whom: which pods the terms of which others select.

Pure. The index knows what selects a pod and who owns which term, so an answer costs as much as the
pod has links, however large the cluster is.
"""

from __future__ import annotations

import typing as t
from collections import defaultdict

from ..model.objects import Namespace, Placement, Pod
from ..model.placement_manifest import with_own_values
from ..scheduling.candidate import Candidate, Spec, pod_key
from ..scheduling.index import Index
from ..scheduling.matching import Match, Matching, Owners
from ..scheduling.pod_affinity import read_rules

Uid = str
Uids = frozenset[str]

_NOBODY: Uids = frozenset()
_WEIGHT = 1
"""Of a required affinity term: the sign of an owned term's weight tells leaders from others."""


class Links:
    """The links among `pods` (by uid), as their placement says. `of` takes those of an index.

    An owner's own value (PodTerm.differs_in) is left out of account: at worst that links two that
    have nothing to do with each other.
    """

    def __init__(self, pods: t.Mapping[Uid, Pod], namespaces: t.Iterable[Namespace] = ()) -> None:
        matching = Matching(namespaces)
        candidates = {uid: _candidate(pod, matching) for uid, pod in pods.items()}
        for each in candidates.values():
            matching.enter(each)
        uids = {each.key: uid for uid, each in candidates.items()}
        self._set(matching, candidates.__getitem__, uids, pods.items())

    def _set(
        self,
        matching: Matching,
        candidate_of: t.Callable[[Uid], Candidate],
        uids: t.Mapping[str, Uid],
        pods: t.Iterable[tuple[Uid, Pod]],
    ) -> None:
        self._matching = matching
        self._candidate_of = candidate_of
        self._uids = uids
        self._pods = pods
        self._spreading: dict[Match, list[Uid]] | None = None
        self._linked: dict[Uid, Uids] = {}

    @classmethod
    def of(
        cls,
        index: Index,
        uids: t.Mapping[str, Uid],
        key_of: t.Callable[[Uid], str],
        pods: t.Iterable[tuple[Uid, Pod]],
    ) -> Links:
        """The links among placed pods. `uids`: what each is called here by its key in the index,
        `key_of` the other way round; `pods` are looked at once, for their spread constraints."""
        links = cls.__new__(cls)
        links._set(index.matching, lambda uid: index.placed(key_of(uid)), uids, pods)
        return links

    def leaders(self, uid: Uid) -> Uids:
        """Those whom the pod's affinity follows."""
        found = (owned.match.members for owned in self._owned(uid) if owned.weight > 0)
        return self._named(found) - {uid}

    def apart(self, uid: Uid) -> Uids:
        """Those that the pod keeps away from, or that keep away from it."""
        selected = (owned.match.members for owned in self._owned(uid) if owned.weight <= 0)
        selecting = (owners.members for owners in self._selecting(uid) if owners.weight <= 0)
        return (self._named(selected) | self._named(selecting)) - {uid}

    def linked(self, uid: Uid) -> Uids:
        """All that a move of the pod may matter to, or whose move may matter to it."""
        found = self._linked.get(uid)
        if found is None:
            found = self._linked[uid] = self.around(self._candidate_of(uid)) - {uid}
        return found

    def around(self, candidate: Candidate) -> Uids:
        """The same for any pod that the index has as a candidate."""
        self._matching.find(candidate)
        spreading = self._spreads()
        found = [
            *(owned.match.members for owned in candidate.spec.rules.owners),
            *(owners.members for match in candidate.matches for owners in _all_owners(match)),
            *(match.members for match in self._spread_matches(candidate.pod)),
        ]
        owning = (spreading.get(match, ()) for match in candidate.matches)
        return self._named(found).union(*owning)

    def _owned(self, uid: Uid) -> tuple[Owners, ...]:
        return self._candidate_of(uid).spec.rules.owners

    def _selecting(self, uid: Uid) -> t.Iterator[Owners]:
        candidate = self._candidate_of(uid)
        self._matching.find(candidate)
        for match in candidate.matches:
            yield from _all_owners(match)

    def _named(self, members: t.Iterable[t.Iterable[Candidate]]) -> Uids:
        uids = self._uids
        return frozenset(
            uid for each in members for x in each if (uid := uids.get(x.key)) is not None
        )

    def _spreads(self) -> dict[Match, list[Uid]]:
        """Who owns spread constraints, hard or soft, about which Match."""
        if self._spreading is None:
            found: dict[Match, list[Uid]] = defaultdict(list)
            for uid, pod in self._pods:
                if pod.placement.spread:
                    for match in self._spread_matches(pod):
                        found[match].append(uid)
            self._spreading = dict(found)
        return self._spreading

    def _spread_matches(self, pod: Pod) -> t.Iterator[Match]:
        matching = self._matching
        for each in pod.placement.spread:
            selector = with_own_values(each.selector, each.match_label_keys, pod.labels)
            if selector is not None:
                yield matching.match([matching.part_for_namespace(pod.namespace, selector)])


def _all_owners(match: Match) -> t.Iterator[Owners]:
    yield from match.owners
    yield from match.scored


def _candidate(pod: Pod, matching: Matching) -> Candidate:
    """A pod that is nowhere, with its terms looked up."""
    placement: Placement = pod.placement
    rules = read_rules(placement, pod.namespace, matching, _WEIGHT)
    return Candidate(pod_key(pod), pod, Spec(placement, 0, 0, rules))
