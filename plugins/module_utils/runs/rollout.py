# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""One bounded step of a roll-out.

A step looks, holds the cluster's Lease, makes turns for some seconds and returns. Its caller repeats
it until `finished`. What a step must know of those before it stands in the journal on the Lease, so
a step that dies at any point is continued by the next one, of this run or of another.
"""

from __future__ import annotations

import secrets
import time
import typing as t

from ..api.errors import (
    MERGE_PATCH,
    AnswerLost,
    ApiError,
    BadAnswer,
    DeadlineExceeded,
    ServerFault,
    Throttled,
    Unreachable,
)
from ..api.requests import Api
from ..cluster import lease
from ..cluster.apply import apply
from ..cluster.lease import Held, LeaseLost, Reading
from ..cluster.read import Scope, read_snapshot
from ..model import names
from ..model.finding import Fault, Refused
from ..model.plan import Left, Method, Move, Plan
from ..model.pointer import JSON
from ..movement.entry import Phase
from . import journal as journals
from . import progress, scope
from .clearing import cleared_again, clearing
from .journal import Journal, UnreadableJournal
from .parameters import Parameters
from .state import State, StepResult
from .turn import Turns, View, instance_path
from .watching import SETTLE, Watcher, paths

STEP_SECONDS = 10.0
"""A step begins no new turn after this."""

TELL_AFTER = 2.0
"""A step with something to tell ends after this, so that a line is read soon after it was true. What
is over by then is told with its beginning."""

STEP_LIMIT = 60.0
"""Nothing in a step takes longer: reading a very large cluster, an API server that is slow."""

TROUBLE_PATIENCE = 300.0
"""Seconds for which a run that has begun bears an API server that does not answer."""

TROUBLE = (AnswerLost, BadAnswer, DeadlineExceeded, ServerFault, Throttled, Unreachable)

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

    Raises Refused for input that cannot be used, ApiError for what the API server refuses.
    """
    step = _Step(api, parameters, state, listening)
    try:
        return step.planned() if check else step.run()
    except LeaseLost as error:
        return step.failed(str(error))
    except TROUBLE as error:
        return step.troubled(error)


class _Step:
    def __init__(
        self, api: Api, parameters: Parameters, state: State, listening: Listening
    ) -> None:
        self.began = time.monotonic()
        self.before = state.elapsed
        self.api = api.under(api.deadline.within(STEP_LIMIT))
        self.parameters = parameters
        self.state = state
        self.listening = listening
        self.lines: list[str] = []
        self.told = 0.0
        self.turns: Turns | None = None

    @property
    def elapsed(self) -> float:
        return self.before + time.monotonic() - self.began

    def planned(self) -> StepResult:
        """Check mode: the plan, and nothing else."""
        view = self._look()
        plan = view.plan(self.parameters)
        self.lines += [progress.planned("(check mode)", plan)]
        result = self._result(finished=True)
        result.moves = [_move_json(move) for move in plan.moves]
        result.left = [_left_json(left) for left in plan.left]
        result.cleared = [str(write.target) for write in clearing(view.candidates)]
        result.changed = bool(plan.moves or result.cleared)
        return result

    def run(self) -> StepResult:
        reading = lease.read(self.api)
        held = self.state.held
        if held is not None:
            journal = self._ours(reading, held)
            self.state.trouble = -1.0
            return self._turns(held, journal, self._look())
        if self.elapsed >= self.parameters.timeout:
            return self.failed(f"not done within {self.parameters.timeout} s: {self.state.waiting}")
        view = self._look()
        unfinished = _journal_of(reading)
        plan = view.plan(self.parameters)
        waits = any(left.passing for left in plan.left)
        if not plan.moves and not waits and not (unfinished and unfinished.entries):
            return self._finish(view, plan)
        taken = self._take(reading, unfinished)
        if taken is None:
            return self._result(finished=False)
        held, journal = taken
        self.lines.append(progress.planned(journal.run, plan))
        self.lines += [progress.left_behind(left) for left in plan.left]
        return self._turns(held, journal, view)

    def failed(self, reason: str) -> StepResult:
        result = self._result(finished=True)
        result.failure = reason
        return result

    def troubled(self, error: ApiError) -> StepResult:
        """The API server does not answer. A run that has begun goes on when it does again."""
        if self.state.held is None:
            raise error
        if self.state.trouble < 0:
            self.state.trouble = self.before
            self.lines.append(f"waiting for the API server: {error}")
        if self.elapsed - self.state.trouble >= TROUBLE_PATIENCE:
            return self.failed(f"no answer for {TROUBLE_PATIENCE:.0f} s: {error}")
        self.api.deadline.pause(1.0)
        result = self._result(finished=False)
        if self.turns is not None:
            result.moves = self.turns.ended[: self.turns.saved]
        return result

    def _look(self) -> View:
        namespaces = scope.namespaces_of(self.parameters)
        snapshot = read_snapshot(self.api, Scope(namespaces, scope.READ_KINDS))
        return View.of(snapshot, scope.wanted(self.parameters, snapshot), self.parameters)

    def _ours(self, reading: Reading, held: Held) -> Journal:
        journal = _journal_of(reading)
        if reading.holder != held.run or reading.term != held.term or journal is None:
            raise LeaseLost(reading.holder)
        return journal

    def _take(self, reading: Reading, unfinished: Journal | None) -> tuple[Held, Journal] | None:
        """The Lease and the journal to go on with; None while it is not known whether the holder
        is alive. Raises Refused where he is."""
        found = lease.judge(reading, self.state.watched, self.elapsed)
        self.state.mark, self.state.marked = found.watched.mark, found.watched.since
        if not found.free:
            self._wait_for(reading, found.alive)
            return None
        journal = self._continued(unfinished)
        held = lease.take(self.api, reading, journal.run, journals.write(journal))
        if held is None:
            return None
        self.state.run, self.state.term = held.run, held.term
        self.state.base = journal.clock - self.elapsed
        self.state.waiting = ""
        self._fence(held, journal)
        return held, journal

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

    def _continued(self, unfinished: Journal | None) -> Journal:
        """The journal of a run that did not end, if it was asked for the same, or has moves in
        flight: those go by its run id. Else a new one."""
        request = self.parameters.request
        if unfinished is not None and unfinished.request == request:
            self.lines.append(f"continuing run {unfinished.run}, which did not end")
            return unfinished
        if unfinished is not None and unfinished.entries:
            self.lines.append(f"taking over the moves in flight of run {unfinished.run}")
            return Journal(
                unfinished.run,
                request,
                unfinished.clock,
                unfinished.entries,
                known=unfinished.known,
                tried={journals.digest(e.uid): 1 for e in unfinished.entries},
            )
        return Journal(f"r{secrets.token_hex(4)}", request)

    def _fence(self, held: Held, journal: Journal) -> None:
        """Mark each instance that a run before us may be about to take away. That changes its
        resource version, which a delete or eviction that is under way names."""
        for entry in journal.entries:
            if entry.phase is Phase.INTENDED and entry.method is Method.RECREATE:
                mark = {names.RUN: f"{held.run}.{held.term}"}
                body = {"metadata": {"uid": entry.uid, "annotations": mark}}
                try:
                    self.api.patch(instance_path(entry), body, content_type=MERGE_PATCH)
                except TROUBLE:
                    raise
                except ApiError:
                    continue  # it is gone, or another one has its name: nothing to protect

    def _turns(self, held: Held, journal: Journal, view: View) -> StepResult:
        base = self.state.base + self.elapsed
        turns = self.turns = Turns(self.api, self.parameters, held, journal, base, self.lines)
        watcher = Watcher(self.api, self.api.deadline.within(STEP_SECONDS))
        namespaces = scope.namespaces_of(self.parameters)
        kubevirt = view.snapshot.platform.kubevirt is not None
        watcher.start(paths(namespaces, virtual_machines=kubevirt))
        while True:
            if self.elapsed >= self.parameters.timeout:
                return self._time_over(turns, view)
            plan = turns.turn(view)
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
            view = self._look()

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
                f" {self.parameters.failures_allowed}: {_failures(result.moves)}"
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
        result = self._result(finished=True, plan=plan)
        result.cleared = [str(write.target) for write in applied.done]
        result.changed = result.changed or bool(applied.done)
        if applied.failed:
            errors = "; ".join(str(found.error) for found in applied.failed)
            result.failure = f"the journals of some workloads could not be cleared: {errors}"
        return result

    def _time_over(self, turns: Turns, view: View) -> StepResult:
        turns.cancel_all(view)
        plan = view.plan(self.parameters, turns.journal)
        in_flight = [
            f"{e.instance} ({e.method}: {e.note or e.phase})" for e in turns.journal.entries
        ]
        waiting = [f"{m.instance} ({turns.waiting or 'not begun'})" for m in plan.moves]
        left = [f"{x.instance} ({x.reason})" for x in plan.left]
        text = journals.write(turns.journal) if turns.journal.entries else ""
        lease.release(self.api, turns.held, text)
        result = self._result(finished=True, plan=plan)
        result.failure = (
            f"not done within {self.parameters.timeout} s; left:"
            f" {'; '.join(in_flight + waiting + left) or 'nothing'}"
        )
        return result

    def _abandon(self, turns: Turns) -> StepResult:
        """Nobody waits for us any more. What is in flight is left to whoever takes the Lease."""
        text = journals.write(turns.journal)
        lease.release(self.api, turns.held, text)
        return self.failed("the task that this step belongs to is gone")

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
        return StepResult(
            finished=finished,
            state=self.state,
            moves=list(turns.ended) if turns is not None else [],
            remaining=[_move_json(move) for move in plan.moves] if plan is not None else [],
            left=[_left_json(left) for left in plan.left] if plan is not None else [],
            progress=self.lines,
            changed=self.state.changed,
        )


def _journal_of(reading: Reading) -> Journal | None:
    """Raises Refused where there is one that nobody can read."""
    if not reading.journal:
        return None
    try:
        return journals.read(reading.journal)
    except UnreadableJournal as error:
        raise Refused([Fault(f"{lease.NAME}, annotation {names.JOURNAL}", str(error))]) from error


def _failures(moves: t.Iterable[t.Mapping[str, JSON]]) -> str:
    """What failed in this step; earlier ones were told when they failed."""
    told = [
        f"{m['kind']} {m['instance']}: {m['reason']}" for m in moves if m["outcome"] == "failed"
    ]
    return "; ".join(told) or "see the progress lines"


def _move_json(move: Move) -> dict[str, JSON]:
    return {
        "kind": move.workload.kind,
        "namespace": move.workload.namespace,
        "name": move.workload.name,
        "instance": move.instance.name,
        "uid": move.uid,
        "method": str(move.method),
        "from": move.source,
        "targets": list(move.targets),
        "reason": move.reason,
        "after": list(move.after),
    }


def _left_json(left: Left) -> dict[str, JSON]:
    workload = left.workload or left.instance
    return {
        "kind": workload.kind,
        "namespace": workload.namespace,
        "name": workload.name,
        "instance": left.instance.name,
        "uid": left.uid,
        "node": left.node,
        "reason": left.reason,
    }
