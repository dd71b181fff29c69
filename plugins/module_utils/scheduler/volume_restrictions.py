# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""VolumeRestrictions: does another pod use a claim that only one pod may use (ReadWriteOncePod)?

Source: scheduler plugin volumerestrictions, satisfyReadWriteOncePod. Volumes of cloud disks, iSCSI and RBD that a
pod names without a claim are not modeled: see model/pod_fields.
"""

from __future__ import annotations

import typing as t
from collections import Counter

from ..model.storage import ClaimKey
from .framework import VOLUME_RESTRICTIONS, Code, FilterReason, FilterStatus, PodInfo
from .nodes import NodeSet, NodeTable


class VolumeRestrictions:
    """The filter, and how many placed pods use each of the claims that one pod may use."""

    name = VOLUME_RESTRICTIONS

    def __init__(self, table: NodeTable, exclusive: t.Collection[ClaimKey]) -> None:
        self._table = table
        self._exclusive = frozenset(exclusive)
        self._used: Counter[ClaimKey] = Counter()

    def add(self, pod_info: PodInfo) -> None:
        self._used.update(self.exclusive_claims(pod_info))

    def remove(self, pod_info: PodInfo) -> None:
        self._used.subtract(self.exclusive_claims(pod_info))

    def nodes(self, pod_info: PodInfo) -> NodeSet:
        return 0 if self._taken(pod_info) else self._table.all

    def failure(self, pod_info: PodInfo, n: int) -> FilterStatus | None:
        taken = self._taken(pod_info)
        if not taken:
            return None
        text = f"claim {', '.join(taken)} is ReadWriteOncePod and used by another pod"
        reason = FilterReason("exclusive-claim", text, taken[0])
        return FilterStatus(self.name, Code.UNSCHEDULABLE, (reason,))

    def exclusive_claims(self, pod_info: PodInfo) -> tuple[ClaimKey, ...]:
        """The claims of a pod that no other pod may use."""
        pod = pod_info.pod
        if not self._exclusive or not pod.claims:
            return ()
        keys = ((pod.namespace, claim) for claim in pod.claims)
        return tuple(key for key in keys if key in self._exclusive)

    def _taken(self, pod_info: PodInfo) -> list[str]:
        return [key[1] for key in self.exclusive_claims(pod_info) if self._used[key] > 0]
