# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Scores from other pods: preferred affinity and anti-affinity, the pod's own and theirs.

Source: scheduler plugin interpodaffinity, scoring.go.
"""

from __future__ import annotations

import typing as t

from ..model.objects import Labels, PodTerm
from .candidate import Candidate
from .matching import Counts, Match, Matching, Owners
from .score_nodes import MAX_SCORE


class Pull(t.NamedTuple):
    """What each pod counted in `counts` adds to the nodes of its domain."""

    key: str
    weight: int
    counts: Counts


def pulls(candidate: Candidate, matching: Matching, *, ignore_placed: bool) -> list[Pull]:
    """Everything that draws the pod to a domain or drives it away. `ignore_placed`: the terms of
    placed pods count only if the pod has preferred terms of its own."""
    placement = candidate.pod.placement
    own = [
        *placement.preferred_affinity,
        *((-weight, term) for weight, term in placement.preferred_anti_affinity),
    ]
    found = [pull for weight, term in own for pull in _own_pull(candidate, matching, weight, term)]
    if own or not ignore_placed:
        for match in candidate.matches:
            for owners in match.scored:
                counts = _owners_elsewhere(candidate, matching, owners)
                found.append(Pull(owners.key, owners.weight, counts))
    return [pull for pull in found if pull.counts]


def pod_affinity_scores(found: t.Sequence[Pull], nodes: t.Sequence[Labels]) -> list[int]:
    """The pulls of the domains that each node is in, summed."""
    scores = []
    for labels in nodes:
        score = 0
        for pull in found:
            domain = labels.get(pull.key)
            if domain is not None:
                score += pull.weight * pull.counts.get(domain, 0)
        scores.append(score)
    return scores


def spanned(scores: t.Sequence[int]) -> list[int]:
    """Scaled so that the lowest becomes 0 and the highest 100."""
    lowest, highest = min(scores, default=0), max(scores, default=0)
    if highest == lowest:
        return [0] * len(scores)
    return [int(MAX_SCORE * ((score - lowest) / (highest - lowest))) for score in scores]


def counts_of(candidate: Candidate, matching: Matching, match: Match, term: PodTerm) -> Counts:
    """The pods that a term of the candidate's matches, by domain of its key."""
    counts = match.by_domain(term.topology_key)
    own = candidate.pod.labels.get(term.differs_in) if term.differs_in else None
    if own is None:
        return counts
    same = [each for each in matching.sharing(term.differs_in, own) if each in match.members]
    return _less(counts, same, term.topology_key, 1)


def _own_pull(
    candidate: Candidate, matching: Matching, weight: int, term: PodTerm
) -> t.Iterator[Pull]:
    part = matching.part_for_incoming(term, candidate.pod.namespace)
    if part is not None:
        counts = counts_of(candidate, matching, matching.match([part]), term)
        yield Pull(term.topology_key, weight, counts)


def _owners_elsewhere(candidate: Candidate, matching: Matching, owners: Owners) -> Counts:
    own = candidate.pod.labels.get(owners.differs_in) if owners.differs_in else None
    if own is None:
        return owners.counts
    counts = owners.counts
    for each in matching.sharing(owners.differs_in, own):
        if each in owners.members:
            counts = _less(counts, [each], owners.key, each.spec.rules.owners.count(owners))
    return counts


def _less(counts: Counts, taken: t.Iterable[Candidate], key: str, times: int) -> Counts:
    left = dict(counts)
    for each in taken:
        domain = each.node_labels.get(key)
        if domain is not None:
            left[domain] -= times
    return {domain: count for domain, count in left.items() if count}
