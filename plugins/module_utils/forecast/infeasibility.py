# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Why can the pending pods not all have a node, in numbers that a reader can check?

Each check is necessary for a placement of all, so one that fails is a proof: no node at all, more pods
that keep apart than domains, more requests than room, more pods than a spread constraint admits. A
proof names the pods that are too many and at least how many of them stay without a node.

The counts of a spread constraint only grow as its pods are placed. So the last pod of a domain was
within the skew of the smallest count, and that was no larger than it is in the end: but for ended pods
that were still there then. Of n pods that come after such pods, n - k of these are there at most when
the k-th is placed.
"""

from __future__ import annotations

import typing as t
from collections import defaultdict
from dataclasses import dataclass, field

from ..planning.matching import GroupMember, assign, assign_within_bounds
from ..scheduler.nodes import NodeSet
from ..scheduler.pod_topology_spread import Constraint, SpreadCount
from .simulation import PlacementSimulation

Count = t.Mapping[str, int]


@dataclass(frozen=True, slots=True, eq=False)
class SpreadGroup:
    """The pending pods (by number) of one constraint. `allowed` are the domains open to each. By domain
    that counts: `fixed` are pods that stay, `replaced` the ended pods that members replace, `other_ended`
    further pods that end."""

    constraint: Constraint
    members: tuple[int, ...]
    allowed: tuple[frozenset[str], ...]
    fixed: Count
    replaced: Count = field(default_factory=dict)
    other_ended: Count = field(default_factory=dict)

    @property
    def room(self) -> tuple[str, ...]:
        """The domains that some member could use."""
        return tuple(sorted(frozenset().union(*self.allowed)))

    @property
    def most(self) -> int:
        """At most so many members have a node."""
        count = len(self.members)
        if self._fits(count):
            return count
        if len(set(self.allowed)) > 1:
            return count - 1
        return next((most for most in range(count - 1, 0, -1) if self._fits(most)), 0)

    def _fits(self, count: int) -> bool:
        """Whether so many members may have places in the end, as far as this can tell."""
        held = len(self.fixed) < self.constraint.min_domains
        total = count + sum(self.fixed.values())
        top = 0 if held else total // len(self.fixed)
        standing = () if held else tuple({*self.replaced, *self.other_ended})
        return any(
            self._divides(count, minimum, smallest, held)
            for minimum in range(top, -1, -1)
            for smallest in (None, *standing)
        )

    def _divides(self, count: int, minimum: int, smallest: str | None, held: bool) -> bool:
        """Whether members can be divided so that in the end no domain holds fewer than `minimum`,
        or just `smallest` does so many, and none that took one was too far above what was smallest
        then. `held`: the smallest counts as zero whatever it is."""
        if smallest is not None and self.fixed[smallest] > minimum:
            return False
        low = 0 if held else minimum
        cap = minimum + self.constraint.max_skew
        own = 0
        if smallest is not None:
            cap += self.other_ended.get(smallest, 0)
            own = self.replaced.get(smallest, 0)
        bounds: dict[t.Hashable, tuple[int, int]] = {}
        for name, fixed in self.fixed.items():
            most = self._most(cap - fixed, own, 0)
            if name == smallest:
                most = low - fixed
            bounds[name] = max(0, low - fixed), max(0, most)
        if any(most < least for least, most in bounds.values()):
            return False
        members = [GroupMember(None, where) for where in self.allowed[:count]]
        return self._one_by_one(cap, own, smallest, bounds) >= count and bool(
            assign_within_bounds(members, bounds)
        )

    def _one_by_one(
        self,
        cap: int,
        own: int,
        smallest: str | None,
        bounds: t.Mapping[t.Hashable, tuple[int, int]],
    ) -> int:
        """How many can have places when the domains are filled one after the other, the fullest
        first: the later, the fewer pods stand."""
        total = 0 if smallest is None else bounds[smallest][1]
        placed = 0
        for name in sorted(self.room, key=lambda each: -self.fixed.get(each, 0)):
            if name in self.fixed and name != smallest:
                placed += self._most(cap - self.fixed[name], own, placed)
        return total + placed

    def _most(self, above: int, own: int, placed: int) -> int:
        """How many a domain may take in a row that is `above` below its bound, when `own` pods raise
        that as long as they stand, and so many members have places already."""
        left = len(self.members) - placed
        return max(0, above, min(above + own, (above + left) // 2))


def spread_groups(
    simulation: PlacementSimulation, reachable: t.Sequence[NodeSet], numbers: t.Sequence[int]
) -> t.Iterator[SpreadGroup]:
    """The members among `numbers` of each constraint whose counted pods are known."""
    groups: dict[t.Hashable, tuple[Constraint, SpreadCount, list[int]]] = {}
    for n in numbers:
        pod_info = simulation.pod_info(n)
        for constraint in pod_info.constraints:
            spread_count = constraint.spread_count
            if spread_count is not None and constraint.selector_count in pod_info.selected_by:
                same = (id(spread_count), constraint.max_skew, constraint.min_domains)
                groups.setdefault(same, (constraint, spread_count, []))[2].append(n)
    selected, leaving = _selected(simulation)
    for constraint, spread_count, members in groups.values():
        match = id(constraint.selector_count)
        if match not in leaving and selected[match] <= set(members):
            yield _spread_group(simulation, reachable, constraint, spread_count, members)


def _selected(simulation: PlacementSimulation) -> tuple[dict[int, set[int]], set[int]]:
    """Which pending pods each selector selects, and the selectors that select a source: where another
    pod is selected, or a source leaves, the counts of a spread are not the members' own."""
    selected: dict[int, set[int]] = defaultdict(set)
    leaving: set[int] = set()
    index = simulation.index
    for n, pending in enumerate(simulation.pending):
        for match in simulation.pod_info(n).selected_by:
            selected[id(match)].add(n)
        if pending.source is not None and pending.source in index:
            leaving.update(map(id, index.pod_info(index.pod(pending.source)).selected_by))
    return selected, leaving


def _spread_group(
    simulation: PlacementSimulation,
    reachable: t.Sequence[NodeSet],
    constraint: Constraint,
    spread_count: SpreadCount,
    members: list[int],
) -> SpreadGroup:
    table, index = simulation.table, simulation.index
    domains = table.domains(constraint.key)
    counting = [name for name, nodes in domains.items() if nodes & spread_count.eligible.nodes]
    member_numbers = set(members)
    replaced: dict[str, int] = defaultdict(int)
    other_ended: dict[str, int] = defaultdict(int)
    for pod in simulation.terminating:
        first, n = pod.phases[0], table.numbers[pod.node]
        if first is None or first.terminating or not spread_count.eligible.flags[n]:
            continue
        if constraint.selector_count in index.pod_info(first).selected_by:
            counted = replaced if pod.successor in member_numbers else other_ended
            counted[table.labels[n][constraint.key]] += 1
    return SpreadGroup(
        constraint,
        tuple(members),
        tuple(
            frozenset(name for name, nodes in domains.items() if nodes & reachable[n])
            for n in members
        ),
        {name: spread_count.counts.get(name, 0) for name in counting},
        replaced,
        other_ended,
    )


Kind = t.Literal["no_node", "apart", "resources", "spread"]


@dataclass(frozen=True, slots=True)
class Proof:
    """`pods` are numbers of pending pods. `room` are the domains that they can use; `least` of the pods stay
    without a node. `key` is the topology key, or the resource that is short."""

    kind: Kind
    pods: tuple[int, ...]
    least: int
    key: str = ""
    room: tuple[str, ...] = ()
    places: int = 0
    blocked: tuple[str, ...] = ()
    """Domains that count for a spread and admit none of the pods."""
    skew: int = 0


@dataclass(frozen=True, slots=True)
class ProofResult:
    """`proofs` are none where nothing rules out a placement of all; `hints` say where a matching has put
    members of groups that keep apart."""

    proofs: tuple[Proof, ...]
    hints: t.Mapping[int, NodeSet]

    @property
    def never(self) -> frozenset[int]:
        """The pods that have a node in no sequence: those of proofs that leave no place at all."""
        return frozenset(n for proof in self.proofs if not proof.places for n in proof.pods)

    @property
    def least(self) -> int:
        """At least so many seekers stay without a place: of proofs that share a pending one counts."""
        total, counted = 0, set[int]()
        for proof in sorted(self.proofs, key=lambda proof: -proof.least):
            if counted.isdisjoint(proof.pods):
                counted.update(proof.pods)
                total += proof.least
        return total


def examine(simulation: PlacementSimulation, reachable: t.Sequence[NodeSet]) -> ProofResult:
    """All proofs that need no search. They are about required pods: others may wait."""
    required = [n for n, pending in enumerate(simulation.pending) if pending.required]
    nowhere = [Proof("no_node", (n,), 1) for n in required if not reachable[n]]
    some = [n for n in required if reachable[n]]
    hints: dict[int, NodeSet] = {}
    proofs = [
        *nowhere,
        *_apart_proofs(simulation, reachable, some, hints),
        *_resource_proofs(simulation, reachable, some),
        *_spread_proofs(simulation, reachable, some),
    ]
    return ProofResult(tuple(proofs), hints)


def _apart_proofs(
    simulation: PlacementSimulation,
    reachable: t.Sequence[NodeSet],
    numbers: t.Sequence[int],
    hints: dict[int, NodeSet],
) -> t.Iterator[Proof]:
    for key, members in _cliques(simulation, numbers):
        carrying = simulation.table.with_key(key)
        bound = [n for n in members if not reachable[n] & ~carrying]
        domains = simulation.table.domains(key)
        single_nodes = len(domains) == carrying.bit_count()
        if single_nodes and all(reachable[n].bit_count() >= len(bound) for n in bound):
            continue
        options = {
            str(n): [name for name, nodes in domains.items() if nodes & reachable[n]] for n in bound
        }
        assignment = assign(options, {})
        for item, place in assignment.placed.items():
            hints[int(item)] = domains[place]
        if assignment.unplaced:
            crowd = tuple(sorted(map(int, assignment.crowd)))
            room = tuple(sorted(assignment.room))
            yield Proof("apart", crowd, len(assignment.unplaced), key, room, len(room))


def _cliques(
    simulation: PlacementSimulation, numbers: t.Sequence[int]
) -> t.Iterator[tuple[str, tuple[int, ...]]]:
    """Pods of which any two keep apart over one key: all have a term that selects all of them."""
    groups: dict[tuple[str, int, str], dict[int, None]] = defaultdict(dict)
    for n in numbers:
        pod_info = simulation.pod_info(n)
        for apart in pod_info.placement_info.affinity_terms.anti_affinity:
            if apart.selector_count in pod_info.selected_by:
                groups[apart.key, id(apart.selector_count), apart.differs_in][n] = None
    # Equal terms, one with mismatchLabelKeys and one without, are one clique.
    cliques: dict[tuple[str, tuple[int, ...]], None] = {}
    for (key, _match, label), members in groups.items():
        distinct = list(members)
        if label:  # only pods that differ in it keep apart: one for each value
            first: dict[str | None, int] = {}
            for n in members:
                first.setdefault(simulation.pending[n].pod.labels.get(label), n)
            first.pop(None, None)
            distinct = list(first.values())
        if len(distinct) > 1:
            cliques[key, tuple(distinct)] = None
    yield from cliques


def _resource_proofs(
    simulation: PlacementSimulation, reachable: t.Sequence[NodeSet], numbers: t.Sequence[int]
) -> t.Iterator[Proof]:
    """Pods with equal requests and equal reachable nodes, against the room of these nodes."""
    groups: dict[tuple[NodeSet, frozenset[tuple[str, int]]], list[int]] = defaultdict(list)
    for n in numbers:
        groups[reachable[n], frozenset(simulation.pending[n].pod.requests.items())].append(n)
    for (nodes, requests), members in groups.items():
        leaving = sum(1 for n in members if simulation.pending[n].source is not None)
        if len(members) < 2 or leaving or nodes.bit_count() >= len(members) * 4:
            continue
        places, scarce = _places(simulation, nodes, dict(requests), len(members))
        if places < len(members):
            names = simulation.table.names_of(nodes)
            crowd = tuple(members)
            yield Proof("resources", crowd, len(members) - places, scarce, names, places)


def _places(
    simulation: PlacementSimulation, nodes: NodeSet, requests: t.Mapping[str, int], enough: int
) -> tuple[int, str]:
    """How many pods of these requests the nodes hold, up to `enough`, and what is scarcest. What
    sources still take is free: they may have left by then."""
    leaving: dict[str, list[t.Mapping[str, int]]] = defaultdict(list)
    index = simulation.index
    for pending in simulation.pending:
        if pending.source is not None and pending.source in index:
            leaving[index.node_of(pending.source)].append(index.pod(pending.source).requests)
    total, scarce = 0, ""
    for name in simulation.table.names_of(nodes):
        free = dict(index.resources.free(simulation.table.numbers[name]))
        for requests_freed in leaving.get(name, ()):
            for resource, amount in {**requests_freed, "pods": 1}.items():
                free[resource] += amount
        counts = {r: free.get(r, 0) // amount for r, amount in requests.items() if amount}
        counts["pods"] = free["pods"]
        scarce = min(counts, key=lambda resource: counts[resource])
        total += max(0, counts[scarce])
        if total >= enough:
            break
    return total, scarce


def _spread_proofs(
    simulation: PlacementSimulation, reachable: t.Sequence[NodeSet], numbers: t.Sequence[int]
) -> t.Iterator[Proof]:
    for group in spread_groups(simulation, reachable, numbers):
        least = len(group.members) - group.most
        if least:
            blocked = tuple(sorted(set(group.fixed) - set(group.room)))
            constraint = group.constraint
            yield Proof(
                "spread",
                group.members,
                least,
                constraint.key,
                group.room,
                group.most,
                blocked,
                constraint.max_skew,
            )
