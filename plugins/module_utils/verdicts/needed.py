# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""How many moves would heal what is broken: three may be affected where one move is enough."""

from __future__ import annotations

import contextlib
import typing as t
from collections import defaultdict

from ..model.objects import PodTerm, Ref, SpreadConstraint
from ..model.topology import Topology
from ..scheduling.candidate import Candidate
from ..scheduling.index import Index
from ..scheduling.options import (
    INTER_POD_AFFINITY,
    NODE_AFFINITY,
    POD_TOPOLOGY_SPREAD,
    VOLUME_BINDING,
)
from ..scheduling.spread import Constraint
from . import healing, wording
from .attribution import Break
from .cases import Case
from .healing import Member
from .terms import Kind, Term, spread_term

RULE_PLUGINS = frozenset({NODE_AFFINITY, VOLUME_BINDING, POD_TOPOLOGY_SPREAD, INTER_POD_AFFINITY})
"""Filters that ask for rules; the others see hazards, under which an instance may stay."""


class Needed:
    """Gathers what is broken, then counts. The index must be that of the declared world, where
    `cases` stand; nothing else moves.

    The count is exact for a group that one rule keeps apart or spreads over the same nodes. It is
    the least that can do where two groups keep apart from each other, or where the members of a
    spread may use different nodes.
    """

    def __init__(self, index: Index, cases: t.Iterable[Case], topology: Topology) -> None:
        self._index = index
        self._cases = {case.key: case for case in cases}
        self._topology = topology
        self._groups: dict[tuple[str, str, Term], dict[str, Case]] = {}
        self._alone: dict[str, dict[str, Case]] = defaultdict(dict)

    def add(self, case: Case, broken: Break) -> None:
        """Take note of one broken term of an instance."""
        term, owner = broken.term, broken.owner or case
        names = broken.rules or (self._unowned(case, term),)
        for name in names:
            if term is not None and term.kind in (Kind.ANTI_AFFINITY, Kind.SPREAD):
                # One group is one term of one namespace, with those whose term is broken.
                group = self._groups.setdefault((name, owner.pod.namespace, term), {})
                group[owner.key] = owner
            else:
                self._alone[name][case.key] = case

    def moves(self) -> dict[str, int | None]:
        """Rule, or description of a term that no rule owns, to the fewest moves; None: no
        arrangement of the group would do."""
        found: dict[str, int | None] = {
            name: len(cases) if all(map(self._has_a_place, cases.values())) else None
            for name, cases in self._alone.items()
        }
        for (name, _namespace, term), owners in self._groups.items():
            moves = self._heal(owners, term)
            before = found.get(name, 0)
            found[name] = None if moves is None or before is None else before + moves
        return found

    def _unowned(self, case: Case, term: Term | None) -> str:
        if term is not None:
            return wording.describe(term, self._topology)
        return f"{case.instance.workload or case.instance.ref}: node terms"

    def _has_a_place(self, case: Case) -> bool:
        return bool(self._index.feasible(case.as_declared, without=case.key))

    def _heal(self, owners: t.Mapping[str, Case], term: Term) -> int | None:
        if not isinstance(term.said, SpreadConstraint):
            return self._heal_apart(next(iter(owners.values())), t.cast(PodTerm, term.said))
        # With policy Honor each owner counts the nodes that are open to itself.
        alike: dict[t.Any, dict[str, Case]] = defaultdict(dict)
        for key, owner in owners.items():
            alike[self._constraint(owner, term)][key] = owner
        found = [self._heal_spread(c, group) for c, group in alike.items() if c is not None]
        known = [moves for moves in found if moves is not None]
        return max(known, default=None if len(found) == 1 else 1)

    def _heal_apart(self, owner: Case, term: PodTerm) -> int | None:
        matching, namespace = self._index.matching, owner.pod.namespace
        part = matching.part_for_incoming(term, namespace)
        placed = matching.part_for_placed(term, namespace)
        if part is None or placed is None:
            return 0
        key = term.topology_key
        owners = matching.owners(matching.match([placed]), key, term.differs_in, 0)
        repelled = self._of(matching.match([part]).members)
        repelling = self._of(owners.members)
        members = self._members({**repelling, **repelled}, key)
        both = [members[name] for name in repelling if name in repelled]
        domains = self._index.table.domains(key)
        if len(both) == len(members):
            found = healing.keep_apart(both, domains)
            return None if found is None else found.moves
        only = [[members[n] for n in a if n not in b] for a, b in _pairs(repelling, repelled)]
        return healing.keep_from(only[0], only[1], domains, both)

    def _constraint(self, owner: Case, term: Term) -> Constraint | None:
        labels = owner.as_declared.labels
        return next(
            (
                constraint
                for constraint in self._index.candidate(owner.as_declared).constraints
                if spread_term(constraint.source, labels) == term
            ),
            None,
        )

    def _heal_spread(self, constraint: Constraint, owners: t.Mapping[str, Case]) -> int | None:
        if constraint.tally is None or constraint.match is None:
            return None
        key, eligible = constraint.key, constraint.tally.eligible
        counted = [each for each in constraint.match.members if eligible.flags[each.node]]
        members = self._members({**self._of(counted), **owners}, key)
        domains = [d for d, n in self._index.table.domains(key).items() if n & eligible.nodes]
        found = healing.spread_evenly(
            list(members.values()),
            domains,
            constraint.max_skew,
            min_domains=constraint.min_domains,
        )
        if found is not None:
            return found.moves
        return None if all(constraint in each.constraints for each in counted) else 1

    def _of(self, candidates: t.Iterable[Candidate]) -> dict[str, Case]:
        keys = sorted(candidate.key for candidate in candidates)
        return {key: self._cases[key] for key in keys if key in self._cases}

    def _members(self, cases: t.Mapping[str, Case], key: str) -> dict[str, Member]:
        """Where each may stay or go, if the others of its group were nowhere."""
        index, table = self._index, self._index.table
        domains_of: dict[int, frozenset[t.Hashable]] = {}
        members = {}
        with _away(index, cases):
            for name, case in cases.items():
                found = index.feasible_set(index.candidate(case.as_declared))
                if found not in domains_of:
                    named = [d for d, nodes in table.domains(key).items() if nodes & found]
                    bare = table.names_of(found & ~table.carrying(key))
                    domains_of[found] = frozenset((*named, *(Ref("Node", "", n) for n in bare)))
                refused = index.failures(case.as_declared, case.node, plugins=RULE_PLUGINS)
                own = table.labels[table.numbers[case.node]].get(key)
                home = own if own is not None else Ref("Node", "", case.node)
                members[name] = Member(None if refused else home, domains_of[found])
        return members


@contextlib.contextmanager
def _away(index: Index, cases: t.Mapping[str, Case]) -> t.Iterator[None]:
    there = [case for key, case in cases.items() if key in index]
    pods = [index.take_out(case.key) for case in there]
    try:
        yield
    finally:
        for pod in pods:
            index.place(pod, pod.node_name)


def _pairs(
    one: t.Mapping[str, Case], other: t.Mapping[str, Case]
) -> tuple[tuple[t.Mapping[str, Case], t.Mapping[str, Case]], ...]:
    return (one, other), (other, one)
