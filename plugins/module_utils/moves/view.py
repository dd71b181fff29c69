# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the engine needs of a reading of the cluster."""

from __future__ import annotations

import typing as t

from ..compliance.instances import DeclaredInstance, InstanceSelection
from ..kubevirt.disruption import Budgets
from ..model.objects import Ref
from ..model.obstacle import Obstacle
from ..model.plan import Move, Plan
from ..model.snapshot import Platform, Snapshot
from ..scheduler.index import Index
from .journal import RunJournal
from .move import MoveRecord

WhyNoRestart = t.Callable[[DeclaredInstance, Platform], t.Optional[Obstacle]]  # noqa: UP045
"""Why a restart would apply more than placement."""


class View(t.Protocol):
    """A reading, with the moves that its source plans from it."""

    @property
    def snapshot(self) -> Snapshot:
        """The cluster as it was read."""

    @property
    def selection(self) -> InstanceSelection:
        """The instances that count for max_unavailable."""

    @property
    def by_uid(self) -> t.Mapping[str, DeclaredInstance]:
        """The instances that may move, by uid."""

    @property
    def by_workload(self) -> t.Mapping[Ref | None, DeclaredInstance]:
        """One instance of each workload."""

    @property
    def budgets(self) -> Budgets:
        """The disruption budgets of the reading."""

    @property
    def index(self) -> Index | None:
        """The scheduler's index of the reading, where a move that may find no room waits; else None."""

    def is_about(self, record: MoveRecord) -> bool:
        """Whether the run reports this move: one that it took over may be of other workloads."""

    def plan(self, journal: RunJournal | None = None) -> Plan:
        """The moves that are left beside what the journal has in flight."""

    def node_selector(self, move: Move) -> tuple[tuple[str, str], ...]:
        """What the target of a migration is held to."""
