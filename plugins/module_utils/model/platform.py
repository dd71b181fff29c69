# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the cluster is: identity, versions, limits and features that decisions depend on."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Platform:
    """`kubernetes` is (major, minor); `kubevirt` is None where KubeVirt is not installed."""

    uid: str = ""
    api: str = ""
    kubernetes: tuple[int, int] = (0, 0)
    kubevirt: str | None = None
    rollout_strategy: str = "LiveUpdate"
    eviction_strategy: str = "None"
    migrations_per_cluster: int = 5
    migrations_per_node: int = 2

    @property
    def merges_match_label_keys(self) -> bool:
        """The API server resolves (mis)matchLabelKeys of pod terms (beta and on since 1.31)."""
        return self.kubernetes >= (1, 31)

    @property
    def negative_namespace_selector_fault(self) -> bool:
        """From 1.34 on, NotIn and DoesNotExist of a namespaceSelector of the incoming pod match
        every namespace (kubernetes issue 141526); no release with the fix is confirmed."""
        return self.kubernetes >= (1, 34)
