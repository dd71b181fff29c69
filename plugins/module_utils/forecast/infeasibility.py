# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Why can the pending pods not all have a node, in numbers that a reader can check?

Each check is necessary for a placement of all, so one that fails is a proof: no node at all, more pods
that keep apart than domains, more requests than room. A
proof names the pods that are too many and at least how many of them stay without a node. What a spread
constraint admits is for the search (`decide`).
"""

from __future__ import annotations

import typing as t
from collections import defaultdict
from dataclasses import dataclass

from ..planning.matching import assign
from ..scheduler.nodes import NodeSet
from ..scheduler.selector_index import SelectorCount
from .simulation import PlacementSimulation

Kind = t.Literal["no_node", "apart", "resources"]


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
    groups: dict[tuple[str, SelectorCount, str], dict[int, None]] = defaultdict(dict)
    for n in numbers:
        pod_info = simulation.pod_info(n)
        for apart in pod_info.placement_info.affinity_terms.anti_affinity:
            if apart.selector_count in pod_info.selected_by:
                groups[apart.key, apart.selector_count, apart.differs_in][n] = None
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
