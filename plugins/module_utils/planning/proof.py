# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Why not all seekers can ever have a place, in numbers that anybody can check.

Pure. Each check is necessary for a full filling, so one that fails is a proof. A proof names the
seekers that are too many (its crowd) and at least how many of them stay without a place.
"""

from __future__ import annotations

import typing as t
from collections import defaultdict
from dataclasses import dataclass

from ..scheduling.node_table import NodeSet
from .feasible import assign
from .fill import Filling
from .proof_spread import crowds

Kind = t.Literal["no_node", "apart", "resources", "spread"]


@dataclass(frozen=True, slots=True)
class Proof:
    """`crowd` are numbers of seekers. `room` are the domains that they have between them; `least`
    of them stay without a place. `key` is the topology key, or the resource that is short."""

    kind: Kind
    crowd: tuple[int, ...]
    least: int
    key: str = ""
    room: tuple[str, ...] = ()
    places: int = 0
    blocked: tuple[str, ...] = ()
    """Domains that count for a spread and take nobody."""
    skew: int = 0


@dataclass(frozen=True, slots=True)
class Examined:
    """`proofs` are none where nothing speaks against a full filling; `hints` say where a matching
    has placed members of groups that keep apart."""

    proofs: tuple[Proof, ...]
    hints: t.Mapping[int, NodeSet]

    @property
    def never(self) -> frozenset[int]:
        """The seekers that have no place in any course: those of crowds for which there is none."""
        return frozenset(n for proof in self.proofs if not proof.places for n in proof.crowd)

    @property
    def least(self) -> int:
        """At least so many seekers stay without a place: of proofs that share a seeker one counts."""
        total, counted = 0, set[int]()
        for proof in sorted(self.proofs, key=lambda found: -found.least):
            if counted.isdisjoint(proof.crowd):
                counted.update(proof.crowd)
                total += proof.least
        return total


def examine(filling: Filling, reach: t.Sequence[NodeSet]) -> Examined:
    """Check what can be checked without trying. Only goals are argued about: others may wait."""
    goals = [n for n, seeker in enumerate(filling.seekers) if seeker.goal]
    nowhere = [Proof("no_node", (n,), 1) for n in goals if not reach[n]]
    some = [n for n in goals if reach[n]]
    hints: dict[int, NodeSet] = {}
    found = [
        *nowhere,
        *_apart(filling, reach, some, hints),
        *_resources(filling, reach, some),
        *_spread(filling, reach, some),
    ]
    return Examined(tuple(found), hints)


def _apart(
    filling: Filling,
    reach: t.Sequence[NodeSet],
    numbers: t.Sequence[int],
    hints: dict[int, NodeSet],
) -> t.Iterator[Proof]:
    for key, members in _cliques(filling, numbers):
        carrying = filling.table.carrying(key)
        bound = [n for n in members if not reach[n] & ~carrying]
        if all(reach[n].bit_count() >= len(bound) for n in bound) and _single(filling, key):
            continue
        domains = filling.table.domains(key)
        options = {
            str(n): [name for name, nodes in domains.items() if nodes & reach[n]] for n in bound
        }
        found = assign(options, {})
        for item, place in found.placed.items():
            hints[int(item)] = domains[place]
        if found.unplaced:
            crowd = tuple(sorted(map(int, found.crowd)))
            room = tuple(sorted(found.room))
            yield Proof("apart", crowd, len(found.unplaced), key, room, len(room))


def _single(filling: Filling, key: str) -> bool:
    """Whether each domain of a key is one node."""
    return len(filling.table.domains(key)) == filling.table.carrying(key).bit_count()


def _cliques(filling: Filling, numbers: t.Sequence[int]) -> t.Iterator[tuple[str, list[int]]]:
    """Seekers of which any two keep apart over one key: all own a term that selects all of them."""
    groups: dict[tuple[str, int, str], list[int]] = defaultdict(list)
    for n in numbers:
        candidate = filling.candidate(n)
        for apart in candidate.spec.rules.apart:
            if apart.match in candidate.matches:
                groups[apart.key, id(apart.match), apart.differs_in].append(n)
    for (key, _match, label), members in groups.items():
        distinct = _distinct(filling, members, label) if label else members
        if len(distinct) > 1:
            yield key, distinct


def _distinct(filling: Filling, members: list[int], label: str) -> list[int]:
    """One for each value of a label that only pods which differ in it keep apart by."""
    first: dict[str | None, int] = {}
    for n in members:
        first.setdefault(filling.seekers[n].pod.labels.get(label), n)
    first.pop(None, None)
    return list(first.values())


def _resources(
    filling: Filling, reach: t.Sequence[NodeSet], numbers: t.Sequence[int]
) -> t.Iterator[Proof]:
    """Seekers with equal requests and equal reach, against the room that its nodes have."""
    groups: dict[tuple[NodeSet, frozenset[tuple[str, int]]], list[int]] = defaultdict(list)
    for n in numbers:
        groups[reach[n], frozenset(filling.seekers[n].pod.requests.items())].append(n)
    for (nodes, requests), members in groups.items():
        leaving = sum(1 for n in members if filling.seekers[n].source is not None)
        if len(members) < 2 or leaving or nodes.bit_count() >= len(members) * 4:
            continue
        places, scarce = _places(filling, nodes, dict(requests), len(members))
        if places < len(members):
            names = filling.table.names_of(nodes)
            crowd = tuple(members)
            yield Proof("resources", crowd, len(members) - places, scarce, names, places)


def _places(
    filling: Filling, nodes: NodeSet, requests: t.Mapping[str, int], enough: int
) -> tuple[int, str]:
    """How many pods of these requests the nodes hold, up to `enough`, and what is scarcest. What
    sources still take is free: they may have left by then."""
    leaving: dict[str, list[t.Mapping[str, int]]] = defaultdict(list)
    index = filling.index
    for seeker in filling.seekers:
        if seeker.source is not None and seeker.source in index:
            leaving[index.node_of(seeker.source)].append(index.pod(seeker.source).requests)
    total, scarce = 0, ""
    for name in filling.table.names_of(nodes):
        free = dict(index.resources.free(filling.table.numbers[name]))
        for gone in leaving.get(name, ()):
            for resource, amount in {**gone, "pods": 1}.items():
                free[resource] = free.get(resource, 0) + amount
        counts = {r: free.get(r, 0) // amount for r, amount in requests.items() if amount}
        counts["pods"] = free.get("pods", 0)
        scarce = min(counts, key=lambda resource: counts[resource])
        total += max(0, counts[scarce])
        if total >= enough:
            break
    return total, scarce


def _spread(
    filling: Filling, reach: t.Sequence[NodeSet], numbers: t.Sequence[int]
) -> t.Iterator[Proof]:
    for each in crowds(filling, reach, numbers):
        least = len(each.members) - each.most
        if least:
            blocked = tuple(sorted(set(each.fixed) - set(each.room)))
            constraint = each.constraint
            yield Proof(
                "spread",
                each.members,
                least,
                constraint.key,
                each.room,
                each.most,
                blocked,
                constraint.max_skew,
            )
