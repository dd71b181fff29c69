# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""PodTopologySpread: hard topology spread constraints.

Source: scheduler plugin podtopologyspread, component-helpers DefaultSelector.
"""

from __future__ import annotations

import contextlib
import typing as t

from ..model.objects import (
    Labels,
    Pod,
    Requirement,
    Selector,
    Service,
    SpreadConstraint,
    Toleration,
)
from ..model.placement_manifest import with_own_values
from .candidate import Candidate, Spec
from .failure import Code, Failure, Reason
from .matching import Match, Matching
from .node_table import NodeSet, NodeTable
from .options import POD_TOPOLOGY_SPREAD, SYSTEM_CONSTRAINTS, Options
from .selectors import is_readable_selector

HARD = "DoNotSchedule"
SOFT = "ScheduleAnyway"


class Eligible:
    """The nodes that a constraint counts, and how many domains of its key they make."""

    __slots__ = ("_domains", "_table", "flags", "nodes")

    def __init__(self, table: NodeTable, nodes: NodeSet) -> None:
        self._table = table
        self.nodes = nodes
        self.flags = table.flags(nodes).ljust(len(table.nodes), b"\0")
        self._domains: dict[str, int] = {}

    def domains(self, key: str) -> int:
        found = self._domains.get(key)
        if found is None:
            each = self._table.domains(key).values()
            found = self._domains[key] = sum(1 for nodes in each if nodes & self.nodes)
        return found


class SpreadCount:
    """The living pods of a Match on eligible nodes by domain of a key, and the smallest count.

    `counts` holds no zeros; `levels` is how many domains have each count above zero.
    """

    __slots__ = ("counts", "eligible", "key", "levels", "lowest")

    def __init__(self, match: Match, key: str, eligible: Eligible) -> None:
        self.key = key
        self.eligible = eligible
        self.counts: dict[str, int] = {}
        self.levels: dict[int, int] = {}
        self.lowest = 0
        """The smallest count above zero; 0 where there is none."""
        for member in match.members:
            self.enter(member)
        match.spreads.append(self)

    def enter(self, candidate: Candidate) -> None:
        if candidate.pod.terminating or not self.eligible.flags[candidate.node]:
            return
        domain = candidate.node_labels[self.key]
        before = self.counts.get(domain, 0)
        self.counts[domain] = before + 1
        self._shift(before, before + 1)

    def leave(self, candidate: Candidate) -> None:
        if candidate.pod.terminating or not self.eligible.flags[candidate.node]:
            return
        domain = candidate.node_labels[self.key]
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
    """One hard constraint of a pod. `tally` None: its selector counts nothing anywhere.
    `unreadable`: the selector cannot be parsed, and the scheduler gives up on the pod."""

    key: str
    max_skew: int
    min_domains: int
    match: Match | None
    tally: SpreadCount | None
    source: SpreadConstraint
    selects_all: bool
    unreadable: bool = False

    def own(self, candidate: Candidate) -> int:
        """1 where the pod matches its own selector."""
        return int(self.selects_all or self.match in candidate.matches)

    def skew(self, candidate: Candidate, domain: str) -> int:
        """How far above the smallest domain the pod would raise this one."""
        own = self.own(candidate)
        if self.tally is None:
            return own
        return self.tally.counts.get(domain, 0) + own - self.tally.minimum(self.min_domains)

    def nodes(self, candidate: Candidate, table: NodeTable) -> NodeSet:
        """The nodes on which the skew stays within bounds."""
        if self.unreadable:
            return 0
        found = table.carrying(self.key)
        lowest = 0 if self.tally is None else self.tally.minimum(self.min_domains)
        counts = {} if self.tally is None else self.tally.counts
        room = self.max_skew - self.own(candidate) + lowest
        if room < 0:
            return 0
        return found & ~table.in_domains(self.key, [d for d, n in counts.items() if n > room])


class DefaultSelectors:
    """The selector that the scheduler deduces for a pod without constraints of its own: from the
    Services that match it, and from the ReplicaSet, StatefulSet or ReplicationController that
    owns it. A launcher pod is owned by its VMI, so there only Services count."""

    def __init__(
        self,
        services: t.Iterable[Service],
        owners: t.Mapping[tuple[str, str, str], Selector],
    ) -> None:
        self._services: dict[str, list[Service]] = {}
        for service in services:
            if service.selector is not None:
                self._services.setdefault(service.namespace, []).append(service)
        self._owners = owners

    def of(self, pod: Pod) -> Selector | None:
        """None where nothing can be deduced."""
        pairs: dict[str, str] = {}
        for service in self._services.get(pod.namespace, ()):
            wanted = service.selector or {}
            if all(pod.labels.get(key) == value for key, value in wanted.items()):
                pairs.update(wanted)
        requirements = [Requirement(key, "In", (pairs[key],)) for key in sorted(pairs)]
        if pod.owner is not None and self._owners:
            owner = self._owners.get((pod.owner.kind, pod.namespace, pod.owner.name))
            requirements += owner.requirements if owner is not None else ()
        return Selector(tuple(requirements)) if requirements else None


Tolerates = t.Callable[[tuple[Toleration, ...]], bool]


class Shut:
    """Nodes that are taken for tainted, and what was counted without them."""

    __slots__ = ("counts", "eligible", "nodes", "tolerates")

    def __init__(self, nodes: NodeSet, tolerates: Tolerates) -> None:
        self.nodes = nodes
        self.tolerates = tolerates
        self.eligible: dict[NodeSet, Eligible] = {}
        self.counts: dict[tuple[Match, str, Eligible], tuple[Match, SpreadCount]] = {}


class PodTopologySpread:
    """The filter."""

    name = POD_TOPOLOGY_SPREAD

    def __init__(
        self, table: NodeTable, matching: Matching, options: Options, selectors: DefaultSelectors
    ) -> None:
        self._table = table
        self._matching = matching
        defaults = options.default_constraints
        self._defaults = SYSTEM_CONSTRAINTS if defaults is None else defaults
        self._system = defaults is None
        self._selectors = selectors
        self._eligible: dict[NodeSet, Eligible] = {}
        self._counts: dict[tuple[Match, str, Eligible], SpreadCount] = {}
        self._read: dict[t.Hashable, tuple[Constraint, ...]] = {}
        self._shut: Shut | None = None

    @contextlib.contextmanager
    def shut(self, nodes: NodeSet, tolerates: Tolerates) -> t.Iterator[None]:
        """While it lasts, nodes are tainted: constraints that are looked up meanwhile and honour
        taints do not count them, but for pods that tolerate it."""
        read, self._read = self._read, {}
        shut = self._shut = Shut(nodes, tolerates)
        try:
            yield
        finally:
            self._read, self._shut = read, None
            for match, tally in shut.counts.values():
                match.spreads.remove(tally)

    def sources(self, pod: Pod, action: str) -> tuple[SpreadConstraint, ...]:
        """The constraints of a pod with this action, or the cluster's defaults, with the selector
        as the scheduler uses it."""
        own = pod.placement.spread
        if own:
            return tuple(each for each in own if each.when_unsatisfiable == action)
        defaults = tuple(each for each in self._defaults if each.when_unsatisfiable == action)
        selector = self._selectors.of(pod) if defaults else None
        if selector is None:
            return ()
        return tuple(
            SpreadConstraint(
                each.topology_key,
                each.max_skew,
                action,
                selector,
                (),
                each.min_domains,
                each.node_affinity_policy,
                each.node_taints_policy,
            )
            for each in defaults
        )

    def all_keys(self, pod: Pod) -> bool:
        """Whether a node must carry the keys of all constraints to count: not for the defaults
        that the scheduler brings along itself."""
        return bool(pod.placement.spread) or not self._system

    def constraints(self, pod: Pod, spec: Spec, action: str = HARD) -> tuple[Constraint, ...]:
        """The constraints of a pod with this action, looked up. One that cannot be read stands
        alone: the scheduler looks at no other."""
        listed = self.sources(pod, action)
        if not listed:
            return ()
        own = tuple((key, pod.labels.get(key)) for each in listed for key in each.match_label_keys)
        defaults = None if pod.placement.spread else listed
        identity = (pod.namespace, spec, action, defaults, own)
        found = self._read.get(identity)
        if found is None:
            found = self._look_up(listed, pod, spec)
            self._read[identity] = found
        return found

    def eligible(
        self, constraint: SpreadConstraint, listed: t.Iterable[SpreadConstraint], spec: Spec
    ) -> Eligible:
        """The nodes that a constraint counts: those that carry the keys of all of `listed`, and
        obey what its two policies honour."""
        nodes = self._table.all
        for each in listed:
            nodes &= self._table.carrying(each.topology_key)
        if constraint.node_affinity_policy == "Honor":
            nodes &= spec.nodes
        known, shut = self._eligible, self._shut
        if constraint.node_taints_policy == "Honor":
            nodes &= spec.tolerating
            if shut is not None and not shut.tolerates(spec.placement.tolerations):
                nodes, known = nodes & ~shut.nodes, shut.eligible
        found = known.get(nodes)
        if found is None:
            found = known[nodes] = Eligible(self._table, nodes)
        return found

    def nodes(self, candidate: Candidate) -> NodeSet:
        found = self._table.all
        for each in candidate.constraints:
            found &= each.nodes(candidate, self._table)
        return found

    def failure(self, candidate: Candidate, n: int) -> Failure | None:
        labels = self._table.labels[n]
        for each in candidate.constraints:
            domain = labels.get(each.key)
            if domain is None or each.skew(candidate, domain) > each.max_skew:
                return self._failure(candidate, labels)
            if each.unreadable:
                return self._failure(candidate, labels)
        return None

    def _failure(self, candidate: Candidate, labels: Labels) -> Failure:
        if candidate.constraints[0].unreadable:
            source = candidate.constraints[0].source
            text = "the selector of a topology spread constraint cannot be parsed"
            return Failure(self.name, Code.ERROR, (Reason("invalid", text, source),))
        reasons = tuple(self._reasons(candidate, labels))
        code = Code.UNRESOLVABLE if reasons[0].kind == "missing-label" else Code.UNSCHEDULABLE
        return Failure(self.name, code, reasons)

    def _reasons(self, candidate: Candidate, labels: Labels) -> t.Iterator[Reason]:
        for each in candidate.constraints:
            domain = labels.get(each.key)
            if domain is None:
                yield Reason(
                    "missing-label", f"the node has no label {each.key}", each.source, each.key
                )
                continue
            skew = each.skew(candidate, domain)
            if skew > each.max_skew:
                text = f"skew of {each.key} '{domain}' would be {skew}, above {each.max_skew}"
                yield Reason("skew", text, each.source, each.key)

    def _look_up(
        self, listed: tuple[SpreadConstraint, ...], pod: Pod, spec: Spec
    ) -> tuple[Constraint, ...]:
        for each in listed:
            if not is_readable_selector(each.selector):
                return (Constraint(each.topology_key, 0, 1, None, None, each, False, True),)
        return tuple(self._constraint(each, listed, pod, spec) for each in listed)

    def _constraint(
        self,
        source: SpreadConstraint,
        listed: tuple[SpreadConstraint, ...],
        pod: Pod,
        spec: Spec,
    ) -> Constraint:
        selector = with_own_values(source.selector, source.match_label_keys, pod.labels)
        match = tally = None
        if selector is not None and selector.requirements:
            match = self._matching.match(
                [self._matching.part_for_namespace(pod.namespace, selector)]
            )
            eligible = self.eligible(source, listed if self.all_keys(pod) else (source,), spec)
            tally = self._count(match, source.topology_key, eligible)
        return Constraint(
            source.topology_key,
            source.max_skew,
            source.min_domains or 1,
            match,
            tally,
            source,
            selector is not None and not selector.requirements,
        )

    def _count(self, match: Match, key: str, eligible: Eligible) -> SpreadCount:
        found = self._counts.get((match, key, eligible))
        if found is not None:
            return found
        shut = self._shut
        if shut is None:
            found = self._counts[match, key, eligible] = SpreadCount(match, key, eligible)
            return found
        known = shut.counts.get((match, key, eligible))
        if known is None:
            known = match, SpreadCount(match, key, eligible)
            shut.counts[match, key, eligible] = known
        return known[1]
