# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The scores of the scheduler's plugins, computed on the shipped index.

No module uses scores. They check what the index counts for preferred terms against the score
cases of kube-scheduler: a wrong count of preferred terms has no other effect that it shows.

Source: scheduler plugins nodeaffinity, tainttoleration, interpodaffinity (scoring.go) and
podtopologyspread (scoring.go), helper.DefaultNormalizeScore.
"""

from __future__ import annotations

import math
import typing as t
from dataclasses import dataclass

from ansible_collections.virt.placement.plugins.module_utils.model.objects import (
    Labels,
    Node,
    Placement,
    Pod,
    PodTerm,
)
from ansible_collections.virt.placement.plugins.module_utils.model.topology import HOSTNAME
from ansible_collections.virt.placement.plugins.module_utils.scheduler.framework import (
    INTER_POD_AFFINITY,
    NODE_AFFINITY,
    POD_TOPOLOGY_SPREAD,
    TAINT_TOLERATION,
    PodInfo,
)
from ansible_collections.virt.placement.plugins.module_utils.scheduler.index import Index
from ansible_collections.virt.placement.plugins.module_utils.scheduler.labels import (
    is_readable_term,
    matches_term,
)
from ansible_collections.virt.placement.plugins.module_utils.scheduler.node_state import (
    untolerated,
)
from ansible_collections.virt.placement.plugins.module_utils.scheduler.nodes import NodeTable
from ansible_collections.virt.placement.plugins.module_utils.scheduler.pod_topology_spread import (
    Constraint,
)
from ansible_collections.virt.placement.plugins.module_utils.scheduler.preferences import (
    counts_of,
    less,
    scored_terms,
    soft_constraints,
)
from ansible_collections.virt.placement.plugins.module_utils.scheduler.selector_index import (
    Counts,
    ExistingTerms,
    SelectorIndex,
)

from .world import has_system_constraints

MAX_SCORE = 100
PREFERENCE_EFFECTS = frozenset({"PreferNoSchedule"})

Status = t.Literal["Success", "Skip", "Error"]


@dataclass(frozen=True, slots=True)
class Scores:
    """One plugin's scores by node: `raw`, and `normalized` to 0..100. Skip: the plugin scores
    nothing. Error: the scheduler gives up on the pod, unless just one node is feasible."""

    status: Status
    raw: t.Mapping[str, int] | None = None
    normalized: t.Mapping[str, int] | None = None


def score(
    index: Index,
    pod: Pod,
    plugin: str,
    node_names: t.Sequence[str],
    *,
    without: str | None = None,
) -> Scores:
    """How one plugin scores nodes, as the scheduler does for those that passed the filters.

    Raises KeyError for an unknown node or a plugin that scores no preferred term.
    """
    numbers = [index.table.numbers[name] for name in node_names]
    with index.without(without):
        scores = _SCORERS[plugin](index, index.pod_info(pod), numbers)
    if isinstance(scores, str):
        return Scores(scores)
    return Scores(
        "Success",
        dict(zip(node_names, scores.raw, strict=True)),
        dict(zip(node_names, scores.normalized, strict=True)),
    )


class _ScoreList(t.NamedTuple):
    """Scores in the order of the nodes."""

    raw: t.Sequence[int]
    normalized: t.Sequence[int]


# NodeAffinity and TaintToleration: scores that need no other pod


def _score_node_affinity(
    index: Index, candidate: PodInfo, numbers: t.Sequence[int]
) -> _ScoreList | Status:
    placement = candidate.pod.placement
    if not placement.preferred_node_terms:
        return "Skip"
    raw = node_affinity_scores(placement, [index.table.nodes[n] for n in numbers])
    return "Error" if raw is None else _ScoreList(raw, _normalized(raw))


def node_affinity_scores(placement: Placement, nodes: t.Sequence[Node]) -> list[int] | None:
    """The weights of the preferred terms that match each node, summed. None: a term of the pod
    cannot be parsed."""
    terms = scored_terms(placement.preferred_node_terms)
    if not all(is_readable_term(term) for _weight, term in terms):
        return None
    return [sum(weight for weight, term in terms if matches_term(term, node)) for node in nodes]


def _score_taints(index: Index, candidate: PodInfo, numbers: t.Sequence[int]) -> _ScoreList:
    """How many PreferNoSchedule taints of each node are not tolerated: the fewer the better."""
    tolerations = candidate.pod.placement.tolerations
    raw = []
    for n in numbers:
        taints = untolerated(
            index.table.nodes[n].taints,
            tolerations,
            effects=PREFERENCE_EFFECTS,
        )
        raw.append(sum(1 for _taint in taints))
    return _ScoreList(raw, _normalized(raw, reverse=True))


def _normalized(scores: t.Sequence[int], *, reverse: bool = False) -> list[int]:
    """Scaled so that the highest becomes 100; `reverse` turns the scale around."""
    highest = max(scores, default=0)
    if highest == 0:
        return [MAX_SCORE if reverse else score for score in scores]
    scaled = [MAX_SCORE * score // highest for score in scores]
    return [MAX_SCORE - score for score in scaled] if reverse else scaled


# InterPodAffinity: preferred terms of the pod, and terms of placed pods that match it


class _DomainScore(t.NamedTuple):
    """What each pod counted in `counts` adds to the nodes of its domain of `key`."""

    key: str
    weight: int
    counts: Counts


def _score_pods(index: Index, candidate: PodInfo, numbers: t.Sequence[int]) -> _ScoreList | Status:
    if candidate.placement_info.affinity_terms.unreadable is not None:
        return "Error"
    parts = _domain_scores(candidate, index.selectors)
    if not parts:
        return "Skip"
    raw = [_sum_of(parts, index.table.labels[n]) for n in numbers]
    return _ScoreList(raw, _spanned(raw))


def _domain_scores(candidate: PodInfo, matching: SelectorIndex) -> list[_DomainScore]:
    placement = candidate.pod.placement
    own = [
        *placement.preferred_affinity,
        *((-weight, term) for weight, term in placement.preferred_anti_affinity),
    ]
    parts = [part for weight, term in own for part in _own_score(candidate, matching, weight, term)]
    for match in candidate.selected_by:
        for owners in match.weighted:
            counts = _owners_elsewhere(candidate, matching, owners)
            parts.append(_DomainScore(owners.key, owners.weight, counts))
    return [part for part in parts if part.counts]


def _own_score(
    candidate: PodInfo, matching: SelectorIndex, weight: int, term: PodTerm
) -> t.Iterator[_DomainScore]:
    part = matching.part_for_incoming(term, candidate.pod.namespace)
    if part is not None:
        counts = counts_of(candidate, matching, matching.selector_count([part]), term)
        yield _DomainScore(term.topology_key, weight, counts)


def _owners_elsewhere(candidate: PodInfo, matching: SelectorIndex, owners: ExistingTerms) -> Counts:
    own = candidate.pod.labels.get(owners.differs_in) if owners.differs_in else None
    if own is None:
        return owners.counts
    counts = owners.counts
    for pod in matching.with_label(owners.differs_in, own):
        if pod in owners.owners:
            counts = less(
                counts, [pod], owners.key, pod.placement_info.affinity_terms.existing.count(owners)
            )
    return counts


def _sum_of(parts: t.Sequence[_DomainScore], labels: Labels) -> int:
    total = 0
    for part in parts:
        domain = labels.get(part.key)
        if domain is not None:
            total += part.weight * part.counts.get(domain, 0)
    return total


def _spanned(scores: t.Sequence[int]) -> list[int]:
    """Scaled so that the lowest becomes 0 and the highest 100."""
    lowest, highest = min(scores, default=0), max(scores, default=0)
    if highest == lowest:
        return [0] * len(scores)
    return [int(MAX_SCORE * ((score - lowest) / (highest - lowest))) for score in scores]


# PodTopologySpread: soft constraints


def _score_spread(
    index: Index, candidate: PodInfo, numbers: t.Sequence[int]
) -> _ScoreList | Status:
    constraints = soft_constraints(index, candidate)
    if not constraints:
        return "Skip"
    if constraints[0].unreadable:
        return "Error"
    all_keys = not has_system_constraints(candidate.pod)
    raw = _spread_scores(constraints, index.table, numbers, all_keys=all_keys)
    return _ScoreList([score or 0 for score in raw], _inverted(raw))


def _spread_scores(
    constraints: t.Sequence[Constraint],
    table: NodeTable,
    numbers: t.Sequence[int],
    *,
    all_keys: bool,
) -> list[int | None]:
    """For each node the counts of its domains, each weighted by how many domains there are; the
    fewer the better. None: the node lacks a key and is left out.

    `all_keys` False: the constraints are the scheduler's own defaults, and a node needs not carry
    all of their keys.
    """
    keys = [constraint.key for constraint in constraints]
    scored = [
        table.labels[n]
        for n in numbers
        if not all_keys or all(key in table.labels[n] for key in keys)
    ]
    weights = [_weight(key, scored) for key in keys]
    scores: list[int | None] = []
    for n in numbers:
        labels = table.labels[n]
        if all_keys and not all(key in labels for key in keys):
            scores.append(None)
            continue
        score = 0.0
        for constraint, weight in zip(constraints, weights, strict=True):
            if constraint.key in labels:
                score += _count(constraint, labels, n) * weight + (constraint.max_skew - 1)
        scores.append(math.floor(score + 0.5))
    return scores


def _weight(key: str, scored: t.Sequence[Labels]) -> float:
    sizes = len(scored) if key == HOSTNAME else len({labels.get(key, "") for labels in scored})
    return math.log(sizes + 2)


def _count(constraint: Constraint, labels: Labels, n: int) -> int:
    """Pods that count: for the hostname those on the very node, else those of the domain on
    eligible nodes."""
    if constraint.spread_count is None or constraint.selector_count is None:
        return 0
    if constraint.key != HOSTNAME:
        return constraint.spread_count.counts.get(labels[constraint.key], 0)
    members = constraint.selector_count.members
    return sum(1 for pod in members if pod.node == n and not pod.pod.terminating)


def _inverted(scores: t.Sequence[int | None]) -> list[int]:
    """Scaled to 0..100, the lowest count best; nodes that were left out get 0."""
    known = [score for score in scores if score is not None]
    lowest, highest = min(known, default=0), max(known, default=0)
    return [
        0
        if score is None
        else MAX_SCORE
        if highest == 0
        else MAX_SCORE * (highest + lowest - score) // highest
        for score in scores
    ]


_Scorer = t.Callable[[Index, PodInfo, t.Sequence[int]], _ScoreList | Status]

_SCORERS: t.Mapping[str, _Scorer] = {
    NODE_AFFINITY: _score_node_affinity,
    TAINT_TOLERATION: _score_taints,
    INTER_POD_AFFINITY: _score_pods,
    POD_TOPOLOGY_SPREAD: _score_spread,
}
