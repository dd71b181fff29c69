# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which instances' terms select which other instances?

The index knows which terms select a pod and which pods own a term. So an answer costs as much as the
pod has related pods, however large the cluster is.
"""

from __future__ import annotations

import typing as t
from collections import defaultdict
from dataclasses import dataclass
from functools import cached_property

from ..model.objects import Namespace, Pod
from ..model.placement_manifests import with_own_values
from ..model.plan import Uid
from ..scheduler.framework import PlacementInfo, PodInfo, pod_key
from ..scheduler.inter_pod_affinity import affinity_terms
from ..scheduler.selector_index import ExistingTerms, SelectorCount, SelectorIndex

if t.TYPE_CHECKING:
    from ..scheduler.index import Index

Uids = frozenset[str]

_NONE: Uids = frozenset()


@dataclass(frozen=True, slots=True)
class RequiredApart:
    """Required anti-affinity terms over one topology key: those that a pod owns, and those that select it."""

    owned: frozenset[ExistingTerms]
    selecting: frozenset[ExistingTerms]

    def excludes(self, other: RequiredApart) -> bool:
        """Whether the two pods may not share a topology domain."""
        return bool(self.owned & other.selecting or other.owned & self.selecting)


class Dependencies:
    """The dependencies among pods by their placement. `uids` maps keys of pods in the selector index to
    uids here, `pod_infos` returns the PodInfo of a uid. `pods` are read once, for their spread constraints.

    An owner's own value (PodTerm.differs_in) is ignored: at worst that relates two pods too many.
    Preferred terms count in the namespace of their pod only.
    """

    def __init__(
        self,
        selectors: SelectorIndex,
        pod_infos: t.Callable[[Uid], PodInfo],
        uids: t.Mapping[str, Uid],
        pods: t.Iterable[tuple[Uid, Pod]],
    ) -> None:
        self._matching = selectors
        self._candidate_of = pod_infos
        self._uids = uids
        self._pods = pods
        self._linked: dict[Uid, Uids] = {}

    @classmethod
    def among(cls, pods: t.Mapping[Uid, Pod], namespaces: t.Iterable[Namespace]) -> Dependencies:
        """The dependencies among `pods` (by uid), without an index of the cluster."""
        selectors = SelectorIndex(namespaces)
        pod_infos = {}
        for uid, pod in pods.items():
            rules = affinity_terms(pod.placement, pod.namespace, selectors)
            pod_infos[uid] = PodInfo(pod_key(pod), pod, PlacementInfo(pod.placement, 0, 0, rules))
        for pod_info in pod_infos.values():
            selectors.add(pod_info)
        uids = {pod_info.key: uid for uid, pod_info in pod_infos.items()}
        return cls(selectors, pod_infos.__getitem__, uids, pods.items())

    @classmethod
    def of(
        cls, index: Index, uids: t.Mapping[str, Uid], pods: t.Iterable[tuple[Uid, Pod]]
    ) -> Dependencies:
        """The dependencies among placed pods. `uids`: keys of the index to uids here."""
        key_of = {uid: key for key, uid in uids.items()}
        return cls(index.selectors, lambda uid: index.placed_info(key_of[uid]), uids, pods)

    def affinity_targets(self, uid: Uid) -> Uids:
        """The instances that the pod's affinity selects, required or preferred."""
        pod = self._candidate_of(uid)
        selected = (_selected(pod, owned) for owned in _owned(pod) if owned.weight > 0)
        return self._named(selected) - {uid}

    def require_each_other(self, one: Uid, other: Uid) -> bool:
        """Whether each of the two has required affinity to the other."""
        return self._requires(one, other) and self._requires(other, one)

    def _requires(self, uid: Uid, other: Uid) -> bool:
        pod = self._candidate_of(uid)
        required = (x for x in _owned(pod) if x.weight > 0 and not x.preferred)
        return other in self._named(_selected(pod, owned) for owned in required)

    def anti_affinity_peers(self, uid: Uid) -> Uids:
        """The instances in anti-affinity with it, by its terms or by theirs."""
        pod = self._candidate_of(uid)
        selected = (_selected(pod, owned) for owned in _owned(pod) if owned.weight <= 0)
        selecting = (_owners(pod, terms) for terms in self._selecting(pod) if terms.weight <= 0)
        return (self._named(selected) | self._named(selecting)) - {uid}

    def required_apart(self, uid: Uid, key: str) -> RequiredApart:
        """The required anti-affinity terms over a topology key that are about the pod."""
        pod = self._candidate_of(uid)
        self._matching.update_selected_by(pod)
        selecting = (x for match in pod.selected_by for x in match.anti_affinity)
        return RequiredApart(
            frozenset(x for x in _owned(pod) if not x.weight and x.key == key),
            frozenset(x for x in selecting if x.key == key),
        )

    def related(self, uid: Uid) -> Uids:
        """The instances that a move of the pod may affect, or whose move may affect the pod."""
        related = self._linked.get(uid)
        if related is None:
            related = self._linked[uid] = self.related_to_pod(self._candidate_of(uid)) - {uid}
        return related

    def related_to_pod(self, candidate: PodInfo) -> Uids:
        """The same for any pod that the index has as a candidate."""
        spreading = self._spreads
        members = [
            *(_selected(candidate, owned) for owned in _owned(candidate)),
            *(_owners(candidate, terms) for terms in self._selecting(candidate)),
            *(match.members for match in self._spread_matches(candidate.pod)),
        ]
        owning = (spreading.get(match, ()) for match in candidate.selected_by)
        return self._named(members).union(*owning)

    def _selecting(self, candidate: PodInfo) -> t.Iterator[ExistingTerms]:
        self._matching.update_selected_by(candidate)
        for match in candidate.selected_by:
            yield from match.anti_affinity
            yield from match.weighted

    def _named(self, members: t.Iterable[t.Iterable[PodInfo]]) -> Uids:
        uids = self._uids
        return frozenset(
            uid for pods in members for x in pods if (uid := uids.get(x.key)) is not None
        )

    @cached_property
    def _spreads(self) -> dict[SelectorCount, list[Uid]]:
        """Each SelectorCount to the pods with a spread constraint, hard or soft, over it."""
        spreading: dict[SelectorCount, list[Uid]] = defaultdict(list)
        for uid, pod in self._pods:
            if pod.placement.spread:
                for match in self._spread_matches(pod):
                    spreading[match].append(uid)
        return dict(spreading)

    def _spread_matches(self, pod: Pod) -> t.Iterator[SelectorCount]:
        matching = self._matching
        for constraint in pod.placement.spread:
            selector = with_own_values(constraint.selector, constraint.match_label_keys, pod.labels)
            if selector is not None:
                yield matching.selector_count(
                    [matching.part_for_namespace(pod.namespace, selector)]
                )


def _owned(pod: PodInfo) -> tuple[ExistingTerms, ...]:
    return pod.placement_info.affinity_terms.existing


def _selected(pod: PodInfo, owned: ExistingTerms) -> t.Iterable[PodInfo]:
    return _bound(pod, owned, owned.selector_count.members)


def _owners(pod: PodInfo, selecting: ExistingTerms) -> t.Iterable[PodInfo]:
    return _bound(pod, selecting, selecting.owners)


def _bound(pod: PodInfo, terms: ExistingTerms, others: t.Iterable[PodInfo]) -> t.Iterable[PodInfo]:
    """The instances that the terms relate to the pod. Preferred terms relate no pods of other namespaces, since
    these would then wait for its moves."""
    if not terms.preferred:
        return others
    return [other for other in others if other.pod.namespace == pod.pod.namespace]
