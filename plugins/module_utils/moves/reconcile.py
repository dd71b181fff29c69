# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""One reconcile of a run: observe the moves in flight, plan anew, begin what may begin.

Each reconcile rests on one fresh snapshot. A move is written to the journal, which also shows that
the Lease is still ours, before anything of it is sent. What is sent names the very object that was
read.
"""

from __future__ import annotations

import typing as t
from dataclasses import replace

from ..api.errors import ApiError
from ..api.transport import uptime
from ..cluster import lease
from ..cluster.leader import Leader
from ..cluster.lease import LeaseKeeper, LeaseLost
from ..cluster.refusals import PodRefusals
from ..model.kinds import instance_path
from ..model.obstacle import NO_ANSWER, Obstacle
from ..model.plan import Method, Move, Plan, SkippedInstance
from . import journal as journals
from . import migrate, report
from .events import record_event
from .gates import instances_of_run, load_of, workloads_of
from .journal import RunJournal
from .move import MoveRecord, MoveResult, MoveSettings, Outcome, Phase, ReplyStatus, Transition
from .move_source import View, Wait
from .observe import ForeignMigrations, Observer
from .reconciliation import Reconciliation, given_up, journal_of_run, touched_by
from .run_options import RunOptions, after_end
from .send import STATE_MACHINES, read_instance, send, was_sent
from .state import StepReport
from .waits import Waits


class Reconciler:
    """Reconciles one step's share of a run. `clock` is the run's clock now, in seconds. `retry_at` says, by
    the uid of an instance, when on that clock a blocked request may be sent again. `not_outdated` are uids
    of instances that a process of an earlier run may still end (`takeover.outdate_pending_deletes`). `leader`: that of
    virt-controller, where it is looked at."""

    def __init__(
        self,
        keeper: LeaseKeeper,
        options: RunOptions,
        journal: RunJournal,
        report_of_step: StepReport,
        clock: float,
        retry_at: dict[str, float],
        not_outdated: t.Collection[str],
        leader: Leader | None = None,
    ) -> None:
        self.not_outdated = not_outdated
        self.retry_at = retry_at
        self.leader = leader
        self.keeper = keeper
        self.options = options
        self.journal = journal
        self.report = report_of_step
        # The node of a migration's target was feasible a moment before, so one that is not found soon is not there.
        unschedulable_timeout = float(max(10, min(60, options.move_timeout // 2)))
        self.settings = MoveSettings(
            journal.run, float(options.move_timeout), unschedulable_timeout
        )
        self._zero = uptime() - clock
        self._foreign = ForeignMigrations()
        self._refused_pods = PodRefusals(keeper.api)
        self.refused: set[str] = set()
        """Uids of the instances of which the server refused a migration."""
        self.report.save()

    @property
    def clock(self) -> float:
        return uptime() - self._zero

    @property
    def failed(self) -> bool:
        allowed = self.options.failures_allowed
        return allowed is not None and self.journal.failed > allowed

    @property
    def in_flight(self) -> tuple[MoveRecord, ...]:
        """The moves that the run waits for."""
        return tuple(r for r in self.journal.records if r.phase is not Phase.GIVEN_UP)

    def only_young(self, seconds: float) -> bool:
        """Whether moves are in flight, and all are migrations that began less than so many seconds ago."""
        return bool(self.in_flight) and all(
            record.method is Method.MIGRATE and self.clock - record.begun < seconds
            for record in self.in_flight
        )

    def given_up(self, view: View) -> tuple[MoveRecord, ...]:
        """The moves that the run reports and does not wait for any more."""
        return given_up(self.journal, view)

    def reconcile(self, view: View) -> Reconciliation:
        """Observe, plan, begin. Raises LeaseLost and ApiError.

        Where a move has just ended nothing begins: the lists of a snapshot are not of one moment,
        and the next one shows the same state in all of them.
        """
        now = self.begin(view)
        moves_before = len(self.report.moves)
        for record in self.journal.records:
            self._observe_move(record, now)
        plan = view.plan(self.journal)
        planned = {(move.uid, move.method): move for move in plan.moves}
        for record in self.journal.records:
            if record.phase is not Phase.INTENDED:
                continue
            move = planned.get((record.uid, record.method))
            if move is not None:
                selector = now.view.node_selector(move)
                if record.node_selector != selector:  # it is of a run with other nodes
                    record = replace(record, node_selector=selector)
                    self.journal = self.journal.with_record(record)
            elif not self._waits(now).may_be_queued(record):
                self._defer(record, counted=view.is_about(record))
        now.settling = now.settling or len(self.report.moves) > moves_before
        journal, mark = self.journal, self.report.mark()
        due = [] if now.settling else self.choose(plan, now)
        try:
            self.keep_lease(force=bool(due))
        except (ApiError, LeaseLost):
            self.journal = journal  # what no Lease has does not begin
            self.report.revert(mark)
            raise
        for uid in due:
            self._send_first(uid, now)
        ended = {move["uid"] for move in self.report.moves[moves_before:]}
        now.settling = now.settling or bool(ended)
        started = {record.uid for record in self.journal.records} | ended
        left = [move for move in plan.moves if move.uid not in started]
        held = [
            SkippedInstance(m.instance, m.uid, m.workload, m.source, now.held[m.uid])
            for m in left
            if m.uid in now.held
        ]
        moves = tuple(move for move in left if move.uid not in now.held)
        now.plan = replace(plan, moves=moves, skipped=(*plan.skipped, *held))
        return now

    def goes_on(self, now: Reconciliation, obstacles: t.Iterable[Obstacle | None]) -> bool:
        """Whether a move is in flight, or one may begin later. `obstacles` that the run waits for beside, if any."""
        if self.in_flight or now.settling:
            return True
        if self.failed:
            return False
        obstacle = next(filter(None, obstacles), None)
        now.waiting = now.waiting or (Wait(obstacle) if obstacle else None)
        return bool(obstacle or (now.plan.moves and now.stop is None))

    def begin(self, view: View) -> Reconciliation:
        no_leader = None
        if self.leader is not None and view.snapshot.vmis:
            self.leader.look(view.snapshot.platform.kubevirt_namespace, self.clock)
            no_leader = self.leader.silence
        observer = Observer(
            self.keeper.api, view.snapshot, self.journal, no_leader, self._refused_pods
        )
        nodes = report.NodeDescriptions.of(view.snapshot, self.options.zone_key)
        return Reconciliation(view, observer, nodes)

    def keep_lease(self, *, force: bool = False) -> None:
        """Write the journal if it must be, or if it is time to renew the Lease."""
        if force or self.keeper.age >= lease.RENEW_AFTER:
            self.journal = replace(self.journal, clock=self.clock)
            self.keeper.renew(journals.write(self.journal))
            self.report.save()

    def cancel_all(self, view: View) -> None:
        """Cancel the migrations that have not begun to copy."""
        now = self.begin(view)
        for record in self.journal.records:
            if record.method is Method.MIGRATE and record.phase is Phase.BEGUN:
                transition = migrate.cancel(record, now.observer.observe(record), self.settings)
                self._follow(transition, now)

    def _observe_move(self, record: MoveRecord, now: Reconciliation) -> None:
        observation = now.observer.observe(record)
        if record.phase is Phase.INTENDED:
            if not was_sent(record, observation):
                return
            record = replace(record, phase=Phase.BEGUN)
        if observation.pending and (room := now.room) is not None:
            observation = replace(observation, free_node=room.free_node(record))
        name = report.short(record.workload, record.instance)
        refused = str(observation.quota or observation.refused or "")
        refusal = journals.digest(refused) if refused else ""
        if refusal not in ("", record.refusal):
            self.report.lines.append(report.held(name, refused, record.method))
        record = replace(record, refusal=refusal)
        machine = STATE_MACHINES[record.method]
        transition = machine.advance(record, observation, self.clock, self.settings)
        if transition.record.code == NO_ANSWER != record.code:
            self.report.lines.append(report.held(name, transition.record.note, record.method))
        if transition.record.phase is Phase.GIVEN_UP is not record.phase:
            self.report.lines.append(report.gave_up(transition.record))
        self._follow(transition, now)

    def _follow(self, transition: Transition, now: Reconciliation) -> None:
        """Send what a state machine asks for, and keep the record."""
        if transition.request is not None:
            now.touched.append((instance_path(transition.record.instance), ""))
            if self.keeper.age >= lease.DURATION / 2:
                self.keep_lease(force=True)
            reply = send(self.keeper.api_while_ours(), transition.request)
            self.report.changed |= reply.status in (ReplyStatus.ACCEPTED, ReplyStatus.DOUBTFUL)
            record = transition.record
            if reply.retry_after:
                self.retry_at[record.uid] = self.clock + reply.retry_after
            transition = STATE_MACHINES[record.method].answered(record, reply)
        self.journal = self.journal.with_record(transition.record)
        if transition.ended is not None:
            self._end(transition.record, transition.ended, now)

    def _end(self, record: MoveRecord, end: MoveResult, now: Reconciliation) -> None:
        successor = now.observer.successors.get(record.uid)
        now.touched += touched_by(record, successor)
        if record.method is Method.MIGRATE:
            now.touched.append((migrate.migration_path(record, self.journal.run), ""))
        journal = self.journal.end(
            record,
            self.clock,
            outcome=end.outcome,
            successor=successor.uid if successor is not None else "",
        )
        record_event(self.keeper.api, self.journal.run, record, end)
        if not now.view.is_about(record):
            before = self.journal
            self.journal = replace(
                journal,
                moved=before.moved,
                failed=before.failed,
                gone=before.gone,
                settled_at=before.settled_at,
            )
            self.report.lines.append(report.ended_of_other_run(record, end, now.nodes))
            now.settling = True
            return
        self.journal = after_end(self.options, journal, self.clock)
        seconds = self.clock - record.begun
        of_run = journal_of_run(self.journal, now.view)
        total = max(self.report.count.total, of_run.started)
        line = report.ended(of_run.ended, total, record, end, seconds, now.nodes)
        self.report.lines.append(line)
        self.report.moves.append(report.ended_move(record, end, seconds))
        self.refused |= {record.uid} if end.refused else set()
        self.report.changed |= end.outcome is Outcome.MOVED

    def _waits(self, now: Reconciliation) -> Waits:
        """With the journal as it is now."""
        return Waits(self.options, self.journal, self.clock, self.not_outdated, now)

    def choose(self, plan: Plan, now: Reconciliation) -> list[str]:
        """Journal the moves that may begin now; returns the uids of all that are to be sent."""
        due = [
            record.uid
            for record in self._intended(now)
            if self.clock >= self.retry_at.get(record.uid, 0.0)
            and not self._waits(now).may_be_queued(record)
        ]
        of_run = journal_of_run(self.journal, now.view)
        self.report.count, lines = self.report.count.replanned(of_run, plan, now.view.by_uid)
        self.report.lines += lines
        records = self.journal.records
        in_scope = instances_of_run(now.observer.instances, now.view.selection, records)
        about = workloads_of(now.view.snapshot, now.view.selection)
        api, snapshot = self.keeper.api, now.view.snapshot
        foreign = self._foreign.nodes(api, snapshot) if plan.moves else {}
        load = load_of(snapshot, self.in_flight, in_scope, about, foreign)
        begun = {record.uid for record in records}
        begun |= {successor.uid for successor in now.observer.successors.values()}
        planned = {move.uid: move for move in plan.moves}
        for move in plan.moves:
            if move.uid in begun or self.failed:
                continue
            waits = self._waits(now)
            reason = waits.why(move, planned, load) or waits.why_no_room(self._record(move, now))
            if reason:
                if self.report.count.has(move):
                    now.waiting = now.waiting or waits.waiting(move, reason)
                continue
            if not journals.has_room(self.journal):
                full = "so many moves are in flight that their journal is full"
                now.waiting = now.waiting or Wait(Obstacle("limit_reached", full, True))
                break
            load = load.beside(move)
            self._journal_move(move, now)
            due.append(move.uid)
        now.hold_followers(plan.moves)
        return due

    def _intended(self, now: Reconciliation) -> list[MoveRecord]:
        """The journaled moves that were not sent, or are not known to have been sent. One that was not
        sent is deferred where it might not begin now, like any other."""
        for record in self.journal.records:
            waits = self._waits(now)
            if record.phase is not Phase.INTENDED or waits.may_be_queued(record):
                continue
            reason = waits.why_again(record)
            if self.failed or reason:
                self._defer(record, Wait(reason).line if reason else "other moves failed")
        return [record for record in self.journal.records if record.phase is Phase.INTENDED]

    def _record(self, move: Move, now: Reconciliation) -> MoveRecord:
        return MoveRecord(
            move.instance,
            move.uid,
            move.workload,
            move.method,
            move.source,
            self.journal.attempts(move.uid) + 1,
            self.clock,
            node_selector=now.view.node_selector(move),
        )

    def _journal_move(self, move: Move, now: Reconciliation) -> None:
        record = self._record(move, now)
        siblings = [i.uid for i in now.observer.instances if i.workload == move.workload]
        journal = self.journal.begin(record, siblings)
        domain = now.nodes.left_by(move.source) or journal.domain
        self.journal = replace(journal, domain=domain)
        now.new.add(move.uid)
        of_run = journal_of_run(self.journal, now.view)
        self.report.count, lines = self.report.count.begun(move, of_run)
        line = report.began(of_run.started, self.report.count.total, move, now.nodes)
        self.report.lines += [*lines, line]

    def _send_first(self, uid: str, now: Reconciliation) -> None:
        """Send a move, if its instance is as it was when it was planned."""
        record = next(record for record in self.journal.records if record.uid == uid)
        current = read_instance(self.keeper.api, record)
        observation = now.observer.observe(record)
        gone = Obstacle("gone", "it does not exist any more")
        changed = gone if current is None else current.change(record)
        if changed is not None:
            leaves = current is None or current.terminating or observation.migration is not None
            if uid in now.new or not leaves:
                self._defer(record, changed.text)
                now.settling = True
                return
        if current is None:
            observation = replace(observation, instance=None)
        elif changed is not None:
            now.settling = True  # our own request may have done it: the next reconcile knows
            return
        else:
            observation = replace(observation, resource_version=current.version)
        machine = STATE_MACHINES[record.method]
        self._follow(machine.advance(record, observation, self.clock, self.settings), now)

    def _defer(self, record: MoveRecord, reason: str = "", *, counted: bool = True) -> None:
        """Remove a move that was not sent from the journal: the next plan decides about its instance."""
        self.journal = self.journal.forget(record.uid)
        if counted:
            self.report.count = self.report.count.deferred(record)
        if reason:
            name = report.short(record.workload, record.instance)
            self.report.lines.append(report.deferred(name, reason))
