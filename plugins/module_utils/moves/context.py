# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What one step of a run works with: the API until its deadline, the lists that it follows, its report and its time."""

from __future__ import annotations

import typing as t

from ..api.client import ApiClient
from ..api.transport import Deadline, uptime
from ..cluster.following import FollowedCluster
from ..cluster.reading import ReadScope
from ..model.plan import Plan, skipped_as_json
from ..model.snapshot import Snapshot
from ..model.write import Write
from . import report
from .state import RunState, StepReport, StepResult
from .watch import OVERTIME, STEP_LIMIT, Listening, OutageReport, ReportPipe, StepTime


def step_limit(run_timeout: int, elapsed: float) -> float:
    """Seconds that a step may last, of a run that has lasted some seconds."""
    return min(STEP_LIMIT, max(0.0, run_timeout - elapsed) + OVERTIME)


def deadline_of_step(api: ApiClient, state: RunState, run_timeout: int) -> Deadline:
    """Until when a step may make requests. One that holds no Lease yet has the module's own deadline, which each page
    of a list extends, unless the run has less time."""
    limit = step_limit(run_timeout, state.elapsed)
    if state.held is not None:
        return Deadline(limit)
    return api.deadline if limit >= api.deadline.remaining else api.deadline.within(limit)


class StepContext:
    """`listening`: whether a process still reads the result. If not, no move begins. `begun`: an earlier step has begun
    the run. `writes` are what the step wrote beside the moves and the Lease."""

    def __init__(
        self,
        api: ApiClient,
        state: RunState,
        listening: Listening,
        deadline: Deadline,
        *,
        begun: bool,
    ) -> None:
        self.began = uptime()
        self.before = state.elapsed
        self.api = api.under(deadline)
        self.cluster = FollowedCluster(self.api)
        self.namespaces: tuple[str, ...] = ()
        """Those of the last reading; empty for all."""
        self.waits_for: tuple[str, ...] = ()
        """Kinds of workloads that may keep the run from its end."""
        self.state = state
        self.listening = listening
        self.report = StepReport(state.count)
        self.writes: list[Write] = []
        self.pipe = ReportPipe(state.pipe)
        self.outage = OutageReport(self.api, self.pipe, state.away_since, begun=begun)
        self.time = StepTime(self.began, self.pipe.open)
        self._failures_before = state.failures

    @classmethod
    def of_run(
        cls, api: ApiClient, state: RunState, listening: Listening, run_timeout: int
    ) -> StepContext:
        """For a run that takes the Lease: it has begun once it has."""
        deadline = deadline_of_step(api, state, run_timeout)
        return cls(api, state, listening, deadline, begun=state.held is not None)

    @property
    def elapsed(self) -> float:
        """Seconds since the task began."""
        return self.before + uptime() - self.began

    def snapshot(
        self, scope: ReadScope, *, fresh: bool = False, again: t.Collection[str] = ()
    ) -> Snapshot:
        """As `FollowedCluster.snapshot`."""
        began = uptime()
        snapshot = self.cluster.snapshot(scope, fresh=fresh, again=again)
        self.time.reading = self.time.reading or uptime() - began
        self.namespaces = scope.namespaces or ()
        return snapshot

    def result(self, *, finished: bool, plan: Plan | None = None) -> StepResult:
        """What the step returns."""
        state = self.state
        state.elapsed = self.elapsed
        state.changed = state.changed or self.report.changed
        state.count = self.report.count
        state.failures = self._failures_before + report.failures(self.report.moves)
        state.away_since = self.outage.since
        plan = plan or Plan()
        return StepResult(
            finished=finished,
            state=state,
            moves=list(self.report.moves),
            deferred=[report.planned_move(move) for move in plan.moves],
            skipped=[skipped_as_json(instance) for instance in plan.skipped],
            progress=self.report.lines,
            shown=self.report.shown,
            changed=state.changed,
        )

    def failed(self, reason: str, plan: Plan | None = None) -> StepResult:
        result = self.result(finished=True, plan=plan)
        result.failure = reason
        return result
