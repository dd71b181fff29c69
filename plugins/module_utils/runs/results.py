# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Moves, and instances that do not move, as data for playbooks.

Pure.
"""

from __future__ import annotations

import typing as t

from ..model.kinds import VIRTUAL_MACHINE
from ..model.objects import Ref
from ..model.plan import Left, Method, Move, Plan
from ..model.pointer import JSON
from ..movement.entry import Ended, Entry
from ..planning.candidates import Candidate
from . import journal as journals
from . import progress


def planned_move(move: Move) -> dict[str, JSON]:
    return {
        **_named(move.workload),
        "instance": move.instance.name,
        "uid": move.uid,
        "method": str(move.method),
        "from": move.source,
        "targets": list(move.targets),
        "reason": move.reason,
        "after": list(move.after),
    }


def ended_move(entry: Entry, end: Ended, seconds: float) -> dict[str, JSON]:
    return {
        **_named(entry.workload),
        "instance": entry.instance.name,
        "uid": entry.uid,
        "method": str(entry.method),
        "from": entry.source,
        "to": end.node,
        "outcome": str(end.outcome),
        "reason": end.reason,
        "seconds": round(seconds, 1),
    }


def left_behind(left: Left) -> dict[str, JSON]:
    return {
        **_named(left.workload or left.instance),
        "instance": left.instance.name,
        "uid": left.uid,
        "node": left.node,
        "reason": left.reason,
    }


def well_placed(found: Candidate) -> dict[str, JSON]:
    """An instance that runs by terms of before, where its new ones allow it to be."""
    effect = takes_effect(found)
    return {
        **_named(found.workload.ref if found.workload is not None else found.instance.ref),
        "instance": found.instance.ref.name,
        "uid": found.uid,
        "node": found.node,
        "takes_effect": effect,
        "reason": f"stands well; takes effect at its next {effect}",
    }


def not_in_effect(candidates: t.Iterable[Candidate], plan: Plan) -> tuple[Candidate, ...]:
    """Those that run by terms of before and that nobody has to move because of it."""
    concerned = {move.uid for move in plan.moves} | {left.uid for left in plan.left}
    return tuple(x for x in candidates if x.outdated and x.node and x.uid not in concerned)


def told(standing: t.Iterable[Candidate]) -> list[str]:
    """Progress lines about those of `not_in_effect`."""
    return progress.standing(
        (progress.short(found.workload.ref, found.instance.ref), takes_effect(found))
        for found in standing
        if found.workload is not None
    )


def takes_effect(found: Candidate) -> str:
    """What has to happen to the instance for its declared terms to count: the gentlest."""
    if Method.MIGRATE in found.effect.methods:
        return "migration"
    workload = found.workload
    return "restart" if workload and workload.ref.kind == VIRTUAL_MACHINE.name else "recreation"


def failures(moves: t.Iterable[t.Mapping[str, JSON]]) -> str:
    """What failed in this step; earlier ones were told when they failed."""
    told = [
        f"{m['kind']} {m['instance']}: {m['reason']}" for m in moves if m["outcome"] == "failed"
    ]
    return "; ".join(told) or "see the progress lines"


def undone(entries: t.Iterable[Entry], plan: Plan, waiting: str) -> str:
    """What a run leaves whose time is over; `waiting` is why its next move had not begun."""
    in_flight = [f"{e.instance} ({e.method}: {e.note or e.phase})" for e in entries]
    planned = [f"{m.instance} ({waiting or 'not begun'})" for m in plan.moves]
    left = [f"{x.instance} ({x.reason})" for x in plan.left]
    return "; ".join(in_flight + planned + left) or "nothing"


def in_flight(journal: str) -> str:
    """The end of a sentence about moves that the next run goes on with, if there are any."""
    try:
        entries = journals.read(journal).entries if journal else ()
    except journals.UnreadableJournal:
        return ""
    told = ", ".join(f"{entry.instance} ({entry.method})" for entry in entries)
    return f"; in flight, for the next run to see to its end: {told}" if told else ""


def _named(workload: Ref) -> dict[str, JSON]:
    return {"kind": workload.kind, "namespace": workload.namespace, "name": workload.name}
