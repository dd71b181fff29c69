# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""NodeResourcesFit: do the pod's requests fit into what a node has left?

Source: scheduler plugin noderesources, fitsRequest.
"""

from __future__ import annotations

import typing as t
from dataclasses import dataclass

from .framework import NODE_RESOURCES_FIT, Code, FilterReason, FilterStatus, PodInfo
from .nodes import NodeSet, NodeTable

Requests = t.Mapping[str, int]


@dataclass(eq=False, repr=False, slots=True)
class RequestFit:
    """The nodes with room for one request, up to date with the log of changes to a position."""

    requests: Requests
    nodes: NodeSet = 0
    seen: int = -1


class NodeResourcesFit:
    """The filter, and the sums of requests that it needs."""

    name = NODE_RESOURCES_FIT

    def __init__(self, table: NodeTable) -> None:
        self._table = table
        self._allocatable = tuple(node.allocatable for node in table.nodes)
        self._room = [node.allocatable.get("pods", 0) for node in table.nodes]
        self._free: list[dict[str, int]] = [dict(node.allocatable) for node in table.nodes]
        """What is left of each resource; below zero where a node is over-committed."""
        self._fits: dict[frozenset[tuple[str, int]], RequestFit] = {}
        """By the amounts above zero."""
        self._log: list[int] = []
        self._cut = 0
        """How many entries were dropped from the front of the log."""

    def add(self, pod_info: PodInfo) -> None:
        n = pod_info.node
        self._room[n] -= 1
        free = self._free[n]
        for name, amount in pod_info.pod.requests.items():
            free[name] = free.get(name, 0) - amount
        self._log.append(n)

    def remove(self, pod_info: PodInfo) -> None:
        n = pod_info.node
        self._room[n] += 1
        free = self._free[n]
        for name, amount in pod_info.pod.requests.items():
            free[name] += amount
        self._log.append(n)

    def free(self, n: int) -> Requests:
        """What is left on node number n; `pods` is how many more pods it takes. Amounts are below zero
        where the node is over-committed."""
        return {**self._free[n], "pods": self._room[n]}

    def has_room_for_placed(self, n: int) -> bool:
        """Whether a node is not over-committed, so that each of its pods fits again after its removal."""
        return self._room[n] >= 0 and min(self._free[n].values(), default=0) >= 0

    def failure(self, pod_info: PodInfo, n: int) -> FilterStatus | None:
        if self._fits_on(self._fit(pod_info).requests, n):
            return None
        reasons = tuple(self._reasons(pod_info, n))
        limits = self._allocatable[n]
        requests = pod_info.pod.requests
        too_large = any(
            reason.kind == "resources" and requests[name] > limits.get(name, 0)
            for reason in reasons
            if (name := t.cast("str", reason.term))
        )
        return FilterStatus(
            self.name, Code.UNRESOLVABLE if too_large else Code.UNSCHEDULABLE, reasons
        )

    def nodes(self, pod_info: PodInfo) -> NodeSet:
        """The nodes with room. Kept for each distinct request; only nodes that changed since the
        last call are checked again."""
        fit = self._fit(pod_info)
        requests = fit.requests
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
        if len(self._log) > 4 * len(self._room) + 1000:
            self._cut += len(self._log)
            self._log.clear()
        return fit.nodes

    def _fit(self, pod_info: PodInfo) -> RequestFit:
        """What is known about the amounts of a request that are compared: those above zero."""
        if pod_info.request_fit is None:
            amounts = sorted(pod_info.pod.requests.items())
            compared = {name: amount for name, amount in amounts if amount}
            key = frozenset(compared.items())
            pod_info.request_fit = self._fits.setdefault(key, RequestFit(compared))
        return pod_info.request_fit

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

    def _reasons(self, pod_info: PodInfo, n: int) -> t.Iterator[FilterReason]:
        limits = self._allocatable[n]
        if self._room[n] < 1:
            yield FilterReason(
                "too-many-pods", f"all {limits.get('pods', 0)} places for pods are taken"
            )
        for name, amount in self._fit(pod_info).requests.items():
            free = self._free[n].get(name, 0)
            if amount > free:
                of = f"{free} free of {limits.get(name, 0)}"
                yield FilterReason("resources", f"{name}: {amount} requested, {of}", name)
