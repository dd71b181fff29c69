# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which nodes could a pending pod ever reach, and is it placed even in the worst case?

A node is open to a pod if all filters admit the pod there.

`reachable_nodes` is an upper bound: no other node is ever open to the pod. Pods that are placed later
close nodes, with two exceptions: affinity to them opens nodes, and they may raise the smallest count of
a spread constraint. So affinity counts only if it selects no pending pod, and spread does not count.
Pods that leave their node later (sources) count as gone, except the pod's own source.

`WorstCase` is sufficient, not necessary: it assumes that the other pending pods choose the worst nodes.
A rival, which is a pod with anti-affinity to this one or the reverse, closes at most one topology domain
of its key. Any other pod closes at most its own node, and only if that node has too little room
afterwards. How many nodes lack room then is counted in two ways: each of the others is as large as the
largest, or all of what they request together is used to fill nodes. The smaller number holds. If more
nodes are open now than the others can close, one is still open when the scheduler tries this pod. A
spread constraint always admits a pod to the domain with the fewest pods, so each of its domains must
keep an open node. If the others could open or close nodes in further ways (required affinity to them,
a second spread constraint that counts them), `is_placed` returns false.
"""

from __future__ import annotations

import itertools
import typing as t
from collections import Counter
from dataclasses import replace
from functools import cached_property

from ..model.objects import Pod
from ..scheduler.framework import PLUGINS, POD_TOPOLOGY_SPREAD, PodInfo
from ..scheduler.nodes import NodeSet
from ..scheduler.pod_topology_spread import Constraint
from ..scheduler.selector_index import ExistingTerms, SelectorCount
from .simulation import PendingPod, PlacementSimulation

ALL_BUT_SPREAD = PLUGINS - {POD_TOPOLOGY_SPREAD}


def reachable_nodes(simulation: PlacementSimulation) -> list[NodeSet]:
    """For each pending pod the nodes that could ever be open to it."""
    index = simulation.index
    with simulation.ended_present():
        pod_infos = [simulation.pod_info(number) for number in range(len(simulation.pending))]
        selecting = {match for pod_info in pod_infos for match in pod_info.selected_by}
        affinity_nodes = [_affinity_nodes(simulation, x, selecting) for x in pod_infos]
    sources = {
        key: (index.pod(key), index.node_of(key))
        for pending in simulation.pending
        if (key := pending.source) is not None and key in index
    }
    for key in sources:
        index.remove(key)
    try:
        return [
            nodes & _reachable(simulation, pending, sources)
            for pending, nodes in zip(simulation.pending, affinity_nodes, strict=True)
        ]
    finally:
        for pod, node in sources.values():
            index.place(pod, node)


def competing_pods(simulation: PlacementSimulation) -> tuple[PendingPod, ...]:
    """The required pods, and other pending pods that could take a node from them: those that have a
    reachable node."""
    if all(pending.required for pending in simulation.pending):
        return simulation.pending
    nodes_of = zip(simulation.pending, reachable_nodes(simulation), strict=True)
    return tuple(pending for pending, nodes in nodes_of if nodes or pending.required)


def _reachable(
    simulation: PlacementSimulation,
    pending: PendingPod,
    sources: t.Mapping[str, tuple[Pod, str]],
) -> NodeSet:
    """The nodes open to a pod while its own source is on its node, without regard to its affinity."""
    index, key = simulation.index, pending.source
    own_source = sources.get(key) if key is not None and pending.leaves_before is None else None
    if own_source is not None:
        index.place(*own_source)
    pod = pending.pod
    if pod.placement.affinity:
        pod = replace(pod, placement=replace(pod.placement, affinity=()))
    try:
        nodes = index.nodes_passing(index.pod_info(pod), ALL_BUT_SPREAD, nominated=False)
    finally:
        if own_source is not None and key is not None:
            index.remove(key)
    return nodes & ~simulation.closed(pending.pod)


def _affinity_nodes(
    simulation: PlacementSimulation, pod_info: PodInfo, selecting: t.Container[SelectorCount]
) -> NodeSet:
    """The nodes that the affinity of a pod alone could ever allow. Pods that leave must still be on their
    nodes. `selecting` are the selectors that select a pending pod."""
    table, affinity = simulation.table, pod_info.placement_info.affinity_terms.affinity
    if affinity is None:
        return table.all
    if affinity.selector_count is None:
        return 0
    nodes = table.all
    for key, counts in affinity.counts_by_key:
        nodes &= table.with_key(key)
        if affinity.selector_count not in selecting:
            nodes &= table.in_domains(key, counts)
    return nodes


class WorstCase:
    """Whether pods of one simulation are placed in any case. Used before anything is placed."""

    def __init__(self, simulation: PlacementSimulation) -> None:
        self._simulation = simulation
        self._index = simulation.index
        self._table = simulation.table
        numbers = range(len(simulation.pending))
        self._pod_infos = [simulation.pod_info(number) for number in numbers]
        self._selected: Counter[SelectorCount] = Counter()
        self._owning: Counter[ExistingTerms] = Counter()
        self._owning_and_selected: Counter[ExistingTerms] = Counter()
        for pod_info in self._pod_infos:
            matches = set(pod_info.selected_by)
            self._selected.update(matches)
            for term in pod_info.placement_info.affinity_terms.existing:
                if not term.weight:
                    self._owning[term] += 1
                    if term.selector_count in matches:
                        self._owning_and_selected[term] += 1
        index = self._index
        self._exclusive = Counter(
            claim for x in self._pod_infos for claim in index.exclusive.exclusive_claims(x)
        )
        """How many of the pods use each claim that only one may use."""
        keys = [x.source for x in simulation.pending if x.source is not None]
        sources = (index.pod_info(index.pod(key)) for key in keys if key in index)
        self._sources = {match for pod_info in sources for match in pod_info.selected_by}
        """The selectors that select a source, which leaves its node during the simulation."""
        self._fillable_nodes: dict[t.Hashable, int] = {}

    def is_placed(self, number: int) -> bool:
        """Whether the pod has an open node in every state that the simulation can reach."""
        pod_info = self._pod_infos[number]
        exclusive = self._index.exclusive.exclusive_claims(pod_info)
        if any(self._exclusive[claim] > 1 for claim in exclusive):
            return False
        affinity = pod_info.placement_info.affinity_terms.affinity
        if (
            affinity is not None
            and affinity.selector_count is not None
            and self._selects_others(affinity.selector_count, pod_info)
        ):
            return False
        nodes, constraint = self._open_nodes(number, pod_info)
        if not nodes:
            return False
        rivals = self._rivals(pod_info)
        other_pods = len(self._pod_infos) - 1
        if constraint is None:
            return self._keeps_node(number, nodes, rivals, other_pods)
        count = constraint.spread_count
        if count is None or count.eligible.domains(constraint.key) < constraint.min_domains:
            return False
        by_domain = (
            nodes & domain
            for domain in self._table.domains(constraint.key).values()
            if domain & count.eligible.nodes
        )
        return all(
            open_nodes and self._keeps_node(number, open_nodes, rivals, other_pods)
            for open_nodes in by_domain
        )

    def _selects_others(self, match: SelectorCount, pod_info: PodInfo) -> bool:
        """Whether a selector selects another pending pod, or a source."""
        selects_itself = match in pod_info.selected_by
        return self._selected[match] > selects_itself or match in self._sources

    def _open_nodes(self, number: int, pod_info: PodInfo) -> tuple[NodeSet, Constraint | None]:
        """The nodes that are open now, and None. If a spread constraint of the pod counts others: the nodes
        that are open without it, and the constraint. No nodes if several constraints count others."""
        counting = [
            constraint
            for constraint in pod_info.constraints
            if constraint.selector_count is not None
            and self._selects_others(constraint.selector_count, pod_info)
        ]
        if not counting:
            return self._simulation.feasible_nodes(number), None
        pending = self._simulation.pending[number]
        if len(counting) > 1 or any(constraint.selects_all for constraint in pod_info.constraints):
            return 0, None
        with self._index.without(pending.leaves_before):
            nodes = self._index.nodes_passing(pod_info, ALL_BUT_SPREAD)
            for constraint in pod_info.constraints:
                if constraint is not counting[0]:
                    nodes &= constraint.nodes(pod_info, self._table)
        return nodes & ~self._simulation.closed(pending.pod), counting[0]

    def _rivals(self, pod_info: PodInfo) -> dict[str, int]:
        """For each topology key the number of other pods that could close a domain to this one by
        anti-affinity: those that its terms select, and those whose terms select it."""
        rivals: Counter[str] = Counter()
        existing = pod_info.placement_info.affinity_terms.existing
        own_terms = dict.fromkeys(term for term in existing if not term.weight)
        selecting_terms = dict.fromkeys(
            term
            for match in pod_info.selected_by
            for term in match.anti_affinity
            if self._owning[term]
        )
        counted = set()
        for term in own_terms:
            selects_itself = term.selector_count in pod_info.selected_by
            count = self._selected[term.selector_count] - selects_itself
            if term in selecting_terms:
                both = self._owning_and_selected[term] - selects_itself
                count += self._owning[term] - 1 - both
                counted.add(term)
            rivals[term.key] += count
        for term in selecting_terms:
            if term not in counted:
                rivals[term.key] += self._owning[term] - (term in own_terms)
        for anti_affinity in pod_info.placement_info.affinity_terms.anti_affinity:
            if not any(
                term.selector_count is anti_affinity.selector_count
                and term.key == anti_affinity.key
                for term in own_terms
            ):
                selects_itself = anti_affinity.selector_count in pod_info.selected_by
                selected = self._selected[anti_affinity.selector_count]
                rivals[anti_affinity.key] += selected - selects_itself
        return {key: count for key, count in rivals.items() if count}

    def _keeps_node(
        self, number: int, nodes: NodeSet, rivals: dict[str, int], other_pods: int
    ) -> bool:
        """Whether one of `nodes` stays open, on whichever nodes the other pods are placed."""
        closed = sum(self._in_largest_domains(nodes, key, n) for key, n in rivals.items())
        remaining = nodes.bit_count() - closed
        return remaining > 0 and (
            remaining > other_pods or remaining > self._fillable(number, other_pods)
        )

    def _in_largest_domains(self, nodes: NodeSet, key: str, count: int) -> int:
        """How many of `nodes` are in the `count` largest domains of a key."""
        sizes = [
            size
            for domain in self._table.domains(key).values()
            if (size := (domain & nodes).bit_count())
        ]
        return sum(sorted(sizes, reverse=True)[:count])

    def _fillable(self, number: int, other_pods: int) -> int:
        """The most nodes on which the others could leave too little room for the pod's requests."""
        pod = self._pod_infos[number].pod
        if pod.host_ports or self._index.attached.limited_claims(self._pod_infos[number]):
            return other_pods
        key = frozenset(pod.requests.items())
        if key not in self._fillable_nodes:
            needed = [self._placements_until_full(free, pod.requests) for free in self._free]
            open_nodes = [free for free, n in zip(self._free, needed, strict=True) if n > 0]
            self._fillable_nodes[key] = min(
                _affordable((n for n in needed if n > 0), other_pods),
                self._fillable_by_amounts(open_nodes, pod.requests),
            )
        return min(other_pods, self._fillable_nodes[key] + self._frees_full_node(number))

    def _fillable_by_amounts(
        self, nodes: t.Sequence[t.Mapping[str, int]], requests: t.Mapping[str, int]
    ) -> int:
        """The most of these nodes, given by what they have free, on which the others could leave too little: each
        resource that they request together fills so many, whichever nodes are filled by another resource."""
        by_pods = _affordable((free["pods"] for free in nodes), len(self._pod_infos) - 1)
        return by_pods + sum(
            _affordable(
                (free.get(name, 0) - amount + 1 for free in nodes),
                self._requested[name] - amount,
            )
            for name, amount in requests.items()
            if amount
        )

    def _frees_full_node(self, number: int) -> bool:
        """Whether the pod replaces one that leaves before it, on a node that is full until then: another pod
        may take that room."""
        key = self._simulation.pending[number].leaves_before
        if key is None or key not in self._index:
            return False
        free = self._free[self._table.numbers[self._index.node_of(key)]]
        return self._placements_until_full(free, self._pod_infos[number].pod.requests) <= 0

    @cached_property
    def _free(self) -> list[t.Mapping[str, int]]:
        """The free resources of each node."""
        return [self._index.resources.free(n) for n in range(len(self._table.nodes))]

    @cached_property
    def _requested(self) -> Counter[str]:
        """What the pods request together of each resource."""
        requested: Counter[str] = Counter()
        for pod_info in self._pod_infos:
            requested.update(pod_info.pod.requests)
        return requested

    @cached_property
    def _largest_request(self) -> dict[str, int]:
        """The most that one of the pods requests of each resource."""
        largest: dict[str, int] = {}
        for pod_info in self._pod_infos:
            for name, amount in pod_info.pod.requests.items():
                largest[name] = max(largest.get(name, 0), amount)
        return largest

    def _placements_until_full(
        self, free: t.Mapping[str, int], requests: t.Mapping[str, int]
    ) -> int:
        """The fewest placements after which a node with `free` resources has no room for the requests."""
        least = free["pods"]
        for name, amount in requests.items():
            if amount:
                placements = (free.get(name, 0) - amount) // self._largest_request[name] + 1
                least = min(least, placements)
        return least


def _affordable(costs: t.Iterable[int], budget: int) -> int:
    """How many of these costs a budget pays at most."""
    return sum(total <= budget for total in itertools.accumulate(sorted(costs)))
