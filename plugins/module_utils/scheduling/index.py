# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The scheduler's view of a cluster, built once: what may run where, and what changes by a move.

One structure serves verification, forecasts, plans and drills. Placing a pod and taking it out
touch only the counters that the pod has a part in, and leave exactly the state that building the
index from the resulting cluster would give.
"""

from __future__ import annotations

import contextlib
import typing as t

from ..model.collector import collector_paused
from ..model.objects import Namespace, Node, Pod, Selector, Service
from .candidate import Candidate, pod_key
from .failure import Failure
from .lookup import Lookup
from .matching import Matching
from .node_affinity import NodeAffinity
from .node_state import NodeName, NodeUnschedulable
from .node_table import NodeSet, NodeTable
from .options import Options
from .pod_affinity import InterPodAffinity
from .ports import NodePorts
from .resources import NodeResourcesFit
from .spread import DefaultSelectors, PodTopologySpread, Tolerates
from .taints import TaintToleration
from .volumes import ClaimTerms, VolumeBinding

__all__ = ["Index", "pod_key"]


class Filter(t.Protocol):
    """One filter plugin of the scheduler."""

    name: str

    def nodes(self, candidate: Candidate) -> NodeSet:
        """The nodes that pass."""

    def failure(self, candidate: Candidate, n: int) -> Failure | None:
        """Why node number n does not pass, or None."""


Filters = tuple[Filter, ...]


class Index:
    """Build one with `Index.build`. Nodes and namespaces are fixed; pods come and go."""

    def __init__(
        self,
        nodes: t.Iterable[Node],
        namespaces: t.Iterable[Namespace],
        *,
        claim_terms: ClaimTerms,
        services: t.Iterable[Service],
        owner_selectors: t.Mapping[tuple[str, str, str], Selector],
        options: Options,
    ) -> None:
        table = NodeTable(nodes)
        self.table = table
        self.options = options
        self.matching = Matching(namespaces)
        self.resources = NodeResourcesFit(table, options)
        self.ports = NodePorts(table)
        self.spread = PodTopologySpread(
            table, self.matching, options, DefaultSelectors(services, owner_selectors)
        )
        self.pod_affinity = InterPodAffinity(table, self.matching)
        taints = TaintToleration(table, comparison=options.taint_comparison)
        filters: Filters = (
            NodeName(table),
            NodeUnschedulable(table, comparison=options.taint_comparison),
            taints,
            NodeAffinity(table, options.added_affinity),
            self.ports,
            self.resources,
            VolumeBinding(table, claim_terms),
            self.spread,
            self.pod_affinity,
        )
        self._filters = tuple(each for each in filters if each.name in options.plugins)
        self._but_resources = tuple(each for each in self._filters if each is not self.resources)
        self._placed: dict[str, Candidate] = {}
        self._on: list[dict[str, Candidate]] = [{} for _name in table.names]
        self._away: set[str] = set()
        """Placed pods that are not there for the question being asked."""
        self._nominated: dict[int, list[Candidate]] = {}
        """Pending pods for which room is being made by preemption, by node."""
        self._lookup = Lookup(table, self.matching, taints, self.spread, options)

    @classmethod
    def build(
        cls,
        nodes: t.Iterable[Node],
        pods: t.Iterable[Pod],
        namespaces: t.Iterable[Namespace],
        *,
        claim_terms: ClaimTerms | None = None,
        services: t.Iterable[Service] = (),
        owner_selectors: t.Mapping[tuple[str, str, str], Selector] | None = None,
        options: Options | None = None,
    ) -> Index:
        """The index of a cluster. Pods that the scheduler does not see are passed over: those
        that have finished, have no node, or are on a node that does not exist.

        `claim_terms`: (namespace, claim) to the node terms of its PersistentVolume. `services`
        and `owner_selectors` ((kind, namespace, name) to the selector of a ReplicaSet,
        StatefulSet or ReplicationController) matter for cluster default spread constraints only.
        """
        index = cls(
            nodes,
            namespaces,
            claim_terms=claim_terms or {},
            services=services,
            owner_selectors=owner_selectors or {},
            options=options or Options(),
        )
        index._fill(pods)
        return index

    @property
    def nodes(self) -> tuple[Node, ...]:
        return self.table.nodes

    @property
    def pods(self) -> tuple[Pod, ...]:
        """The placed pods."""
        return tuple(each.pod for each in self._placed.values())

    def pod(self, key: str) -> Pod:
        """A placed pod by its uid, or namespace/name where it has none. Raises KeyError."""
        return self._placed[key].pod

    def placed(self, key: str) -> Candidate:
        """A placed pod with its rules looked up. Raises KeyError."""
        return self._placed[key]

    def loads(self) -> list[int]:
        """How many pods are placed on each node, in the order of the table."""
        return list(map(len, self._on))

    def node_of(self, key: str) -> str:
        """The node on which a pod is placed. Raises KeyError."""
        return self.table.names[self._placed[key].node]

    def __contains__(self, key: object) -> bool:
        return key in self._placed

    def pods_on(self, node_name: str) -> tuple[Pod, ...]:
        """The pods placed on a node. Raises KeyError for an unknown one."""
        return tuple(each.pod for each in self._on[self.table.numbers[node_name]].values())

    def place(self, pod: Pod, node_name: str) -> None:
        """Put a pod on a node, whether or not it may run there.

        Raises KeyError for an unknown node, ValueError for a pod that is placed already.
        """
        n = self.table.numbers[node_name]
        key = pod_key(pod)
        if key in self._placed:
            raise ValueError(f"{pod.ref} is already placed on {self.node_of(key)}")
        candidate = self.candidate(pod)
        self._lookup.forget(pod)
        self._placed[key] = self._on[n][key] = candidate
        self._enter(candidate, n)

    def take_out(self, key: str) -> Pod:
        """Remove a pod and give it back. Raises KeyError for one that is not placed."""
        candidate = self._there(key)
        del self._placed[key]
        del self._on[candidate.node][key]
        self._leave(candidate)
        self._lookup.keep(candidate)
        return candidate.pod

    def move(self, key: str, node_name: str) -> None:
        """Put a placed pod on another node. Raises KeyError."""
        n = self.table.numbers[node_name]
        candidate = self._there(key)
        del self._on[candidate.node][key]
        self._on[n][key] = candidate
        self._leave(candidate)
        self._enter(candidate, n)

    @contextlib.contextmanager
    def without(self, *keys: str | None) -> t.Iterator[None]:
        """While it lasts, placed pods are not there. A key that is not placed changes nothing."""
        gone = {
            key: self._placed[key]
            for key in keys
            if key is not None and key in self._placed and key not in self._away
        }
        for candidate in gone.values():
            self._leave(candidate)
        self._away |= gone.keys()
        try:
            yield
        finally:
            self._away -= gone.keys()
            for candidate in gone.values():
                self._enter(candidate, candidate.node)

    @contextlib.contextmanager
    def shut(self, nodes: NodeSet, tolerates: Tolerates) -> t.Iterator[None]:
        """While it lasts, nodes are tainted as far as spread constraints count. Whether a pod may
        run on them is not changed: leave them out yourself. `tolerates`: who is not concerned."""
        self._lookup.forget_all()
        try:
            with self.spread.shut(nodes, tolerates):
                yield
        finally:
            self._lookup.forget_all()

    def failures(
        self,
        pod: Pod,
        node_name: str,
        *,
        without: str | None = None,
        plugins: t.Container[str] | None = None,
    ) -> tuple[Failure, ...]:
        """Why a pod may not run on a node: one Failure for each filter that refuses, in the
        scheduler's order. Empty: it may.

        `without`: uid (or namespace/name) of a placed pod that is taken out first: the pod itself
        for "may it come back?", nothing for a live migration, where its source is still there.
        `plugins`: the filters to ask; all that the options have by default. Raises KeyError for
        an unknown node.
        """
        n = self.table.numbers[node_name]
        with self.without(without):
            return self._failures(self.candidate(pod), n, self._chosen(plugins))

    def verify(self, key: str) -> tuple[Failure, ...]:
        """Take a placed pod out: why might it not come back to its node? Raises KeyError."""
        candidate = self._placed[key]
        n = candidate.node
        if key in self._away:
            return self._failures(candidate, n, self._filters)
        if n not in self._nominated and self.resources.is_enough(n):
            return self._comes_back(candidate)
        self._leave(candidate)
        try:
            return self._failures(candidate, n, self._filters)
        finally:
            self._enter(candidate, n)

    def _comes_back(self, candidate: Candidate) -> tuple[Failure, ...]:
        """Why a pod might not come back to a node that has room for all that is there."""
        self.matching.step_aside(candidate)
        if candidate.pod.host_ports:
            self.ports.leave(candidate)
        try:
            return self._asked(candidate, candidate.node, self._but_resources)
        finally:
            self.matching.come_back(candidate)
            if candidate.pod.host_ports:
                self.ports.enter(candidate)

    def verify_all(self) -> dict[str, tuple[Failure, ...]]:
        """The placed pods that might not come back to their nodes, by key, and why."""
        found = {}
        with collector_paused():
            for key in self._placed:
                failures = self.verify(key)
                if failures:
                    found[key] = failures
        return found

    def feasible(
        self,
        pod: Pod,
        *,
        without: str | None = None,
        exclude: t.Collection[str] = frozenset(),
        plugins: t.Container[str] | None = None,
    ) -> tuple[str, ...]:
        """The names of the nodes that pass every filter, in the order of the nodes."""
        with self.without(without):
            found = self.feasible_set(self.candidate(pod), plugins)
        for name in exclude:
            n = self.table.numbers.get(name)
            if n is not None:
                found &= ~(1 << n)
        return self.table.names_of(found)

    def open_nodes(self, pod: Pod, *, without: str | None = None) -> NodeSet:
        """As `feasible`, but as a set of `table`: for whoever asks for thousands of pods."""
        with self.without(without):
            return self.feasible_set(self.candidate(pod))

    def candidate(self, pod: Pod) -> Candidate:
        """The pod with its rules looked up; the placed one itself if it is this very pod."""
        placed = self._placed.get(pod_key(pod))
        found = placed if placed is not None and placed.pod is pod else self._lookup.judged(pod)
        self.matching.find(found)
        return found

    def feasible_set(
        self, candidate: Candidate, plugins: t.Container[str] | None = None
    ) -> NodeSet:
        """The nodes that pass every filter, as a set of the table."""
        found = self.table.all
        filters = self._chosen(plugins)
        for each in filters:
            if found:
                found &= each.nodes(candidate)
        for n in self._nominated:
            if found >> n & 1 and self._failures(candidate, n, filters):
                found &= ~(1 << n)
        return found

    def _chosen(self, plugins: t.Container[str] | None) -> Filters:
        if plugins is None:
            return self._filters
        return tuple(each for each in self._filters if each.name in plugins)

    def _there(self, key: str) -> Candidate:
        candidate = self._placed[key]
        if key in self._away:
            raise ValueError(f"{candidate.pod.ref} is away: it cannot be moved meanwhile")
        return candidate

    def _failures(self, candidate: Candidate, n: int, filters: Filters) -> tuple[Failure, ...]:
        """What refuses with the pods in place that are nominated for the node, or else without
        them: they may come to run there or not, so the pod must pass both ways."""
        if n in self._nominated:
            with self._expected(candidate, n):
                failures = self._asked(candidate, n, filters)
            if failures:
                return failures
        return self._asked(candidate, n, filters)

    def _asked(self, candidate: Candidate, n: int, filters: Filters) -> tuple[Failure, ...]:
        found = []
        for each in filters:
            failure = each.failure(candidate, n)
            if failure is not None:
                found.append(failure)
        return tuple(found)

    @contextlib.contextmanager
    def _expected(self, candidate: Candidate, n: int) -> t.Iterator[None]:
        """While it lasts, the pods nominated for node number n are on it, but for those of lower
        priority than the candidate and for the candidate itself."""
        coming = [
            each
            for each in self._nominated[n]
            if each.pod.priority >= candidate.pod.priority
            and each.key != candidate.key
            and each.key not in self._placed
        ]
        for each in coming:
            self._enter(each, n)
        try:
            yield
        finally:
            for each in coming:
                self._leave(each)

    def _fill(self, pods: t.Iterable[Pod]) -> None:
        """Look all rules up before the first pod is placed: then no Match is filled twice."""
        with collector_paused():
            self._fill_at_once(pods)

    def _fill_at_once(self, pods: t.Iterable[Pod]) -> None:
        numbers = self.table.numbers
        placed, nominated = [], []
        for pod in pods:
            if pod.node_name:
                if pod.node_name in numbers and not pod.finished:
                    placed.append((self._lookup.new(pod), numbers[pod.node_name]))
            elif pod.nominated_node_name in numbers:
                nominated.append((self._lookup.new(pod), numbers[pod.nominated_node_name]))
        for candidate, n in placed:
            self._placed[candidate.key] = self._on[n][candidate.key] = candidate
            self._enter(candidate, n)
        for candidate, n in nominated:
            self._nominated.setdefault(n, []).append(candidate)

    def _enter(self, candidate: Candidate, n: int) -> None:
        candidate.node = n
        candidate.node_labels = self.table.labels[n]
        self.matching.enter(candidate)
        self.resources.enter(candidate)
        if candidate.pod.host_ports:
            self.ports.enter(candidate)

    def _leave(self, candidate: Candidate) -> None:
        self.matching.leave(candidate)
        self.resources.leave(candidate)
        if candidate.pod.host_ports:
            self.ports.leave(candidate)
