# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""One turn of a run: look, settle what is in flight, plan anew, begin what may begin.

Each turn rests on one fresh snapshot. A move is written to the journal (which also shows that the
Lease is still ours) before anything of it is sent, and what is sent names the very object that was
looked at.
"""

from __future__ import annotations

import datetime
import functools
import time
import typing as t
from dataclasses import dataclass, replace

from ..api.errors import ApiError
from ..api.requests import Api
from ..cluster import lease, record
from ..cluster.lease import Held, LeaseLost
from ..model.objects import Ref
from ..model.plan import Method, Move, Plan
from ..model.pointer import JSON
from ..model.snapshot import Snapshot
from ..movement import migrate
from ..movement.entry import Ended, Entry, Outcome, Phase, Reply, Settings, Step
from ..movement.perform import perform
from ..planning.candidates import Candidate, Wanted, candidates
from ..planning.links import Links
from ..planning.moves import Request, plan_moves
from ..planning.world import Verified
from . import journal as journals
from . import pace, progress, results
from .budget import Limits, Load, counted, load_of, why_not, workloads_of
from .count import UNCOUNTED, Count
from .foreign import Foreign
from .journal import Journal, digest
from .observe import Observer
from .parameters import Parameters
from .sending import machine, sight, under_way

RENEW_AFTER = 5.0
"""Seconds after which the Lease is renewed although there is nothing to write to it."""

SAFETY = 3.0
"""Seconds before the end of our Lease in which nothing is sent any more."""


@dataclass(frozen=True)
class View:
    """A snapshot, and what was worked out from it: it is verified once, for all plans that are made
    of it. `by_uid` and `by_workload` hold candidates."""

    snapshot: Snapshot
    wanted: Wanted
    candidates: tuple[Candidate, ...]
    verified: Verified

    @classmethod
    def of(cls, snapshot: Snapshot, wanted: Wanted, parameters: Parameters) -> View:
        foreign = parameters.activate_foreign_changes
        found = candidates(snapshot, wanted, activate_foreign_changes=foreign)
        return cls(snapshot, wanted, found, Verified.of(snapshot, found))

    @functools.cached_property
    def by_uid(self) -> t.Mapping[str, Candidate]:
        return {found.uid: found for found in self.candidates}

    @functools.cached_property
    def by_workload(self) -> t.Mapping[Ref | None, Candidate]:
        return {found.made_by: found for found in self.candidates}

    def plan(self, parameters: Parameters, journal: Journal | None = None) -> Plan:
        """The plan beside what the journal has in flight, without what was moved already."""
        busy: frozenset[str] = frozenset()
        spent: dict[str, str] = {}
        if journal is not None:
            busy = frozenset(e.uid for e in journal.entries if e.phase is not Phase.INTENDED)
            intended = {e.uid for e in journal.entries if e.phase is Phase.INTENDED}
            uids = (c.uid for c in self.candidates if c.uid not in intended)
            spent = {uid: why for uid in uids if (why := _spent(journal, uid))}
        request = Request(
            self.wanted,
            parameters.scope,
            parameters.allow,
            parameters.activate_foreign_changes,
            busy,
            spent,
        )
        return plan_moves(self.snapshot, request, self.candidates, verified=self.verified)


def _spent(journal: Journal, uid: str) -> str:
    if digest(uid) in journal.done:
        return "it was moved by this run already"
    return "its move failed in this run" if digest(uid) in journal.lost else ""


class Turns:
    """The turns of one step. `lines` and `ended` gather what there is to tell; of them the first
    `told` and `saved` are in the journal that was written last, and `counted` is `count` as it was
    then. `renewed` is when (time.monotonic) the Lease was last known to be ours."""

    def __init__(
        self,
        api: Api,
        parameters: Parameters,
        held: Held,
        journal: Journal,
        base: float,
        lines: list[str],
        *,
        renewed: float = -lease.DURATION,
        count: Count = UNCOUNTED,
    ) -> None:
        self.api = api
        self.parameters = parameters
        self.held = held
        self.journal = journal
        self.lines = lines
        self.saved = 0
        self.told = len(lines)
        self.count = self.counted = count
        self.ended: list[dict[str, JSON]] = []
        self.waiting = ""
        self.stopped = ""
        self.changed = False
        self.settled = False
        """Another look is due: a move ended in the turn before, or something is not as it was."""
        self.settings = Settings(journal.run, float(parameters.move_timeout), _patience(parameters))
        self._zero = time.monotonic() - base
        self._renewed = renewed
        self._fresh: set[str] = set()
        """Uids of moves that were journalled in this turn: nothing of them was sent before."""
        self._foreign = Foreign()

    @property
    def clock(self) -> float:
        return time.monotonic() - self._zero

    @property
    def failed(self) -> bool:
        return self.journal.failed > self.parameters.failures_allowed

    def turn(self, view: View) -> Plan:
        """Settle, plan, begin. Returns the plan with what could not begin yet.

        Where a move has just ended nothing begins: the lists of a snapshot are not of one moment,
        and the next one shows the same state in all of them.
        """
        observer = Observer(self.api, view.snapshot, self.journal)
        places = progress.Places.of(view.snapshot, self.parameters.zone_key)
        before = len(self.ended)
        for entry in self.journal.entries:
            self._settle(entry, observer, places)
        plan = view.plan(self.parameters, self.journal)
        planned = {move.uid for move in plan.moves}
        for entry in self.journal.entries:
            if entry.phase is Phase.INTENDED and entry.uid not in planned:
                self._put_off(entry)
        self._fresh.clear()
        self.settled = len(self.ended) > before
        journal, told, count = self.journal, len(self.lines), self.count
        due = [] if self.settled else self._choose(plan, view, observer, places)
        try:
            self.keep_lease(force=bool(due))
        except (ApiError, LeaseLost):
            self.journal, self.count = journal, count  # what no Lease has does not begin
            del self.lines[told:]
            raise
        for uid in due:
            self._begin(uid, observer, places)
        started = {entry.uid for entry in self.journal.entries} | {e["uid"] for e in self.ended}
        return replace(plan, moves=tuple(m for m in plan.moves if m.uid not in started))

    def keep_lease(self, *, force: bool = False) -> None:
        """Write the journal if it must be, or if it is time to show that we are alive."""
        if force or time.monotonic() - self._renewed >= RENEW_AFTER:
            self.journal = replace(self.journal, clock=self.clock)
            began = time.monotonic()
            lease.renew(self.api, self.held, journals.write(self.journal))
            self._renewed = began
            self.saved, self.told, self.counted = len(self.ended), len(self.lines), self.count

    def cancel_all(self, view: View) -> None:
        """Call off the migrations that have not begun to copy."""
        observer = Observer(self.api, view.snapshot, self.journal)
        for entry in self.journal.entries:
            if entry.method is Method.MIGRATE and entry.phase is Phase.BEGUN:
                step = migrate.cancel(entry, observer.seen(entry), self.settings)
                self._take(
                    step, observer, progress.Places.of(view.snapshot, self.parameters.zone_key)
                )

    def _settle(self, entry: Entry, observer: Observer, places: progress.Places) -> None:
        seen = observer.seen(entry)
        if entry.phase is Phase.INTENDED:
            if not under_way(entry, seen):
                return
            entry = replace(entry, phase=Phase.BEGUN)
        step = machine(entry).advance(entry, seen, self.clock, self.settings)
        self._take(step, observer, places)

    def _take(self, step: Step, observer: Observer, places: progress.Places) -> None:
        """Keep what a state machine said, and carry out what it asks for."""
        if step.request is not None:
            answer = perform(self._while_ours(), step.request)
            self.changed |= answer.reply in (Reply.ACCEPTED, Reply.DOUBTFUL)
            step = machine(step.entry).answered(step.entry, answer)
        self.journal = self.journal.with_entry(step.entry)
        if step.ended is not None:
            self._end(step.entry, step.ended, observer, places)

    def _end(self, entry: Entry, end: Ended, observer: Observer, places: progress.Places) -> None:
        successor = observer.successors.get(entry.uid)
        journal = self.journal.end(
            entry,
            self.clock,
            outcome=end.outcome,
            successor=successor.uid if successor is not None else "",
        )
        self.journal = pace.after_end(self.parameters, journal, self.clock)
        seconds = self.clock - entry.begun
        total = max(self.count.total, self.journal.started)
        self.lines.append(progress.ended(self.journal.ended, total, entry, end, seconds, places))
        self.ended.append(results.ended_move(entry, end, seconds))
        self.changed |= end.outcome is Outcome.MOVED
        self._record(entry, end)

    def _record(self, entry: Entry, end: Ended) -> None:
        failed = end.outcome is Outcome.FAILED
        reason = "PlacementMoveFailed" if failed else "PlacementMoved"
        told = end.reason or f"{entry.source} -> {end.node}"
        text = f"{entry.method} of {entry.instance}: {told}"
        once = f"{digest(entry.uid)}-{entry.attempt}-{end.outcome}"
        run = self.journal.run
        record.event(self.api, entry.workload, reason, text, run, warning=failed, once=once)

    def _choose(
        self, plan: Plan, view: View, observer: Observer, places: progress.Places
    ) -> list[str]:
        """Journal the moves that may begin now; returns the uids of all that are to be sent."""
        self.waiting = self.stopped = ""
        due = [e.uid for e in self._intended(places) if not self._may_be_queued(e)]
        self.count, lines = self.count.replanned(self.journal, plan, view.by_uid)
        self.lines += lines
        entries = self.journal.entries
        in_scope = counted(observer.instances, view.wanted, entries)
        about = workloads_of(view.snapshot, view.wanted)
        sources = self._foreign.sources(self.api, view.snapshot) if plan.moves else {}
        load = load_of(view.snapshot, entries, in_scope, about, sources)
        begun = {entry.uid for entry in entries}
        planned = {move.uid for move in plan.moves}
        for move in plan.moves:
            if move.uid in begun or self.failed:
                continue
            reason = self._why_wait(move, planned, load, view, observer, places)
            if reason:
                self.waiting = self.waiting or reason
                continue
            load = load.beside(move)
            self._journal(move, observer, places)
            due.append(move.uid)
        return due

    def _intended(self, places: progress.Places) -> list[Entry]:
        """The journalled moves of which nothing was sent, or that may have been. One that was not
        sent is forgotten where it might not begin now: it is held like any other."""
        found = [entry for entry in self.journal.entries if entry.phase is Phase.INTENDED]
        for entry in found:
            if self._may_be_queued(entry):
                continue
            others = self.journal.forget(entry.uid)
            held = self._hold(others, places.domain(entry.source)).reason
            if self.failed or held:
                self._put_off(entry, held or "other moves failed")
        return [entry for entry in self.journal.entries if entry.phase is Phase.INTENDED]

    def _hold(self, journal: Journal, domain: str) -> pace.Hold:
        now = datetime.datetime.now(datetime.timezone.utc)
        return pace.hold(self.parameters, journal, domain, self.clock, now)

    def _may_be_queued(self, entry: Entry) -> bool:
        """Whether a restart that may have been sent could still arrive: nothing of it is seen, and
        the duration of a Lease is not over. It has no precondition, so two would restart twice."""
        left = entry.begun + lease.DURATION - self.clock
        if entry.method is not Method.RESTART or left <= 0:
            return False
        self.waiting = f"{entry.instance} may have been told to restart: looking for {left:.0f} s"
        return True

    def _why_wait(
        self,
        move: Move,
        planned: t.Container[str],
        load: Load,
        view: View,
        observer: Observer,
        places: progress.Places,
    ) -> str:
        candidate = view.by_uid[move.uid]
        held = self._hold(self.journal, places.domain(move.source))
        if held.final:
            self.stopped = held.reason
        if held:
            return held.reason
        if any(uid in planned for uid in move.after):
            return f"{move.instance.name} waits for the moves before it"
        if observer.others_migrate(candidate.instance):
            return f"somebody else migrates {move.instance}"
        if move.method is Method.MIGRATE and observer.propagating(candidate.instance):
            return f"KubeVirt has not yet brought the new placement to {move.instance}"
        linked = self._linked_in_flight(candidate, view, observer)
        if linked:
            return f"{move.instance.name} waits for {linked}, which it keeps apart from or follows"
        limits = Limits(self.parameters.max_in_flight, self.parameters.max_unavailable)
        return why_not(move, load, limits, view.snapshot)

    def _linked_in_flight(self, candidate: Candidate, view: View, observer: Observer) -> str:
        """A move in flight of an instance whose rules concern this one, or the other way round."""
        for entry in self.journal.entries:
            like = view.by_uid.get(entry.uid) or view.by_workload.get(entry.workload)
            successor = observer.successors.get(entry.uid)
            pod = like.wanted if like is not None else successor.pod if successor else None
            if pod is None:
                continue
            pair = {candidate.uid: candidate.wanted, f"{entry.uid} ": pod}
            if Links(pair, view.snapshot.namespaces).linked(candidate.uid):
                return str(entry.instance)
        return ""

    def _journal(self, move: Move, observer: Observer, places: progress.Places) -> None:
        entry = Entry(
            move.instance,
            move.uid,
            move.workload,
            move.method,
            move.source,
            self.journal.attempts(move.uid) + 1,
            self.clock,
            pin=self._pin(move, places),
        )
        siblings = [i.uid for i in observer.instances if i.workload == move.workload]
        self._fresh.add(move.uid)
        begun = self.journal.begin(entry, siblings)
        self.journal = replace(begun, domain=places.domain(move.source))
        self.count = self.count.begun(move)
        self.lines.append(progress.began(self.journal.started, self.count.total, move, places))

    def _pin(self, move: Move, places: progress.Places) -> tuple[tuple[str, str], ...]:
        """The domain that the plan counts on, where the user wants migrations held to it."""
        domain = places.domain(move.targets[0]) if move.targets else ""
        if not (self.parameters.add_node_selector and domain and move.method is Method.MIGRATE):
            return ()
        return ((self.parameters.zone_key, domain),)

    def _begin(self, uid: str, observer: Observer, places: progress.Places) -> None:
        """Send a move, if its instance is as it was when it was planned."""
        entry = next(found for found in self.journal.entries if found.uid == uid)
        now = sight(self.api, entry)
        seen = observer.seen(entry)
        changed = "it is gone" if now is None else now.why_not(entry)
        if changed:
            leaves = now is None or now.terminating or seen.migration is not None
            if uid in self._fresh or not leaves:
                self._put_off(entry, changed)
                self.settled = True
                return
        if now is None:
            seen = replace(seen, instance=None)
        elif changed:
            self.settled = True  # it may be our own doing: the next look tells
            return
        else:
            seen = replace(seen, resource_version=now.version)
        step = machine(entry).advance(entry, seen, self.clock, self.settings)
        self._take(step, observer, places)

    def _put_off(self, entry: Entry, reason: str = "") -> None:
        """Nothing was sent: forget the move, look and plan anew."""
        self.journal = self.journal.forget(entry.uid)
        self.count = self.count.put_off(entry)
        if reason:
            self.lines.append(progress.not_now(self.count.to_come[entry.uid], reason))

    def _while_ours(self) -> Api:
        """For what disrupts: the Lease was seen to be ours a moment ago, and requests are not sent,
        nor sent again, when that is too long ago, as after a process was frozen."""
        if time.monotonic() - self._renewed >= lease.DURATION / 2:
            self.keep_lease(force=True)
        left = self._renewed + lease.DURATION - SAFETY - time.monotonic()
        return self.api.under(self.api.deadline.within(max(0.0, left)))


def _patience(parameters: Parameters) -> float:
    """Seconds that a migration's target may wait for a node before KubeVirt gives up on it. The
    place was open a moment before, so one that is not found soon is not there."""
    return float(max(10, min(60, parameters.move_timeout // 2)))
