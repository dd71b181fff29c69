# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Preferred rules: how the scheduler scores nodes by them, and which of them a node leaves unmet.

Scores say what the scheduler would rather do, never what it will do: other plugins score, too, and
above 100 nodes only a changing part of the feasible nodes is scored at all. So decide by sets of
feasible nodes, and use these to tell better from worse.
"""

from __future__ import annotations

import typing as t
from dataclasses import dataclass

from ..model.objects import NodeTerm, Pod, PodTerm, SpreadConstraint
from .candidate import Candidate
from .index import Index
from .node_sets import nodes_of_term
from .node_table import NodeSet
from .options import INTER_POD_AFFINITY, NODE_AFFINITY, POD_TOPOLOGY_SPREAD, TAINT_TOLERATION
from .score_nodes import effective_preferences, node_affinity_scores, normalized, taint_scores
from .score_pods import counts_of, pod_affinity_scores, pulls, spanned
from .score_spread import inverted, spread_scores
from .spread import SOFT, Constraint

Status = t.Literal["Success", "Skip", "Error"]


@dataclass(frozen=True, slots=True)
class Scores:
    """One plugin's scores by node: `raw`, and `normalized` to 0..100. Skip: the plugin has nothing
    to say. Error: the scheduler gives up on the pod, unless just one node is feasible."""

    status: Status
    raw: t.Mapping[str, int] | None = None
    normalized: t.Mapping[str, int] | None = None


@dataclass(frozen=True, slots=True)
class Preference:
    """One preferred rule of a pod. `weight` is 0 for a soft spread constraint: it has none."""

    kind: t.Literal["node-affinity", "affinity", "anti", "skew"]
    term: NodeTerm | PodTerm | SpreadConstraint
    weight: int = 0


def score(
    index: Index,
    pod: Pod,
    plugin: str,
    node_names: t.Sequence[str],
    *,
    without: str | None = None,
) -> Scores:
    """How one plugin scores nodes, as the scheduler does for those that passed the filters.

    Raises KeyError for an unknown node or a plugin that scores no rule.
    """
    numbers = [index.table.numbers[name] for name in node_names]
    with index.without(without):
        listed = _SCORERS[plugin](index, index.candidate(pod), numbers)
    if isinstance(listed, str):
        return Scores(listed)
    return Scores(
        "Success",
        dict(zip(node_names, listed.raw, strict=True)),
        dict(zip(node_names, listed.normalized, strict=True)),
    )


def preferences(index: Index, pod: Pod) -> tuple[Preference, ...]:
    """The preferred rules of a pod itself (not those of others about it)."""
    placement = pod.placement
    return (
        *(
            Preference("node-affinity", term, weight)
            for weight, term in effective_preferences(placement.preferred_node_terms)
        ),
        *(Preference("affinity", term, weight) for weight, term in placement.preferred_affinity),
        *(Preference("anti", term, weight) for weight, term in placement.preferred_anti_affinity),
        *(Preference("skew", each) for each in index.spread.sources(pod, SOFT)),
    )


def unmet(
    index: Index, pod: Pod, node_name: str, *, without: str | None = None
) -> tuple[Preference, ...]:
    """The preferred rules of a pod that a node does not meet. Raises KeyError."""
    n = index.table.numbers[node_name]
    found = meeting_nodes(index, pod, without=without)
    return tuple(each for each, nodes in found if not nodes >> n & 1)


def meeting_nodes(
    index: Index, pod: Pod, *, without: str | None = None
) -> tuple[tuple[Preference, NodeSet], ...]:
    """The preferred rules of a pod, each with the nodes that meet it."""
    with index.without(without):
        candidate = index.candidate(pod)
        return tuple((each, _meeting(index, candidate, each)) for each in preferences(index, pod))


def better_nodes(
    index: Index, pod: Pod, preference: Preference, *, without: str | None = None
) -> tuple[str, ...]:
    """The feasible nodes that meet a preferred rule."""
    with index.without(without):
        candidate = index.candidate(pod)
        found = index.feasible_set(candidate) & _meeting(index, candidate, preference)
    return index.table.names_of(found)


def _meeting(index: Index, candidate: Candidate, preference: Preference) -> NodeSet:
    term = preference.term
    if isinstance(term, NodeTerm):
        return nodes_of_term(term, index.table)
    if isinstance(term, PodTerm):
        near = _near(index, candidate, term)
        return near if preference.kind == "affinity" else index.table.all & ~near
    found = index.table.all
    for each in _soft_constraints(index, candidate):
        if each.source == term:
            found &= each.nodes(candidate, index.table)
    return found


def _soft_constraints(index: Index, candidate: Candidate) -> tuple[Constraint, ...]:
    """Looked up when first asked for: the pod may be selected by what is new."""
    found = index.spread.constraints(candidate.pod, candidate.spec, SOFT)
    index.matching.find(candidate)
    return found


def _near(index: Index, candidate: Candidate, term: PodTerm) -> NodeSet:
    part = index.matching.part_for_incoming(term, candidate.pod.namespace)
    if part is None:
        return 0
    counts = counts_of(candidate, index.matching, index.matching.match([part]), term)
    return index.table.in_domains(term.topology_key, counts)


class _Listed(t.NamedTuple):
    """Scores in the order of the nodes."""

    raw: t.Sequence[int]
    normalized: t.Sequence[int]


def _score_node_affinity(
    index: Index, candidate: Candidate, numbers: t.Sequence[int]
) -> _Listed | Status:
    placement, added = candidate.pod.placement, index.options.added_affinity
    if not placement.preferred_node_terms and not (added and added.preferred_node_terms):
        return "Skip"
    raw = node_affinity_scores(placement, added, [index.table.nodes[n] for n in numbers])
    return "Error" if raw is None else _Listed(raw, normalized(raw))


def _score_taints(index: Index, candidate: Candidate, numbers: t.Sequence[int]) -> _Listed | Status:
    raw = taint_scores(
        candidate.pod.placement,
        [index.table.nodes[n] for n in numbers],
        comparison=index.options.taint_comparison,
    )
    return _Listed(raw, normalized(raw, reverse=True))


def _score_pods(index: Index, candidate: Candidate, numbers: t.Sequence[int]) -> _Listed | Status:
    if candidate.spec.rules.problem is not None:
        return "Error"
    ignore = index.options.ignore_preferred_terms_of_existing_pods
    found = pulls(candidate, index.matching, ignore_placed=ignore)
    if not found:
        return "Skip"
    raw = pod_affinity_scores(found, [index.table.labels[n] for n in numbers])
    return _Listed(raw, spanned(raw))


def _score_spread(index: Index, candidate: Candidate, numbers: t.Sequence[int]) -> _Listed | Status:
    constraints = _soft_constraints(index, candidate)
    if not constraints:
        return "Skip"
    if constraints[0].unreadable:
        return "Error"
    all_keys = index.spread.all_keys(candidate.pod)
    raw = spread_scores(constraints, index.table, numbers, all_keys=all_keys)
    return _Listed([each or 0 for each in raw], inverted(raw))


class _Scorer(t.Protocol):
    def __call__(
        self, index: Index, candidate: Candidate, numbers: t.Sequence[int]
    ) -> _Listed | Status:
        """The scores of these nodes, or why there are none."""
        raise NotImplementedError


_SCORERS: t.Mapping[str, _Scorer] = {
    NODE_AFFINITY: _score_node_affinity,
    TAINT_TOLERATION: _score_taints,
    INTER_POD_AFFINITY: _score_pods,
    POD_TOPOLOGY_SPREAD: _score_spread,
}
