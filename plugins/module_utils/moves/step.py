# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""One bounded step of a run: read, hold the cluster's Lease, reconcile for some seconds, return.

The caller repeats it until `finished`. All that a step must know of earlier ones is in the journal on
the Lease, so the next step, of this run or of another one, continues after a step that was killed.
What is moved, and when that is over, is the source's (`move_source`).
"""

from __future__ import annotations

import contextlib
import time
import typing as t
from dataclasses import replace

from ..api.errors import TRANSIENT_ERRORS, ApiError
from ..api.progress_pipe import PATIENCE, REMIND_AFTER, no_answer
from ..api.transport import ComputingTimeout, Deadline, uptime
from ..cluster import lease
from ..cluster.lease import HeldLease, LeaseKeeper, LeaseLost, LeaseReading
from ..model.findings import InvalidInput
from ..model.obstacle import Obstacle
from ..model.plan import Plan
from . import journal as journals
from . import report, takeover
from .journal import RunJournal
from .move import MoveRecord
from .move_source import AnyView, MoveSource, Wait
from .state import NAMED, RunState, StepReport, StepResult
from .watch import SETTLE, YOUNG, step_bounded, wait_for, wakes_on

if t.TYPE_CHECKING:
    from .reconcile import Reconciler
    from .reconciliation import Reconciliation


def run_step(source: MoveSource[AnyView], *, check: bool) -> StepResult:
    """Continue the run of the source's state.

    Raises InvalidInput for invalid options, ApiError for requests that the API server refuses. While
    the Lease is held, the result has these errors as its failure, beside the moves that were made.
    """
    step, context = Step(source), source.context
    ended_by: Exception | None = None
    try:
        deadline, begun = context.api.deadline, context.state.held is not None
        with contextlib.closing(context.cluster), step_bounded(deadline, begun=begun):
            result = step.check() if check else step.run()
    except LeaseLost as error:
        result, ended_by = context.failed(str(error)), error
    except TRANSIENT_ERRORS as error:
        result, ended_by = step.transient_failure(error), error
    except (ApiError, InvalidInput, ComputingTimeout) as error:
        result, ended_by = step.final_failure(error), error
    step.note_moves_in_flight()
    source.complete(result, ended_by)
    if result.failure:
        result.failure += context.hint()
    result.progress += context.api.transport.outage.taken()
    return result


def time_of_day(seconds_ago: float) -> str:
    """As in the lines about an API server that is away."""
    return time.strftime("%H:%M:%S %Z", time.localtime(time.time() - seconds_ago))


class Reminder:
    """The line that a waiting run prints each minute: what it waits for, and since when. When the last one was printed
    is known from step to step."""

    def __init__(self, state: RunState, lines: StepReport) -> None:
        self._state, self._report = state, lines
        self._printed = 0

    def remind(
        self, elapsed: float, clock: float, records: t.Sequence[MoveRecord], waiting: str
    ) -> None:
        """Add the line if it is due. `elapsed` are the seconds of the task, `clock` is that of the run, by which the
        moves in flight began. `waiting` is why the next move has not begun."""
        lines, state = self._report.lines, self._state
        if len(lines) == self._printed and elapsed - state.printed_at < REMIND_AFTER:
            return
        if len(lines) == self._printed:
            moves = [
                (time_of_day(clock - record.begun), record)
                for record in sorted(records, key=lambda record: record.begun)
            ]
            since = time_of_day(elapsed - state.waiting_since)
            if line := report.still_waiting(moves, waiting, since):
                lines.append(line)
        self._printed, state.printed_at = len(lines), elapsed

    def remind_of_outage(self, elapsed: float, error: ApiError, *, begins: bool) -> None:
        """The same while the API server is away: each step of the run ends without an answer. Its beginning is printed
        in another line (`begins`)."""
        state = self._state
        if not begins and elapsed - state.printed_at < REMIND_AFTER:
            return
        if not begins:
            since = time_of_day(elapsed - state.failing_since)
            self._report.lines.append(f"still {no_answer(since, error)}")
        state.printed_at = elapsed


@t.final
class Step(t.Generic[AnyView]):
    """A step of the run of a source."""

    def __init__(self, source: MoveSource[AnyView]) -> None:
        self._source = source
        self._context = source.context
        self._api, self._cluster = self._context.api, self._context.cluster
        self._state, self._report = self._context.state, self._context.report
        self._options = source.context.options
        self._reminder = Reminder(self._state, self._report)
        self._reconciler: Reconciler | None = None
        self._journal: RunJournal | None = None  # as it was when this step took or read the Lease
        self._timed_out = f"not done within {self._options.run_timeout} s (run_timeout)"

    def check(self) -> StepResult:
        """Check mode: the plan, and whether a run would be allowed to make it."""
        reading = lease.read_if_allowed(self._api)
        view = self._source.read()
        plan = self._source.plan(view, reading)
        begins = not self._source.nothing_to_do(view, plan)
        if self._options.require_rights or begins:
            ended = self._refuse(reading, (), view, plan)
            if ended is not None:
                return ended
        creates_lease = begins and reading is not None and not reading.exists
        creates = [f"would create {lease.NAME}"] if creates_lease else []
        return self._source.check(view, plan, creates)

    def run(self) -> StepResult:
        held = self._state.held
        if self._state.interrupted:
            reason = f"the Ansible task of this {self._context.task} was interrupted"
            if held is None:
                return self._context.failed(reason)
            soon = self._api.under(Deadline(takeover.RELEASE_LIMIT))
            with contextlib.suppress(ApiError, InvalidInput, LeaseLost):
                self._journal = takeover.journal_of(lease.read(soon), held)
            return self._leave(held, reason)
        if held is not None:
            return self._continue(held)
        if self._context.elapsed >= self._options.run_timeout:
            return self._context.failed(f"{self._timed_out}: {self._state.waiting}")
        reading = lease.read_if_allowed(self._api)
        unfinished = takeover.read_journal(reading) if reading is not None else None
        records = unfinished.records if unfinished is not None else ()
        view = self._source.read(records)
        plan = self._source.plan(view, reading)
        if reading is not None and not records and self._source.nothing_to_do(view, plan):
            self._report.lines += self._source.plan_lines(view, plan)
            return self._source.finish(view, plan, None)
        ended = self._refuse(reading, records, view, plan)
        if ended is not None:
            return ended
        return self._take_over(reading or lease.read(self._api), unfinished, view, plan)

    def _continue(self, held: HeldLease) -> StepResult:
        """The Lease is held since an earlier step."""
        ours = lease.read(self._api)
        journal = self._journal = takeover.journal_of(ours, held)
        keeper = LeaseKeeper(self._api, held, self._context.began - lease.DURATION, ours.journal)
        with keeper.renewed_in_background():
            self._outdate_pending_deletes(held, journal)
            return self._reconcile(keeper, journal, self._source.read(journal.records))

    def _take_over(
        self, reading: LeaseReading, unfinished: RunJournal | None, view: AnyView, plan: Plan
    ) -> StepResult:
        """Take the Lease, or wait for it."""
        taken = takeover.take(
            self._api, reading, unfinished, self._options, self._state, self._context.elapsed
        )
        if isinstance(taken, Obstacle):
            self._state.waits(taken.text, taken.text, self._report, self._context.elapsed)
            self._api.deadline.pause(takeover.READ_AGAIN)
            return self._context.result(finished=False)
        keeper, journal = taken
        self._journal = journal
        self._report.lines += [] if reading.exists else [f"created {lease.NAME}"]
        self._report.lines += takeover.takeover_lines(unfinished, journal)
        with keeper.renewed_in_background():
            self._outdate_pending_deletes(keeper.held, journal)
            if journal.done:  # by the run that is continued
                plan = view.plan(journal)
            self._report.lines += self._source.plan_lines(view, plan, f"run {journal.run}")
            return self._reconcile(keeper, journal, view)

    def _refuse(
        self,
        reading: LeaseReading | None,
        records: t.Sequence[MoveRecord],
        view: AnyView,
        plan: Plan,
    ) -> StepResult | None:
        """Raises InvalidInput where the source refuses the run, with every right that is missing, or if there is no
        Lease and it may not be created. Rights are checked once, before anything is written, and not again while the
        run waits for the Lease."""
        ended = self._source.refuse(view, plan, records)
        if ended is None and reading is not None and not self._state.renewal:
            lease.require(self._api, reading)
        return ended

    def transient_failure(self, error: ApiError) -> StepResult:
        """The API server does not answer. A run that has begun continues when it answers again. When its
        time is over it has one more step, to cancel migrations and to report the moves in flight.

        Lines about moves that the journal on the Lease does not have are dropped: the next step reports
        them."""
        held, state, before = self._state.held, self._state, self._context.before
        if held is None:
            raise error
        begins = state.failing_since < 0
        if begins:
            state.failing_since = before
        reason = ""
        if before >= self._options.run_timeout:
            reason = f"{self._timed_out}: {error}"
        elif self._context.elapsed - state.failing_since >= PATIENCE:
            reason = f"no answer for {PATIENCE:.0f} s: {error}"
        if reason:
            return self._leave(
                held, f"{reason}; when it answers, launch the same job again: it continues"
            )
        if self._reconciler is not None:
            dropped = self._report.revert(self._report.saved)
            if dropped:
                state.waiting = ""
        if begins:
            self._context.outage.begin(error, self._context.elapsed - state.failing_since)
        self._reminder.remind_of_outage(self._context.elapsed, error, begins=begins)
        self._api.deadline.pause(1.0)
        return self._context.result(finished=False)

    def final_failure(self, error: ApiError | InvalidInput | ComputingTimeout) -> StepResult:
        """An error that later steps would have too: a missing right, a deleted workload, a cluster that
        takes too long to compute."""
        held = self._state.held
        if held is not None:
            return self._leave(held, str(error))
        if self._context.writes:
            return self._context.failed(str(error))
        hint = self._context.hint()
        if hint and isinstance(error, InvalidInput):
            *others, last = error.errors
            message = f"{last.message.rstrip('.')}{hint}"
            raise InvalidInput([*others, replace(last, message=message)])
        raise error

    def note_moves_in_flight(self) -> None:
        """Keep the names of the moves that this step leaves."""
        if self._reconciler is not None:
            records = self._reconciler.journal.records[:NAMED]
            self._state.in_flight = [report.move_in_flight(record) for record in records]

    def _leave(self, held: HeldLease, reason: str) -> StepResult:
        """Fail and release the Lease. The next run continues the moves in flight."""
        journal = self._reconciler.journal if self._reconciler is not None else self._journal
        records = journal.records if journal is not None else ()
        known = self._state.in_flight
        left = [*map(report.move_in_flight, records)] or known
        released = takeover.leave(self._api, held, journal, self._context.task, known=known)
        result = self._context.failed(reason + released)
        result.skipped += left
        return result

    def _outdate_pending_deletes(self, held: HeldLease, journal: RunJournal) -> None:
        """Once a run, before any other request of it."""
        if not self._state.outdated:
            refused = takeover.outdate_pending_deletes(self._api, held, journal)
            self._state.outdated = True
            self._state.not_outdated = [record.uid for record, _message in refused]
            self._report.lines += [report.may_still_end(*pair) for pair in refused]

    def _reconcile(self, keeper: LeaseKeeper, journal: RunJournal, view: AnyView) -> StepResult:
        """Reconcile on each change until the run or the time of this step is over. The run ends successfully
        only after a fresh reading. A step that holds no Lease starts without what this imports."""
        from ..cluster.leader import Leader
        from .reconcile import Reconciler

        source, context = self._source, self._context
        self._cluster.follow(self._api.deadline, wakes_on(context.namespaces, context.waits_for))
        view = source.prepare(keeper, view, journal.records)
        reconciler = self._reconciler = Reconciler(
            keeper,
            self._options,
            journal,
            self._report,
            self._state.base + context.elapsed,
            self._state.retry_at,
            self._state.not_outdated,
            Leader(self._api, self._state.leader),
        )
        waiting: Wait | None = None
        fresh = True
        view_seconds = 0.0  # of the last view: on a large cluster one view serves several events
        while True:
            if context.elapsed >= self._options.run_timeout:
                return self._time_over(reconciler, view, waiting)
            now = reconciler.reconcile(view)
            self._state.failing_since = -1.0
            if not source.goes_on(view, reconciler, now):
                if fresh or reconciler.failed:
                    return self._end(reconciler, view, now)
                fresh = True
                view = source.read(reconciler.journal.records, fresh=True)
                continue
            waiting = now.waiting or (waiting if now.settling else None)
            self._say_waiting(reconciler, waiting)
            if not context.listening():
                reason = f"the Ansible task of this {context.task} has ended"
                return self._leave(keeper.held, reason)
            left = self._time_left(reconciler, now)
            if left <= 0:
                return context.result(finished=False)
            self._wait(now, left, view_seconds)
            fresh = now.settling and not (reconciler.in_flight or now.plan.moves)
            if not fresh:
                self._cluster.catch_up(now.touched)
            began = uptime()
            view = source.read(reconciler.journal.records, fresh=fresh)
            view_seconds = uptime() - began

    def _say_waiting(self, reconciler: Reconciler, waiting: Wait | None) -> None:
        """Why the next move has not begun, once; and each minute all that the run waits for."""
        elapsed, records = self._context.elapsed, reconciler.in_flight
        silence = reconciler.leader.silence if reconciler.leader is not None else None
        also = f"; {silence}" if silence is not None and not records else ""
        reason = f"waiting: {waiting}{also}" if waiting is not None else ""
        line = f"{waiting.line}{also}" if waiting is not None else ""
        self._state.waits(reason, f"waiting: {line}", self._report, elapsed)
        self._reminder.remind(elapsed, reconciler.clock, records, line)

    def _wait(self, now: Reconciliation, left: float, view_seconds: float) -> None:
        """Until a change, for at most the time that is left."""
        if now.settling and now.touched:
            return  # `catch_up` waits for touched objects
        seconds, settle = left, max(SETTLE, view_seconds)
        if now.settling:
            seconds = settle = SETTLE
        deadline, listening = self._api.deadline, self._context.listening
        wait_for(self._cluster.changed, seconds, deadline, listening, settle)

    def _time_left(self, reconciler: Reconciler, now: Reconciliation) -> float:
        """Seconds until this step should end, or until its report is due. At its end the journal is written, and what
        it has can be reported."""
        left = self._until_report(reconciler, now)
        if left <= 0:
            reconciler.keep_lease(force=True)
            left = self._until_report(reconciler, now)
        return left

    def _until_report(self, reconciler: Reconciler, now: Reconciliation) -> float:
        lines, time = self._report, self._context.time
        self._context.pipe.show(lines, self._api.secrets)
        young = not now.settling and reconciler.only_young(YOUNG)
        time.report(len(lines.lines) > lines.shown, young=young)
        return time.ends - uptime()

    def _end(self, reconciler: Reconciler, view: AnyView, now: Reconciliation) -> StepResult:
        """No move is in flight, and none is going to begin."""
        if not self._options.fail_on_skipped or reconciler.failed:
            self._report.lines += map(report.skipped_line, report.no_node(now.plan))
        if now.stop is not None:
            self._report.lines.append(report.stopped(now.stop, now.plan.moves))
        journal = reconciler.journal
        text = journals.write(journal) if journal.records else ""
        given_up = reconciler.given_up(view)
        failed = journal.failed if reconciler.failed else 0
        if given_up or failed:
            reconciler.keeper.release(text)
            result = self._context.result(finished=True, plan=now.plan)
            result.failure = report.failure(
                given_up, failed, self._options.failures_allowed, self._state.failures
            )
            result.skipped += [report.move_in_flight(record) for record in given_up]
            return result
        result = self._source.finish(view, now.plan, reconciler.keeper)
        result.stop = result.stop or now.stop
        reconciler.keeper.release(text)
        return result

    def _time_over(self, reconciler: Reconciler, view: AnyView, waiting: Wait | None) -> StepResult:
        reconciler.cancel_all(view)
        journal = reconciler.journal
        plan = view.plan(journal)
        undone = self._source.undone(journal.records, plan, waiting)
        kept = takeover.release(self._api, reconciler.keeper.held, journals.write(journal))
        why = f"{undone}; {kept}" if kept is not None else undone
        result = self._context.failed(f"{self._timed_out}. {why}", plan)
        result.skipped += [report.move_in_flight(record) for record in journal.records]
        return result
