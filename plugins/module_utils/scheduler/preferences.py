# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which preferred terms of a pod does a node meet?

A preferred term is a preferred node affinity term, a preferred pod affinity or anti-affinity
term, or a soft topology spread constraint (ScheduleAnyway).

There are no scores here. Other plugins score, too, and above 100 nodes the scheduler scores only
some of the feasible nodes. A score would not predict the node that the scheduler takes.
"""

from __future__ import annotations

import typing as t
from dataclasses import dataclass

from ..model.objects import NodeTerm, Pod, PodTerm, SpreadConstraint
from .framework import PodInfo, pod_key
from .node_affinity import nodes_of_term
from .nodes import NodeSet
from .pod_topology_spread import SOFT, Constraint, spread_terms
from .selector_index import Counts, SelectorCount, SelectorIndex

if t.TYPE_CHECKING:
    from .index import Index

WeightedNodeTerm = tuple[int, NodeTerm]


@dataclass(frozen=True, slots=True)
class Preference:
    """One preferred term of a pod. `weight` is 1 to 100; 0 for a soft spread constraint, which
    has none."""

    kind: t.Literal["node-affinity", "affinity", "anti", "skew"]
    term: NodeTerm | PodTerm | SpreadConstraint
    weight: int = 0


def preferences(pod: Pod) -> tuple[Preference, ...]:
    """The preferred terms of the pod itself, not those of other pods about it."""
    placement = pod.placement
    if not (
        placement.preferred_node_terms
        or placement.preferred_affinity
        or placement.preferred_anti_affinity
        or placement.spread
    ):
        return ()
    return (
        *(
            Preference("node-affinity", term, weight)
            for weight, term in scored_terms(placement.preferred_node_terms)
        ),
        *(Preference("affinity", term, weight) for weight, term in placement.preferred_affinity),
        *(Preference("anti", term, weight) for weight, term in placement.preferred_anti_affinity),
        *(Preference("skew", constraint) for constraint in spread_terms(pod, SOFT)),
    )


def scored_terms(terms: t.Iterable[WeightedNodeTerm]) -> tuple[WeightedNodeTerm, ...]:
    """The preferred node terms without those that the scheduler ignores: of weight 0, or empty.

    Source: component-helpers scheduling/corev1/nodeaffinity, NewPreferredSchedulingTerms.
    """
    return tuple(
        (weight, term) for weight, term in terms if weight and (term.expressions or term.fields)
    )


def unmet(index: Index, pod: Pod, node_name: str) -> tuple[tuple[Preference, tuple[str, ...]], ...]:
    """The preferred terms of a pod that the node does not meet, each with the names of the feasible
    nodes that meet it. Where the pod is placed, it does not count. Raises KeyError for an unknown node."""
    n = index.table.numbers[node_name]
    missed = [entry for entry in meeting_nodes(index, pod) if not entry[1] >> n & 1]
    feasible = index.feasible_set(pod, without=pod_key(pod)) if missed else 0
    return tuple(
        (preference, index.table.names_of(nodes & feasible)) for preference, nodes in missed
    )


def meeting_nodes(index: Index, pod: Pod) -> tuple[tuple[Preference, NodeSet], ...]:
    """Each preferred term of a pod with the nodes that meet it, feasible or not. Where the pod is
    placed, it does not count."""
    preferred = preferences(pod)
    if not preferred:
        return ()
    with index.without(pod_key(pod)):
        pod_info = index.pod_info(pod)
        return tuple((x, _nodes_meeting(index, pod_info, x)) for x in preferred)


def soft_constraints(index: Index, pod_info: PodInfo) -> tuple[Constraint, ...]:
    """The soft spread constraints of a pod. A new constraint brings a new selector, which may
    select the pod itself, so `selected_by` is brought up to date."""
    constraints = index.spread.constraints(pod_info.pod, pod_info.placement_info, SOFT)
    index.selectors.update_selected_by(pod_info)
    return constraints


def counts_of(
    pod_info: PodInfo, selectors: SelectorIndex, selector_count: SelectorCount, term: PodTerm
) -> Counts:
    """The placed pods that a term of the pod matches, by domain of its key. `match` counts
    what the term selects. Pods that have the pod's own value of the label
    `term.differs_in` are subtracted."""
    counts = selector_count.by_domain(term.topology_key)
    own = pod_info.pod.labels.get(term.differs_in) if term.differs_in else None
    if own is None:
        return counts
    same = [
        pod for pod in selectors.with_label(term.differs_in, own) if pod in selector_count.members
    ]
    return less(counts, same, term.topology_key, 1)


def less(counts: Counts, pods: t.Iterable[PodInfo], key: str, times: int) -> Counts:
    """`counts` with `times` subtracted for each of the pods, in the pod's domain of `key`."""
    remaining = dict(counts)
    for pod in pods:
        domain = pod.node_labels.get(key)
        if domain is not None:
            remaining[domain] -= times
    return {domain: count for domain, count in remaining.items() if count}


def _nodes_meeting(index: Index, pod_info: PodInfo, preference: Preference) -> NodeSet:
    term = preference.term
    if isinstance(term, NodeTerm):
        return nodes_of_term(term, index.table)
    if isinstance(term, PodTerm):
        near = _nodes_near(index, pod_info, term)
        return near if preference.kind == "affinity" else index.table.all & ~near
    nodes = index.table.all
    for constraint in soft_constraints(index, pod_info):
        if constraint.source == term:
            nodes &= constraint.nodes(pod_info, index.table)
    return nodes


def _nodes_near(index: Index, pod_info: PodInfo, term: PodTerm) -> NodeSet:
    """The nodes in a domain with a placed pod that the term matches."""
    part = index.selectors.part_for_incoming(term, pod_info.pod.namespace)
    if part is None:
        return 0
    counts = counts_of(pod_info, index.selectors, index.selectors.selector_count([part]), term)
    return index.table.in_domains(term.topology_key, counts)
