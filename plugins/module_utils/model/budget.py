# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""A PodDisruptionBudget with its status."""

from __future__ import annotations

from dataclasses import dataclass, field

from .objects import Labels, Owner, Ref, Selector

BUDGETS = "poddisruptionbudgets"
BUDGET = "PodDisruptionBudget"


@dataclass(frozen=True, slots=True)
class DisruptionBudget:
    """`allowed`, `healthy`, `desired` and `expected` are the numbers of its status. `observed`: they are
    about its current spec. `sync_error`: why the disruption controller cannot count; it then allows none
    (kubernetes, pkg/controller/disruption, failSafe)."""

    ref: Ref
    selector: Selector | None
    allowed: int
    healthy: int
    desired: int
    expected: int
    owner: Owner | None = None
    labels: Labels = field(default_factory=dict)
    observed: bool = True
    sync_error: str = ""
    always_allows_unhealthy: bool = False
    """Its unhealthyPodEvictionPolicy is AlwaysAllow."""
    counts_finished: bool = False
    """`expected` has finished pods, too: its minAvailable is a number (pkg/controller/disruption,
    getExpectedPodCount). KubeVirt leaves a finished pod behind for each migration of a VM."""

    def never_allows(self, expected: int) -> bool:
        """Even when all pods are healthy. `expected` is without those that have finished."""
        return self.observed and self.desired >= expected > 0
