# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Why may a move not begin in this reconcile: the limits of the run, other moves in flight, budgets, room?"""

from __future__ import annotations

import datetime
import typing as t
from dataclasses import dataclass

from ..cluster import lease
from ..compliance.instances import DeclaredInstance
from ..kubevirt.disruption import DISRUPTIVE
from ..model.objects import Pod
from ..model.obstacle import Obstacle
from ..model.plan import Method, Move
from ..planning.dependencies import Dependencies
from . import report
from .gates import Load, limit_reached
from .journal import RunJournal
from .move import MoveRecord, Phase
from .move_source import Wait
from .reconciliation import Reconciliation, given_up, journal_of_run
from .run_options import RunOptions, why_defer

_OF_ALL_MOVES = ("canary", "limit_reached", "other_domain", "soaking")


@dataclass(frozen=True, slots=True)
class Waits:
    """The reasons, with the journal and the run's clock as they are now. `not_outdated` is that of the Reconciler. What
    is true of more than one move is noted in `now`."""

    options: RunOptions
    journal: RunJournal
    clock: float
    not_outdated: t.Collection[str]
    now: Reconciliation

    def may_be_queued(self, record: MoveRecord) -> bool:
        """Whether a request that may have been sent could still arrive: nothing of it is seen, and the
        duration of a Lease is not over. A restart or a stop has no precondition: it would meet the VM
        whatever was done with it since."""
        left = record.begun + lease.DURATION - self.clock
        by_vm = record.method in (Method.RESTART, Method.STOP)
        may_arrive = by_vm or record.uid in self.not_outdated
        if not may_arrive or left <= 0:
            return False
        text = f"the {record.method} of {record.instance} may be on its way"
        watched = Obstacle("outcome_unknown", text, True, f"watched for {left:.0f} s")
        self.now.waiting = Wait(watched, record.uid)
        return True

    def why(self, move: Move, planned: t.Mapping[str, Move], load: Load) -> Obstacle | None:
        """Why a planned move may not begin beside this load, whether it has room or not."""
        movable = self.now.view.by_uid[move.uid]
        if self.journal.ended < self.options.canary and given_up(self.journal, self.now.view):
            self.now.stop = Obstacle("canary_not_ended", "the canary has not ended")
            return self.now.stop
        gate = self._gate(
            journal_of_run(self.journal, self.now.view), self.now.nodes.left_by(move.source)
        )
        if gate is not None:
            self.now.stop = self.now.stop if gate.temporary else gate
            return gate
        name = report.short(move.workload, move.instance)
        first = next((planned[uid] for uid in move.after if uid in planned), None)
        if first is not None:
            linked = _related(movable, self.now.view.by_uid[first.uid].declared_pod, self.now)
            return report.moves_after(name, first, linked=linked)
        handed_over = move.method is Method.EVICT  # a VM that is marked already is waited for
        if not handed_over and self.now.observer.has_foreign_migration(movable.instance):
            return Obstacle("in_progress", f"another migration of {name} is in flight", True)
        if move.method is Method.MIGRATE and self.now.observer.propagating(movable.instance):
            return Obstacle(
                "in_progress", f"KubeVirt has not copied the new placement to {name} yet", True
            )
        related = self._related_in_flight(movable)
        if related is not None and related.phase is Phase.GIVEN_UP:
            text = f"a rule is about it and about {related.instance}: {related.note}"
            self.now.held[move.uid] = Obstacle("other_move", text)
            return self.now.held[move.uid]
        if related is not None:
            return report.moves_after(name, related, linked=True)
        if refused := self._why_not_disrupted(move.uid, move.method):
            return refused
        return limit_reached(move, load, self.options, self.now.view.snapshot)

    def waiting(self, move: Move, obstacle: Obstacle) -> Wait:
        """What the run waits for, where this is the first move that may not begin."""
        if obstacle in (self.now.stop, self.now.crowded) or obstacle.code in _OF_ALL_MOVES:
            return Wait(obstacle)
        name = report.short(move.workload, move.instance) if obstacle.code == "budget" else ""
        return Wait(obstacle, move.uid, name)

    def why_again(self, record: MoveRecord) -> Obstacle | None:
        """Why a move that is in the journal and was not sent may not begin."""
        others = self.journal.forget(record.uid)
        gate = self._gate(others, self.now.nodes.left_by(record.source))
        refused = gate or self._why_not_disrupted(record.uid, record.method)
        return refused or self.why_no_room(record)

    def why_no_room(self, record: MoveRecord) -> Obstacle | None:
        """Why a move may find no room beside the moves in flight, or may take theirs; None where each has room. What
        is behind a move that waits for room does not overtake it."""
        if self.now.crowded:
            return self.now.crowded
        room = self.now.room
        records = sorted(self.journal.records, key=lambda x: x.phase is Phase.GIVEN_UP)
        other = room.competitor(record, records) if room is not None else None
        if other is None:
            return None
        name = report.short(record.workload, record.instance)
        if other.phase is Phase.GIVEN_UP:
            self.now.held[record.uid] = report.no_room(name, other)
            return self.now.held[record.uid]
        self.now.crowded = report.no_room(name, other)
        return self.now.crowded

    def _gate(self, journal: RunJournal, domain: str | None) -> Obstacle | None:
        wall_clock = datetime.datetime.now(datetime.timezone.utc)
        return why_defer(self.options, journal, domain, self.clock, wall_clock)

    def _why_not_disrupted(self, uid: str, method: Method) -> Obstacle | None:
        """Why budgets do not allow now that the method ends the instance, beside the moves in flight."""
        if method not in DISRUPTIVE:
            return None
        movable = self.now.view.by_uid.get(uid)
        instances = [movable.instance] if movable is not None else self.now.observer.instances
        instance = next((x for x in instances if x.uid == uid), None)
        if instance is None:
            return None
        others = (record for record in self.journal.records if record.method in DISRUPTIVE)
        taken = {record.uid for record in others} - {uid}
        return self.now.view.budgets.why_not_now(instance, method, taken)

    def _related_in_flight(self, movable: DeclaredInstance) -> MoveRecord | None:
        """The move in flight of an instance that this one has a rule about, or that has one about it."""
        for record in self.journal.records:
            like = self.now.view.by_uid.get(record.uid) or self.now.view.by_workload.get(
                record.workload
            )
            successor = self.now.observer.successors.get(record.uid)
            pod = like.declared_pod if like is not None else successor.pod if successor else None
            if pod is not None and _related(movable, pod, self.now):
                return record
        return None


def _related(movable: DeclaredInstance, other: Pod, now: Reconciliation) -> bool:
    """Whether a constraint of the one pod is about the other, which may be its successor."""
    pair = {movable.uid: movable.declared_pod, "other": other}
    return bool(Dependencies.among(pair, now.view.snapshot.namespaces).related(movable.uid))
