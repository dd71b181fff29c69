# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Forecasts and drills as modules return them."""

from __future__ import annotations

from ..model.json_pointer import JSON
from ..model.plan import move_as_json, skipped_as_json
from ..model.rendering import as_json
from ..model.snapshot import unreadable_texts
from ..model.topology import Topology
from .decide import ForecastResult, worst_of
from .drill import Drill, DrillReport, table
from .result import Forecast


def forecast_as_json(forecast: Forecast) -> dict[str, JSON]:
    result = {
        name: as_json(getattr(forecast, name))
        for name in (
            "reasons",
            "instances_to_schedule",
            "min_unschedulable",
            "down_until_fenced",
            "pending",
            "not_migratable",
            "deadlock",
        )
    }
    return {
        **result,
        "forecast": str(forecast.answer),
        "moves": [move_as_json(move) for move in forecast.moves],
        "skipped_instances": [skipped_as_json(skipped) for skipped in forecast.skipped],
        "permission_gaps": as_json(forecast.unreadable),
    }


def drills_as_json(report: DrillReport, topology: Topology) -> dict[str, JSON]:
    """Only the domains whose loss has an impact are listed."""
    impact = [drill for drill in report.drills if drill.has_impact]
    worst = worst_of(drill.answer for drill in report.drills)
    return {
        "forecast": str(ForecastResult.UNKNOWN if report.unreadable else worst),
        "reasons": [f"unknown: {text}" for text in unreadable_texts(report.unreadable)],
        "domains": [_drill(drill) for drill in impact],
        "counts": {"domains": len(report.drills), "impact": len(impact)},
        "table": table(report, topology),
        "permission_gaps": as_json(report.unreadable),
    }


def _drill(drill: Drill) -> dict[str, JSON]:
    result: dict[str, JSON] = as_json(drill)
    result["topology_key"] = result.pop("key")
    result["forecast"] = result.pop("answer")
    for entry, blocked in zip(result["blocked"], drill.blocked, strict=True):
        del entry["own"]
        entry["message"] = blocked.message
    return result
