# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The state that each step of a run hands to the next one, and the report and result of a step. Pure.

Counters, names and times only: what must survive a crash is in the journal.
"""

from __future__ import annotations

import dataclasses
import typing as t
from collections import defaultdict
from dataclasses import dataclass, field, replace

from ..cluster.lease import HeldLease, LeaseReading, LeaseState, LeaseWatch, lease_state
from ..model.json_pointer import JSON
from ..model.obstacle import Obstacle
from ..model.plan import Move, Plan
from ..model.rendering import Entry, one_line, plural
from . import report
from .journal import RunJournal
from .move import MoveRecord

NAMED = 50
"""How many planned moves keep their names: a run of thousands passes them from step to step."""


@dataclass(frozen=True, slots=True)
class MoveCount:
    """The number of moves as it was reported last, and which of them have not begun.

    A plan that is made while moves are in flight may have moves that are needless once those have
    ended. So a change of the plan is reported when nothing is in flight, or when a move begins that
    was not counted.

    `total` is -1 before the first plan. `to_come` are moves that were counted and have not begun:
    uids and names of their instances.
    """

    total: int = -1
    to_come: t.Mapping[str, str] = field(default_factory=dict)

    def replanned(
        self, journal: RunJournal, plan: Plan, there: t.Container[str]
    ) -> tuple[MoveCount, list[str]]:
        """The count after a new plan, and the line about what has changed. `there` are the uids of
        the instances that still exist."""
        begun = {record.uid for record in journal.records}
        moves = [move for move in plan.moves if move.uid not in begun]
        total = journal.started + len(moves)
        if self.total == -1:
            return MoveCount(total, _names(moves[:NAMED])), []
        if journal.records:
            # More of the moves that were counted, of which only some were named.
            unnamed = [move for move in moves if move.uid not in self.to_come]
            room = max(0, min(NAMED, self.total - journal.started) - len(self.to_come))
            return replace(self, to_come={**self.to_come, **_names(unnamed[:room])}), []
        planned = {move.uid for move in moves}
        off = {uid: name for uid, name in self.to_come.items() if uid not in planned}
        added = [move for move in moves if move.uid not in self.to_come]
        added = added if len(self.to_come) < NAMED else []
        causes = [*_no_longer_planned(off, plan, there), *map(report.added, added)]
        lines = (
            [report.plan_changed(self.total, total, causes)]
            if causes or total != self.total
            else []
        )
        return MoveCount(total, _names(moves[:NAMED])), lines

    def begun(self, move: Move, journal: RunJournal) -> tuple[MoveCount, list[str]]:
        """One of the moves begins; `journal` has it already. One that was not counted is reported."""
        to_come = {uid: name for uid, name in self.to_come.items() if uid != move.uid}
        count = replace(self, to_come=to_come)
        if journal.started <= self.total:
            return count, []
        changed = report.plan_changed(self.total, journal.started, [report.added(move)])
        return replace(count, total=journal.started), [changed]

    def has(self, move: Move) -> bool:
        """Whether the move was counted, as far as its name tells."""
        return move.uid in self.to_come or len(self.to_come) >= NAMED

    def deferred(self, record: MoveRecord) -> MoveCount:
        """A move that was reported to begin, and of which nothing was sent, is to come again."""
        name = report.short(record.workload, record.instance)
        return replace(self, to_come={**self.to_come, record.uid: name})


UNCOUNTED: t.Final = MoveCount()


def _names(moves: t.Iterable[Move]) -> dict[str, str]:
    return {move.uid: report.short(move.workload, move.instance) for move in moves}


def _no_longer_planned(off: t.Mapping[str, str], plan: Plan, there: t.Container[str]) -> list[str]:
    """Why moves are not planned any more."""
    skipped = {instance.uid: instance for instance in plan.skipped}
    causes = []
    for uid in (uid for uid in off if uid in skipped):
        instance = skipped[uid]
        causes.append(
            report.deferred(off[uid], str(instance.reason))
            if instance.temporary
            else report.skipped_line(instance)
        )
    not_skipped = [uid for uid in off if uid not in skipped]
    needless = [off[uid] for uid in not_skipped if uid in there]
    ended = [off[uid] for uid in not_skipped if uid not in there]
    causes += [report.needless(needless)] if needless else []
    causes += [report.gone(ended)] if ended else []
    return causes


@dataclass(frozen=True, slots=True)
class ReportMark:
    """How far a report had come: numbers of lines and moves, and the count."""

    lines: int
    moves: int
    count: MoveCount


class StepReport:
    """What a step has to report: progress lines, moves that ended, the number of moves.

    `saved` is how far the journal on the Lease has it. What goes beyond is taken back where the
    step cannot go on: the next one observes and reports it again. `shown` is the number of lines that were read
    while the step runs.
    """

    def __init__(self, count: MoveCount = UNCOUNTED) -> None:
        self.lines: list[str] = []
        self.moves: list[dict[str, JSON]] = []
        self.count = count
        self.changed = False
        self.shown = 0
        self.saved = self.mark()

    def mark(self) -> ReportMark:
        return ReportMark(len(self.lines), len(self.moves), self.count)

    def save(self) -> None:
        self.saved = self.mark()

    def revert(self, mark: ReportMark) -> list[str]:
        """Back to how it was at `mark`; returns the lines that were taken back."""
        dropped = self.lines[mark.lines :]
        del self.lines[mark.lines :], self.moves[mark.moves :]
        self.count = mark.count
        return dropped


AnyState = t.TypeVar("AnyState", bound="RunState")


@dataclass(slots=True)
class RunState:
    """`elapsed` are the seconds since the task began, `base` what the run's clock showed then.

    `failing_since` is when (in elapsed seconds) the API server stopped answering, -1 while it
    answers. `waiting` is the reason for waiting that was reported last, and `waiting_since` (in elapsed seconds) since
    when there is one. `printed_at`: when the last line was printed (`Reminder`). `leader` is that of
    `cluster.leader.Leader`. `outdated`: a
    delete or eviction that an earlier run may still send fails. `total` and `to_come` are those of MoveCount.
    `retry_at` and `not_outdated` are those of the Reconciler. `failures` names the moves that failed so far, with
    their reasons. `interrupted`: this step only gives the Lease back. `pipe` is the path of a ProgressPipe.
    `away_since`: since when the API server does not answer, as it was reported. `in_flight` are the moves that the
    step before has left, as entries of `skipped`. `rollouts` is what was seen of workload rollouts
    (`own_rollouts.with_deadline`).
    """

    run: str = ""
    transitions: int = 0
    elapsed: float = 0.0
    base: float = 0.0
    renewal: str = ""
    renewal_since: float = 0.0
    failing_since: float = -1.0
    waiting: str = ""
    waiting_since: float = -1.0
    printed_at: float = 0.0
    leader: dict[str, JSON] = field(default_factory=dict)
    outdated: bool = False
    changed: bool = False
    total: int = -1
    to_come: dict[str, str] = field(default_factory=dict)
    retry_at: dict[str, float] = field(default_factory=dict)
    not_outdated: list[str] = field(default_factory=list)
    failures: list[str] = field(default_factory=list)
    interrupted: bool = False
    pipe: str = ""
    away_since: str = ""
    in_flight: list[dict[str, JSON]] = field(default_factory=list)
    rollouts: dict[str, list[float]] = field(default_factory=dict)

    @classmethod
    def read(cls: type[AnyState], given: t.Mapping[str, JSON] | None) -> AnyState:
        """From the option `step_state`. Unknown keys are left out, values take their types."""
        default = dataclasses.asdict(cls())
        values = {name: value for name, value in (given or {}).items() if name in default}
        return cls(**{name: type(default[name])(value) for name, value in values.items()})

    def as_json(self) -> dict[str, JSON]:
        return dataclasses.asdict(self)

    def waits(self, reason: str, line: str, report_of_step: StepReport, elapsed: float) -> None:
        """A reason for waiting is reported once, by its line, until another takes its place."""
        changed = reason != self.waiting
        if not reason or changed or self.waiting_since < 0:
            self.waiting_since = elapsed if reason else -1.0
        if reason and changed:
            report_of_step.lines.append(line)
            self.waiting = reason

    @property
    def held(self) -> HeldLease | None:
        return HeldLease(self.run, self.transitions) if self.transitions else None

    @property
    def count(self) -> MoveCount:
        return MoveCount(self.total, self.to_come)

    @count.setter
    def count(self, count: MoveCount) -> None:
        self.total, self.to_come = count.total, dict(count.to_come)

    def watch_lease(self, reading: LeaseReading, elapsed: float) -> LeaseState:
        """`lease_state` by comparison with the readings before, of which the last one is kept."""
        watched = LeaseWatch(self.renewal, self.renewal_since)
        compared = lease_state(reading, watched, elapsed)
        self.renewal, self.renewal_since = compared.watched.renewal, compared.watched.since
        return compared


@dataclass(slots=True)
class StepResult:
    """`moves` are those that ended in this step, or in check mode those that are planned.

    `warnings` name instances that still violate a rule and workloads that lack constraints of their rules.
    `plan` is what a later run can be given, in check mode only. `failure` says why the run failed; then it is
    finished. The state is for the next step, so there is none in the last one's result.
    """

    finished: bool
    state: RunState
    moves: list[dict[str, JSON]] = field(default_factory=list)
    deferred: list[dict[str, JSON]] = field(default_factory=list)
    skipped: list[dict[str, JSON]] = field(default_factory=list)
    not_enforced: list[dict[str, JSON]] = field(default_factory=list)
    progress: list[str] = field(default_factory=list)
    shown: int = 0
    stop: Obstacle | None = None
    failure: str = ""
    warnings: list[str] = field(default_factory=list)
    changed: bool = False
    plan: t.Mapping[str, JSON] | None = None
    places: list[dict[str, JSON]] = field(default_factory=list)
    held: list[dict[str, JSON]] = field(default_factory=list)

    def entries_skipped(self) -> t.Iterator[Entry]:
        """Each reason with its instances, the moves that were not begun, and why no more began. Before the run has
        ended, the moves in flight."""
        skipped = self.skipped if self.finished else self.state.in_flight
        by_reason: dict[tuple[str, str], dict[str, None]] = defaultdict(dict)
        for left in skipped:
            name = f"{left['namespace']}/{left['name']}"
            by_reason[left["reason_code"], left["reason"]][name] = None
        for (code, reason), names in by_reason.items():
            yield Entry(code or "skipped", reason, tuple(names))
        uids = {left["uid"] for left in skipped}
        deferred = [f"{x['namespace']}/{x['name']}" for x in self.deferred if x["uid"] not in uids]
        if deferred:
            text = f"{plural(len(deferred), 'move')} deferred ({self.stop or 'the run ended'})"
            yield Entry("deferred", text, tuple(dict.fromkeys(deferred)))
        elif self.stop is not None:
            yield Entry(self.stop.code, self.stop.text)

    def as_json(self) -> dict[str, JSON]:
        return {
            "changed": self.changed,
            "finished": self.finished,
            "moves": self.moves,
            "deferred": self.deferred,
            "skipped_instances": self.skipped,
            "not_enforced": self.not_enforced,
            "stop_reason": self.stop.text if self.stop is not None else "",
            "stop_code": self.stop.code if self.stop is not None else "",
            "progress": list(map(one_line, self.progress)),
            **({"plan": self.plan} if self.plan is not None else {}),
            **({"places": self.places} if self.places else {}),
            **({"held": self.held} if self.held else {}),
            **({"_shown": self.shown} if self.shown else {}),
            **({} if self.finished else {"step_state": self.state.as_json()}),
        }
