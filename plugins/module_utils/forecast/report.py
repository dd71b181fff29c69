# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Forecasts and drills as modules return them."""

from __future__ import annotations

from ..compliance.report import gap_as_json, ref_as_json
from ..model.json_pointer import JSON
from ..model.plan import move_as_json, skipped_as_json
from .drill import Drill
from .explain import BlockedPod
from .result import Deadlock, Forecast, NotMigratableInstance, UnschedulableInstance


def forecast_as_json(forecast: Forecast) -> dict[str, JSON]:
    return {
        "forecast": str(forecast.answer),
        "reasons": list(forecast.reasons),
        "instances_to_schedule": forecast.instances_to_schedule,
        "min_unschedulable": forecast.min_unschedulable,
        "pending": [_unplaced(instance) for instance in forecast.pending],
        "not_migratable": [_not_migratable(instance) for instance in forecast.not_migratable],
        "moves": [move_as_json(move) for move in forecast.moves],
        "skipped": [skipped_as_json(skipped) for skipped in forecast.skipped],
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
        "not_migratable": [ref_as_json(ref) for ref in drill.not_migratable],
        "gone": [ref_as_json(ref) for ref in drill.gone],
        "reasons": list(drill.reasons),
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
        "preemption_candidates": [ref_as_json(ref) for ref in instance.preemption_candidates],
    }


def _not_migratable(instance: NotMigratableInstance) -> dict[str, JSON]:
    return {
        "workload": ref_as_json(instance.workload),
        "instance": ref_as_json(instance.instance),
        "node": instance.node,
        "reason": instance.reason,
        "if_restarted": list(instance.if_restarted),
        "certain": instance.certain,
    }


def _deadlock(deadlock: Deadlock | None) -> JSON:
    if deadlock is None:
        return None
    return {
        "instances": [ref_as_json(ref) for ref in deadlock.instances],
        "reason": deadlock.reason,
        "remediation": list(deadlock.remediation),
    }
