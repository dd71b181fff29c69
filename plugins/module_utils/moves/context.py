# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What one step of a run works with: the API until its deadline, the lists that it follows, its report and its time."""

from __future__ import annotations

import datetime
import typing as t
from dataclasses import replace

from ..api.client import ApiClient
from ..api.transport import Deadline, uptime
from ..cluster.following import FollowedCluster
from ..cluster.reading import ReadScope
from ..model.plan import Plan, skipped_as_json
from ..model.snapshot import Snapshot
from . import report
from .run_options import RunOptions, until_stopped
from .state import RunState, StepReport, StepResult
from .watch import OVERTIME, STEP_LIMIT, Listening, OutageReport, ReportPipe, StepTime

if t.TYPE_CHECKING:
    from ..model.write import Write


def step_limit(run_timeout: int, elapsed: float) -> float:
    """Seconds that a step may last, of a run that has lasted some seconds."""
    return min(STEP_LIMIT, max(0.0, run_timeout - elapsed) + OVERTIME)


class StepContext:
    """`listening`: whether a process still reads the result. If not, no move begins. `options`: the limits of the run.
    `task`: what it is called in messages. `begun`: an earlier step has begun it. `writes`: what the step wrote beside
    the moves and the Lease."""

    def __init__(
        self,
        api: ApiClient,
        state: RunState,
        listening: Listening,
        deadline: Deadline,
        options: RunOptions,
        task: str,
        *,
        begun: bool,
    ) -> None:
        self.options, self.task = options, task
        self.began = uptime()
        self.before = state.elapsed
        self.api = api.under(deadline)
        self.cluster = FollowedCluster(self.api)
        self.hint: t.Callable[[], str] = str
        """The end of a sentence about a failure: what stays, and how to undo it. What was moved stays where it is."""
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
        cls, api: ApiClient, state: RunState, listening: Listening, options: RunOptions, task: str
    ) -> StepContext:
        """For a run that takes the Lease: it has begun once it has. One that holds no Lease yet has the module's own
        deadline, which each page of a list extends, unless the run has less time."""
        limit, begun = step_limit(options.run_timeout, state.elapsed), state.held is not None
        deadline = Deadline(limit) if begun else api.deadline
        if not begun and limit < deadline.remaining:
            deadline = deadline.within(limit)
        return cls(api, state, listening, deadline, options, task, begun=begun)

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


def planned_result(
    context: StepContext,
    snapshot: Snapshot,
    plan: Plan,
    lines: t.Iterable[str],
) -> StepResult:
    """What check mode reports of the moves that a run would begin. `lines` stand before those about the moves. There
    are none of either where only the rights are asked for: the moves are planned later then."""
    options, wall_clock = context.options, datetime.datetime.now(datetime.timezone.utc)
    moves, stop = until_stopped(options, plan.moves, wall_clock)
    left = plan.moves[len(moves) :]
    if not options.require_rights:
        nodes = report.NodeDescriptions.of(snapshot, options.zone_key)
        context.report.lines += [*lines, *report.planned_lines(moves, nodes)]
        context.report.lines += [report.stopped(stop, left)] if stop else []
    result = context.result(finished=True, plan=replace(plan, moves=left))
    result.moves = [report.planned_move(move) for move in moves]
    result.stop, result.changed = stop, bool(moves)
    return result
