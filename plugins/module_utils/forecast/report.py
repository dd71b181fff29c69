# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Forecasts and drills as modules return them."""

from __future__ import annotations

from ..compliance.report import gap_as_json, ref_as_json
from ..model.json_pointer import JSON
from ..model.plan import Move, SkippedInstance
from .drill import Drill
from .explain import BlockedPod
from .result import Deadlock, Forecast, NotMigratableInstance, UnschedulableInstance


def forecast_as_json(forecast: Forecast) -> dict[str, JSON]:
    return {
        "forecast": str(forecast.answer),
        "proof": list(forecast.proof),
        "to_place": forecast.to_place,
        "least_pending": forecast.least_pending,
        "pending": [_unplaced(instance) for instance in forecast.pending],
        "stuck": [_stuck(instance) for instance in forecast.stuck],
        "moves": [_move(move) for move in forecast.moves],
        "left": [_left(skipped) for skipped in forecast.left],
        "order": [str(move.instance) for move in forecast.moves],
        "deadlock": _deadlock(forecast.deadlock),
        "permission_gaps": [gap_as_json(gap) for gap in forecast.unreadable],
    }


def drill_as_json(drill: Drill) -> dict[str, JSON]:
    return {
        "key": drill.key,
        "domain": drill.domain,
        "nodes": list(drill.nodes),
        "forecast": str(drill.answer),
        "displaced": drill.evicted,
        "down": drill.down,
        "pending": [ref_as_json(ref) for ref in drill.pending],
        "at_risk": [ref_as_json(ref) for ref in drill.at_risk],
        "stuck": [ref_as_json(ref) for ref in drill.stuck],
        "gone": [ref_as_json(ref) for ref in drill.gone],
        "proof": list(drill.proof),
        "blocked": [_blocked(blocked) for blocked in drill.blocked],
    }


def _blocked(blocked: BlockedPod) -> dict[str, JSON]:
    return {
        "instance": ref_as_json(blocked.instance),
        "by": blocked.by,
        "pod": ref_as_json(blocked.pod),
        "rules": list(blocked.rules),
        "reason": blocked.reason,
        "text": blocked.text,
    }


def _unplaced(instance: UnschedulableInstance) -> dict[str, JSON]:
    return {
        "workload": ref_as_json(instance.workload),
        "instance": ref_as_json(instance.instance),
        "reason": instance.reason,
        "certain": instance.certain,
        "may_end": [ref_as_json(ref) for ref in instance.may_end],
    }


def _stuck(instance: NotMigratableInstance) -> dict[str, JSON]:
    return {
        "workload": ref_as_json(instance.workload),
        "instance": ref_as_json(instance.instance),
        "node": instance.node,
        "reason": instance.reason,
        "if_restarted": list(instance.if_restarted),
        "certain": instance.certain,
    }


def _move(move: Move) -> dict[str, JSON]:
    return {
        "workload": ref_as_json(move.workload),
        "instance": ref_as_json(move.instance),
        "uid": move.uid,
        "method": str(move.method),
        "from": move.source,
        "targets": list(move.targets),
        "after": list(move.after),
        "reason": move.reason,
    }


def _left(skipped: SkippedInstance) -> dict[str, JSON]:
    return {
        "workload": ref_as_json(skipped.workload),
        "instance": ref_as_json(skipped.instance),
        "node": skipped.node,
        "reason": skipped.reason,
    }


def _deadlock(deadlock: Deadlock | None) -> JSON:
    if deadlock is None:
        return None
    return {
        "instances": [ref_as_json(ref) for ref in deadlock.instances],
        "why": deadlock.why,
        "ways_out": list(deadlock.remediation),
    }
