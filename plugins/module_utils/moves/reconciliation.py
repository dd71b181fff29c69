# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What one reconcile rests on, and what it came to. Pure."""

from __future__ import annotations

import typing as t
from dataclasses import dataclass, field, replace

from ..kinds.registry import KINDS
from ..model.kinds import instance_path, instances_path
from ..model.obstacle import Obstacle
from ..model.placement_manifests import CREATED_BY
from ..model.plan import Move, Plan
from ..model.snapshot import Instance
from . import report
from .journal import RunJournal
from .move import MoveRecord, Phase
from .move_source import View, Wait
from .observe import Observer

if t.TYPE_CHECKING:
    from .room import Room


@dataclass
class Reconciliation:
    """One reconcile: the view that it rests on, and what it came to.

    `plan` has the moves that could not begin. `waiting` says why the first of them could not,
    `stop` why no move begins any more in this run. `settling`: a move has just ended, or an
    instance was not as it was planned, so another look is due. `new` are the uids of the moves that
    were journaled in this reconcile: nothing of them was sent before. `held` has the moves, by uid,
    that would have to wait for one that was given up or is held itself, with the reason. `crowded`: why a move
    waits for room, so that no later one begins. `touched` are objects that this reconcile has changed or seen
    changed: the next view must show them (`FollowedCluster.catch_up`).
    """

    view: View
    observer: Observer
    nodes: report.NodeDescriptions
    plan: Plan = field(default_factory=Plan)
    waiting: Wait | None = None
    stop: Obstacle | None = None
    settling: bool = False
    new: set[str] = field(default_factory=set)
    held: dict[str, Obstacle] = field(default_factory=dict)
    crowded: Obstacle | None = None
    touched: list[tuple[str, str]] = field(default_factory=list)

    @property
    def room(self) -> Room | None:
        """What has room beside the moves in flight; None where no move of the run waits for room."""
        if self.view.index is None:
            return None
        from .room import Room

        observer = self.observer
        return Room(observer.view, self.view.index, self.view.by_uid, observer.successors)

    @property
    def temporary(self) -> list[Obstacle]:
        """What keeps instances that are skipped and may move later, unless no move begins any more."""
        return [
            Obstacle(
                x.reason.code if isinstance(x.reason, Obstacle) else "",
                f"{report.short(x.workload or x.instance, x.instance)}: {x.reason}",
                True,
            )
            for x in self.plan.skipped
            if x.temporary and self.stop is None
        ]

    def hold_followers(self, moves: t.Sequence[Move]) -> None:
        """Hold what is planned after a held move, too: nothing would ever let it begin."""
        planned = {move.uid: move for move in moves}
        while True:
            behind = [
                (move.uid, planned[uid])
                for move in moves
                for uid in move.after
                if uid in planned and uid in self.held and move.uid not in self.held
            ]
            if not behind:
                return
            self.held |= {uid: report.behind(first) for uid, first in behind}


def given_up(journal: RunJournal, view: View) -> tuple[MoveRecord, ...]:
    """The moves that the run reports and does not wait for any more."""
    return tuple(r for r in journal.records if r.phase is Phase.GIVEN_UP and view.is_about(r))


def journal_of_run(journal: RunJournal, view: View) -> RunJournal:
    """The journal for numbers and limits: without moves of other workloads that were taken over,
    and with those that were given up as ended ones."""
    in_flight = (record for record in journal.records if record.phase is not Phase.GIVEN_UP)
    records = tuple(record for record in in_flight if view.is_about(record))
    return replace(journal, records=records, failed=journal.failed + len(given_up(journal, view)))


def touched_by(record: MoveRecord, successor: Instance | None) -> t.Iterator[tuple[str, str]]:
    """What the end of a move has changed: its instances, their pods, and the workload."""
    if record.workload.kind in KINDS:
        workload = record.workload
        yield KINDS[workload.kind].path(workload.namespace, workload.name), ""
    instances = {record.uid: record.instance}
    if successor is not None:
        instances[successor.uid] = successor.ref
    for uid, instance in instances.items():
        yield instance_path(instance), ""
        if instance.is_vmi:
            yield instances_path("Pod", instance.namespace), f"{CREATED_BY}={uid}"
