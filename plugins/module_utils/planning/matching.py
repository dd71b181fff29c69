# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which members of a group go into which topology domains, with the fewest moves?

A min-cost flow gives the fewest. Members that are alike, and domains that are alike to all members, are
one node of its network: a group of a thousand costs as much as one of ten. `assign` places as many as it
can, one in each domain; where members are left over, a set with too few domains is the proof (Hall).
"""

from __future__ import annotations

import typing as t
from collections import defaultdict, deque
from dataclasses import dataclass

Domain = t.Hashable
Bounds = tuple[int, int]
"""The fewest and the most members that a domain takes."""


@dataclass(frozen=True, slots=True)
class GroupMember:
    """`stays` is the domain where it may stay (None: it must leave its node); `allowed` are the
    domains that it may move into."""

    stays: Domain | None
    allowed: frozenset[Domain]

    def may_be_in(self, domain: Domain) -> bool:
        return domain == self.stays or domain in self.allowed


@dataclass(frozen=True, slots=True)
class Repair:
    """`moves` members move; `domains` holds the domain of each member, in their order."""

    moves: int
    domains: tuple[Domain, ...]


def assign_within_bounds(
    members: t.Sequence[GroupMember], bounds: t.Mapping[Domain, Bounds]
) -> Repair | None:
    """Every member into a domain, each domain within its bounds, with the fewest moves.

    None if that cannot be. A domain without bounds takes any number.
    """
    if any(high < low for low, high in bounds.values()):
        return None
    classes: dict[GroupMember, list[int]] = defaultdict(list)
    for index, member in enumerate(members):
        classes[member].append(index)
    groups = _merge_domains(classes, bounds)
    counts = _solve(classes, groups, bounds, len(members))
    if counts is None:
        return None
    domains = _domains_by_member(classes, groups, counts, len(members))
    moves = sum(member.stays != domain for member, domain in zip(members, domains, strict=True))
    return Repair(moves, domains)


class Nowhere:
    """The domain of members that cannot be placed beside the others."""


@dataclass(frozen=True, slots=True)
class Assignment:
    """`placed` maps members to domains. `unplaced` could not be placed beside the others; then
    `crowd` is a set of members that together have only `room`, too few domains: the proof."""

    placed: t.Mapping[str, str]
    unplaced: tuple[str, ...] = ()
    crowd: tuple[str, ...] = ()
    room: tuple[str, ...] = ()


def assign(options: t.Mapping[str, t.Collection[str]], stays: t.Mapping[str, str]) -> Assignment:
    """The most members into a domain of their own, and of these the fewest away from where they stay.

    `options` are the domains open to each member; one in `stays` costs nothing and must be among the
    member's options to count.
    """
    members = [
        GroupMember(
            stays.get(name) if stays.get(name) in domains else None,
            frozenset((*domains, Nowhere)),
        )
        for name, domains in options.items()
    ]
    bounds: dict[Domain, Bounds] = {d: (0, 1) for domains in options.values() for d in domains}
    repair = assign_within_bounds(members, bounds)
    domains = repair.domains if repair is not None else ()
    placed = {
        name: t.cast("str", domain)
        for name, domain in zip(options, domains, strict=True)
        if domain is not Nowhere
    }
    unplaced = tuple(name for name in options if name not in placed)
    if not unplaced:
        return Assignment(placed)
    return Assignment(placed, unplaced, *_crowd(options, placed, unplaced[0]))


def _crowd(
    options: t.Mapping[str, t.Collection[str]], placed: t.Mapping[str, str], start: str
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """A member without a domain, all that hold a domain open to one of these, and these domains."""
    holder = {domain: name for name, domain in placed.items()}
    crowd, room = dict.fromkeys([start]), dict[str, None]()
    queue = deque([start])
    while queue:
        for domain in options[queue.popleft()]:
            room[domain] = None
            if holder[domain] not in crowd:
                crowd[holder[domain]] = None
                queue.append(holder[domain])
    return tuple(crowd), tuple(room)


def _merge_domains(
    classes: t.Iterable[GroupMember], bounds: t.Mapping[Domain, Bounds]
) -> list[list[Domain]]:
    """Domains with equal bounds that are alike to every class, together."""
    current = {member.stays for member in classes if member.stays is not None}
    allowed_sets = list(dict.fromkeys(member.allowed for member in classes))
    groups: dict[t.Hashable, list[Domain]] = defaultdict(list)
    for domain in dict.fromkeys(
        (*bounds, *current, *(d for allowed in allowed_sets for d in allowed))
    ):
        own = domain if domain in current else None
        groups[(own, tuple(domain in a for a in allowed_sets), bounds.get(domain))].append(domain)
    return list(groups.values())


def _solve(
    classes: t.Mapping[GroupMember, list[int]],
    groups: t.Sequence[t.Sequence[Domain]],
    bounds: t.Mapping[Domain, Bounds],
    total: int,
) -> dict[tuple[GroupMember, int], int] | None:
    """How many of each class go into each group of domains."""
    source, sink, first_class = 0, 1, 2
    first_group = first_class + len(classes)
    network = Network(first_group + len(groups))
    arcs: dict[tuple[GroupMember, int], int] = {}
    for number, (member, indices) in enumerate(classes.items()):
        network.arc(source, first_class + number, len(indices))
        for place, group in enumerate(groups):
            if member.may_be_in(group[0]):
                cost = total + 1 if group[0] is Nowhere else int(group[0] != member.stays)
                tail, head = first_class + number, first_group + place
                arcs[member, place] = network.arc(tail, head, len(indices), cost)
    must: list[tuple[int, int]] = []
    for place, group in enumerate(groups):
        low, high = bounds.get(group[0], (0, total))
        # Filling a lower bound is worth more than all moves together.
        arc = network.arc(first_group + place, sink, low * len(group), -total - 1)
        must.append((arc, low * len(group)))
        network.arc(first_group + place, sink, (high - low) * len(group))
    if network.send(source, sink) < total:
        return None
    if any(network.flow(arc) < amount for arc, amount in must):
        return None
    return {key: network.flow(arc) for key, arc in arcs.items()}


def _domains_by_member(
    classes: t.Mapping[GroupMember, list[int]],
    groups: t.Sequence[t.Sequence[Domain]],
    counts: t.Mapping[tuple[GroupMember, int], int],
    total: int,
) -> tuple[Domain, ...]:
    """The domain of each member. Domains of a group are filled evenly: they have equal bounds."""
    remaining = {member: list(indices) for member, indices in classes.items()}
    domains: list[Domain] = [None] * total
    for place, group in enumerate(groups):
        members = [
            remaining[m].pop() for (m, p), n in counts.items() if p == place for _number in range(n)
        ]
        for turn, index in enumerate(members):
            domains[index] = group[turn % len(group)]
    return tuple(domains)


class Network:
    """A directed graph of arcs with integer capacity and cost; costs may be negative, cycles of
    negative cost may not. Nodes are numbered from 0."""

    def __init__(self, nodes: int) -> None:
        self._from: list[list[int]] = [[] for _node in range(nodes)]
        self._to: list[int] = []
        self._room: list[int] = []
        self._cost: list[int] = []

    def arc(self, tail: int, head: int, capacity: int, cost: int = 0) -> int:
        """Add an arc and return its number, for `flow`."""
        number = len(self._to)
        for node, end, room, price in ((tail, head, capacity, cost), (head, tail, 0, -cost)):
            self._from[node].append(len(self._to))
            self._to.append(end)
            self._room.append(room)
            self._cost.append(price)
        return number

    def flow(self, arc: int) -> int:
        """The flow through an arc now."""
        return self._room[arc ^ 1]

    def send(self, source: int, sink: int) -> int:
        """Send the maximum flow at the least cost; returns its amount. Successive shortest paths, each
        by Bellman-Ford with a queue."""
        sent = 0
        while True:
            path = self._cheapest_path(source, sink)
            if not path:
                return sent
            amount = min(self._room[arc] for arc in path)
            for arc in path:
                self._room[arc] -= amount
                self._room[arc ^ 1] += amount
            sent += amount

    def _cheapest_path(self, source: int, sink: int) -> list[int]:
        best: dict[int, int] = {source: 0}
        arc_to: dict[int, int] = {}
        queue, queued = deque([source]), {source}
        while queue:
            node = queue.popleft()
            queued.discard(node)
            for arc in self._from[node]:
                head, cost = self._to[arc], best[node] + self._cost[arc]
                if self._room[arc] <= 0 or (head in best and best[head] <= cost):
                    continue
                best[head], arc_to[head] = cost, arc
                if head not in queued:
                    queue.append(head)
                    queued.add(head)
        path: list[int] = []
        node = sink
        while node in arc_to and node != source:
            path.append(arc_to[node])
            node = self._to[arc_to[node] ^ 1]
        return path
