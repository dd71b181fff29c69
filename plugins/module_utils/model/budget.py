# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""A PodDisruptionBudget: what it asks for, and its status."""

from __future__ import annotations

from dataclasses import dataclass, field

from ..kinds.kind import share_of
from .objects import Labels, Owner, Ref, Selector

BUDGETS = "poddisruptionbudgets"
BUDGET = "PodDisruptionBudget"


@dataclass(frozen=True, slots=True)
class BudgetSpec:
    """What a budget asks for: numbers of pods, or percentages as text; None where it does not name one."""

    ref: Ref
    selector: Selector | None
    min_available: int | str | None = None
    max_unavailable: int | str | None = None

    @property
    def keeps_all(self) -> bool:
        """However many pods there are."""
        if self.min_available is not None:
            return isinstance(self.min_available, str) and self.kept(100) >= 100
        return self.max_unavailable is not None and self.kept(100) >= 100

    @property
    def counts_scale(self) -> bool:
        """Whether it is about a share of what the controllers of its pods want, and not about pods that are there."""
        return self.max_unavailable is not None or isinstance(self.min_available, str)

    def kept(self, pods: int) -> int:
        """How many of so many pods must be healthy; percentages are rounded up (Kubernetes 1.36,
        pkg/controller/disruption/disruption.go, getExpectedPodCount)."""
        if self.min_available is not None:
            return share_of(self.min_available, pods, up=True)
        if self.max_unavailable is None:
            return 0
        return pods - share_of(self.max_unavailable, pods, up=True)

    @property
    def words(self) -> str:
        """What it names, as `its minAvailable is 1`."""
        if self.min_available is not None:
            return f"its minAvailable is {self.min_available}"
        return f"its maxUnavailable is {self.max_unavailable}"


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
    keeps_all: bool = False
    """It keeps all of its pods, however many there are."""
    counts_finished: bool = False
    """`expected` has finished pods, too: its minAvailable is a number (pkg/controller/disruption,
    getExpectedPodCount). KubeVirt leaves a finished pod behind for each migration of a VM."""

    def never_allows(self, expected: int) -> bool:
        """Even when all pods are healthy. `expected` is without those that have finished."""
        return self.observed and self.desired >= expected > 0
