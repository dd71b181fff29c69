# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a run reports: progress lines, and moves and skipped instances as data. Pure."""

from __future__ import annotations

import typing as t
from dataclasses import dataclass

from ..model.json_pointer import JSON
from ..model.objects import Labels, Ref
from ..model.obstacle import NO_ANSWER, Obstacle
from ..model.plan import (
    PAST,
    Method,
    Move,
    Plan,
    SkippedInstance,
    move_as_json,
    move_record,
)
from ..model.rendering import listed, plural
from ..model.snapshot import Snapshot
from . import journal as journals
from .move import MoveRecord, MoveResult, Outcome, Phase

_NOUNS = {
    "migrate": "migration",
    "recreate": "recreation",
    "evict": "eviction",
}

_NOW = {
    "migrate": "migrating",
    "restart": "restarting",
    "recreate": "recreating",
    "evict": "evicting",
    "stop": "stopping",
}


@dataclass(frozen=True, slots=True)
class NodeDescriptions:
    """Names of nodes in messages: with the topology domain that each is in."""

    labels: t.Mapping[str, Labels]
    zone_key: str

    @classmethod
    def of(cls, snapshot: Snapshot, zone_key: str) -> NodeDescriptions:
        return cls({node.name: node.labels for node in snapshot.nodes}, zone_key)

    def domain(self, node: str) -> str:
        return self.labels.get(node, {}).get(self.zone_key, "")

    def left_by(self, source: str) -> str | None:
        """The domain that a move from this node leaves, where nodes that are in none are one together; None where
        there is no node."""
        return self.domain(source) or (f"nodes without {self.zone_key}" if source else None)

    def named(self, node: str) -> str:
        zone = self.domain(node)
        return f"{node} ({zone})" if zone else node or "no node"


NAMED = 3
"""Names in a progress line, at most."""


def plan_lines(
    plan: Plan, run: str = "", *, name_skipped: bool = True, selected: int | None = None
) -> list[str]:
    """The plan and, with `name_skipped`, each instance that it skips. One that has no node yet is not
    skipped as long as other moves may free one. An empty plan has the number of selected instances."""
    if selected is None and not plan.moves and not plan.skipped:
        return []
    waiting = no_node(plan) if plan.moves else []
    skipped = [instance for instance in plan.skipped if instance not in waiting]
    parts = [f"{plural(len(plan.moves), 'move')} planned"]
    parts += [f"{len(skipped)} skipped"] if skipped else []
    parts += [f"{len(waiting)} without a node to move to now"] if waiting else []
    if selected is not None and not plan.moves and not skipped:
        parts.append(f"{plural(selected, 'instance')} checked")
    return [
        f"{f'{run}: ' if run else ''}{', '.join(parts)}",
        *(map(skipped_line, skipped) if name_skipped else ()),
        *map(_waiting_line, waiting),
    ]


def no_node(plan: Plan) -> list[SkippedInstance]:
    """The instances that are skipped because they have no node now."""
    return [instance for instance in plan.skipped if instance.no_node]


def _waiting_line(skipped: SkippedInstance) -> str:
    name = short(skipped.workload or skipped.instance, skipped.instance)
    where = f" (on {skipped.node})" if skipped.node else ""
    return (
        f"{name}{where} has no node to move to now; tried again after each move: {skipped.reason}"
    )


def began(number: int, total: int, move: Move, places: NodeDescriptions) -> str:
    return f"[{number}/{total}] {_NOW[str(move.method)]} {_course(move, places)}"


def planned_lines(moves: t.Sequence[Move], places: NodeDescriptions) -> list[str]:
    """What check mode reports of each move."""
    return [
        f"[{number}/{len(moves)}] would {move.method} {_course(move, places)}"
        for number, move in enumerate(moves, 1)
    ]


def _course(move: Move, places: NodeDescriptions) -> str:
    names = [places.named(node) for node in move.targets]
    available = "available after the moves before it" if move.after else "available"
    targets = f"; {available}: {listed(names, NAMED)}" if names else ""
    where = f" from {places.named(move.source)}" if move.source else ""
    name = short(move.workload, move.instance)
    return f"{name}{where}{targets}; reason: {move.reason}"


def ended(
    number: int,
    total: int,
    record: MoveRecord,
    end: MoveResult,
    seconds: float,
    places: NodeDescriptions,
) -> str:
    done = f"{number} of {total} done: {short(record.workload, record.instance)}"
    if end.outcome is Outcome.MOVED:
        verb = PAST[str(record.method)]
        path = places.named(record.source)
        path += f" -> {places.named(end.node)}" if end.node else ""
        return f"{done} {verb}: {path} in {seconds:.0f} s"
    if end.outcome is Outcome.GONE:
        return f"{done}: {end.reason}"
    return f"{done} FAILED to {record.method}: {end.reason} ({seconds:.0f} s)"


def deferred(name: str, reason: str) -> str:
    return f"{name} is not moved for now: {reason}"


def may_still_end(record: MoveRecord, why: str) -> str:
    """The line about a move of an earlier run whose request cannot be made to fail."""
    name = short(record.workload, record.instance)
    past = PAST[str(record.method)]
    return f"{name} may still be {past} by a request of an earlier run, since it cannot be annotated: {why}"


def held(name: str, reason: str, method: Method = Method.MIGRATE) -> str:
    return f"the {_NOUNS.get(str(method), method)} of {name} waits: {reason}"


def still_waiting(
    moves: t.Sequence[tuple[str, MoveRecord]], waiting: str, since: str
) -> str | None:
    """The line of a run that has been silent for a minute: what it waits for, None if for no more. `moves` are those
    in flight, each with the time when it began, and `waiting` is what the next one waits for, since a time."""
    parts = [
        f"{_NOW[str(record.method)]} {short(record.workload, record.instance)} since {began}"
        f" ({record.note or record.phase})"
        for began, record in moves[:NAMED]
    ]
    parts += [f"{len(moves) - NAMED} more moves"] if len(moves) > NAMED else []
    parts += [f"{waiting} (since {since})"] if waiting else []
    return f"still waiting: {'; '.join(parts)}" if parts else None


def moves_after(name: str, first: Move | MoveRecord, *, linked: bool) -> Obstacle:
    """That a move has not begun. `linked`: a rule or another constraint is about the two instances."""
    why = "since a rule is about both" if linked else "which may open a node for it"
    text = f"{name} waits for the move of {short(first.workload, first.instance)}, {why}"
    return Obstacle("other_move", text, True)


def behind(first: Move) -> Obstacle:
    """That a move is left out which was to begin after one that is left out."""
    text = f"it moves after {short(first.workload, first.instance)}, which is skipped, too"
    return Obstacle("other_move", text)


def no_room(name: str, other: MoveRecord) -> Obstacle:
    """That a move has not begun beside one whose pod has no node yet."""
    rival = short(other.workload, other.instance)
    text = f"{name} waits until {rival} has its node: there may be room for one of the two only"
    return Obstacle("other_move", text, True)


def needless(names: t.Sequence[str]) -> str:
    return f"{listed(names, NAMED)} {'needs' if len(names) == 1 else 'need'} no move any more"


def gone(names: t.Sequence[str]) -> str:
    return f"{listed(names, NAMED)} {'does' if len(names) == 1 else 'do'} not exist any more"


def added(move: Move) -> str:
    where = f" on {move.source}" if move.source else ""
    return f"{short(move.workload, move.instance)}{where} has to move too ({move.reason})"


def plan_changed(before: int, now: int, causes: t.Sequence[str]) -> str:
    """One line about a change of the plan, with its causes."""
    total = plural(now, "move")
    change = f" from {before} to {total}" if now != before else f", still {total}"
    return f"plan changed{change}: {'; '.join(causes) or 'the cluster has changed'}"


def stopped(reason: Obstacle, moves: t.Sequence[Move]) -> str:
    """The line about a run that ends before all moves of its plan have begun."""
    names = listed([short(move.workload, move.instance) for move in moves], NAMED)
    return f"stopped: {reason}" + (f"; not started: {names}" if moves else "")


def skipped_line(left: SkippedInstance) -> str:
    ref = left.workload or left.instance
    node = f" on {left.node}" if left.node else ""
    return f"{short(ref, left.instance)}{node} is skipped: {left.reason}"


def short(workload: Ref, instance: Ref) -> str:
    """The workload, and the instance where its name says more."""
    if workload.name == instance.name:
        return str(workload)
    return f"{workload} ({instance.name})"


def planned_move(move: Move) -> dict[str, JSON]:
    return {**move_as_json(move), "state": "planned"}


def ended_move(record: MoveRecord, end: MoveResult, seconds: float) -> dict[str, JSON]:
    move = move_record(
        record.workload,
        record.instance,
        record.uid,
        end.reason,
        method=record.method,
        from_node=record.source,
        to_node=end.node,
    )
    return {**move, "state": str(end.outcome), "seconds": round(seconds, 1)}


def failures(moves: t.Iterable[t.Mapping[str, JSON]]) -> list[str]:
    """The failed ones of these moves, each with the reason."""
    return [
        f"{move['method']} of {instance_named(move)}: {move['reason']}"
        for move in moves
        if move["state"] == "failed"
    ]


def instance_named(record: t.Mapping[str, JSON]) -> str:
    instance = f" ({record['instance']})" if record["instance"] != record["name"] else ""
    return f"{record['kind']} {record['namespace']}/{record['name']}{instance}"


def undone(
    records: t.Sequence[MoveRecord],
    plan: Plan,
    waiting: str = "",
    rollouts: t.Sequence[str] = (),
) -> str:
    """The message about what a run has not done when its time is over. `waiting` is what its next move waited for,
    `rollouts` are the workload rollouts that go on."""
    left: dict[str, list[str]] = {}
    for record in records:
        text = f"{record.instance} ({': '.join(filter(None, [record.method, record.note]))})"
        left.setdefault(_LEFT[record.phase], []).append(text)
    deferred = [f"{m.instance} ({waiting or 'not started'})" for m in plan.moves]
    skipped = [f"{x.instance} ({x.reason})" for x in plan.skipped]
    parts = {**left, "not started": deferred, "skipped": skipped, "still going on": rollouts}
    texts = [f"{what}: {'; '.join(names)}" for what, names in parts.items() if names]
    return ". ".join(texts) or "nothing is left to move"


_LEFT: t.Mapping[Phase, str] = {
    Phase.INTENDED: "may have begun, and the next task continues it",
    Phase.BEGUN: "goes on without this task, and the next one continues it",
    Phase.CANCELLING: "canceled",
    Phase.GIVEN_UP: "canceled, and has not ended",
}


def move_in_flight(record: MoveRecord) -> dict[str, JSON]:
    """A move that the run leaves, as an entry of `skipped`."""
    return move_record(
        record.workload,
        record.instance,
        record.uid,
        Obstacle(record.code, ": ".join(filter(None, [_LEFT[record.phase], record.note]))),
        method=record.method,
        from_node=record.source,
    )


def gave_up(record: MoveRecord) -> str:
    name = short(record.workload, record.instance)
    return f"{name} is not waited for any more: {record.note}"


def failure(
    left: t.Sequence[MoveRecord], failed: int, allowed: int | None, messages: t.Sequence[str]
) -> str:
    """The message of a run that left canceled migrations behind, or in which too many moves failed. `messages`:
    `failures` of all its steps."""
    if left:
        named = "; ".join(f"{record.instance} on {record.source}: {record.note}" for record in left)
        also = f" Also failed: {'; '.join(messages)}." if messages else ""
        unanswered = all(record.code == NO_ANSWER for record in left)
        check = "" if unanswered else "Check whether virt-handler runs on the nodes, then "
        return (
            f"{plural(len(left), 'canceled migration')} did not end: {named}.{also}"
            f" {check or 'Then '}run again"
        )
    named = "; ".join(messages) or "an earlier task reported them"
    return (
        f"{plural(failed, 'move')} failed, and failures_allowed is {allowed}: {named}."
        " No other move was started. Correct the causes and run again"
    )


def ended_of_other_run(record: MoveRecord, end: MoveResult, places: NodeDescriptions) -> str:
    """A move that was taken over and is not of the workloads of this run."""
    name = short(record.workload, record.instance)
    where = f" to {places.named(end.node)}" if end.node else ""
    reason = f": {end.reason}" if end.reason else ""
    return f"of an earlier run: {record.method} of {name} {end.outcome}{where}{reason}"


def in_flight(journal: str, task: str) -> str:
    """The end of a sentence about moves that the next run continues, if there are any."""
    try:
        records = journals.read(journal).records if journal else ()
    except journals.UnreadableJournal:
        return ""
    moves = ", ".join(f"{record.instance} ({record.method})" for record in records)
    return f"; the next {task} continues the moves in flight: {moves}" if moves else ""
