# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What has not left the nodes of a drain when it ends, and why, in words. Pure."""

from __future__ import annotations

import typing as t
from collections import defaultdict

from ..model.obstacle import Obstacle
from ..model.plan import Method, Plan
from ..moves import report
from ..moves.journal import RunJournal, digest
from ..moves.move import MoveRecord
from ..moves.reconciliation import Wait

ATTEMPTS = 3
"""Migrations of one VM that a run begins before it gives up on it."""


def stays(plan: Plan) -> list[str]:
    """The instances that did not leave, with the reasons."""
    return [
        f"{report.short(x.workload or x.instance, x.instance)} on {x.node}: {x.reason}"
        for x in plan.skipped
    ]


def what_is_left(
    records: t.Sequence[MoveRecord], plan: Plan, waiting: Wait | None = None
) -> list[str]:
    """The instances that have not left when the time of a drain is over, by reason: each reason once. `waiting`: what
    the first move of the plan that could not begin waits for."""
    there = {record.uid: str(record.instance) for record in records}
    there |= {move.uid: str(move.instance) for move in plan.moves}
    reasons: dict[str, list[str]] = defaultdict(list)
    for record in records:
        reasons[record.note or str(record.method)].append(f"{record.instance} on {record.source}")
    known = {record.uid for record in records}
    left = [move for move in plan.moves if move.uid not in known]
    for move in left:
        why = "not started"
        if first := next((there[uid] for uid in move.after if uid in there), ""):
            why = f"moves after {first}"
        elif waiting is not None and waiting.uid in ("", move.uid):
            why = waiting.obstacle.text
        reasons[why].append(f"{move.instance} on {move.source}")
    for skipped in plan.skipped:
        name = report.short(skipped.workload or skipped.instance, skipped.instance)
        reasons[str(skipped.reason)].append(f"{name} on {skipped.node}")
    return [f"{', '.join(names)}: {reason}" for reason, names in reasons.items()]


def why_given_up(journal: RunJournal, uid: str, method: Method) -> Obstacle | None:
    """Why a run begins no other move of the instance."""
    if digest(uid) not in journal.lost:
        return None
    attempts = journal.attempts(uid)
    if method is Method.MIGRATE and attempts < ATTEMPTS:
        return None
    times = f" {attempts} times" if attempts > 1 else ""
    return Obstacle("move_failed", f"its {_NOUNS[method]} failed{times}")


_NOUNS = {
    Method.MIGRATE: "migration",
    Method.RESTART: "restart",
    Method.RECREATE: "recreation",
    Method.EVICT: "eviction",
    Method.STOP: "stop",
}
