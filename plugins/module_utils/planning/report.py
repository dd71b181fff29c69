# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Forecasts and drills as modules return them. Pure."""

from __future__ import annotations

from ..model.plan import Left, Move
from ..model.pointer import JSON
from ..verdicts.report import gap_as_json, ref_as_json
from .blocking import Blocked
from .drill import Drill
from .foreseen import Deadlock, Forecast, Stuck, Unplaced


def forecast_as_json(forecast: Forecast) -> dict[str, JSON]:
    return {
        "forecast": str(forecast.answer),
        "proof": list(forecast.proof),
        "to_place": forecast.to_place,
        "least_pending": forecast.least_pending,
        "pending": [_unplaced(each) for each in forecast.pending],
        "stuck": [_stuck(each) for each in forecast.stuck],
        "moves": [_move(each) for each in forecast.moves],
        "left": [_left(each) for each in forecast.left],
        "order": [str(each.instance) for each in forecast.moves],
        "deadlock": _deadlock(forecast.deadlock),
        "unreadable": [gap_as_json(gap) for gap in forecast.unreadable],
    }


def drill_as_json(drill: Drill) -> dict[str, JSON]:
    return {
        "key": drill.key,
        "domain": drill.domain,
        "nodes": list(drill.nodes),
        "forecast": str(drill.answer),
        "displaced": drill.displaced,
        "down": drill.down,
        "pending": [ref_as_json(ref) for ref in drill.pending],
        "at_risk": [ref_as_json(ref) for ref in drill.at_risk],
        "stuck": [ref_as_json(ref) for ref in drill.stuck],
        "gone": [ref_as_json(ref) for ref in drill.gone],
        "proof": list(drill.proof),
        "blocked": [_blocked(each) for each in drill.blocked],
    }


def _blocked(each: Blocked) -> dict[str, JSON]:
    return {
        "instance": ref_as_json(each.instance),
        "by": each.by,
        "pod": ref_as_json(each.pod),
        "rules": list(each.rules),
        "reason": each.reason,
        "text": each.text,
    }


def _unplaced(each: Unplaced) -> dict[str, JSON]:
    return {
        "workload": ref_as_json(each.workload),
        "instance": ref_as_json(each.instance),
        "reason": each.reason,
        "certain": each.certain,
        "may_end": [ref_as_json(ref) for ref in each.may_end],
    }


def _stuck(each: Stuck) -> dict[str, JSON]:
    return {
        "workload": ref_as_json(each.workload),
        "instance": ref_as_json(each.instance),
        "node": each.node,
        "reason": each.reason,
        "if_restarted": list(each.if_restarted),
        "certain": each.certain,
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


def _left(left: Left) -> dict[str, JSON]:
    return {
        "workload": ref_as_json(left.workload),
        "instance": ref_as_json(left.instance),
        "node": left.node,
        "reason": left.reason,
    }


def _deadlock(deadlock: Deadlock | None) -> JSON:
    if deadlock is None:
        return None
    return {
        "instances": [ref_as_json(ref) for ref in deadlock.instances],
        "why": deadlock.why,
        "ways_out": list(deadlock.ways_out),
    }
