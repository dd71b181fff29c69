# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""One turn of a run: look, settle what is in flight, plan anew, begin what may begin.

Each turn rests on one fresh snapshot. A move is written to the journal (which also shows that the
Lease is still ours) before anything of it is sent, and what is sent names the very object that was
looked at.
"""

from __future__ import annotations

import datetime
import time
import typing as t
from dataclasses import dataclass, replace

from ..api.errors import NotFound
from ..api.requests import METADATA, Api
from ..cluster import lease, record
from ..cluster.lease import Held
from ..model.objects import Ref
from ..model.plan import Method, Move, Plan
from ..model.pointer import JSON
from ..model.snapshot import Instance, Snapshot
from ..movement import evict, migrate, recreate, restart
from ..movement.entry import Answer, Ended, Entry, Outcome, Phase, Seen, Settings, Step
from ..movement.perform import perform
from ..planning.candidates import Candidate, Wanted, candidates
from ..planning.links import Links
from ..planning.moves import Request, plan_moves
from . import journal as journals
from . import pace, progress
from .budget import Limits, Load, load_of, why_not
from .journal import Journal, digest
from .observe import MACHINE_INSTANCE, Observer
from .parameters import Parameters

RENEW_AFTER = 5.0
"""Seconds after which the Lease is renewed although there is nothing to write to it."""


class _Machine(t.Protocol):
    """The functions of a state machine in `movement`."""

    @staticmethod
    def advance(entry: Entry, seen: Seen, now: float, settings: Settings) -> Step:
        """What to do next."""

    @staticmethod
    def answered(entry: Entry, answer: Answer) -> Step:
        """What the API server said to it."""


def machine(entry: Entry) -> _Machine:
    if entry.method is Method.MIGRATE:
        return t.cast("_Machine", migrate)
    if entry.method is Method.RESTART:
        return t.cast("_Machine", restart)
    return t.cast("_Machine", recreate if entry.instance.kind == MACHINE_INSTANCE else evict)


@dataclass(frozen=True, slots=True)
class View:
    """A snapshot, and what was worked out from it. `by_uid` and `by_workload` hold candidates."""

    snapshot: Snapshot
    wanted: Wanted
    candidates: tuple[Candidate, ...]
    by_uid: t.Mapping[str, Candidate]
    by_workload: t.Mapping[Ref | None, Candidate]

    @classmethod
    def of(cls, snapshot: Snapshot, wanted: Wanted, parameters: Parameters) -> View:
        foreign = parameters.activate_foreign_changes
        found = candidates(snapshot, wanted, activate_foreign_changes=foreign)
        by_workload = {candidate.instance.workload: candidate for candidate in found}
        return cls(snapshot, wanted, found, {x.uid: x for x in found}, by_workload)

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
        return plan_moves(self.snapshot, request, self.candidates)


def _spent(journal: Journal, uid: str) -> str:
    if digest(uid) in journal.done:
        return "it was moved by this run already"
    return "its move failed in this run" if journal.attempts(uid) else ""


class Turns:
    """The turns of one step. `lines` and `ended` gather what there is to tell; the first `saved`
    of what ended are in the journal that was written last."""

    def __init__(
        self,
        api: Api,
        parameters: Parameters,
        held: Held,
        journal: Journal,
        base: float,
        lines: list[str],
    ) -> None:
        self.api = api
        self.parameters = parameters
        self.held = held
        self.journal = journal
        self.lines = lines
        self.saved = 0
        self.ended: list[dict[str, JSON]] = []
        self.waiting = ""
        self.stopped = ""
        self.changed = False
        self.settled = False
        """A move ended in the turn before, so that another look is due."""
        self.settings = Settings(journal.run, float(parameters.move_timeout), _patience(parameters))
        self._zero = time.monotonic() - base
        self._renewed = time.monotonic()
        self._total = journal.started

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
        places = self._places(view.snapshot)
        before = len(self.ended)
        for entry in self.journal.entries:
            self._settle(entry, observer, places)
        plan = view.plan(self.parameters, self.journal)
        planned = {move.uid for move in plan.moves}
        for entry in self.journal.entries:
            if entry.phase is Phase.INTENDED and entry.uid not in planned:
                self.journal = self.journal.forget(entry.uid)
        self.settled = len(self.ended) > before
        due = [] if self.settled else self._choose(plan, view, observer, places)
        self.keep_lease(force=bool(due))
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
            self.saved = len(self.ended)

    def cancel_all(self, view: View) -> None:
        """Call off the migrations that have not begun to copy."""
        observer = Observer(self.api, view.snapshot, self.journal)
        for entry in self.journal.entries:
            if entry.method is Method.MIGRATE and entry.phase is Phase.BEGUN:
                step = migrate.cancel(entry, observer.seen(entry), self.settings)
                self._take(step, observer, self._places(view.snapshot))

    def _settle(self, entry: Entry, observer: Observer, places: progress.Places) -> None:
        seen = observer.seen(entry)
        if entry.phase is Phase.INTENDED:
            if not _under_way(entry, seen):
                return
            entry = replace(entry, phase=Phase.BEGUN)
        step = machine(entry).advance(entry, seen, self.clock, self.settings)
        self._take(step, observer, places)

    def _take(self, step: Step, observer: Observer, places: progress.Places) -> None:
        """Keep what a state machine said, and carry out what it asks for."""
        if step.request is not None:
            self._check_lease()
            answer = perform(self.api, step.request)
            self.changed = True
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
        total = max(self._total, self.journal.started)
        self.lines.append(progress.ended(self.journal.ended, total, entry, end, seconds, places))
        self.ended.append(_as_json(entry, end, seconds))
        self._record(entry, end)

    def _record(self, entry: Entry, end: Ended) -> None:
        failed = end.outcome is Outcome.FAILED
        reason = "PlacementMoveFailed" if failed else "PlacementMoved"
        told = end.reason or f"{entry.source} -> {end.node}"
        text = f"{entry.method} of {entry.instance}: {told}"
        record.event(self.api, entry.workload, reason, text, self.journal.run, warning=failed)

    def _choose(
        self, plan: Plan, view: View, observer: Observer, places: progress.Places
    ) -> list[str]:
        """Journal the moves that may begin now; returns the uids of all that are to be sent."""
        self.waiting = self.stopped = ""
        self._total = self.journal.started + len(plan.moves)
        load = load_of(view.snapshot, self.journal.entries, _in_scope(view, observer))
        due = [e.uid for e in self.journal.entries if e.phase is Phase.INTENDED]
        planned = {move.uid for move in plan.moves}
        for move in plan.moves:
            if move.uid in due or self.failed:
                continue
            reason = self._why_wait(move, planned, load, view, observer, places)
            if reason:
                self.waiting = self.waiting or reason
                continue
            load = load.beside(move)
            self._journal(move, observer, places)
            due.append(move.uid)
        return due

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
        now = datetime.datetime.now(datetime.timezone.utc)
        domain = places.domain(move.source)
        held = pace.hold(self.parameters, self.journal, domain, self.clock, now)
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
        begun = self.journal.begin(entry, siblings)
        self.journal = replace(begun, domain=places.domain(move.source))
        self.lines.append(progress.began(self.journal.started, self._total, move, places))

    def _pin(self, move: Move, places: progress.Places) -> tuple[tuple[str, str], ...]:
        """The domain that the plan counts on, where the user wants migrations held to it."""
        domain = places.domain(move.targets[0]) if move.targets else ""
        if not (self.parameters.add_node_selector and domain and move.method is Method.MIGRATE):
            return ()
        return ((self.parameters.zone_key, domain),)

    def _begin(self, uid: str, observer: Observer, places: progress.Places) -> None:
        entry = next(found for found in self.journal.entries if found.uid == uid)
        version = self._version(entry)
        seen = observer.seen(entry)
        if version is None:
            seen = replace(seen, instance=None)
        else:
            seen = replace(seen, resource_version=version)
        step = machine(entry).advance(entry, seen, self.clock, self.settings)
        self._take(step, observer, places)

    def _version(self, entry: Entry) -> str | None:
        """The instance's resource version at this moment; None if it is not there any more."""
        try:
            metadata = self.api.get(instance_path(entry), accept=METADATA)["metadata"]
        except NotFound:
            return None
        return str(metadata["resourceVersion"]) if metadata["uid"] == entry.uid else None

    def _check_lease(self) -> None:
        """Nothing is disrupted on the strength of a renewal that is too old: see the Lease."""
        if time.monotonic() - self._renewed >= lease.DURATION / 2:
            self.keep_lease(force=True)

    def _places(self, snapshot: Snapshot) -> progress.Places:
        labels = {node.name: node.labels for node in snapshot.nodes}
        return progress.Places(labels, self.parameters.zone_key)


def instance_path(entry: Entry) -> str:
    namespace, name = entry.instance.namespace, entry.instance.name
    if entry.instance.kind == MACHINE_INSTANCE:
        return f"/apis/kubevirt.io/v1/namespaces/{namespace}/virtualmachineinstances/{name}"
    return f"/api/v1/namespaces/{namespace}/pods/{name}"


def _in_scope(view: View, observer: Observer) -> list[Instance]:
    return [instance for instance in observer.instances if instance in view.wanted]


def _under_way(entry: Entry, seen: Seen) -> bool:
    """It was sent before we stopped knowing: the migration is there, or the instance leaves."""
    if entry.method is Method.MIGRATE:
        return seen.migration is not None or seen.instance is None
    if seen.instance is None:
        return True
    vmi, pod = seen.instance.vmi, seen.instance.pod
    return vmi.terminating if vmi is not None else pod is not None and pod.terminating


def _patience(parameters: Parameters) -> float:
    """Seconds that a migration's target may wait for a node before KubeVirt gives up on it. The
    place was open a moment before, so one that is not found soon is not there."""
    return float(max(10, min(60, parameters.move_timeout // 2)))


def _as_json(entry: Entry, end: Ended, seconds: float) -> dict[str, JSON]:
    return {
        "kind": entry.workload.kind,
        "namespace": entry.workload.namespace,
        "name": entry.workload.name,
        "instance": entry.instance.name,
        "uid": entry.uid,
        "method": str(entry.method),
        "from": entry.source,
        "to": end.node,
        "outcome": str(end.outcome),
        "reason": end.reason,
        "seconds": round(seconds, 1),
    }
