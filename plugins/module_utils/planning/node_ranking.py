# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which nodes is the scheduler likely to prefer? An answer without sorting all nodes.

First come the nodes that leave the least unmet preferences, then the emptier ones, then the names.
Nodes are kept in sets by how many pods they hold, so a query for the first few of any set is fast.
"""

from __future__ import annotations

import typing as t
from collections import defaultdict

from ..scheduler.nodes import NodeSet, NodeTable

PreferencePenalties = t.Sequence[tuple[int, NodeSet]]
"""Weights of preferences, each with the nodes that do not meet it."""


class NodeRanking:
    """`loads`: how many pods each node of the table holds."""

    def __init__(self, table: NodeTable, loads: t.Sequence[int]) -> None:
        self._table = table
        self.loads = list(loads)
        numbers: dict[int, list[int]] = defaultdict(list)
        for n, load in enumerate(loads):
            numbers[load].append(n)
        self._levels = {load: table.set_of(listed) for load, listed in numbers.items()}
        self._in_order = list(table.names) == sorted(table.names)

    def record_move(self, source: int, target: int) -> None:
        """A pod has moved from node number `source` to `target`."""
        for n, change in ((source, -1), (target, 1)):
            before = self.loads[n]
            after = self.loads[n] = before + change
            left = self._levels[before] & ~(1 << n)
            if left:
                self._levels[before] = left
            else:
                del self._levels[before]
            self._levels[after] = self._levels.get(after, 0) | 1 << n

    def first(self, nodes: NodeSet, penalties: PreferencePenalties, limit: int) -> tuple[str, ...]:
        """The names of the first few of some nodes."""
        names: list[str] = []
        for _cost, part in _by_penalty(nodes, penalties):
            for load in sorted(self._levels):
                level = part & self._levels[load]
                if level:
                    left = limit - len(names)
                    if self._in_order:
                        names += self._table.first_names(level, left)
                    else:
                        names += sorted(self._table.names_of(level))[:left]
                    if len(names) >= limit:
                        return tuple(names)
        return tuple(names)


def cheaper(nodes: NodeSet, penalties: PreferencePenalties, cost: int) -> NodeSet:
    """The nodes of a set whose penalties add up to less than `cost`."""
    cheap = 0
    for penalty, part in _by_penalty(nodes, penalties):
        if penalty < cost:
            cheap |= part
    return cheap


def _by_penalty(nodes: NodeSet, penalties: PreferencePenalties) -> t.Iterator[tuple[int, NodeSet]]:
    """The nodes in parts with equal penalties, the least first."""
    parts = {0: nodes}
    for weight, unmet in penalties:
        split: dict[int, NodeSet] = defaultdict(int)
        for cost, part in parts.items():
            split[cost] |= part & ~unmet
            split[cost + weight] |= part & unmet
        parts = split
    return ((cost, part) for cost, part in sorted(parts.items()) if part)
