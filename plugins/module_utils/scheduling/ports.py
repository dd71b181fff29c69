# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""NodePorts: host ports that another pod of the node has taken. Source: scheduler plugin nodeports,
framework.HostPortInfo."""

from __future__ import annotations

import typing as t
from collections import Counter

from .candidate import Candidate
from .failure import Code, Failure, Reason
from .node_table import NodeSet, NodeTable
from .options import NODE_PORTS

EVERY_ADDRESS = "0.0.0.0"

HostPort = tuple[str, str, int]


class NodePorts:
    """The filter, and the ports in use by protocol and number, node and address."""

    name = NODE_PORTS

    def __init__(self, table: NodeTable) -> None:
        self._table = table
        self._used: dict[tuple[str, int], dict[int, Counter[str]]] = {}

    def enter(self, candidate: Candidate) -> None:
        for protocol, address, port in candidate.pod.host_ports:
            nodes = self._used.setdefault((protocol, port), {})
            nodes.setdefault(candidate.node, Counter())[address] += 1

    def leave(self, candidate: Candidate) -> None:
        for protocol, address, port in candidate.pod.host_ports:
            nodes = self._used[protocol, port]
            nodes[candidate.node][address] -= 1
            nodes[candidate.node] = +nodes[candidate.node]
            if not nodes[candidate.node]:
                del nodes[candidate.node]

    def nodes(self, candidate: Candidate) -> NodeSet:
        found = self._table.all
        for each in candidate.pod.host_ports:
            for n, addresses in self._used.get((each[0], each[2]), {}).items():
                if _conflicts(each, addresses):
                    found &= ~(1 << n)
        return found

    def failure(self, candidate: Candidate, n: int) -> Failure | None:
        if not candidate.pod.host_ports:
            return None
        reasons = tuple(
            Reason("ports", f"host port {each[0]} {each[2]} of {each[1]} is taken", each)
            for each in candidate.pod.host_ports
            if _conflicts(each, self._used.get((each[0], each[2]), {}).get(n))
        )
        return Failure(self.name, Code.UNSCHEDULABLE, reasons) if reasons else None


def _conflicts(wanted: HostPort, addresses: t.Mapping[str, int] | None) -> bool:
    if not addresses:
        return False
    return wanted[1] == EVERY_ADDRESS or EVERY_ADDRESS in addresses or wanted[1] in addresses
