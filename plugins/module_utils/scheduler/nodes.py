# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The nodes of a cluster, numbered, and sets of nodes as the bits of one integer.

A set operation over 5,000 nodes is then one operation on integers. The sets of a label key are
made when the key is first used.
"""

from __future__ import annotations

import itertools
import typing as t
from functools import cached_property

from ..model.objects import Labels, Node, Taint

NodeSet = int
"""Bit n stands for node number n."""

FEW = 32
"""Up to this size, a set is read bit by bit."""

_BITS = bytes.maketrans(b"01", b"\0\1")


def takes_pods(node: Node) -> bool:
    """Whether the scheduler puts a pod without tolerations on a node: it is neither cordoned nor
    has it a taint NoSchedule or NoExecute (kube-scheduler NodeUnschedulable, TaintToleration)."""
    return not node.unschedulable and not any(
        taint.effect in ("NoSchedule", "NoExecute") for taint in node.taints
    )


class NodeTable:
    """The nodes of a table never change; a changed node needs a new table."""

    def __init__(self, nodes: t.Iterable[Node]) -> None:
        self.nodes: tuple[Node, ...] = tuple(nodes)
        self.names: tuple[str, ...] = tuple(node.name for node in self.nodes)
        self.labels: tuple[Labels, ...] = tuple(node.labels for node in self.nodes)
        self.numbers: dict[str, int] = {name: n for n, name in enumerate(self.names)}
        self.all: NodeSet = (1 << len(self.nodes)) - 1
        self.cordoned: NodeSet = self.where(node.unschedulable for node in self.nodes)
        self.nameless: NodeSet = self.where(not name for name in self.names)
        self._with_value: dict[str, dict[str, NodeSet]] = {}
        self._with_key: dict[str, NodeSet] = {}

    @staticmethod
    def where(flags: t.Iterable[object]) -> NodeSet:
        """The set of the numbers at which `flags` is true."""
        digits = "".join("1" if flag else "0" for flag in flags)
        return int(digits[::-1] or "0", 2)

    def domains(self, key: str) -> t.Mapping[str, NodeSet]:
        """Each value of a label key with the nodes that have it. The empty value is a domain."""
        domains = self._with_value.get(key)
        if domains is None:
            numbers: dict[str, list[int]] = {}
            for n, labels in enumerate(self.labels):
                value = labels.get(key)
                if value is not None:
                    numbers.setdefault(value, []).append(n)
            domains = {value: self.set_of(members) for value, members in numbers.items()}
            self._with_value[key] = domains
        return domains

    def set_of(self, numbers: t.Iterable[int]) -> NodeSet:
        """The set of these numbers."""
        nodes = 0
        for n in numbers:
            nodes |= 1 << n
        return nodes

    def with_key(self, key: str) -> NodeSet:
        """The nodes that have a label key, whatever its value."""
        nodes = self._with_key.get(key)
        if nodes is None:
            nodes = self.where(key in labels for labels in self.labels)
            self._with_key[key] = nodes
        return nodes

    def in_domains(self, key: str, values: t.Iterable[str]) -> NodeSet:
        """The nodes in any of these domains of a key."""
        domains = self.domains(key)
        nodes = 0
        for value in values:
            nodes |= domains.get(value, 0)
        return nodes

    @cached_property
    def by_taints(self) -> t.Mapping[tuple[Taint, ...], NodeSet]:
        """Each distinct list of taints (the empty one, too) with the nodes that have it."""
        numbers: dict[tuple[Taint, ...], list[int]] = {}
        for n, node in enumerate(self.nodes):
            numbers.setdefault(node.taints, []).append(n)
        return {taints: self.set_of(members) for taints, members in numbers.items()}

    def names_of(self, nodes: NodeSet) -> tuple[str, ...]:
        """The names of a set, in the order in which the nodes were given."""
        if nodes.bit_count() <= FEW:
            return self.first_names(nodes, FEW)
        return tuple(itertools.compress(self.names, self.flags(nodes)))

    def first_names(self, nodes: NodeSet, limit: int) -> tuple[str, ...]:
        """The names of the first few nodes of a set."""
        names: list[str] = []
        while nodes and len(names) < limit:
            lowest = nodes & -nodes
            names.append(self.names[lowest.bit_length() - 1])
            nodes ^= lowest
        return tuple(names)

    @staticmethod
    def flags(nodes: NodeSet) -> bytes:
        """One byte for each node up to the last of the set: 1 where it is in it."""
        return bin(nodes)[:1:-1].encode().translate(_BITS)
