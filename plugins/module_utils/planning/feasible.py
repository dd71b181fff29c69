# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Who can stand where at once: bipartite matching with the fewest changes, and Hall's proof.

Pure. An item takes one place, a place holds `capacity` items. Costs are 0 (stay) and 1 (move), and
a matching grows by one cheapest augmenting path at a time, so that its total cost is the least.
"""

from __future__ import annotations

import typing as t
from collections import deque
from dataclasses import dataclass

from .links import Links
from .world import World

Item = str
Place = str


@dataclass(frozen=True, slots=True)
class Assignment:
    """`placed` maps items to places. `unplaced` could not be placed beside the others; then
    `crowd` is a set of items that together have only `room`, too few places: the proof."""

    placed: t.Mapping[Item, Place]
    unplaced: tuple[Item, ...] = ()
    crowd: tuple[Item, ...] = ()
    room: tuple[Place, ...] = ()


def assign(
    options: t.Mapping[Item, t.Collection[Place]],
    stays: t.Mapping[Item, Place],
    *,
    capacity: t.Mapping[Place, int] | None = None,
) -> Assignment:
    """Place as many items as can be, with as few as can be away from where they stay.

    `options` are the places open to each item; a place in `stays` costs nothing and must be one
    of the item's options to count.
    """
    state = _Matching(options, stays, capacity or {})
    unplaced: list[Item] = []
    crowd: tuple[Item, ...] = ()
    room: tuple[Place, ...] = ()
    for item in _stayers_first(options, stays):
        if not state.augment(item):
            unplaced.append(item)
            if not crowd:
                crowd, room = state.deficient(item)
    return Assignment(dict(state.place_of), tuple(unplaced), crowd, room)


def _stayers_first(
    options: t.Mapping[Item, t.Collection[Place]], stays: t.Mapping[Item, Place]
) -> list[Item]:
    """Items that can stay come first, then the most constrained."""
    return sorted(options, key=lambda i: (stays.get(i) not in options[i], len(options[i])))


@dataclass(frozen=True, slots=True)
class Arrangement:
    """A group that keeps apart over `key`, and who of it would be in which domain."""

    key: str
    assignment: Assignment


def arrange(world: World, links: Links, group: t.Collection[str]) -> Arrangement | None:
    """Match the members of a group that keeps apart over one key with the domains of that key.

    None where the rules that are broken are of another kind, or over several keys. A member may
    have a domain where some node of it would do if nobody of the group were anywhere.
    """
    keys = {
        (reason.kind in ("anti", "existing-anti"), reason.topology_key)
        for uid in group
        for failure in world.broken(uid)
        for reason in failure.reasons
    }
    if len(keys) != 1 or not next(iter(keys))[0]:
        return None
    ((_anti, key),) = keys
    members = sorted({*group, *(mate for uid in group for mate in links.apart(uid))})
    with world.without(members):
        open_nodes = {uid: world.declared_places(uid) for uid in members}
    domain = _domains(world, key)
    options = {
        uid: {domain[node] for node in nodes if node in domain} for uid, nodes in open_nodes.items()
    }
    stays = {
        uid: domain[world.node_of[uid]]
        for uid in members
        if world.node_of[uid] in open_nodes[uid] and world.node_of[uid] in domain
    }
    return Arrangement(key, assign(options, stays))


def matched(
    world: World, links: Links, group: t.Collection[str]
) -> dict[str, frozenset[str]] | None:
    """The nodes that each member of a group may be on so that all have a place; None: unknown."""
    found = arrange(world, links, group)
    if found is None or found.assignment.unplaced:
        return None
    nodes_of: dict[Place, set[str]] = {}
    for node, place in _domains(world, found.key).items():
        nodes_of.setdefault(place, set()).add(node)
    placed = found.assignment.placed
    return {uid: frozenset(nodes_of[place]) for uid, place in placed.items()}


def _domains(world: World, key: str) -> dict[str, Place]:
    """Each node that is in a domain of a key."""
    table = world.table
    return {
        name: labels[key]
        for name, labels in zip(table.names, table.labels, strict=True)
        if key in labels
    }


class _Matching:
    """A matching that grows by one cheapest augmenting path at a time."""

    def __init__(
        self,
        options: t.Mapping[Item, t.Collection[Place]],
        stays: t.Mapping[Item, Place],
        capacity: t.Mapping[Place, int],
    ) -> None:
        self.options = options
        self.stays = stays
        self.capacity = capacity
        self.place_of: dict[Item, Place] = {}
        self.held_by: dict[Place, set[Item]] = {}

    def augment(self, start: Item) -> bool:
        """Place `start`, moving others along the cheapest path. False: there is no path."""
        came_from, end = self._search(start)
        if end is None:
            return False
        place = end
        while True:
            item = came_from[place]
            previous = self.place_of.get(item)
            self._put(item, place)
            if previous is None:  # `start`, the only one without a place
                return True
            place = previous

    def _put(self, item: Item, place: Place) -> None:
        previous = self.place_of.get(item)
        if previous is not None:
            self.held_by[previous].discard(item)
        self.place_of[item] = place
        self.held_by.setdefault(place, set()).add(item)

    def _search(self, start: Item) -> tuple[dict[Place, Item], Place | None]:
        """Bellman-Ford with a queue over residual edges; costs are in -1..1.

        Taking an item off its place gives back what that place cost, so edges may be negative,
        but never around a cycle: the matching so far is one of least cost.
        """
        distance: dict[Place, int] = {}
        came_from: dict[Place, Item] = {}
        queue: deque[Item] = deque([start])
        cost_to: dict[Item, int] = {start: 0}
        while queue:
            item = queue.popleft()
            for place in self.options[item]:
                if place == self.place_of.get(item):
                    continue
                total = cost_to[item] + self._cost(item, place)
                if total >= distance.get(place, 1 << 30):
                    continue
                distance[place] = total
                came_from[place] = item
                if self._room(place):
                    continue
                for holder in self.held_by.get(place, ()):
                    back = total - self._cost(holder, place)
                    if holder != start and back < cost_to.get(holder, 1 << 30):
                        cost_to[holder] = back
                        queue.append(holder)
        ends = [place for place in distance if self._room(place)]
        return came_from, min(ends, key=lambda place: distance[place], default=None)

    def deficient(self, start: Item) -> tuple[tuple[Item, ...], tuple[Place, ...]]:
        """Items reachable from `start` by alternating paths and all places open to them."""
        items: dict[Item, None] = {start: None}
        places: dict[Place, None] = {}
        queue = deque([start])
        while queue:
            for place in self.options[queue.popleft()]:
                places.setdefault(place)
                for holder in self.held_by.get(place, ()):
                    if holder not in items:
                        items[holder] = None
                        queue.append(holder)
        return tuple(items), tuple(places)

    def _room(self, place: Place) -> bool:
        return len(self.held_by.get(place, ())) < self.capacity.get(place, 1)

    def _cost(self, item: Item, place: Place) -> int:
        return 0 if self.stays.get(item) == place else 1
