# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The closing block of a rollout, beside the entries of its result."""

from __future__ import annotations

import typing as t

from ansible_collections.virt.placement.plugins.module_utils.model.obstacle import OUTSIDE_OF_WINDOW
from ansible_collections.virt.placement.plugins.module_utils.model.rendering import listed, plural

if t.TYPE_CHECKING:
    from ansible_collections.virt.placement.plugins.plugin_utils.job_record import JobRecord

Parts = dict[str, t.Any]


def rollout_parts(record: JobRecord) -> Parts:
    plan = record.last("rollout").get("plan") or {}
    planned = record.check_mode and not record.failures and plan.get("moves")
    step = (
        "to make exactly these moves: launch the same job without check mode"
        if record.asked.get("plan_file")
        else "to make exactly these moves later: placement_rollout_plan_file, first in check mode"
    )
    return {
        "asked": (_asked(record),),
        "next_steps": (step,) if planned else (),
        "heading": _heading(record.last("rollout")),
    }


def _heading(result: Parts) -> str:
    """In place of "done", for a rollout that has left something."""
    if result.get("stop_code") == OUTSIDE_OF_WINDOW and not result.get("moves"):
        return "nothing moved, outside of the window"
    left = {"deferred": result.get("deferred"), "skipped": result.get("skipped_instances")}
    counts = [f"{len(entries)} {words}" for words, entries in left.items() if entries]
    return f"done, {', '.join(counts)}" if counts else ""


def _asked(record: JobRecord) -> str:
    options = record.asked
    if record.given_plan:
        return f"carry out {record.given_plan}"
    if options.get("places"):
        file = options.get("places_file")
        origin = f", which {file} has" if file else ""
        return f"move {plural(len(options['places']), 'VM')} to given nodes{origin}"
    what = listed(options["namespaces"]) if options["namespaces"] else ""
    if options["workloads"]:
        what += f" {plural(len(options['workloads']), 'workload')}"
    return f"roll out {what.strip()}, scope {options['scope']}"
