# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""NodeResourcesFit: requests against what a node can allocate. Source: scheduler plugin
noderesources, fitsRequest."""

from __future__ import annotations

import typing as t

from .candidate import Candidate
from .failure import Code, Failure, Reason
from .node_table import NodeSet, NodeTable
from .options import NODE_RESOURCES_FIT, Options

Requests = t.Mapping[str, int]

_NATIVE = ("cpu", "memory", "ephemeral-storage")


class _Fit:
    """The nodes with room for one request, as of a place in the log of changes."""

    __slots__ = ("nodes", "requests", "seen")

    def __init__(self, requests: Requests) -> None:
        self.requests = requests
        self.nodes: NodeSet = 0
        self.seen = -1


class NodeResourcesFit:
    """The filter, and the sums of requests that it needs."""

    name = NODE_RESOURCES_FIT

    def __init__(self, table: NodeTable, options: Options) -> None:
        self._table = table
        self._options = options
        self._allocatable = tuple(node.allocatable for node in table.nodes)
        self._room = [node.allocatable.get("pods", 0) for node in table.nodes]
        self._free: list[dict[str, int]] = [dict(node.allocatable) for node in table.nodes]
        """What is left of each resource; below zero where a node is over-committed."""
        self._wanted: dict[int, tuple[Requests, Requests]] = {}
        self._distinct: dict[frozenset[tuple[str, int]], Requests] = {}
        self._fits: dict[int, _Fit] = {}
        self._log: list[int] = []
        self._cut = 0
        """How many entries were dropped from the front of the log."""

    def enter(self, candidate: Candidate) -> None:
        n = candidate.node
        self._room[n] -= 1
        free = self._free[n]
        for name, amount in candidate.pod.requests.items():
            free[name] = free.get(name, 0) - amount
        self._log.append(n)

    def leave(self, candidate: Candidate) -> None:
        n = candidate.node
        self._room[n] += 1
        free = self._free[n]
        for name, amount in candidate.pod.requests.items():
            free[name] += amount
        self._log.append(n)

    def free(self, n: int) -> Requests:
        """What is left on node number n, and under `pods` how many pods still find a place; below
        zero where it is over-committed."""
        return {**self._free[n], "pods": self._room[n]}

    def is_enough(self, n: int) -> bool:
        """Whether a node has room for all that is on it: then for each that leaves and comes back."""
        return self._room[n] >= 0 and min(self._free[n].values(), default=0) >= 0

    def failure(self, candidate: Candidate, n: int) -> Failure | None:
        if self._fits_on(self._considered(candidate.pod.requests), n):
            return None
        reasons = tuple(self._reasons(candidate, n))
        limits = self._allocatable[n]
        requests = candidate.pod.requests
        too_large = any(
            reason.kind == "resources" and requests[name] > limits.get(name, 0)
            for reason in reasons
            if (name := t.cast("str", reason.term))
        )
        return Failure(self.name, Code.UNRESOLVABLE if too_large else Code.UNSCHEDULABLE, reasons)

    def nodes(self, candidate: Candidate) -> NodeSet:
        """The nodes with room. Kept for each distinct request; only nodes that changed since the
        last time are looked at again."""
        requests = self._considered(candidate.pod.requests)
        fit = self._fits.get(id(requests))
        if fit is None:
            fit = self._fits[id(requests)] = _Fit(requests)
        end = self._cut + len(self._log)
        if fit.seen < self._cut or end - fit.seen > len(self._room):
            fit.nodes = self._table.where(
                self._fits_on(requests, n) for n in range(len(self._room))
            )
        else:
            for n in set(self._log[fit.seen - self._cut :]):
                bit = 1 << n
                fit.nodes = fit.nodes | bit if self._fits_on(requests, n) else fit.nodes & ~bit
        fit.seen = end
        self._forget()
        return fit.nodes

    def _forget(self) -> None:
        if len(self._log) > 4 * len(self._room) + 1000:
            self._cut += len(self._log)
            self._log.clear()

    def _considered(self, requests: Requests) -> Requests:
        """What of a request is compared at all: nothing that is zero or that is ignored."""
        known = self._wanted.get(id(requests))
        if known is None or known[0] is not requests:
            kept: Requests = {
                name: amount
                for name, amount in sorted(requests.items())
                if amount and not self._is_ignored(name)
            }
            kept = self._distinct.setdefault(frozenset(kept.items()), kept)
            known = self._wanted[id(requests)] = (requests, kept)
        return known[1]

    def _is_ignored(self, name: str) -> bool:
        group, slash, _rest = name.partition("/")
        if name in _NATIVE:
            return False
        if name in self._options.ignored_resources:
            return True
        extended = bool(slash) and "kubernetes.io/" not in name
        return extended and group in self._options.ignored_resource_groups

    def _fits_on(self, requests: Requests, n: int) -> bool:
        if self._room[n] < 1:
            return False
        free = self._free[n]
        fits = True
        for name, amount in requests.items():
            if amount > free.get(name, 0):
                fits = False
                break
        return fits

    def _reasons(self, candidate: Candidate, n: int) -> t.Iterator[Reason]:
        limits = self._allocatable[n]
        if self._room[n] < 1:
            yield Reason("too-many-pods", f"all {limits.get('pods', 0)} places for pods are taken")
        for name, amount in self._considered(candidate.pod.requests).items():
            free = self._free[n].get(name, 0)
            if amount > free:
                of = f"{free} free of {limits.get(name, 0)}"
                yield Reason("resources", f"{name}: {amount} requested, {of}", name)
