# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Seekers that find a place whatever the others do: a sound test, not a complete one.

Pure. The others are taken as adversaries. A rival over a key costs a seeker at most one domain of
it. A landing costs it at most the node where it lands, and only once that node has too little left
for it. If more nodes are open now than can be lost so, one is open when its turn comes. Under a
spread constraint the domain with the fewest always admits one more, so there each domain that
counts must keep a node. What others could open or close in further ways (required affinity to
them, a second spread constraint that they take part in) is not argued about: then nothing is said.
"""

from __future__ import annotations

import typing as t
from collections import Counter

from ..scheduling.candidate import Candidate
from ..scheduling.matching import Match
from ..scheduling.node_table import NodeSet
from ..scheduling.options import PLUGINS, POD_TOPOLOGY_SPREAD
from ..scheduling.spread import Constraint
from .fill import Filling

_BUT_SPREAD = PLUGINS - {POD_TOPOLOGY_SPREAD}


class Certainty:
    """Answers for one filling, as it stands before anything is placed."""

    def __init__(self, filling: Filling) -> None:
        self._filling = filling
        self._index = filling.index
        self._table = filling.table
        numbers = range(len(filling.seekers))
        self._candidates = [filling.candidate(number) for number in numbers]
        self._selected: Counter[int] = Counter()
        self._owning: Counter[int] = Counter()
        self._both: Counter[tuple[int, int]] = Counter()
        for candidate in self._candidates:
            self._count(candidate)
        self._sources = self._matched_sources()
        self._lost: dict[t.Hashable, int] = {}
        self._rooms: list[t.Mapping[str, int]] | None = None
        self._largest: dict[str, int] = {}

    def sure(self, number: int) -> bool:
        """Whether the seeker has an open node in every state that the filling can come to."""
        candidate = self._candidates[number]
        if self._depends_on_others(candidate):
            return False
        nodes, constraint = self._nodes(number, candidate)
        if not nodes:
            return False
        rivals = self._rivals(candidate)
        others = len(self._candidates) - 1
        if constraint is None:
            return self._enough(candidate, nodes, rivals, others)
        tally = constraint.tally
        if tally is None or tally.eligible.domains(constraint.key) < constraint.min_domains:
            return False
        parts = (
            nodes & domain
            for domain in self._table.domains(constraint.key).values()
            if domain & tally.eligible.nodes
        )
        return all(part and self._enough(candidate, part, rivals, others) for part in parts)

    def _count(self, candidate: Candidate) -> None:
        matches = {id(match) for match in candidate.matches}
        self._selected.update(matches)
        for owned in candidate.spec.rules.owners:
            if not owned.weight:
                self._owning[id(owned)] += 1
                if id(owned.match) in matches:
                    self._both[id(owned), id(owned.match)] += 1

    def _matched_sources(self) -> set[int]:
        """The Matches that select a source: it leaves while others look for places."""
        index = self._index
        keys = [each.source for each in self._filling.seekers if each.source is not None]
        placed = (index.candidate(index.pod(key)) for key in keys if key in index)
        return {id(match) for candidate in placed for match in candidate.matches}

    def _concerns_others(self, match: Match, candidate: Candidate) -> bool:
        """Whether a Match selects another seeker, or a source."""
        own = match in candidate.matches
        return self._selected[id(match)] > own or id(match) in self._sources

    def _depends_on_others(self, candidate: Candidate) -> bool:
        together = candidate.spec.rules.together
        if together is None or together.match is None:
            return False
        return self._concerns_others(together.match, candidate)

    def _nodes(self, number: int, candidate: Candidate) -> tuple[NodeSet, Constraint | None]:
        """The nodes that are open now, and the spread constraint that others take part in: its
        own verdict is left out of the nodes then. No nodes where there are several such."""
        alive = [
            each
            for each in candidate.constraints
            if each.match is not None and self._concerns_others(each.match, candidate)
        ]
        if not alive:
            return self._filling.open_nodes(number), None
        seeker = self._filling.seekers[number]
        if len(alive) > 1 or any(each.selects_all for each in candidate.constraints):
            return 0, None
        leaves = None if seeker.stays else seeker.source
        with self._index.without(leaves):
            found = self._index.feasible_set(candidate, _BUT_SPREAD)
            for each in candidate.constraints:
                if each is not alive[0]:
                    found &= each.nodes(candidate, self._table)
        return found & ~self._filling.closed(seeker.pod), alive[0]

    def _rivals(self, candidate: Candidate) -> dict[str, int]:
        """For each key how many others could shut a domain of it against the seeker: those that
        its terms select, and those whose terms select it."""
        found: Counter[str] = Counter()
        own_terms = {id(owned): owned for owned in candidate.spec.rules.owners if not owned.weight}
        selecting = {
            id(owned): owned
            for match in candidate.matches
            for owned in match.owners
            if self._owning[id(owned)]
        }
        covered = set()
        for ident, owned in own_terms.items():
            selects_itself = owned.match in candidate.matches
            count = self._selected[id(owned.match)] - selects_itself
            if ident in selecting:
                both = self._both[ident, id(owned.match)] - selects_itself
                count += self._owning[ident] - 1 - both
                covered.add(ident)
            found[owned.key] += count
        for ident, owned in selecting.items():
            if ident not in covered:
                found[owned.key] += self._owning[ident] - (ident in own_terms)
        for apart in candidate.spec.rules.apart:
            if not any(o.match is apart.match and o.key == apart.key for o in own_terms.values()):
                own = apart.match in candidate.matches
                found[apart.key] += self._selected[id(apart.match)] - own
        return {key: count for key, count in found.items() if count}

    def _enough(
        self, candidate: Candidate, nodes: NodeSet, rivals: dict[str, int], others: int
    ) -> bool:
        """Whether some of `nodes` are left after the worst that the others can do."""
        left = nodes.bit_count() - sum(self._domains(nodes, k, n) for k, n in rivals.items())
        return left > 0 and (left > others or left > self._spoilt(candidate, others))

    def _domains(self, nodes: NodeSet, key: str, count: int) -> int:
        """How many of `nodes` the `count` largest domains of a key have."""
        sizes = [
            size
            for domain in self._table.domains(key).values()
            if (size := (domain & nodes).bit_count())
        ]
        return sum(sorted(sizes, reverse=True)[:count])

    def _spoilt(self, candidate: Candidate, others: int) -> int:
        """How many nodes the others could at most fill up against a pod of these requests."""
        pod = candidate.pod
        if pod.host_ports:
            return others
        key = frozenset(pod.requests.items())
        if key not in self._lost:
            self._lost[key] = self._filled(pod.requests, others)
        return self._lost[key]

    def _filled(self, requests: t.Mapping[str, int], others: int) -> int:
        """The nodes that fill up with the fewest landings come first."""
        costs = sorted(
            cost for free in self._free() if (cost := self._landings(free, requests)) > 0
        )
        filled = 0
        for cost in costs:
            others -= cost
            if others < 0:
                break
            filled += 1
        return filled

    def _free(self) -> t.Sequence[t.Mapping[str, int]]:
        if self._rooms is None:
            resources = self._index.resources
            self._rooms = [resources.free(n) for n in range(len(self._table.nodes))]
            for candidate in self._candidates:
                for name, amount in candidate.pod.requests.items():
                    self._largest[name] = max(self._largest.get(name, 0), amount)
        return self._rooms

    def _landings(self, free: t.Mapping[str, int], requests: t.Mapping[str, int]) -> int:
        """The fewest landings after which a node with so much free has no room for the requests."""
        least = free.get("pods", 0)
        for name, amount in requests.items():
            if amount:
                fits = (free.get(name, 0) - amount) // self._largest[name] + 1
                least = min(least, fits)
        return least
