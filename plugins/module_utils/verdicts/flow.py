# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Min-cost flow on small graphs: successive shortest paths with Bellman and Ford's queue."""

from __future__ import annotations

from collections import deque


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
        for node, other, room, price in ((tail, head, capacity, cost), (head, tail, 0, -cost)):
            self._from[node].append(len(self._to))
            self._to.append(other)
            self._room.append(room)
            self._cost.append(price)
        return number

    def flow(self, arc: int) -> int:
        """What runs through an arc now."""
        return self._room[arc ^ 1]

    def send(self, source: int, sink: int) -> int:
        """Send as much as can be, at the least cost for that amount; returns the amount."""
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
        came_by: dict[int, int] = {}
        queue, queued = deque([source]), {source}
        while queue:
            node = queue.popleft()
            queued.discard(node)
            for arc in self._from[node]:
                head, cost = self._to[arc], best[node] + self._cost[arc]
                if self._room[arc] <= 0 or (head in best and best[head] <= cost):
                    continue
                best[head], came_by[head] = cost, arc
                if head not in queued:
                    queue.append(head)
                    queued.add(head)
        path: list[int] = []
        node = sink
        while node in came_by and node != source:
            path.append(came_by[node])
            node = self._to[came_by[node] ^ 1]
        return path
