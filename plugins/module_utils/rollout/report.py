# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a run reports: progress lines, and moves and skipped instances as data. Pure."""

from __future__ import annotations

import typing as t

from ..model.json_pointer import JSON
from ..model.objects import Labels, Ref
from ..model.plan import Move, Plan, SkippedInstance, move_as_json, move_record
from ..model.snapshot import Snapshot
from ..planning.movable_instances import MovableInstance
from . import journal as journals
from .move import MoveRecord, MoveResult, Outcome

_PAST = {"migrate": "migrated", "restart": "restarted", "recreate": "recreated"}
_NOW = {"migrate": "migrating", "restart": "restarting", "recreate": "recreating"}


class NodeDescriptions:
    """Names of nodes in messages: with the topology domain that each is in."""

    def __init__(self, labels: t.Mapping[str, Labels], zone_key: str) -> None:
        self._labels = labels
        self._zone_key = zone_key

    @classmethod
    def of(cls, snapshot: Snapshot, zone_key: str) -> NodeDescriptions:
        return cls({node.name: node.labels for node in snapshot.nodes}, zone_key)

    def domain(self, node: str) -> str:
        return self._labels.get(node, {}).get(self._zone_key, "")

    def named(self, node: str) -> str:
        zone = self.domain(node)
        return f"{node} ({zone})" if zone else node or "no node"


def planned(run: str, plan: Plan) -> str:
    if not plan.skipped:
        return f"run {run}: {_count(len(plan.moves), 'move')} planned"
    return f"run {run}: {_count(len(plan.moves), 'move')} planned, {len(plan.skipped)} skipped"


def plan_lines(run: str, plan: Plan) -> list[str]:
    """The plan, and each instance that it skips."""
    return [planned(run, plan), *map(skipped_line, plan.skipped)]


def began(number: int, total: int, move: Move, places: NodeDescriptions) -> str:
    return f"[{number}/{total}] {_NOW[str(move.method)]} {_course(move, places)}"


def planned_lines(moves: t.Sequence[Move], places: NodeDescriptions) -> list[str]:
    """What check mode reports of each move."""
    return [
        f"[{number}/{len(moves)}] would {move.method} {_course(move, places)}"
        for number, move in enumerate(moves, 1)
    ]


def _course(move: Move, places: NodeDescriptions) -> str:
    targets = _some([places.named(node) for node in move.targets])
    where = f" from {places.named(move.source)}" if move.source else ""
    name = short(move.workload, move.instance)
    return f"{name}{where}, open: {targets}; {move.reason}"


def ended(
    number: int,
    total: int,
    record: MoveRecord,
    end: MoveResult,
    seconds: float,
    places: NodeDescriptions,
) -> str:
    name = short(record.workload, record.instance)
    if end.outcome is Outcome.MOVED:
        verb = _PAST[str(record.method)]
        path = f"{places.named(record.source)} -> {places.named(end.node)}"
        return f"[{number}/{total}] {name} {verb}: {path} in {seconds:.0f} s"
    if end.outcome is Outcome.GONE:
        return f"[{number}/{total}] {name}: {end.reason}"
    return f"[{number}/{total}] {name} FAILED to {record.method}: {end.reason} ({seconds:.0f} s)"


def deferred(name: str, reason: str) -> str:
    return f"{name} is not moved for now: {reason}"


def needless(names: t.Sequence[str]) -> str:
    return f"{_some(names)} {'needs' if len(names) == 1 else 'need'} no move any more"


def gone(names: t.Sequence[str]) -> str:
    return f"{_some(names)} {'does' if len(names) == 1 else 'do'} not exist any more"


def added(move: Move) -> str:
    return f"{short(move.workload, move.instance)} has to move too ({move.reason})"


def plan_changed(before: int, now: int, causes: t.Sequence[str]) -> str:
    """One line about a change of the plan, with its causes."""
    total = _count(now, "move")
    change = f" from {before} to {total}" if now != before else f", still {total}"
    return f"plan changed{change}: {'; '.join(causes) or 'the cluster has changed'}"


def undo_notes_removed(workloads: t.Sequence[str], *, check: bool) -> list[str]:
    """One line for all workloads whose undo record was removed, since what is declared is enforced."""
    if not workloads:
        return []
    ways = "way back" if len(workloads) == 1 else f"{len(workloads)} ways back"
    would_be = "would be " if check else ""
    return [f"{ways} {would_be}forgotten, what is declared is in effect: {_some(workloads)}"]


def skipped_line(left: SkippedInstance) -> str:
    ref = left.workload or left.instance
    node = f" on {left.node}" if left.node else ""
    return f"{short(ref, left.instance)}{node} is skipped: {left.reason}"


def well_placed_by_need(found: t.Iterable[tuple[str, str]]) -> list[str]:
    """One line for what takes effect at a next migration, one for restart and recreation, of
    (name, what it takes)."""
    by_need: dict[str, list[str]] = {}
    for name, need in found:
        by_need.setdefault(need, []).append(name)
    return [
        f"{names[0]} stands well; takes effect at its next {need}"
        if len(names) == 1
        else f"{len(names)} instances stand well; takes effect at the next {need} of each:"
        f" {_some(names)}"
        for need, names in sorted(by_need.items())
    ]


def short(workload: Ref, instance: Ref) -> str:
    """The workload, and the instance where its name says more."""
    if workload.name == instance.name:
        return str(workload)
    return f"{workload} ({instance.name})"


def _some(names: t.Sequence[str]) -> str:
    if len(names) <= 3:
        return ", ".join(names) or "none"
    return f"{', '.join(names[:3])} and {len(names) - 3} more"


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


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


def well_placed(found: MovableInstance) -> dict[str, JSON]:
    """An instance that still runs with the previous constraints, on a node that the new ones allow."""
    effect = found.takes_effect
    return {
        **_named(found.workload.ref if found.workload is not None else found.instance.ref),
        "instance": found.instance.ref.name,
        "uid": found.uid,
        "node": found.node,
        "takes_effect": effect,
        "reason": f"stands well; takes effect at its next {effect}",
    }


def not_enforced(
    candidates: t.Iterable[MovableInstance], plan: Plan
) -> tuple[MovableInstance, ...]:
    """Instances that still run with the previous constraints and need no move for that."""
    concerned = {move.uid for move in plan.moves} | {left.uid for left in plan.skipped}
    return tuple(x for x in candidates if x.drift and x.node and x.uid not in concerned)


def well_placed_lines(placed: t.Iterable[MovableInstance]) -> list[str]:
    """Progress lines about those of `not_enforced`."""
    return well_placed_by_need(
        (
            short(placed_instance.workload.ref, placed_instance.instance.ref),
            placed_instance.takes_effect,
        )
        for placed_instance in placed
        if placed_instance.workload is not None
    )


def failures(moves: t.Iterable[t.Mapping[str, JSON]]) -> list[str]:
    """The failed ones of these moves, each with the reason."""
    return [f"{_move_named(move)}: {move['reason']}" for move in moves if move["state"] == "failed"]


def _move_named(move: t.Mapping[str, JSON]) -> str:
    instance = f" ({move['instance']})" if move["instance"] != move["name"] else ""
    return f"{move['method']} of {move['kind']} {move['namespace']}/{move['name']}{instance}"


def too_many_failed(failed: int, allowed: int, messages: t.Sequence[str]) -> str:
    """Why a run failed. `messages`: `failures` of all its steps."""
    named = "; ".join(messages) or "an earlier task reported them"
    return (
        f"{_count(failed, 'move')} failed, and failures_allowed is {allowed}: {named}."
        " No other move was started. Correct the causes and run again"
    )


def undone(records: t.Iterable[MoveRecord], plan: Plan, waiting: str) -> str:
    """What a run whose time is over leaves; `waiting` is why its next move had not begun."""
    in_flight = [f"{e.instance} ({e.method}: {e.note or e.phase})" for e in records]
    planned = [f"{m.instance} ({waiting or 'not begun'})" for m in plan.moves]
    left = [f"{x.instance} ({x.reason})" for x in plan.skipped]
    return "; ".join(in_flight + planned + left) or "nothing"


def in_flight(journal: str) -> str:
    """The end of a sentence about moves that the next run goes on with, if there are any."""
    try:
        records = journals.read(journal).records if journal else ()
    except journals.UnreadableJournal:
        return ""
    moves = ", ".join(f"{record.instance} ({record.method})" for record in records)
    return f"; in flight, for the next run to see to its end: {moves}" if moves else ""


def _named(workload: Ref) -> dict[str, JSON]:
    return {"kind": workload.kind, "namespace": workload.namespace, "name": workload.name}
