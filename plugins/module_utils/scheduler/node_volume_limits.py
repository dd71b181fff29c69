# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""NodeVolumeLimits: may the node attach as many volumes more as the pod's claims need?

Source: scheduler plugin nodevolumelimits, CSILimits. A volume counts once for each node, however many pods use
it. kube-scheduler also counts VolumeAttachments without a pod. They are about to be detached, and do not count here.
"""

from __future__ import annotations

import typing as t
from collections import Counter, defaultdict

from ..model.storage import ClaimKey
from .framework import NODE_VOLUME_LIMITS, Code, FilterReason, FilterStatus, PodInfo
from .nodes import NodeSet, NodeTable

AttachLimits = t.Mapping[str, t.Mapping[str, int]]
"""Node to the most volumes of each CSI driver that has a limit there."""

Drivers = t.Mapping[ClaimKey, str]
"""The CSI driver of the volume of a claim."""


class NodeVolumeLimits:
    """The filter, and how many placed pods of each node use each claim of a driver."""

    name = NODE_VOLUME_LIMITS

    def __init__(self, table: NodeTable, limits: AttachLimits, drivers: Drivers) -> None:
        self._table = table
        limited = {driver for by_driver in limits.values() for driver in by_driver}
        self._drivers = {claim: x for claim, x in drivers.items() if x in limited}
        self._limits = {
            table.numbers[node]: by_driver
            for node, by_driver in limits.items()
            if node in table.numbers
        }
        self._attached: dict[tuple[int, str], Counter[ClaimKey]] = defaultdict(Counter)

    def add(self, pod_info: PodInfo) -> None:
        for claim, driver in self.limited_claims(pod_info):
            self._attached[pod_info.node, driver][claim] += 1

    def remove(self, pod_info: PodInfo) -> None:
        for claim, driver in self.limited_claims(pod_info):
            attached = self._attached[pod_info.node, driver]
            attached[claim] -= 1
            if not attached[claim]:
                del attached[claim]

    def nodes(self, pod_info: PodInfo) -> NodeSet:
        nodes = self._table.all
        if not self._drivers or not self.limited_claims(pod_info):
            return nodes
        for n in self._limits:
            if self._exceeded(pod_info, n):
                nodes &= ~(1 << n)
        return nodes

    def failure(self, pod_info: PodInfo, n: int) -> FilterStatus | None:
        if not self._drivers or not (exceeded := self._exceeded(pod_info, n)):
            return None
        text = f"no more volumes of {exceeded} can be attached"
        reason = FilterReason("volume-limit", text, exceeded)
        return FilterStatus(self.name, Code.UNSCHEDULABLE, (reason,))

    def limited_claims(self, pod_info: PodInfo) -> list[tuple[ClaimKey, str]]:
        """The claims of a pod whose driver has a limit on some node, each once."""
        pod = pod_info.pod
        if not self._drivers or not pod.claims:
            return []
        keys = dict.fromkeys((pod.namespace, claim) for claim in pod.claims)
        return [(key, self._drivers[key]) for key in keys if key in self._drivers]

    def _exceeded(self, pod_info: PodInfo, n: int) -> str | None:
        """The driver of which the node would have too many volumes; None if there is none."""
        limits = self._limits.get(n, {})
        new: Counter[str] = Counter()
        for claim, driver in self.limited_claims(pod_info):
            if driver in limits and claim not in self._attached[n, driver]:
                new[driver] += 1
        for driver, count in new.items():
            if len(self._attached[n, driver]) + count > limits[driver]:
                return driver
        return None
