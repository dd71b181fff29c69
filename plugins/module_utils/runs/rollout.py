# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""One bounded step of a roll-out.

A step looks, holds the cluster's Lease, makes turns for some seconds and returns. Its caller repeats
it until `finished`. What a step must know of those before it stands in the journal on the Lease, so
a step that dies at any point is continued by the next one, of this run or of another.
"""

from __future__ import annotations

import time
import typing as t

from ..api.deadline import Deadline
from ..api.errors import ApiError, Forbidden
from ..api.requests import Api
from ..cluster import lease
from ..cluster.apply import apply
from ..cluster.lease import Held, LeaseLost, Reading
from ..cluster.read import Scope, read_snapshot
from ..cluster.rights import require_rights
from ..model.finding import Fault, Refused
from ..model.plan import Plan
from ..movement.entry import Entry
from . import journal as journals
from . import progress, results, scope, takeover, trouble
from .clearing import cleared_again, clearing, journalled
from .giving_back import give_back, leave
from .journal import Journal
from .needed_rights import needed_rights
from .parameters import Parameters
from .state import State, StepResult
from .takeover import journal_of
from .turn import Turns, View
from .watching import SETTLE, Watcher, paths

STEP_SECONDS = 10.0
"""A step begins no new turn after this."""

TELL_AFTER = 2.0
"""A step with something to tell ends after this, so that a line is read soon after it was true. What
is over by then is told with its beginning."""

STEP_LIMIT = 60.0
"""Nothing in a step takes longer: reading a very large cluster, an API server that is slow."""

OVERTIME = 10.0
"""Seconds past the run's timeout in which a step may still look, call off and tell."""

Listening = t.Callable[[], bool]


def rollout_step(
    api: Api,
    parameters: Parameters,
    state: State,
    *,
    check: bool = False,
    listening: Listening = lambda: True,
) -> StepResult:
    """Go on with the run that `state` tells of. `listening` says whether anybody still waits for
    the result; where nobody does, no move is begun any more.

    Raises Refused for input that cannot be used, ApiError for what the API server refuses; once the
    Lease is held these are a failure in the result, beside what was done until then.
    """
    step = _Step(api, parameters, state, listening)
    try:
        return step.planned() if check else step.run()
    except LeaseLost as error:
        return step.failed(str(error))
    except trouble.TROUBLE as error:
        return step.troubled(error)
    except (ApiError, Refused) as error:
        return step.cut_short(error)


class _Step:
    def __init__(
        self, api: Api, parameters: Parameters, state: State, listening: Listening
    ) -> None:
        self.began = time.monotonic()
        self.before = state.elapsed
        left = max(0.0, parameters.timeout - state.elapsed) + OVERTIME
        limit = min(STEP_LIMIT, left)
        deadline = Deadline(limit) if state.held is not None else api.deadline.within(limit)
        self.api = api.under(deadline)
        self.parameters = parameters
        self.state = state
        self.listening = listening
        self.lines: list[str] = []
        self.told = 0.0
        self.turns: Turns | None = None
        self.journal: Journal | None = None
        """As it was read or written when this step came to hold the Lease."""
        self.cleared: list[str] = []
        self._renewed = self.began - lease.DURATION

    @property
    def elapsed(self) -> float:
        return self.before + time.monotonic() - self.began

    def planned(self) -> StepResult:
        """Check mode: the plan, and whether a run would be allowed to make it."""
        reading = self._lease_if_allowed()
        view = self._look()
        plan = view.plan(self.parameters)
        if plan.moves or any(left.passing for left in plan.left):
            self._require_rights(reading, (), view, plan)
        self.lines += progress.whole("(check mode)", plan)
        places = progress.Places.of(view.snapshot, self.parameters.zone_key)
        self.lines += progress.foretold(plan.moves, places)
        self.cleared = [str(write.target) for write in clearing(view.candidates)]
        self.lines += progress.forgotten(self.cleared, check=True)
        result = self._result(finished=True)
        self._tell_standing(result, view, plan)
        result.moves = [results.planned_move(move) for move in plan.moves]
        result.left = [results.left_behind(left) for left in plan.left]
        result.changed = bool(plan.moves or result.cleared)
        return result

    def run(self) -> StepResult:
        held = self.state.held
        if held is not None:
            journal = self._ours(lease.read(self.api), held)
            self._fence(held, journal)
            return self._turns(held, journal, self._look(journal.entries))
        if self.elapsed >= self.parameters.timeout:
            return self.failed(f"not done within {self.parameters.timeout} s: {self.state.waiting}")
        reading = self._lease_if_allowed()
        unfinished = journal_of(reading) if reading is not None else None
        entries = unfinished.entries if unfinished is not None else ()
        view = self._look(entries)
        plan = view.plan(self.parameters)
        waits = any(left.passing for left in plan.left)
        if reading is not None and not (plan.moves or waits or entries):
            if plan.left:
                self.lines += progress.whole("(nothing to move)", plan)
            return self._finish(view, plan)
        self._require_rights(reading, entries, view, plan)
        taken = self._take(reading or lease.read(self.api), unfinished)
        if taken is None:
            return self._result(finished=False)
        held, journal = taken
        self.lines += progress.whole(journal.run, plan)
        return self._turns(held, journal, view)

    def _lease_if_allowed(self) -> Reading | None:
        """None where it may not be read: what else is missing is told together with that."""
        try:
            return lease.read(self.api)
        except Forbidden:
            return None

    def _require_rights(
        self, reading: Reading | None, entries: t.Sequence[Entry], view: View, plan: Plan
    ) -> None:
        """Raises Refused with every right that is missing. Asked once, before anything is written:
        not again while the Lease's holder is waited for."""
        if self.state.mark:
            return
        moves = [(move.method, move.instance) for move in plan.moves]
        moves += [(entry.method, entry.instance) for entry in entries]
        exists = reading is not None and reading.exists
        rights = needed_rights(moves, journalled(view.candidates), lease_exists=exists)
        require_rights(self.api, rights, role="mover")

    def failed(self, reason: str) -> StepResult:
        result = self._result(finished=True)
        result.failure = reason
        return result

    def troubled(self, error: ApiError) -> StepResult:
        """The API server does not answer. A run that has begun goes on when it does again. When its
        time is over it has one more step, to call off what it can and to say what is left."""
        held = self.state.held
        if held is None:
            raise error
        begins = self.state.trouble < 0
        if begins:
            self.state.trouble = self.before
        if self.before >= self.parameters.timeout:
            return self._leave(held, f"not done within {self.parameters.timeout} s: {error}")
        if self.elapsed - self.state.trouble >= trouble.PATIENCE:
            return self._leave(held, f"no answer for {trouble.PATIENCE:.0f} s: {error}")
        self._untell()
        if begins:
            self.lines.append(f"waiting for the API server: {error}")
        self.api.deadline.pause(1.0)
        result = self._result(finished=False)
        if self.turns is not None:
            result.moves = self.turns.ended[: self.turns.saved]
        return result

    def cut_short(self, error: ApiError | Refused) -> StepResult:
        """Rights that were taken away, a workload that was deleted: no later step can go on."""
        held = self.state.held
        if held is None:
            raise error
        return self._leave(held, str(error))

    def _leave(self, held: Held, reason: str) -> StepResult:
        """Fail. What is in flight is left to whoever takes the Lease, which is given back."""
        journal = self.turns.journal if self.turns is not None else self.journal
        return self.failed(reason + leave(self.api, held, journal))

    def _untell(self) -> None:
        """Take back the lines about what no journal has: the next step sees and tells it again."""
        if self.turns is None:
            return
        untold = self.lines[self.turns.told :]
        del self.lines[self.turns.told :]
        if self.state.waiting in untold:
            self.state.waiting = ""

    def _look(self, entries: t.Iterable[Entry] = ()) -> View:
        """Read the cluster. What is in flight may be of a run before, in other namespaces."""
        namespaces = self._places(entries)
        snapshot = read_snapshot(self.api, Scope(namespaces, scope.READ_KINDS))
        return View.of(snapshot, scope.wanted(self.parameters, snapshot), self.parameters)

    def _places(self, entries: t.Iterable[Entry]) -> tuple[str, ...]:
        asked = scope.namespaces_of(self.parameters)
        return tuple(dict.fromkeys((*asked, *(entry.workload.namespace for entry in entries))))

    def _ours(self, reading: Reading, held: Held) -> Journal:
        journal = journal_of(reading)
        if reading.holder != held.run or reading.term != held.term or journal is None:
            raise LeaseLost(held, reading)
        self.journal = journal
        return journal

    def _take(self, reading: Reading, unfinished: Journal | None) -> tuple[Held, Journal] | None:
        """The Lease and the journal to go on with; None while it is not known whether the holder
        is alive. Raises Refused where he is."""
        found = lease.judge(reading, self.state.watched, self.elapsed)
        self.state.mark, self.state.marked = found.watched.mark, found.watched.since
        if not found.free:
            self._wait_for(reading, found.alive)
            return None
        journal = takeover.continued(unfinished, self.parameters)
        held = lease.take(self.api, reading, journal.run, journals.write(journal))
        if held is None:
            return None
        self.journal = journal
        self.state.run, self.state.term = held.run, held.term
        self.state.base = journal.clock - self.elapsed
        self.state.waiting = ""
        self._renewed = time.monotonic()
        self.lines += takeover.told(unfinished, journal)
        self._fence(held, journal)
        return held, journal

    def _fence(self, held: Held, journal: Journal) -> None:
        """Once, before anything is sent."""
        if not self.state.fenced:
            takeover.fence(self.api, held, journal)
            self.state.fenced = True

    def _wait_for(self, reading: Reading, alive: bool) -> None:
        if alive:
            raise Refused(
                [
                    Fault(
                        lease.NAME,
                        f"is held by run {reading.holder}, which is at work"
                        f" (renewed {reading.renewed}): wait until it has ended",
                    )
                ]
            )
        self._say_waiting(
            f"waiting up to {lease.DURATION} s for a sign of life of run {reading.holder}, which"
            f" holds {lease.NAME} (renewed {reading.renewed})"
        )
        self.api.deadline.pause(min(2.0, STEP_SECONDS))

    def _turns(self, held: Held, journal: Journal, view: View) -> StepResult:
        base = self.state.base + self.elapsed
        turns = self.turns = Turns(
            self.api,
            self.parameters,
            held,
            journal,
            base,
            self.lines,
            renewed=self._renewed,
            count=self.state.count,
        )
        watcher = Watcher(self.api, self.api.deadline.within(STEP_SECONDS))
        namespaces = self._places(journal.entries)
        kubevirt = view.snapshot.platform.kubevirt is not None
        watcher.start(paths(namespaces, virtual_machines=kubevirt))
        while True:
            if self.elapsed >= self.parameters.timeout:
                return self._time_over(turns, view)
            plan = turns.turn(view)
            self.state.trouble = -1.0
            if not self._goes_on(turns, plan):
                return self._end(turns, view, plan)
            self._say_waiting(f"waiting: {turns.waiting}" if turns.waiting else "")
            if not self.listening():
                return self._abandon(turns)
            left = self._time_left()
            if left <= 0:
                turns.keep_lease(force=True)
                return self._result(finished=False)
            watcher.wait(SETTLE if turns.settled else left, self.listening)
            watcher.forget()
            view = self._look(turns.journal.entries)

    def _time_left(self) -> float:
        """Seconds until this step should end."""
        now = time.monotonic()
        if self.lines and not self.told:
            self.told = now
        ends = self.began + STEP_SECONDS
        return (min(ends, self.told + TELL_AFTER) if self.told else ends) - now

    def _goes_on(self, turns: Turns, plan: Plan) -> bool:
        if turns.journal.entries or turns.settled:
            return True
        if turns.failed or turns.stopped:
            return False
        if not turns.waiting:
            turns.waiting = next((x.reason for x in plan.left if x.passing), "")
        return bool(plan.moves) or any(left.passing for left in plan.left)

    def _end(self, turns: Turns, view: View, plan: Plan) -> StepResult:
        """Nothing is in flight, and nothing more is going to begin."""
        journal = turns.journal
        if turns.failed:
            lease.release(self.api, turns.held)
            result = self._result(finished=True, plan=plan)
            result.failure = (
                f"{journal.failed} moves failed, failures_allowed is"
                f" {self.parameters.failures_allowed}: {results.failures(result.moves)}"
            )
            return result
        result = self._finish(view, plan)
        result.stopped = turns.stopped
        lease.release(self.api, turns.held)
        return result

    def _finish(self, view: View, plan: Plan) -> StepResult:
        """Clear what is effective now, and tell what is left."""
        writes = clearing(view.candidates)
        applied = apply(self.api, writes, recompute=cleared_again)
        self.cleared = [str(write.target) for write in applied.done]
        self.lines += progress.forgotten(self.cleared, check=False)
        self.state.changed = self.state.changed or bool(applied.done)
        result = self._result(finished=True, plan=plan)
        self._tell_standing(result, view, plan)
        if applied.failed:
            errors = "; ".join(str(found.error) for found in applied.failed)
            result.failure = f"the journals of some workloads could not be cleared: {errors}"
        return result

    def _tell_standing(self, result: StepResult, view: View, plan: Plan) -> None:
        standing = results.not_in_effect(view.candidates, plan)
        result.not_in_effect = [results.well_placed(found) for found in standing]
        self.lines += results.told(standing)

    def _time_over(self, turns: Turns, view: View) -> StepResult:
        turns.cancel_all(view)
        plan = view.plan(self.parameters, turns.journal)
        undone = results.undone(turns.journal.entries, plan, turns.waiting)
        text = journals.write(turns.journal) if turns.journal.entries else ""
        kept = give_back(self.api, turns.held, text)
        result = self._result(finished=True, plan=plan)
        result.failure = f"not done within {self.parameters.timeout} s; left: {undone}{kept}"
        return result

    def _abandon(self, turns: Turns) -> StepResult:
        """Nobody waits for us any more. What is in flight is left to whoever takes the Lease."""
        return self._leave(turns.held, "the task that this step belongs to is gone")

    def _say_waiting(self, reason: str) -> None:
        """A reason for waiting is told once, until another takes its place."""
        if reason and reason != self.state.waiting:
            self.lines.append(reason)
        if reason:
            self.state.waiting = reason

    def _result(self, *, finished: bool, plan: Plan | None = None) -> StepResult:
        self.state.elapsed = self.elapsed
        turns = self.turns
        if turns is not None:
            self.state.changed = self.state.changed or turns.changed
            self.state.count = turns.counted
        return StepResult(
            finished=finished,
            state=self.state,
            moves=list(turns.ended) if turns is not None else [],
            remaining=[results.planned_move(move) for move in plan.moves]
            if plan is not None
            else [],
            left=[results.left_behind(left) for left in plan.left] if plan is not None else [],
            cleared=self.cleared,
            progress=self.lines,
            changed=self.state.changed,
        )
