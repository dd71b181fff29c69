# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""How many moves repair each violated rule? Three instances may violate it where one move is enough.

`moves_needed` answers for the judge, which gets it as a parameter. The instances of one term form a
group. A member may stay in its topology domain at no cost or move into an allowed one for one move,
and a min-cost flow gives the fewest moves. Only the group's own term couples its members here:
whatever else closes a domain to a member (node rules, taints, resources, other groups) keeps it out
of `allowed`.
"""

from __future__ import annotations

import typing as t
from collections import Counter, defaultdict

from ..compliance import terms as wording
from ..compliance.instances import DeclaredInstance
from ..compliance.terms import Term, TermKind, spread_term
from ..compliance.violations import Violation, good_nodes
from ..model.objects import PodTerm, Ref, SpreadConstraint
from ..model.topology import Topology
from ..model.verdict import UNCOUNTED, MoveCount
from ..scheduler.framework import (
    INTER_POD_AFFINITY,
    NODE_AFFINITY,
    POD_TOPOLOGY_SPREAD,
    VOLUME_BINDING,
    PodInfo,
)
from ..scheduler.index import Index
from ..scheduler.pod_topology_spread import Constraint
from .matching import Domain, GroupMember, Repair, assign_within_bounds

WORK_BASE, WORK_PER_INSTANCE = 5_000, 5
"""How many members the groups may have together, in all and for each instance of the cluster. An instance
is a member of a few groups; a pod with hundreds of terms, each about all pods of another tenant, would
make counting endless."""

RULE_PLUGINS = frozenset({NODE_AFFINITY, VOLUME_BINDING, POD_TOPOLOGY_SPREAD, INTER_POD_AFFINITY})
"""Filters that check rules; the others report risks, under which an instance may stay."""


def moves_needed(
    index: Index,
    instances: t.Iterable[DeclaredInstance],
    violations: t.Iterable[tuple[DeclaredInstance, Violation]],
    topology: Topology,
) -> dict[str, MoveCount]:
    """Each violated rule (or the description of a term that no rule owns) to the fewest moves that
    repair it; None if none do while others stay, UNCOUNTED beyond the bound on work. `index` has the
    cluster as declared, where `instances` run.

    The count is exact for a group that one rule keeps apart, or spreads over the same nodes. It is
    a lower bound where two groups keep apart from each other, where the members of a spread
    may use different nodes, and where several terms of a rule are about the same instances.
    """
    counter = _MoveCounter(index, instances, topology)
    for instance, violation in violations:
        counter.add(instance, violation)
    return counter.moves()


def keep_apart(members: t.Sequence[GroupMember], domains: t.Collection[Domain]) -> Repair | None:
    """At most one member in each of `domains`; any number elsewhere (nodes that lack the key)."""
    return assign_within_bounds(members, dict.fromkeys(domains, (0, 1)))


def spread_evenly(
    members: t.Sequence[GroupMember],
    domains: t.Collection[Domain],
    max_skew: int,
    *,
    min_domains: int = 1,
) -> Repair | None:
    """Counts of `domains` at most `max_skew` above the smallest one.

    With fewer domains than `min_domains` the smallest count is zero (Kubernetes: minDomains).
    """
    if not domains:
        return None
    enough = len(domains) >= min_domains
    best: Repair | None = None
    for minimum in range(len(members) // len(domains) if enough else 0, -1, -1):
        bounds = (minimum if enough else 0, minimum + max_skew)
        repair = assign_within_bounds(members, dict.fromkeys(domains, bounds))
        if repair is not None and (best is None or repair.moves < best.moves):
            best = repair
    return best


def keep_from(
    repelling: t.Sequence[GroupMember],
    repelled: t.Sequence[GroupMember],
    domains: t.Collection[Domain],
    both: t.Sequence[GroupMember] = (),
) -> int:
    """The fewest moves after which no member of `repelling` shares a domain with one of `repelled`.

    Members of `both` repel all others and one another; members of the same one of the first two
    groups may share a domain. The largest side of each domain stays. This is a lower bound: more
    moves are needed where the others compete for the last free domains.
    """
    sides = [Counter(member.stays for member in side) for side in (repelling, repelled, both)]
    moves = sum(side[None] for side in sides)
    for domain in domains:
        counts = [side[domain] for side in sides]
        moves += sum(counts) - max(counts[0], counts[1], min(counts[2], 1))
    return moves


class _TooMuchWork(Exception):
    pass


_Group = tuple[Term, dict[str, DeclaredInstance]]
"""A term, and the instances whose term is violated."""

_Count = tuple[frozenset[str], "int | None"]
"""The instances that a term is about, and the fewest moves of them that repair it."""


def _all_repel_all(
    repelled_by: t.Mapping[frozenset[str], t.Collection[str]], everyone: frozenset[str]
) -> bool:
    """Whether no two of `everyone` may share a domain."""
    for repelling, repelled in repelled_by.items():
        others = everyone - repelling if len(repelling) == 1 else everyone
        if not others.issubset(repelled):
            return False
    return len(everyone.difference(*repelled_by)) <= 1


def _together(counts: t.Iterable[_Count], alone: t.Collection[str]) -> int:
    """The moves of a whole rule. One move may repair all that an instance has a part in, so of counts that
    share instances only the largest is certain."""
    clusters: list[tuple[frozenset[str], int]] = []
    for members, moves in counts:
        shared = [cluster for cluster in clusters if not members.isdisjoint(cluster[0])]
        clusters = [cluster for cluster in clusters if cluster not in shared]
        most = max(moves or 0, *(cluster[1] for cluster in shared), 0)
        clusters.append((members.union(*(cluster[0] for cluster in shared)), most))
    left = set(alone)
    total = sum(max(moves, len(left & members)) for members, moves in clusters)
    return total + len(left.difference(*(members for members, _moves in clusters)))


class _MoveCounter:
    """Collects violations, then counts. Only `instances` move."""

    def __init__(
        self, index: Index, instances: t.Iterable[DeclaredInstance], topology: Topology
    ) -> None:
        self._index = index
        self._instances = {instance.key: instance for instance in instances}
        self._topology = topology
        self._budget = WORK_BASE + WORK_PER_INSTANCE * len(self._instances)
        self._counted: dict[tuple[frozenset[str], str], dict[str, GroupMember]] = {}
        self._groups: dict[tuple[str, str, Term], dict[str, DeclaredInstance]] = {}
        self._alone: dict[str, dict[str, DeclaredInstance]] = defaultdict(dict)

    def add(self, instance: DeclaredInstance, violation: Violation) -> None:
        term, owner = violation.term, violation.owner or instance
        names = violation.rules
        if not names and term is not None:
            names = (wording.describe(term, self._topology),)
        elif not names:
            names = (f"{instance.instance.workload or instance.instance.ref}: node terms",)
        for name in names:
            if term is not None and term.kind in (TermKind.ANTI_AFFINITY, TermKind.SPREAD):
                # A group: one term in one namespace, with the instances whose term is violated.
                group = self._groups.setdefault((name, owner.pod.namespace, term), {})
                group[owner.key] = owner
            else:
                self._alone[name][instance.key] = instance

    def moves(self) -> dict[str, MoveCount]:
        groups: dict[str, list[_Group]] = {name: [] for name in self._alone}
        for (name, _namespace, term), owners in self._groups.items():
            groups.setdefault(name, []).append((term, owners))
        return {name: self._moves_of_rule(name, found) for name, found in groups.items()}

    def _moves_of_rule(self, name: str, groups: t.Sequence[_Group]) -> MoveCount:
        alone = self._alone.get(name, {})
        spread = [group for group in groups if isinstance(group[0].source, SpreadConstraint)]
        apart = [group for group in groups if group not in spread]
        counts: list[_Count] = []
        uncounted = False
        try:
            counts += self._apart(apart)
            counts += map(self._spread, spread)
        except _TooMuchWork:
            uncounted = True
        movable = frozenset[str]().union(*(members for members, _moves in counts))
        for key, x in alone.items():
            with self._index.without(*movable - {key}):
                if not good_nodes(self._index, x.judged_pod, x.declared, x.workload):
                    return None
        if any(moves is None for _members, moves in counts):
            return None
        return UNCOUNTED if uncounted else _together(counts, alone.keys())

    def _apart(self, groups: t.Iterable[_Group]) -> t.Iterator[_Count]:
        """Terms of the same instances are one: each of these repels all that any of the terms selects."""
        sides: dict[str, dict[frozenset[str], set[str]]] = defaultdict(dict)
        for term, owners in groups:
            source = t.cast(PodTerm, term.source)
            owner, *_others = owners.values()
            repelling, repelled = self._sides(owner, source)
            of_key = sides[source.topology_key]
            of_key.setdefault(frozenset(repelling), set()).update(repelled)
        for key, of_key in sides.items():
            everyone = frozenset().union(*of_key, *of_key.values())
            if _all_repel_all(of_key, everyone):
                members = self._members(everyone, key)
                repair = keep_apart(list(members.values()), self._index.table.domains(key))
                yield everyone, None if repair is None else repair.moves
            else:
                for owning, selected in of_key.items():
                    yield owning | selected, self._moves_from(owning, selected, key)

    def _sides(
        self, owner: DeclaredInstance, term: PodTerm
    ) -> tuple[dict[str, DeclaredInstance], dict[str, DeclaredInstance]]:
        """The instances that have the anti-affinity term, and those that it selects."""
        matching, namespace = self._index.selectors, owner.pod.namespace
        part = matching.part_for_incoming(term, namespace)
        placed = matching.part_for_placed(term, namespace)
        if part is None or placed is None:
            return {}, {}
        count = matching.selector_count([placed])
        owners = matching.existing_terms(count, term.topology_key, term.differs_in, 0)
        return self._of(owners.owners), self._of(matching.selector_count([part]).members)

    def _moves_from(
        self, repelling: t.Collection[str], repelled: t.Collection[str], key: str
    ) -> int:
        members = self._members({*repelling, *repelled}, key)
        both = [members[name] for name in repelling if name in repelled]
        only_repelling = [members[name] for name in repelling if name not in repelled]
        only_repelled = [members[name] for name in repelled if name not in repelling]
        return keep_from(only_repelling, only_repelled, self._index.table.domains(key), both)

    def _spread(self, group: _Group) -> _Count:
        # With policy Honor each owner counts the nodes that are open to itself.
        term, owners = group
        alike: dict[t.Any, dict[str, DeclaredInstance]] = defaultdict(dict)
        for key, owner in owners.items():
            alike[self._constraint(owner, term)][key] = owner
        counts = [self._moves_to_spread(c, same) for c, same in alike.items() if c is not None]
        members = frozenset(owners).union(*(members for members, _moves in counts))
        possible = [moves for _members, moves in counts if moves is not None]
        return members, max(possible, default=None if len(counts) == 1 else 1)

    def _constraint(self, owner: DeclaredInstance, term: Term) -> Constraint | None:
        labels = owner.judged_pod.labels
        return next(
            (
                constraint
                for constraint in self._index.pod_info(owner.judged_pod).constraints
                if spread_term(constraint.source, labels) == term
            ),
            None,
        )

    def _moves_to_spread(
        self, constraint: Constraint, owners: t.Mapping[str, DeclaredInstance]
    ) -> _Count:
        if constraint.spread_count is None or constraint.selector_count is None:
            return frozenset(owners), None
        key, eligible = constraint.key, constraint.spread_count.eligible
        counted = [pod for pod in constraint.selector_count.members if eligible.flags[pod.node]]
        names = frozenset((*self._of(counted), *owners))
        members = self._members(names, key)
        domains = [d for d, n in self._index.table.domains(key).items() if n & eligible.nodes]
        repair = spread_evenly(
            list(members.values()),
            domains,
            constraint.max_skew,
            min_domains=constraint.min_domains,
        )
        if repair is not None:
            return names, repair.moves
        return names, None if all(constraint in pod.constraints for pod in counted) else 1

    def _of(self, pods: t.Iterable[PodInfo]) -> dict[str, DeclaredInstance]:
        keys = sorted(pod.key for pod in pods)
        return {key: self._instances[key] for key in keys if key in self._instances}

    def _members(self, names: t.Collection[str], key: str) -> dict[str, GroupMember]:
        """Where each instance may stay or move while all of them are away. A node without the
        key is a domain of its own."""
        self._budget -= len(names)
        if self._budget < 0:
            raise _TooMuchWork
        group = frozenset(names), key
        if group not in self._counted:
            self._counted[group] = self._find_members(sorted(names), key)
        return self._counted[group]

    def _find_members(self, names: t.Collection[str], key: str) -> dict[str, GroupMember]:
        index, table = self._index, self._index.table
        domains_of: dict[int, frozenset[t.Hashable]] = {}
        members = {}
        with index.without(*names):
            for name in names:
                pod, node = self._instances[name].judged_pod, self._instances[name].node
                feasible = index.nodes_passing(index.pod_info(pod))
                if feasible not in domains_of:
                    named = [d for d, nodes in table.domains(key).items() if nodes & feasible]
                    bare = table.names_of(feasible & ~table.with_key(key))
                    domains_of[feasible] = frozenset((*named, *(Ref("Node", "", n) for n in bare)))
                refused = index.failures(pod, node, plugins=RULE_PLUGINS)
                own = table.labels[table.numbers[node]].get(key)
                current = own if own is not None else Ref("Node", "", node)
                members[name] = GroupMember(None if refused else current, domains_of[feasible])
        return members
