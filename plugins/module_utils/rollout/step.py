# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""One bounded step of a run: read, hold the cluster's Lease, reconcile for some seconds, return.

The caller repeats it until `finished`. All that a step must know of earlier ones is in the journal on
the Lease, so the next step, of this run or of another one, continues after a step that was killed.

The file is long, since a step is one class of which drains and returns to service override the parts.
"""

from __future__ import annotations

import contextlib
import datetime
import typing as t
from dataclasses import replace

from ..api.client import ApiClient
from ..api.errors import TRANSIENT_ERRORS, ApiError
from ..api.transport import ComputingTimeout, Deadline, uptime
from ..cluster import lease
from ..cluster.access import Right, Role, require_rights
from ..cluster.following import FollowedCluster
from ..cluster.lease import HeldLease, LeaseKeeper, LeaseLost, LeaseReading
from ..cluster.reading import ReadScope
from ..kubevirt.moving import PERMISSION
from ..model.findings import InvalidInput
from ..model.json_pointer import JSON
from ..model.kinds import WRITABLE_KINDS
from ..model.plan import Plan, skipped_as_json
from ..model.snapshot import Snapshot
from ..rules.hold import Hold
from . import holds, own_rollouts, report, takeover
from . import journal as journals
from .approval import not_made, plan_of, require_approved
from .approved_plan import ApprovedPlan
from .gates import until_stopped
from .holds import can_end, why_kept, why_kept_after, why_waiting
from .journal import RunJournal
from .move import MoveRecord
from .options import RolloutOptions, namespaces_of, wanted
from .pool_revisions import LABELS_SEEN
from .reconcile import Reconciler
from .reconciliation import Reconciliation
from .send import StartRevisions, rights_of_run
from .state import NAMED, RolloutState, StepReport, StepResult
from .view import JudgedSnapshot, View
from .watch import (
    OVERTIME,
    PATIENCE,
    SETTLE,
    STEP_LIMIT,
    YOUNG,
    Listening,
    OutageReport,
    ReportPipe,
    StepTime,
    step_bounded,
    wait_for,
    wakes_on,
)


def run_step(step: RolloutStep, *, check: bool) -> StepResult:
    """Continue the run of the step's state.

    Raises InvalidInput for invalid options, ApiError for requests that the API server refuses. While
    the Lease is held, the result has these errors as its failure, beside the moves that were made.
    """
    try:
        deadline, begun = step.api.deadline, step.state.held is not None
        with contextlib.closing(step.cluster), step_bounded(deadline, begun=begun):
            result = step.check() if check else step.run()
    except LeaseLost as error:
        result = step.failed(str(error))
    except TRANSIENT_ERRORS as error:
        result = step.transient_failure(error)
    except (ApiError, InvalidInput, ComputingTimeout) as error:
        result = step.final_failure(error)
    if result.failure:
        result.failure += step.undo_hint()
    result.places = step.places(result)
    result.progress += step.outage.lines
    return result


class RolloutStep:
    """A step of a rollout. The step of another run overrides the methods without an underscore.

    `listening`: whether a process still reads the result. If not, no move begins. `permission` is what a user does
    to apply with a restart the changes that are not about placement."""

    role: Role = "mover"
    task = "rollout"
    permission = PERMISSION

    def __init__(
        self, api: ApiClient, options: RolloutOptions, state: RolloutState, listening: Listening
    ) -> None:
        self.began = uptime()
        self.before = state.elapsed
        limit = min(STEP_LIMIT, max(0.0, options.run_timeout - state.elapsed) + OVERTIME)
        if state.held is not None:
            deadline = Deadline(limit)
        else:  # the module's own deadline: each page of a list extends it
            long = limit >= api.deadline.remaining
            deadline = api.deadline if long else api.deadline.within(limit)
        self.api = api.under(deadline)
        self.cluster = FollowedCluster(self.api)
        self.options = options
        self.state = state
        self.listening = listening
        self.report = StepReport(state.count)
        self.revisions = StartRevisions(
            self.api, lenient=state.held is None, permission=self.permission
        )
        self.reconciler: Reconciler | None = None
        self.journal: RunJournal | None = None  # as it was when this step took or read the Lease
        self._failures_before = state.failures
        self.pipe = ReportPipe(state.pipe)
        self.outage = OutageReport(
            self.api, self.pipe, state.away_since, begun=state.held is not None
        )
        self.time = StepTime(self.began, self.pipe.open)
        self._view: JudgedSnapshot | None = None
        self._timed_out = f"not done within {options.run_timeout} s (run_timeout)"

    @property
    def elapsed(self) -> float:
        return self.before + uptime() - self.began

    def check(self) -> StepResult:
        """Check mode: the plan, and whether a run would be allowed to make it."""
        reading = lease.read_if_allowed(self.api)
        view = self.read_cluster()
        plan = view.plan(self.options)
        unfinished = None
        if self.options.approved is not None and reading is not None:
            unfinished = takeover.read_journal(reading)
        self.require_approved(view, plan, unfinished)
        begins = not self.nothing_to_do(view, plan)
        if self.options.require_rights or begins:
            self.refuse(view, plan)
            self._require_rights(reading, (), view, plan)
        creates_lease = begins and reading is not None and not reading.exists
        plan = self.planned(view, plan)
        wall_clock = datetime.datetime.now(datetime.timezone.utc)
        moves, stop_reason = until_stopped(self.options, plan.moves, wall_clock)
        left = plan.moves[len(moves) :]
        if not self.options.require_rights:  # otherwise the moves are planned later
            self._report_plan(view, plan)
            self.report.lines += [f"would create {lease.NAME}"] if creates_lease else []
            nodes = report.NodeDescriptions.of(view.snapshot, self.options.zone_key)
            self.report.lines += report.planned_lines(moves, nodes)
            self.report.lines += [report.stopped(stop_reason, left)] if stop_reason else []
        result = self.result(finished=True, plan=replace(plan, moves=left))
        if not self.options.require_rights:
            approvable = self.approvable(view, plan)
            result.plan = approvable.as_json() if approvable is not None else None
        result.moves = [report.planned_move(move) for move in moves]
        ends, kept = self._check_holds(view, {move.uid for move in moves})
        result.stop_reason, result.changed = stop_reason, bool(moves) or ends
        self.finish_check(view, plan, result)
        result.warnings += kept
        return result

    def _check_holds(self, view: View, moved: t.Collection[str]) -> tuple[bool, list[str]]:
        """Whether a run that moves these instances gives a workload its own rollout back, and why others stay held."""
        ends = False
        kept: list[str] = []
        for hold in view.holds:
            why = why_kept_after(hold, view.candidates, moved)
            if can_end(hold, view.candidates):
                written, why = holds.prepare(self.api, hold, check=True)
                ends = ends or written > 0 or not why
            kept += [why] if why else []
        return ends, kept

    def require_approved(self, view: View, plan: Plan, unfinished: RunJournal | None) -> None:
        """Raises InvalidInput where the approved plan, if there is one, does not fit the cluster. Nothing was written
        by then."""
        require_approved(self.api, view, plan, self.options, unfinished)

    def approvable(self, view: View, plan: Plan) -> ApprovedPlan | None:
        """The plan that check mode returns. None for a run that has none."""
        return plan_of(self.api, view, plan, self.options)

    def planned(self, _view: View, plan: Plan) -> Plan:
        """The plan as check mode shows it."""
        return plan

    def finish_check(self, view: View, plan: Plan, result: StepResult) -> None:
        """Add to a check mode result what `finish` would do."""
        result.warnings += own_rollouts.warnings(view.own_rollouts)
        result.report_not_enforced(view.snapshot, view.candidates, plan, self.options.topology)
        if self.options.places is None:
            result.judge_skipped(plan, fail=self.options.fail_on_skipped)
        else:
            result.judge_places(plan.skipped, fail=self.options.fail_on_skipped)

    def run(self) -> StepResult:
        held = self.state.held
        if self.state.interrupted:
            reason = f"the Ansible task of this {self.task} was interrupted"
            return self._leave(held, reason) if held is not None else self.failed(reason)
        if held is not None:
            ours = lease.read(self.api)
            journal = self.journal = takeover.journal_of(ours, held)
            keeper = LeaseKeeper(self.api, held, self.began - lease.DURATION, ours.journal)
            with keeper.renewed_in_background():
                self._outdate_pending_deletes(held, journal)
                return self._reconcile(keeper, journal, self.read_cluster(journal.records))
        if self.elapsed >= self.options.run_timeout:
            return self.failed(f"{self._timed_out}: {self.state.waiting}")
        reading = lease.read_if_allowed(self.api)
        unfinished = takeover.read_journal(reading) if reading is not None else None
        records = unfinished.records if unfinished is not None else ()
        view = self.read_cluster(records)
        plan = view.plan(self.options)
        self.require_approved(view, plan, unfinished)
        if reading is not None and not records and self.nothing_to_do(view, plan):
            self._report_plan(view, plan)
            kept = [why_kept(hold, view.candidates) for hold in view.holds]
            result = self.finish(view, plan)
            result.warnings += kept
            return result
        self.refuse(view, plan)
        self._require_rights(reading, records, view, plan)
        reading = reading or lease.read(self.api)
        taken = takeover.take(self.api, reading, unfinished, self.options, self.state, self.elapsed)
        if isinstance(taken, str):
            self.state.waits(taken, self.report)
            self.api.deadline.pause(takeover.READ_AGAIN)
            return self.result(finished=False)
        keeper, journal = taken
        self.journal = journal
        self.report.lines += [] if reading.exists else [f"created {lease.NAME}"]
        self.report.lines += takeover.takeover_lines(unfinished, journal)
        with keeper.renewed_in_background():
            self._outdate_pending_deletes(keeper.held, journal)
            if journal.done:  # by the run that is continued
                plan = view.plan(self.options, journal)
            self._report_plan(view, plan, f"run {journal.run}")
            return self._reconcile(keeper, journal, view)

    def nothing_to_do(self, view: View, plan: Plan) -> bool:
        """Whether the run can end before it takes the Lease."""
        found = view.holds
        if any(can_end(hold, view.candidates) for hold in found):
            return False
        if why_waiting(found, view.candidates) or own_rollouts.why_waiting(view.own_rollouts):
            return False
        return not (plan.moves or any(left.temporary for left in plan.skipped))

    def refuse(self, _view: View, _plan: Plan) -> None:
        """Raises InvalidInput where the run must not begin. Nothing was written by then."""

    def prepare(self, _keeper: LeaseKeeper, view: View) -> View:
        """Called in each step that holds the Lease, before a move begins. Returns the view to plan from."""
        return view

    def _require_rights(
        self,
        reading: LeaseReading | None,
        records: t.Sequence[MoveRecord],
        view: View,
        plan: Plan,
    ) -> None:
        """Raises InvalidInput with every right that is missing, or if there is no Lease and it may not be created.
        Checked once, before anything is written, and not again while the run waits for the Lease."""
        if self.state.renewal:
            return
        rights = rights_of_run(plan, records, view.candidates, self.options)
        require_rights(self.api, rights | self.other_rights(view), role=self.role)
        if reading is not None:
            lease.require(self.api, reading)

    def other_rights(self, view: View) -> set[Right]:
        """Rights beside those for the Lease and the moves."""
        return holds.rights_of(view.holds)

    def failed(self, reason: str, plan: Plan | None = None) -> StepResult:
        result = self.result(finished=True, plan=plan)
        result.failure = reason
        return result

    def transient_failure(self, error: ApiError) -> StepResult:
        """The API server does not answer. A run that has begun continues when it answers again. When its
        time is over it has one more step, to cancel migrations and to report the moves in flight.

        Lines about moves that the journal on the Lease does not have are dropped: the next step reports
        them."""
        held = self.state.held
        if held is None:
            raise error
        begins = self.state.failing_since < 0
        if begins:
            self.state.failing_since = self.before
        reason = ""
        if self.before >= self.options.run_timeout:
            reason = f"{self._timed_out}: {error}"
        elif self.elapsed - self.state.failing_since >= PATIENCE:
            reason = f"no answer for {PATIENCE:.0f} s: {error}"
        if reason:
            return self._leave(
                held, f"{reason}; when it answers, launch the same job again: it continues"
            )
        if self.reconciler is not None:
            dropped = self.report.revert(self.report.saved)
            if self.state.waiting in dropped:
                self.state.waiting = ""
        if begins and not self.outage.since:
            self.report.lines.append(f"waiting for the API server: {error}")
        self.api.deadline.pause(1.0)
        return self.result(finished=False)

    def final_failure(self, error: ApiError | InvalidInput | ComputingTimeout) -> StepResult:
        """An error that later steps would have too: a missing right, a deleted workload, a cluster that
        takes too long to compute."""
        held = self.state.held
        if held is None:
            raise error
        return self._leave(held, str(error))

    def _leave(self, held: HeldLease, reason: str) -> StepResult:
        """Fail and release the Lease. The next run continues the moves in flight."""
        journal = self.reconciler.journal if self.reconciler is not None else self.journal
        records = journal.records if journal is not None else ()
        left = [*map(report.move_in_flight, records)] or self.state.in_flight
        result = self.failed(
            reason + takeover.leave(self.api, held, journal, self.task, known=self.state.in_flight)
        )
        result.skipped += left
        return result

    def read_cluster(self, records: t.Iterable[MoveRecord] = (), *, fresh: bool = False) -> View:
        """The cluster as it is now; with `fresh` all lists are read again instead of followed by watches.
        `records` may be those of an earlier run, in other namespaces."""
        scope = ReadScope(self.namespaces(records), WRITABLE_KINDS, budgets=True)
        snapshot = self.snapshot(scope, fresh=fresh)
        if self._view is None or self._view.snapshot is not snapshot:
            why_no_restart = self.revisions.why_no_restart
            selection = wanted(self.options, snapshot)
            self._view = JudgedSnapshot.of(snapshot, selection, self.options, why_no_restart)
        return self._view

    def snapshot(
        self, scope: ReadScope, *, fresh: bool = False, again: t.Collection[str] = ()
    ) -> Snapshot:
        """As `FollowedCluster.snapshot`."""
        began = uptime()
        snapshot = self.cluster.snapshot(scope, fresh=fresh, again=again)
        self.time.reading = self.time.reading or uptime() - began
        return snapshot

    def namespaces(self, records: t.Iterable[MoveRecord]) -> tuple[str, ...]:
        of_records = (record.workload.namespace for record in records)
        return tuple(dict.fromkeys((*namespaces_of(self.options), *of_records)))

    def _outdate_pending_deletes(self, held: HeldLease, journal: RunJournal) -> None:
        """Once a run, before any other request of it."""
        if not self.state.outdated:
            refused = takeover.outdate_pending_deletes(self.api, held, journal)
            self.state.outdated = True
            self.state.not_outdated = [record.uid for record, _message in refused]
            self.report.lines += [report.may_still_end(*pair) for pair in refused]

    def _reconcile(self, keeper: LeaseKeeper, journal: RunJournal, view: View) -> StepResult:
        """Reconcile on each change until the run or the time of this step is over. The run ends successfully
        only after a fresh reading."""
        self.cluster.follow(self.api.deadline, wakes_on(self.namespaces(journal.records)))
        view = self.prepare(keeper, view)
        state, clock = self.state, self.state.base + self.elapsed
        reconciler = self.reconciler = Reconciler(
            keeper, self.options, journal, self.report, clock, state.retry_at, state.not_outdated
        )
        waiting = ""
        fresh = True
        view_seconds = 0.0  # of the last view: on a large cluster one view serves several events
        while True:
            if self.elapsed >= self.options.run_timeout:
                return self._time_over(reconciler, view, waiting)
            now = reconciler.reconcile(view)
            self.state.failing_since = -1.0
            if not self.goes_on(reconciler, now):
                if fresh or reconciler.failed:
                    return self._end(reconciler, now)
                fresh = True
                view = self.read_cluster(reconciler.journal.records, fresh=True)
                continue
            waiting = now.waiting or (waiting if now.settling else "")
            self.state.waits(f"waiting: {waiting}" if waiting else "", self.report)
            if not self.listening():
                reason = f"the Ansible task of this {self.task} has ended"
                return self._leave(keeper.held, reason)
            left = self._time_left(reconciler, now)
            if left <= 0:
                reconciler.keep_lease(force=True)
                left = self._time_left(reconciler, now)
            if left <= 0:
                return self.result(finished=False)
            if not (now.settling and now.touched):  # `catch_up` waits for touched objects
                seconds, settle = left, max(SETTLE, view_seconds)
                if now.settling:
                    seconds = settle = SETTLE
                wait_for(self.cluster.changed, seconds, self.api.deadline, self.listening, settle)
            fresh = now.settling and not (reconciler.in_flight or now.plan.moves)
            if not fresh:
                self.cluster.catch_up(now.touched)
            began = uptime()
            view = self.read_cluster(reconciler.journal.records, fresh=fresh)
            view_seconds = uptime() - began

    def _time_left(self, reconciler: Reconciler, now: Reconciliation) -> float:
        """Seconds until this step should end, or until its report is due."""
        self.pipe.show(self.report, self.api.secrets)
        young = not now.settling and reconciler.only_young(YOUNG)
        self.time.report(len(self.report.lines) > self.report.shown, young=young)
        return self.time.ends - uptime()

    def goes_on(self, reconciler: Reconciler, now: Reconciliation) -> bool:
        """Whether a move is in flight, one may begin later, or a workload replaces its pods."""
        if reconciler.in_flight or now.settling:
            return True
        if reconciler.failed:
            return False
        reasons = [own_rollouts.why_waiting(now.view.own_rollouts)]
        if not now.stop_reason:
            reasons += [skipped.reason for skipped in now.plan.skipped if skipped.temporary]
            reasons.append(why_waiting(now.view.holds, now.view.candidates))
        temporary = next(filter(None, reasons), "")
        now.waiting = now.waiting or temporary
        return bool(temporary or (now.plan.moves and not now.stop_reason))

    def _end(self, reconciler: Reconciler, now: Reconciliation) -> StepResult:
        """No move is in flight, and none is going to begin."""
        if not self.options.fail_on_skipped or reconciler.failed:
            self.report.lines += map(report.skipped_line, report.no_node(now.plan))
        if now.stop_reason:
            self.report.lines.append(report.stopped(now.stop_reason, now.plan.moves))
        journal = reconciler.journal
        text = journals.write(journal) if journal.records else ""
        given_up = reconciler.given_up(now.view)
        failed = journal.failed if reconciler.failed else 0
        if given_up or failed:
            reconciler.keeper.release(text)
            result = self.result(finished=True, plan=now.plan)
            result.failure = report.why_failed(
                given_up, failed, self.options.failures_allowed, self.state.failures
            )
            result.skipped += [report.move_in_flight(record) for record in given_up]
            return result
        kept = self._end_holds(reconciler, now.view)
        result = self.finish(now.view, now.plan)
        result.warnings += kept
        result.stop_reason = now.stop_reason
        reconciler.keeper.release(text)
        return result

    def _end_holds(self, reconciler: Reconciler, view: View) -> list[str]:
        """Give the workloads that this run held their own rollouts back. Returns why others stay held."""
        keeper, written = reconciler.keeper, 0
        kept: list[str] = []
        ending: list[Hold] = []
        for hold in view.holds:
            count, why = 0, why_kept(hold, view.candidates)
            if not why:
                count, why = holds.prepare(keeper.api_while_ours(), hold)
            written += count
            if why:
                kept.append(why)
            else:
                ending.append(hold)
        if written:
            self.report.changed = True
            self.api.deadline.pause(LABELS_SEEN)
        for hold in ending:
            if why := holds.end(keeper.api_while_ours(), hold):
                kept.append(why)
            else:
                self.report.lines.append(holds.ended(hold))
                self.report.changed = True
        return kept

    def finish(self, view: View, plan: Plan) -> StepResult:
        """Report skipped instances, and those whose rules are not enforced yet."""
        result = self.result(finished=True, plan=plan)
        result.warnings += own_rollouts.warnings(view.own_rollouts)
        result.report_not_enforced(view.snapshot, view.candidates, plan, self.options.topology)
        approved = self.options.approved
        if self.options.places is None:
            result.judge_skipped(plan, fail=self.options.fail_on_skipped)
        else:
            approvable = [x for x in plan.skipped if approved is None or x.uid in approved.by_uid]
            result.judge_places(approvable, fail=True)
            others = [x for x in plan.skipped if x not in approvable]
            result.judge_places(others, fail=self.options.fail_on_skipped)
        result.failure = result.failure or not_made(self.options.approved, plan.skipped)
        return result

    def places(self, result: StepResult) -> list[dict[str, JSON]]:
        """Where each VM of the option `places` runs when the run has ended, and why it is not in its place."""
        asked = self.options.places
        if asked is None or self._view is None or not result.finished:
            return []
        return report.places(
            asked, self._view.snapshot, result.moves, result.deferred, result.skipped
        )

    def _report_plan(self, view: View, plan: Plan, run: str = "") -> None:
        """With fail_on_skipped the failure names what is skipped."""
        self.report.lines += report.plan_lines(
            plan, run, name_skipped=not self.options.fail_on_skipped, selected=self.selected(view)
        )
        self.report.lines += holds.lines(view.holds, view.candidates)

    def selected(self, view: View) -> int | None:
        """How many instances were looked at, which tells a wrong namespace from a good placement."""
        return len(view.candidates)

    def _time_over(self, reconciler: Reconciler, view: View, waiting: str) -> StepResult:
        reconciler.cancel_all(view)
        journal = reconciler.journal
        plan = view.plan(self.options, journal)
        undone = self.undone(journal.records, plan, waiting)
        kept = takeover.release(self.api, reconciler.keeper.held, journals.write(journal))
        result = self.failed(f"{self._timed_out}. {undone}{kept}", plan)
        result.skipped += [report.move_in_flight(record) for record in journal.records]
        return result

    def undo_hint(self) -> str:
        """The end of a sentence about a failure: what stays, and how to undo it."""
        return ""

    def undone(self, records: t.Sequence[MoveRecord], plan: Plan, waiting: str) -> str:
        """What a run whose time is over did not do, and why."""
        rollouts = self._view.own_rollouts if self._view is not None else ()
        return report.undone(records, plan, waiting, own_rollouts.unfinished(rollouts))

    def result(self, *, finished: bool, plan: Plan | None = None) -> StepResult:
        """What the step returns."""
        self.state.elapsed = self.elapsed
        self.state.changed = self.state.changed or self.report.changed
        self.state.count = self.report.count
        self.state.failures = self._failures_before + report.failures(self.report.moves)
        self.state.away_since = self.outage.since
        if self.reconciler is not None:
            records = self.reconciler.journal.records[:NAMED]
            self.state.in_flight = [report.move_in_flight(record) for record in records]
        plan = plan or Plan()
        return StepResult(
            finished=finished,
            state=self.state,
            moves=list(self.report.moves),
            deferred=[report.planned_move(move) for move in plan.moves],
            skipped=[skipped_as_json(instance) for instance in plan.skipped],
            progress=self.report.lines,
            shown=self.report.shown,
            changed=self.state.changed,
        )
