# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""PodTopologySpread: does a node keep the skew of every hard spread constraint within bounds?

The constraints of a pod without any of its own are the scheduler's defaults. Those are soft, and this
engine leaves them out. Source: scheduler plugin podtopologyspread.
"""

from __future__ import annotations

import contextlib
import typing as t
from dataclasses import dataclass, field

from ..model.objects import Labels, Pod, SpreadConstraint, Toleration
from ..model.placement_manifests import with_own_values
from .framework import POD_TOPOLOGY_SPREAD, Code, FilterReason, FilterStatus, PlacementInfo, PodInfo
from .labels import is_readable_selector
from .nodes import NodeSet, NodeTable
from .selector_index import SelectorCount, SelectorIndex

HARD = "DoNotSchedule"
SOFT = "ScheduleAnyway"


class EligibleNodes:
    """The nodes that a constraint counts, and how many domains of its key they make."""

    __slots__ = ("_domains", "_table", "flags", "nodes")

    def __init__(self, table: NodeTable, nodes: NodeSet) -> None:
        self._table = table
        self.nodes = nodes
        self.flags = table.flags(nodes).ljust(len(table.nodes), b"\0")
        self._domains: dict[str, int] = {}

    def domains(self, key: str) -> int:
        count = self._domains.get(key)
        if count is None:
            domains = self._table.domains(key).values()
            count = self._domains[key] = sum(1 for nodes in domains if nodes & self.nodes)
        return count


class SpreadCount:
    """How many pods of a SelectorCount are on eligible nodes, by domain of a key, and the smallest
    of these counts. Terminating pods do not count.

    `counts` holds no zeros; `levels` is how many domains have each count above zero.
    """

    __slots__ = ("counts", "eligible", "key", "levels", "lowest")

    def __init__(self, selector_count: SelectorCount, key: str, eligible: EligibleNodes) -> None:
        self.key = key
        self.eligible = eligible
        self.counts: dict[str, int] = {}
        self.levels: dict[int, int] = {}
        self.lowest = 0
        """The smallest count above zero, or 0 if there is none."""
        for member in selector_count.members:
            self.add(member)
        selector_count.spread_counts.append(self)

    def add(self, pod_info: PodInfo) -> None:
        if pod_info.pod.terminating or not self.eligible.flags[pod_info.node]:
            return
        domain = pod_info.node_labels[self.key]
        before = self.counts.get(domain, 0)
        self.counts[domain] = before + 1
        self._shift(before, before + 1)

    def remove(self, pod_info: PodInfo) -> None:
        if pod_info.pod.terminating or not self.eligible.flags[pod_info.node]:
            return
        domain = pod_info.node_labels[self.key]
        before = self.counts[domain]
        if before == 1:
            del self.counts[domain]
        else:
            self.counts[domain] = before - 1
        self._shift(before, before - 1)

    def minimum(self, min_domains: int) -> int:
        """The smallest count of a domain; 0 while there are fewer domains than `min_domains`."""
        domains = self.eligible.domains(self.key)
        if domains < min_domains or len(self.counts) < domains:
            return 0
        return self.lowest

    def _shift(self, before: int, after: int) -> None:
        levels = self.levels
        if before:
            if levels[before] == 1:
                del levels[before]
            else:
                levels[before] -= 1
        if after:
            levels[after] = levels.get(after, 0) + 1
        if after and (after < self.lowest or not self.lowest):
            self.lowest = after
        elif self.lowest == before and before not in levels:
            self.lowest = after if after in levels else min(levels, default=0)


class Constraint(t.NamedTuple):
    """One hard constraint of a pod. `spread_count` None: a missing or an empty
    selector counts no pods. `unreadable`: the selector cannot be parsed, and the scheduler rejects the pod."""

    key: str
    max_skew: int
    min_domains: int
    selector_count: SelectorCount | None
    spread_count: SpreadCount | None
    source: SpreadConstraint
    selects_all: bool
    unreadable: bool = False

    def own(self, pod_info: PodInfo) -> int:
        """1 if the pod matches its own selector, else 0."""
        return int(self.selects_all or self.selector_count in pod_info.selected_by)

    def skew(self, pod_info: PodInfo, domain: str) -> int:
        """The skew of this domain with the pod: its count minus the smallest count of a domain."""
        own = self.own(pod_info)
        if self.spread_count is None:
            return own
        return (
            self.spread_count.counts.get(domain, 0)
            + own
            - self.spread_count.minimum(self.min_domains)
        )

    def nodes(self, pod_info: PodInfo, table: NodeTable) -> NodeSet:
        """The nodes on which the skew stays within bounds."""
        if self.unreadable:
            return 0
        nodes = table.with_key(self.key)
        lowest = 0 if self.spread_count is None else self.spread_count.minimum(self.min_domains)
        counts = {} if self.spread_count is None else self.spread_count.counts
        room = self.max_skew - self.own(pod_info) + lowest
        if room < 0:
            return 0
        return nodes & ~table.in_domains(self.key, [d for d, n in counts.items() if n > room])


def spread_terms(pod: Pod, action: str) -> tuple[SpreadConstraint, ...]:
    """The constraints of a pod with this action."""
    return tuple(source for source in pod.placement.spread if source.when_unsatisfiable == action)


Tolerates = t.Callable[[tuple[Toleration, ...]], bool]


@dataclass(eq=False, repr=False, slots=True)
class TaintedNodes:
    """Nodes that count as tainted, and the counters that leave them out."""

    nodes: NodeSet
    tolerates: Tolerates
    eligible: dict[NodeSet, EligibleNodes] = field(default_factory=dict)
    counts: dict[tuple[SelectorCount, str, EligibleNodes], SpreadCount] = field(
        default_factory=dict
    )


class PodTopologySpread:
    """The filter."""

    name = POD_TOPOLOGY_SPREAD

    def __init__(self, table: NodeTable, selector_index: SelectorIndex) -> None:
        self._table = table
        self._selector_index = selector_index
        self._eligible: dict[NodeSet, EligibleNodes] = {}
        self._counts: dict[tuple[SelectorCount, str, EligibleNodes], SpreadCount] = {}
        self._constraints: dict[t.Hashable, tuple[Constraint, ...]] = {}
        self._tainted: TaintedNodes | None = None

    @contextlib.contextmanager
    def tainted(self, nodes: NodeSet, tolerates: Tolerates) -> t.Iterator[None]:
        """In this context, these nodes are tainted: constraints that honor taints do not count
        them, except for pods that tolerate the taint."""
        constraints, self._constraints = self._constraints, {}
        tainted = self._tainted = TaintedNodes(nodes, tolerates)
        try:
            yield
        finally:
            self._constraints, self._tainted = constraints, None
            for (selector_count, *_rest), spread_count in tainted.counts.items():
                selector_count.spread_counts.remove(spread_count)

    def constraints(
        self, pod: Pod, info: PlacementInfo, action: str = HARD
    ) -> tuple[Constraint, ...]:
        """The constraints of a pod with this action, with their counters. If one cannot
        be parsed, it is the only one: the scheduler stops there."""
        sources = spread_terms(pod, action)
        if not sources:
            return ()
        own = tuple(
            (key, pod.labels.get(key))
            for constraint in sources
            for key in constraint.match_label_keys
        )
        identity = (pod.namespace, info, action, own)
        constraints = self._constraints.get(identity)
        if constraints is None:
            unreadable = next((x for x in sources if not is_readable_selector(x.selector)), None)
            if unreadable is None:
                constraints = tuple(self._constraint(x, sources, pod, info) for x in sources)
            else:
                key = unreadable.topology_key
                constraints = (Constraint(key, 0, 1, None, None, unreadable, False, True),)
            self._constraints[identity] = constraints
        return constraints

    def eligible(
        self,
        constraint: SpreadConstraint,
        sources: t.Iterable[SpreadConstraint],
        info: PlacementInfo,
    ) -> EligibleNodes:
        """The nodes that a constraint counts: they have the keys of all `sources`, and satisfy what
        its two policies honor."""
        nodes = self._table.all
        for source in sources:
            nodes &= self._table.with_key(source.topology_key)
        if constraint.node_affinity_policy == "Honor":
            nodes &= info.nodes
        cache, tainted = self._eligible, self._tainted
        if constraint.node_taints_policy == "Honor":
            nodes &= info.tolerated_nodes
            if tainted is not None and not tainted.tolerates(info.placement.tolerations):
                nodes, cache = nodes & ~tainted.nodes, tainted.eligible
        eligible = cache.get(nodes)
        if eligible is None:
            eligible = cache[nodes] = EligibleNodes(self._table, nodes)
        return eligible

    def nodes(self, pod_info: PodInfo) -> NodeSet:
        nodes = self._table.all
        for constraint in pod_info.constraints:
            nodes &= constraint.nodes(pod_info, self._table)
        return nodes

    def failure(self, pod_info: PodInfo, n: int) -> FilterStatus | None:
        if not pod_info.constraints:
            return None
        if pod_info.constraints[0].unreadable:
            text = "the selector of a topology spread constraint cannot be parsed"
            reason = FilterReason("invalid", text, pod_info.constraints[0].source)
            return FilterStatus(self.name, Code.ERROR, (reason,))
        reasons = tuple(self._reasons(pod_info, self._table.labels[n]))
        if not reasons:
            return None
        code = Code.UNRESOLVABLE if reasons[0].kind == "missing-label" else Code.UNSCHEDULABLE
        return FilterStatus(self.name, code, reasons)

    def _reasons(self, pod_info: PodInfo, labels: Labels) -> t.Iterator[FilterReason]:
        for constraint in pod_info.constraints:
            domain = labels.get(constraint.key)
            if domain is None:
                yield FilterReason(
                    "missing-label",
                    f"the node has no label {constraint.key}",
                    constraint.source,
                    constraint.key,
                )
                continue
            skew = constraint.skew(pod_info, domain)
            if skew > constraint.max_skew:
                text = f"skew of {constraint.key} '{domain}' would be {skew}, above {constraint.max_skew}"
                yield FilterReason("skew", text, constraint.source, constraint.key)

    def _constraint(
        self,
        source: SpreadConstraint,
        sources: tuple[SpreadConstraint, ...],
        pod: Pod,
        info: PlacementInfo,
    ) -> Constraint:
        selector = with_own_values(source.selector, source.match_label_keys, pod.labels)
        selector_count = spread_count = None
        if selector is not None and selector.requirements:
            selector_count = self._selector_index.selector_count(
                [self._selector_index.part_for_namespace(pod.namespace, selector)]
            )
            eligible = self.eligible(source, sources, info)
            spread_count = self._count(selector_count, source.topology_key, eligible)
        return Constraint(
            source.topology_key,
            source.max_skew,
            source.min_domains or 1,
            selector_count,
            spread_count,
            source,
            selector is not None and not selector.requirements,
        )

    def _count(
        self, selector_count: SelectorCount, key: str, eligible: EligibleNodes
    ) -> SpreadCount:
        identity, counts = (selector_count, key, eligible), self._counts
        if self._tainted is not None and identity not in counts:
            counts = self._tainted.counts
        if identity not in counts:
            counts[identity] = SpreadCount(selector_count, key, eligible)
        return counts[identity]
