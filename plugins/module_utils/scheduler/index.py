# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""On which nodes may a pod run, and why not on the others?

Index is the scheduler's view of a cluster, built once. Placing and removing a pod change only the
counters that the pod has a part in. The state is then the same as if the index were built from
the resulting cluster. The nodes and counters of a placement are looked up once for all its pods.
"""

from __future__ import annotations

import contextlib
import typing as t

from ..model.gc import collector_paused
from ..model.objects import Namespace, Node, Placement, Pod
from .framework import FilterStatus, PlacementInfo, PodInfo, pod_key
from .inter_pod_affinity import InterPodAffinity, affinity_terms
from .node_affinity import NodeAffinity, nodes_of_placement
from .node_ports import NodePorts
from .node_resources import NodeResourcesFit
from .node_state import NodeName, NodeUnschedulable, TaintToleration
from .node_volume_limits import AttachLimits, Drivers, NodeVolumeLimits
from .nodes import NodeSet, NodeTable
from .pod_topology_spread import PodTopologySpread, Tolerates
from .selector_index import SelectorIndex
from .volume_binding import ClaimStates, ClaimTerms, VolumeBinding
from .volume_restrictions import VolumeRestrictions

POD_INFOS_KEPT = 4096


class Filter(t.Protocol):
    """One filter plugin of the scheduler."""

    name: str

    def nodes(self, pod_info: PodInfo) -> NodeSet:
        """The nodes that pass."""

    def failure(self, pod_info: PodInfo, n: int) -> FilterStatus | None:
        """Why node number n does not pass, or None."""


Filters = tuple[Filter, ...]


class Index:
    """The index of a cluster. Nodes and namespaces are fixed; pods are placed and removed."""

    def __init__(
        self,
        nodes: t.Iterable[Node],
        pods: t.Iterable[Pod],
        namespaces: t.Iterable[Namespace],
        *,
        claim_terms: ClaimTerms | None = None,
        claim_states: ClaimStates | None = None,
        attach_limits: AttachLimits | None = None,
        drivers: Drivers | None = None,
    ) -> None:
        """Pods that the scheduler does not count are skipped: those that have finished, have no node, or are
        on a node that does not exist.

        `claim_terms`: (namespace, claim) to the node terms of its PersistentVolume; `claim_states`: what else
        is known of claims; `attach_limits` and `drivers`: how many volumes a node may attach, and of which claims.
        The scheduler has its default configuration.
        """
        table = NodeTable(nodes)
        self.table = table
        self.selectors = SelectorIndex(namespaces)
        self.resources = NodeResourcesFit(table)
        self.ports = NodePorts(table)
        self.spread = PodTopologySpread(table, self.selectors)
        self.pod_affinity = InterPodAffinity(table, self.selectors)
        states = claim_states or {}
        self.exclusive = VolumeRestrictions(table, [x for x in states if states[x].exclusive])
        self.attached = NodeVolumeLimits(table, attach_limits or {}, drivers or {})
        self.volumes = VolumeBinding(table, claim_terms or {}, states)
        taints = TaintToleration(table)
        self._filters: Filters = (
            NodeName(table),
            NodeUnschedulable(table),
            taints,
            NodeAffinity(table),
            self.ports,
            self.resources,
            self.exclusive,
            self.attached,
            self.volumes,
            self.spread,
            self.pod_affinity,
        )
        self._filters_without_resources = tuple(
            plugin for plugin in self._filters if plugin is not self.resources
        )
        self._placed: dict[str, PodInfo] = {}
        self._placed_on: list[dict[str, PodInfo]] = [{} for _name in table.names]
        self._hidden: set[str] = set()
        """Placed pods that do not count at present: see `without`."""
        self._nominated: dict[int, list[PodInfo]] = {}
        """Pending pods for which room is being made by preemption, by node."""
        self._cache = _PodInfoCache(table, self.selectors, taints, self.spread)
        self._fill(pods)

    @property
    def nodes(self) -> tuple[Node, ...]:
        return self.table.nodes

    @property
    def pods(self) -> tuple[Pod, ...]:
        """The placed pods."""
        return tuple(pod_info.pod for pod_info in self._placed.values())

    def pod(self, key: str) -> Pod:
        """A placed pod by its uid, or namespace/name where it has none. Raises KeyError."""
        return self._placed[key].pod

    def placed_info(self, key: str) -> PodInfo:
        """The PodInfo of a placed pod. Raises KeyError."""
        return self._placed[key]

    def pod_counts(self) -> list[int]:
        """How many pods are placed on each node, in the order of the table."""
        return list(map(len, self._placed_on))

    def node_of(self, key: str) -> str:
        """The node on which a pod is placed. Raises KeyError."""
        return self.table.names[self._placed[key].node]

    def __contains__(self, key: object) -> bool:
        return key in self._placed

    def pods_on(self, node_name: str) -> tuple[Pod, ...]:
        """The pods placed on a node. Raises KeyError for an unknown one."""
        return tuple(
            pod_info.pod for pod_info in self._placed_on[self.table.numbers[node_name]].values()
        )

    def place(self, pod: Pod, node_name: str) -> None:
        """Put a pod on a node, whether or not it may run there.

        Raises KeyError for an unknown node, ValueError for a pod that is placed already.
        """
        n = self.table.numbers[node_name]
        key = pod_key(pod)
        if key in self._placed:
            raise ValueError(f"{pod.ref} is already placed on {self.node_of(key)}")
        pod_info = self.pod_info(pod)
        self._cache.pod_infos.pop(pod.number, None)
        self._placed[key] = self._placed_on[n][key] = pod_info
        self._add(pod_info, n)

    def remove(self, key: str) -> Pod:
        """Remove a pod from its node and return it. Raises KeyError for one that is not placed."""
        pod_info = self._movable(key)
        del self._placed[key]
        del self._placed_on[pod_info.node][key]
        self._remove(pod_info)
        self._cache.keep(pod_info)
        return pod_info.pod

    def move(self, key: str, node_name: str) -> None:
        """Put a placed pod on another node. Raises KeyError."""
        n = self.table.numbers[node_name]
        pod_info = self._movable(key)
        del self._placed_on[pod_info.node][key]
        self._placed_on[n][key] = pod_info
        self._remove(pod_info)
        self._add(pod_info, n)

    @contextlib.contextmanager
    def without(self, *keys: str | None) -> t.Iterator[None]:
        """In this context, these placed pods do not count. A key that is not placed changes nothing."""
        hidden = {
            key: self._placed[key]
            for key in keys
            if key is not None and key in self._placed and key not in self._hidden
        }
        for pod_info in hidden.values():
            self._remove(pod_info)
        self._hidden |= hidden.keys()
        try:
            yield
        finally:
            self._hidden -= hidden.keys()
            for pod_info in hidden.values():
                self._add(pod_info, pod_info.node)

    @contextlib.contextmanager
    def tainted(self, nodes: NodeSet, tolerates: Tolerates) -> t.Iterator[None]:
        """In this context, spread constraints count these nodes as tainted. Whether a pod may run
        on them does not change: the caller excludes them. `tolerates`: which tolerations cover the
        taint."""
        self._cache.pod_infos.clear()
        try:
            with self.spread.tainted(nodes, tolerates):
                yield
        finally:
            self._cache.pod_infos.clear()

    def failures(
        self,
        pod: Pod,
        node_name: str,
        *,
        without: str | None = None,
        plugins: t.Container[str] | None = None,
    ) -> tuple[FilterStatus, ...]:
        """Why a pod may not run on a node: one FilterStatus for each filter that rejects it, in the
        scheduler's order. Empty: it may.

        `without`: uid (or namespace/name) of a placed pod that does not count. Name the pod itself
        for a restart; name none for a live migration, where the source still counts.
        `plugins`: the filters to evaluate, all by default. Raises KeyError for an unknown node.
        """
        n = self.table.numbers[node_name]
        with self.without(without):
            return self._failures(self.pod_info(pod), n, self._selected_filters(plugins))

    def failures_in_place(self, key: str) -> tuple[FilterStatus, ...]:
        """Why the scheduler would not put a placed pod back on its node: one FilterStatus for each
        filter that rejects the node. Empty: it would. The pod itself does not count while it is
        checked. Raises KeyError for a pod that is not placed."""
        pod_info = self._placed[key]
        n = pod_info.node
        if key in self._hidden:
            return self._failures(pod_info, n, self._filters)
        if n not in self._nominated and self.resources.has_room_for_placed(n):
            # Resources need no check.
            self.selectors.subtract_counts(pod_info)
            if pod_info.pod.host_ports:
                self.ports.remove(pod_info)
            self.exclusive.remove(pod_info)
            self.attached.remove(pod_info)
            try:
                return self._failures_of(pod_info, n, self._filters_without_resources)
            finally:
                self.selectors.add_counts(pod_info)
                if pod_info.pod.host_ports:
                    self.ports.add(pod_info)
                self.exclusive.add(pod_info)
                self.attached.add(pod_info)
        self._remove(pod_info)
        try:
            return self._failures(pod_info, n, self._filters)
        finally:
            self._add(pod_info, n)

    def feasible_nodes(
        self,
        pod: Pod,
        *,
        without: str | None = None,
        exclude: t.Collection[str] = frozenset(),
    ) -> tuple[str, ...]:
        """The names of the nodes that pass every filter, in the order of the nodes."""
        nodes = self.feasible_set(pod, without=without)
        numbers = self.table.numbers
        excluded = self.table.set_of(numbers[name] for name in exclude if name in numbers)
        return self.table.names_of(nodes & ~excluded)

    def feasible_set(self, pod: Pod, *, without: str | None = None) -> NodeSet:
        """As feasible_nodes, but as a set of `table`: faster for thousands of pods."""
        with self.without(without):
            return self.nodes_passing(self.pod_info(pod))

    def pod_info(self, pod: Pod) -> PodInfo:
        """The PodInfo of a pod; the placed one if the pod is placed and is this very object."""
        placed = self._placed.get(pod_key(pod))
        pod_info = (
            placed if placed is not None and placed.pod is pod else self._cache.of_unplaced(pod)
        )
        self.selectors.update_selected_by(pod_info)
        return pod_info

    def nodes_passing(
        self,
        pod_info: PodInfo,
        plugins: t.Container[str] | None = None,
        *,
        nominated: bool = True,
    ) -> NodeSet:
        """The nodes that pass every filter, as a set of the table. `nominated` false: as if pods that are
        nominated for a node had been placed elsewhere."""
        nodes = self.table.all
        filters = self._selected_filters(plugins)
        for plugin in filters:
            if nodes:
                nodes &= plugin.nodes(pod_info)
        for n in self._nominated if nominated else ():
            if nodes >> n & 1 and self._failures(pod_info, n, filters):
                nodes &= ~(1 << n)
        return nodes

    def _selected_filters(self, plugins: t.Container[str] | None) -> Filters:
        if plugins is None:
            return self._filters
        return tuple(plugin for plugin in self._filters if plugin.name in plugins)

    def _movable(self, key: str) -> PodInfo:
        pod_info = self._placed[key]
        if key in self._hidden:
            raise ValueError(f"{pod_info.pod.ref} is away: it cannot be moved meanwhile")
        return pod_info

    def _failures(self, pod_info: PodInfo, n: int, filters: Filters) -> tuple[FilterStatus, ...]:
        """What rejects the node with the pods nominated for it, or else without them. The scheduler
        requires both, because a nominated pod may run there or not."""
        if n in self._nominated:
            with self._with_nominated(pod_info, n):
                failures = self._failures_of(pod_info, n, filters)
            if failures:
                return failures
        return self._failures_of(pod_info, n, filters)

    def _failures_of(self, pod_info: PodInfo, n: int, filters: Filters) -> tuple[FilterStatus, ...]:
        return tuple([f for plugin in filters if (f := plugin.failure(pod_info, n)) is not None])

    @contextlib.contextmanager
    def _with_nominated(self, pod_info: PodInfo, n: int) -> t.Iterator[None]:
        """In this context, the pods nominated for node number n are on it, except the pod itself
        and pods of lower priority."""
        nominated = [
            nominated_info
            for nominated_info in self._nominated[n]
            if nominated_info.pod.priority >= pod_info.pod.priority
            and nominated_info.key != pod_info.key
            and nominated_info.key not in self._placed
        ]
        for nominated_info in nominated:
            self._add(nominated_info, n)
        try:
            yield
        finally:
            for nominated_info in nominated:
                self._remove(nominated_info)

    @collector_paused()
    def _fill(self, pods: t.Iterable[Pod]) -> None:
        """Place the pods. Each PodInfo is made before the first pod is placed: then every
        SelectorCount exists, and none is filled a second time."""
        numbers = self.table.numbers
        placed, nominated = [], []
        for pod in pods:
            if pod.node_name:
                if pod.node_name in numbers and not pod.finished:
                    placed.append((self._cache.new(pod), numbers[pod.node_name]))
            elif pod.nominated_node_name in numbers:
                nominated.append((self._cache.new(pod), numbers[pod.nominated_node_name]))
        for pod_info, n in placed:
            self._placed[pod_info.key] = self._placed_on[n][pod_info.key] = pod_info
            self._add(pod_info, n)
        for pod_info, n in nominated:
            self._nominated.setdefault(n, []).append(pod_info)

    def _add(self, pod_info: PodInfo, n: int) -> None:
        pod_info.node = n
        pod_info.node_labels = self.table.labels[n]
        self.selectors.add(pod_info)
        self.resources.add(pod_info)
        if pod_info.pod.host_ports:
            self.ports.add(pod_info)
        if pod_info.pod.claims:
            self.exclusive.add(pod_info)
            self.attached.add(pod_info)

    def _remove(self, pod_info: PodInfo) -> None:
        self.selectors.remove(pod_info)
        self.resources.remove(pod_info)
        if pod_info.pod.host_ports:
            self.ports.remove(pod_info)
        if pod_info.pod.claims:
            self.exclusive.remove(pod_info)
            self.attached.remove(pod_info)


class _PodInfoCache:
    """PlacementInfo by namespace and placement, and the PodInfo of the pods checked last."""

    def __init__(
        self,
        table: NodeTable,
        selectors: SelectorIndex,
        taints: TaintToleration,
        spread: PodTopologySpread,
    ) -> None:
        self._table = table
        self._selectors = selectors
        self._taints = taints
        self._spread = spread
        self.pod_infos: dict[int, PodInfo] = {}
        """By the number of their pod. A pod is dropped once it is placed, since its PodInfo then holds its node;
        all are dropped when their constraints are out of date."""
        self._placement_infos: dict[tuple[str, Placement], PlacementInfo] = {}
        self._placement_infos_by_number: dict[tuple[str, int], PlacementInfo] = {}
        self._nodes_by_terms: dict[t.Hashable, NodeSet] = {}

    def new(self, pod: Pod) -> PodInfo:
        """A new PodInfo; its selected_by is not filled in yet."""
        pod_info = PodInfo(pod_key(pod), pod, self._placement_info(pod))
        pod_info.constraints = self._spread.constraints(pod, pod_info.placement_info)
        return pod_info

    def of_unplaced(self, pod: Pod) -> PodInfo:
        """The PodInfo of a pod that is not placed. Callers check, place and remove the same pods
        again and again, so the last ones are kept."""
        pod_info = self.pod_infos.get(pod.number)
        if pod_info is None:
            pod_info = self.new(pod)
            self.keep(pod_info)
        return pod_info

    def keep(self, pod_info: PodInfo) -> None:
        if len(self.pod_infos) >= POD_INFOS_KEPT:
            self.pod_infos.clear()
        self.pod_infos[pod_info.pod.number] = pod_info

    def _placement_info(self, pod: Pod) -> PlacementInfo:
        placement = pod.placement
        info = self._placement_infos_by_number.get((pod.namespace, placement.number))
        if info is not None:
            return info
        info = self._placement_infos.get((pod.namespace, placement))
        if info is None:
            constraint = (placement.node_selector, placement.node_terms)
            nodes = self._nodes_by_terms.get(constraint)
            if nodes is None:
                nodes = nodes_of_placement(placement, self._table)
                self._nodes_by_terms[constraint] = nodes
            info = self._placement_infos[pod.namespace, placement] = PlacementInfo(
                placement,
                nodes,
                self._taints.tolerated_nodes(placement.tolerations),
                affinity_terms(placement, pod.namespace, self._selectors),
            )
        self._placement_infos_by_number[pod.namespace, placement.number] = info
        return info
