# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a run moves and when it is over: the interface between the engine (`step`) and a rollout or a drain."""

from __future__ import annotations

import typing as t

from ..compliance.instances import DeclaredInstance, InstanceSelection
from ..kubevirt.disruption import Budgets
from ..model.objects import Ref
from ..model.obstacle import Obstacle
from ..model.plan import Move, Plan, Uid
from ..model.snapshot import Platform, Snapshot
from .journal import RunJournal
from .move import MoveRecord

if t.TYPE_CHECKING:
    from ..api.client import ApiClient
    from ..cluster.access import Right
    from ..cluster.lease import LeaseKeeper, LeaseReading
    from ..scheduler.index import Index
    from .context import StepContext
    from .reconcile import Reconciler
    from .reconciliation import Reconciliation
    from .state import StepResult

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


AnyView = t.TypeVar("AnyView", bound=View)

Kept = dict[Ref, Obstacle]
"""Why workloads do not get their own rollouts back."""


class HeldRollouts(t.NamedTuple):
    """The selected workloads whose own rollouts are set aside, as a rollout finds them. `replicas`: the instances that
    are not of the present template, which it moves whatever its scope is. `waiting`: what a controller has still to do
    beside the moves. `ends`: whether one of them can get its rollout back now. `end` gives them back; `check` answers
    whether a run that moves some instances would. Both answer why others stay held, too."""

    replicas: frozenset[Uid] = frozenset()
    waiting: Obstacle | None = None
    rights: frozenset[Right] = frozenset()
    lines: tuple[str, ...] = ()
    ends: bool = False
    end: t.Callable[[LeaseKeeper, StepContext], Kept] = lambda _keeper, _context: {}
    check: t.Callable[[ApiClient, t.Collection[Uid]], tuple[bool, Kept]] = lambda _api, _moved: (
        False,
        {},
    )


class Wait(t.NamedTuple):
    """What a run waits for before it begins a move. `uid`: of the only instance that waits; empty for all of them.
    `name`: its name, where the text lacks it."""

    obstacle: Obstacle
    uid: str = ""
    name: str = ""

    def __str__(self) -> str:
        return f"{self.name}: {self.obstacle}" if self.name else self.obstacle.text

    @property
    def line(self) -> str:
        """The text with what passes, such as the seconds that are left."""
        return ", ".join(filter(None, (str(self), self.obstacle.advice)))


class MoveSource(t.Protocol[AnyView]):
    """The engine calls the members in about this order. A source keeps what it knows beside the moves to itself."""

    @property
    def context(self) -> StepContext:
        """What the step works with."""

    def read(self, records: t.Iterable[MoveRecord] = (), *, fresh: bool = False) -> AnyView:
        """The cluster as it is now; with `fresh` all lists are read again instead of followed by watches.
        `records` may be those of an earlier run, in other namespaces."""

    def plan(self, view: AnyView, reading: LeaseReading | None) -> Plan:
        """The plan to begin with. `reading` is that of the Lease, None where it may not be read. Raises InvalidInput
        where an approved plan does not fit the cluster."""

    def nothing_to_do(self, view: AnyView, plan: Plan) -> bool:
        """Whether the run can end before it takes the Lease."""

    def refuse(
        self, view: AnyView, plan: Plan, records: t.Sequence[MoveRecord]
    ) -> StepResult | None:
        """Raises InvalidInput where the run must not begin, with every right that it lacks to make the plan and to
        continue `records`. A result where it ends without that. Nothing was written by then."""

    def plan_lines(self, view: AnyView, plan: Plan, run: str = "") -> list[str]:
        """The progress lines about the plan of the run."""

    def prepare(
        self, keeper: LeaseKeeper, view: AnyView, records: t.Sequence[MoveRecord]
    ) -> AnyView:
        """Called in each step that holds the Lease, before a move begins. Returns the view to plan from."""

    def goes_on(self, view: AnyView, reconciler: Reconciler, now: Reconciliation) -> bool:
        """Whether the run has something to wait for, or to move, after this reconcile."""

    def finish(self, view: AnyView, plan: Plan, keeper: LeaseKeeper | None) -> StepResult:
        """The result of a run that made its moves. `keeper` is None where it ends without the Lease."""

    def check(self, view: AnyView, plan: Plan, creates: t.Sequence[str]) -> StepResult:
        """The result in check mode. `creates` are the lines about what the engine would create."""

    def undone(self, records: t.Sequence[MoveRecord], plan: Plan, waiting: Wait | None) -> str:
        """The message about what a run whose time is over did not do. `waiting`: what its next move waits for."""

    def complete(self, result: StepResult, error: Exception | None) -> None:
        """Called for each result of a step. `error`: the one that the step ended with."""
