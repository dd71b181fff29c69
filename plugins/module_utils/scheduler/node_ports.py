# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""NodePorts: does another pod of the node use a host port that the pod needs?

Source: scheduler plugin nodeports, framework.HostPortInfo.
"""

from __future__ import annotations

import typing as t
from collections import Counter

from .framework import NODE_PORTS, Code, FilterReason, FilterStatus, PodInfo
from .nodes import NodeSet, NodeTable

EVERY_ADDRESS = "0.0.0.0"

HostPort = tuple[str, str, int]


class NodePorts:
    """The filter, and the ports in use by protocol and number, node and address."""

    name = NODE_PORTS

    def __init__(self, table: NodeTable) -> None:
        self._table = table
        self._used: dict[tuple[str, int], dict[int, Counter[str]]] = {}

    def add(self, pod_info: PodInfo) -> None:
        for protocol, address, port in pod_info.pod.host_ports:
            nodes = self._used.setdefault((protocol, port), {})
            nodes.setdefault(pod_info.node, Counter())[address] += 1

    def remove(self, pod_info: PodInfo) -> None:
        for protocol, address, port in pod_info.pod.host_ports:
            nodes = self._used[protocol, port]
            nodes[pod_info.node][address] -= 1
            nodes[pod_info.node] = +nodes[pod_info.node]
            if not nodes[pod_info.node]:
                del nodes[pod_info.node]

    def nodes(self, pod_info: PodInfo) -> NodeSet:
        nodes = self._table.all
        for host_port in pod_info.pod.host_ports:
            for n, addresses in self._used.get((host_port[0], host_port[2]), {}).items():
                if _conflicts(host_port, addresses):
                    nodes &= ~(1 << n)
        return nodes

    def failure(self, pod_info: PodInfo, n: int) -> FilterStatus | None:
        if not pod_info.pod.host_ports:
            return None
        reasons = tuple(
            FilterReason(
                "ports",
                f"host port {host_port[0]} {host_port[2]} of {host_port[1]} is taken",
                host_port,
            )
            for host_port in pod_info.pod.host_ports
            if _conflicts(host_port, self._used.get((host_port[0], host_port[2]), {}).get(n))
        )
        return FilterStatus(self.name, Code.UNSCHEDULABLE, reasons) if reasons else None


def _conflicts(host_port: HostPort, addresses: t.Mapping[str, int] | None) -> bool:
    if not addresses:
        return False
    return host_port[1] == EVERY_ADDRESS or EVERY_ADDRESS in addresses or host_port[1] in addresses
