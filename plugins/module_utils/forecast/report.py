# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Forecasts and drills as modules return them."""

from __future__ import annotations

from ..model.json_pointer import JSON
from ..model.plan import move_as_json, skipped_as_json
from ..model.rendering import as_json
from .drill import Drill
from .result import Forecast


def forecast_as_json(forecast: Forecast) -> dict[str, JSON]:
    result = {
        name: as_json(getattr(forecast, name))
        for name in (
            "reasons",
            "instances_to_schedule",
            "min_unschedulable",
            "pending",
            "not_migratable",
            "deadlock",
        )
    }
    return {
        **result,
        "forecast": str(forecast.answer),
        "moves": [move_as_json(move) for move in forecast.moves],
        "skipped": [skipped_as_json(skipped) for skipped in forecast.skipped],
        "permission_gaps": as_json(forecast.unreadable),
    }


def drill_as_json(drill: Drill) -> dict[str, JSON]:
    result: dict[str, JSON] = as_json(drill)
    result["forecast"] = result.pop("answer")
    result["displaced"] = result.pop("evicted")
    for entry, blocked in zip(result["blocked"], drill.blocked, strict=True):
        del entry["own"]
        entry["text"] = blocked.text
    return result
