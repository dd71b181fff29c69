# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Nodes in the order in which the scheduler is likely to prefer them, without sorting all of them.

Pure. First come those that leave the least unmet of what is preferred, then the emptier ones, then
the names. Nodes are kept by how many pods they hold, so that the first few of any set are found by
looking at a few sets.
"""

from __future__ import annotations

import typing as t
from collections import defaultdict

from ..scheduling.node_table import NodeSet, NodeTable

Dislikes = t.Sequence[tuple[int, NodeSet]]
"""Weights, each with the nodes that cost it."""


class Ranking:
    """`loads`: how many pods each node of the table holds."""

    def __init__(self, table: NodeTable, loads: t.Sequence[int]) -> None:
        self._table = table
        self.loads = list(loads)
        numbers: dict[int, list[int]] = defaultdict(list)
        for n, load in enumerate(loads):
            numbers[load].append(n)
        self._levels = {load: table.of(listed) for load, listed in numbers.items()}
        self._in_order = list(table.names) == sorted(table.names)

    def moved(self, source: int, target: int) -> None:
        """A pod has gone from one node (its number) to another."""
        self._shift(source, -1)
        self._shift(target, 1)

    def first(self, nodes: NodeSet, dislikes: Dislikes, limit: int) -> tuple[str, ...]:
        """The names of the first few of some nodes."""
        found: list[str] = []
        for _cost, part in _by_dislike(nodes, dislikes):
            for load in sorted(self._levels):
                level = part & self._levels[load]
                if level:
                    found += self._names(level, limit - len(found))
                    if len(found) >= limit:
                        return tuple(found)
        return tuple(found)

    def _shift(self, n: int, change: int) -> None:
        before = self.loads[n]
        after = self.loads[n] = before + change
        left = self._levels[before] & ~(1 << n)
        if left:
            self._levels[before] = left
        else:
            del self._levels[before]
        self._levels[after] = self._levels.get(after, 0) | 1 << n

    def _names(self, nodes: NodeSet, limit: int) -> tuple[str, ...]:
        """The first names of a set, in their order."""
        if self._in_order:
            return self._table.first(nodes, limit)
        return tuple(sorted(self._table.names_of(nodes))[:limit])


def cheaper(nodes: NodeSet, dislikes: Dislikes, cost: int) -> NodeSet:
    """Those of some nodes that cost less."""
    found = 0
    for each, part in _by_dislike(nodes, dislikes):
        if each < cost:
            found |= part
    return found


def _by_dislike(nodes: NodeSet, dislikes: Dislikes) -> t.Iterator[tuple[int, NodeSet]]:
    """The nodes in parts that cost the same, the cheapest first."""
    parts = {0: nodes}
    for weight, disliked in dislikes:
        split: dict[int, NodeSet] = defaultdict(int)
        for cost, part in parts.items():
            split[cost] |= part & ~disliked
            split[cost + weight] |= part & disliked
        parts = split
    return ((cost, part) for cost, part in sorted(parts.items()) if part)
