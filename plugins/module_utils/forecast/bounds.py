# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which nodes could a pending pod ever reach, and is it placed even in the worst case?

`reachable_nodes` is an upper bound: other nodes never open. More pods only close nodes, but for
affinity, which they may open, and for spread, whose smallest count they may raise. So affinity counts
only where no pending pod matches it, spread not at all, and sources count as gone but for a pod's own.

`WorstCase` is a sufficient test, not a necessary one. The others are adversaries. A rival over
a key takes from a pod at most one domain of it. Another pod that is placed takes from it at most its
node, and only once that node has too little left. If more nodes are open now than can be taken so, one
is open when its turn comes. Under a spread constraint the domain with the fewest pods always admits one
more, so there each domain that counts must keep a node. Where the others could open or close nodes in
further ways (required affinity to them, a second spread constraint that counts them), nothing is
claimed.
"""

from __future__ import annotations

import typing as t
from collections import Counter
from dataclasses import replace

from ..model.objects import Pod
from ..scheduler.framework import PLUGINS, POD_TOPOLOGY_SPREAD, PodInfo
from ..scheduler.nodes import NodeSet
from ..scheduler.pod_topology_spread import Constraint
from ..scheduler.selector_index import SelectorCount
from .simulation import PendingPod, PlacementSimulation

BUT_SPREAD = PLUGINS - {POD_TOPOLOGY_SPREAD}


def reachable_nodes(simulation: PlacementSimulation) -> list[NodeSet]:
    """For each pending pod the nodes that could ever be open to it; the others never are."""
    index = simulation.index
    with simulation.ended_present():
        near = _near(simulation)
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
            for pending, nodes in zip(simulation.pending, near, strict=True)
        ]
    finally:
        for pod, node in sources.values():
            index.place(pod, node)


def _reachable(
    simulation: PlacementSimulation,
    pending: PendingPod,
    sources: t.Mapping[str, tuple[Pod, str]],
) -> NodeSet:
    """The nodes open to a pod apart from its affinity, its own source on its node."""
    index, key = simulation.index, pending.source
    own = sources.get(key) if key is not None and pending.leaves_before is None else None
    if own is not None:
        index.place(*own)
    try:
        nodes = index.nodes_passing(index.pod_info(_without_affinity(pending.pod)), BUT_SPREAD)
    finally:
        if own is not None and key is not None:
            index.remove(key)
    return nodes & ~simulation.closed(pending.pod)


def _near(simulation: PlacementSimulation) -> list[NodeSet]:
    """Where affinity alone could ever allow each pod; all that leaves is there for this."""
    pod_infos = [simulation.pod_info(number) for number in range(len(simulation.pending))]
    matched = {id(match) for pod_info in pod_infos for match in pod_info.selected_by}
    return [_near_one(simulation, pod_info, matched) for pod_info in pod_infos]


def _near_one(
    simulation: PlacementSimulation, pod_info: PodInfo, matched: t.Container[int]
) -> NodeSet:
    table, affinity = simulation.table, pod_info.placement_info.affinity_terms.affinity
    if affinity is None:
        return table.all
    if affinity.selector_count is None:
        return 0
    nodes = table.all
    for key, counts in affinity.counts_by_key:
        nodes &= table.with_key(key)
        if id(affinity.selector_count) not in matched:
            nodes &= table.in_domains(key, counts)
    return nodes


def _without_affinity(pod: Pod) -> Pod:
    if not pod.placement.affinity:
        return pod
    return replace(pod, placement=replace(pod.placement, affinity=()))


class WorstCase:
    """Answers for one simulation, before anything is placed."""

    def __init__(self, simulation: PlacementSimulation) -> None:
        self._simulation = simulation
        self._index = simulation.index
        self._table = simulation.table
        numbers = range(len(simulation.pending))
        self._pod_infos = [simulation.pod_info(number) for number in numbers]
        self._selected: Counter[int] = Counter()
        self._owning: Counter[int] = Counter()
        self._both: Counter[tuple[int, int]] = Counter()
        for pod_info in self._pod_infos:
            self._count(pod_info)
        self._sources = self._matched_sources()
        self._lost: dict[t.Hashable, int] = {}
        self._rooms: list[t.Mapping[str, int]] | None = None
        self._largest: dict[str, int] = {}

    def is_placed(self, number: int) -> bool:
        """Whether the pod has an open node in every state that the simulation can reach."""
        pod_info = self._pod_infos[number]
        if self._depends_on_others(pod_info):
            return False
        nodes, constraint = self._nodes(number, pod_info)
        if not nodes:
            return False
        rivals = self._rivals(pod_info)
        other_pods = len(self._pod_infos) - 1
        if constraint is None:
            return self._enough(pod_info, nodes, rivals, other_pods)
        tally = constraint.spread_count
        if tally is None or tally.eligible.domains(constraint.key) < constraint.min_domains:
            return False
        parts = (
            nodes & domain
            for domain in self._table.domains(constraint.key).values()
            if domain & tally.eligible.nodes
        )
        return all(part and self._enough(pod_info, part, rivals, other_pods) for part in parts)

    def _count(self, pod_info: PodInfo) -> None:
        matches = {id(match) for match in pod_info.selected_by}
        self._selected.update(matches)
        for owned in pod_info.placement_info.affinity_terms.existing:
            if not owned.weight:
                self._owning[id(owned)] += 1
                if id(owned.selector_count) in matches:
                    self._both[id(owned), id(owned.selector_count)] += 1

    def _matched_sources(self) -> set[int]:
        """The selectors that select a source: it leaves while others are placed."""
        index = self._index
        keys = [x.source for x in self._simulation.pending if x.source is not None]
        placed = (index.pod_info(index.pod(key)) for key in keys if key in index)
        return {id(match) for pod_info in placed for match in pod_info.selected_by}

    def _concerns_others(self, match: SelectorCount, pod_info: PodInfo) -> bool:
        """Whether a selector selects another pending pod, or a source."""
        own = match in pod_info.selected_by
        return self._selected[id(match)] > own or id(match) in self._sources

    def _depends_on_others(self, pod_info: PodInfo) -> bool:
        together = pod_info.placement_info.affinity_terms.affinity
        if together is None or together.selector_count is None:
            return False
        return self._concerns_others(together.selector_count, pod_info)

    def _nodes(self, number: int, pod_info: PodInfo) -> tuple[NodeSet, Constraint | None]:
        """The nodes that are open now, and the spread constraint that counts others: the nodes are
        those without it then. No nodes where there are several such."""
        counting = [
            constraint
            for constraint in pod_info.constraints
            if constraint.selector_count is not None
            and self._concerns_others(constraint.selector_count, pod_info)
        ]
        if not counting:
            return self._simulation.open_nodes(number), None
        pending = self._simulation.pending[number]
        if len(counting) > 1 or any(constraint.selects_all for constraint in pod_info.constraints):
            return 0, None
        with self._index.without(pending.leaves_before):
            nodes = self._index.nodes_passing(pod_info, BUT_SPREAD)
            for constraint in pod_info.constraints:
                if constraint is not counting[0]:
                    nodes &= constraint.nodes(pod_info, self._table)
        return nodes & ~self._simulation.closed(pending.pod), counting[0]

    def _rivals(self, pod_info: PodInfo) -> dict[str, int]:
        """For each key how many others could close a domain of it to the pod: those that its terms
        select, and those whose terms select it."""
        rivals: Counter[str] = Counter()
        own_terms = {
            id(owned): owned
            for owned in pod_info.placement_info.affinity_terms.existing
            if not owned.weight
        }
        selecting = {
            id(owned): owned
            for match in pod_info.selected_by
            for owned in match.anti_affinity
            if self._owning[id(owned)]
        }
        covered = set()
        for ident, owned in own_terms.items():
            selects_itself = owned.selector_count in pod_info.selected_by
            count = self._selected[id(owned.selector_count)] - selects_itself
            if ident in selecting:
                both = self._both[ident, id(owned.selector_count)] - selects_itself
                count += self._owning[ident] - 1 - both
                covered.add(ident)
            rivals[owned.key] += count
        for ident, owned in selecting.items():
            if ident not in covered:
                rivals[owned.key] += self._owning[ident] - (ident in own_terms)
        for apart in pod_info.placement_info.affinity_terms.anti_affinity:
            if not any(
                o.selector_count is apart.selector_count and o.key == apart.key
                for o in own_terms.values()
            ):
                own = apart.selector_count in pod_info.selected_by
                rivals[apart.key] += self._selected[id(apart.selector_count)] - own
        return {key: count for key, count in rivals.items() if count}

    def _enough(
        self, pod_info: PodInfo, nodes: NodeSet, rivals: dict[str, int], other_pods: int
    ) -> bool:
        """Whether some of `nodes` are left whatever the others do."""
        left = nodes.bit_count() - sum(self._domains(nodes, k, n) for k, n in rivals.items())
        return left > 0 and (left > other_pods or left > self._fillable(pod_info, other_pods))

    def _domains(self, nodes: NodeSet, key: str, count: int) -> int:
        """How many of `nodes` the `count` largest domains of a key have."""
        sizes = [
            size
            for domain in self._table.domains(key).values()
            if (size := (domain & nodes).bit_count())
        ]
        return sum(sorted(sizes, reverse=True)[:count])

    def _fillable(self, pod_info: PodInfo, other_pods: int) -> int:
        """How many nodes the others could at most fill up against a pod of these requests."""
        pod = pod_info.pod
        if pod.host_ports:
            return other_pods
        key = frozenset(pod.requests.items())
        if key not in self._lost:
            self._lost[key] = self._filled(pod.requests, other_pods)
        return self._lost[key]

    def _filled(self, requests: t.Mapping[str, int], other_pods: int) -> int:
        """How many nodes so many others can fill, those first that need the fewest pods."""
        costs = sorted(
            cost
            for free in self._free()
            if (cost := self._placements_until_full(free, requests)) > 0
        )
        filled = 0
        for cost in costs:
            other_pods -= cost
            if other_pods < 0:
                break
            filled += 1
        return filled

    def _free(self) -> t.Sequence[t.Mapping[str, int]]:
        if self._rooms is None:
            resources = self._index.resources
            self._rooms = [resources.free(n) for n in range(len(self._table.nodes))]
            for pod_info in self._pod_infos:
                for name, amount in pod_info.pod.requests.items():
                    self._largest[name] = max(self._largest.get(name, 0), amount)
        return self._rooms

    def _placements_until_full(
        self, free: t.Mapping[str, int], requests: t.Mapping[str, int]
    ) -> int:
        """The fewest placements after which a node with so much free has no room for the requests."""
        least = free.get("pods", 0)
        for name, amount in requests.items():
            if amount:
                fits = (free.get(name, 0) - amount) // self._largest[name] + 1
                least = min(least, fits)
        return least
