# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The closing block of a rollout, and the next step for the instances that one has left where they are."""

from __future__ import annotations

import typing as t

from ansible_collections.virt.placement.plugins.module_utils.kubevirt.moving import next_event
from ansible_collections.virt.placement.plugins.module_utils.model.obstacle import OUTSIDE_OF_WINDOW
from ansible_collections.virt.placement.plugins.module_utils.model.plan import NOT_IN_PLAN
from ansible_collections.virt.placement.plugins.module_utils.model.rendering import listed, plural
from ansible_collections.virt.placement.plugins.plugin_utils.closing_maintenance import next_window
from ansible_collections.virt.placement.plugins.plugin_utils.plan_files import (
    after_failure,
    carries_out_plan,
    plan_words,
    saved_words,
)
from ansible_collections.virt.placement.plugins.plugin_utils.registry import DONE, NEXT_STEPS

if t.TYPE_CHECKING:
    from ansible_collections.virt.placement.plugins.plugin_utils.job_record import JobRecord

Parts = dict[str, t.Any]


def rollout_parts(record: JobRecord) -> Parts:
    options = record.asked
    result = record.last("rollout")
    asked = _asked(record)
    elsewhere = any(x["state"] != "in_place" for x in result.get("places") or ())
    skipped = result.get("skipped_instances") or ()
    left = result.get("moves") or skipped or elsewhere or result.get("deferred")
    left = left or result.get("changed") or result.get("held")
    still = bool(result) and not (left or result["failed"])
    done = (
        ["nothing to move"]
        if still
        else [line for lines in DONE.values() for line in lines(record)]
    )
    placed = [x for x in result.get("not_enforced") or () if x["when"] == "now"]
    if later := [[entry.get("takes_effect")] for entry in placed]:
        event = next_event(later)
        done.append(f"{plural(len(later), 'instance')} placed correctly, enforced from {event}")
    following = []
    plan, file = result.get("plan") or {}, options.get("plan_file")
    if record.failures:
        following = after_failure(record)
    elif record.check_mode and plan.get("moves"):
        done += saved_words(record)
        following = [
            "to make exactly these moves: launch the same job without check mode"
            if file
            else "to make exactly these moves later: placement_rollout_plan_file, first in check mode"
        ]
    elif result.get("deferred"):
        opens = next_window(record) if _is_outside(result) else ""
        following = [f"launch the same job again for what was deferred{opens}"]
    elif any(x.get("reason_code") == NOT_IN_PLAN.code for x in skipped):
        following = ["for what is not in the plan, make a new one: launch the job in check mode"]
    if not record.failures:
        following += [
            *after_skipped(record, skipped),
            *(step for steps in NEXT_STEPS.values() for step in steps(record)),
        ]
    return {
        "asked": (asked,),
        "done": tuple(done),
        "next_steps": tuple(following),
        "heading": _heading(result),
    }


def after_skipped(record: JobRecord, skipped: t.Sequence[Parts]) -> t.Iterator[str]:
    """Instances that a rollout has left where they are, each with its reason in the section `skipped`. Those of
    workloads that stay held have a step of their own."""
    held = [
        (x["kind"], x["namespace"], x["name"]) for x in record.last("rollout").get("held") or ()
    ]
    left = [
        entry
        for entry in skipped
        if entry.get("reason_code") != NOT_IN_PLAN.code
        and (entry.get("kind"), entry["namespace"], entry["name"]) not in held
    ]
    if not left:
        return
    one = len(left) == 1
    if record.asked.get("places"):
        state = "is not on its given node" if one else "are not on their given nodes"
    elif record.asked["scope"] == "violated":
        state = "still violates a rule" if one else "still violate a rule"
    else:
        state = "was not moved" if one else "were not moved"
    yield (
        f"{plural(len(left), 'instance')} {state}: mend what the lines under skipped name (free or add a node, raise"
        f" the quota, change the rule, or extend {record.role}_allow), then launch the same job again"
    )


def _is_outside(result: Parts) -> bool:
    return result.get("stop_code") == OUTSIDE_OF_WINDOW


def _heading(result: Parts) -> str:
    """In place of "done", for a rollout that has left something."""
    if _is_outside(result) and not result.get("moves"):
        return "nothing moved, outside of the window"
    left = {"deferred": result.get("deferred"), "skipped": result.get("skipped_instances")}
    counts = [f"{len(entries)} {words}" for words, entries in left.items() if entries]
    return f"done, {', '.join(counts)}" if counts else ""


def _asked(record: JobRecord) -> str:
    options = record.asked
    if carries_out_plan(record):
        return f"carry out {plan_words(record)}"
    if options.get("places"):
        file = options.get("places_file")
        origin = f", which {file} has" if file else ""
        return f"move {plural(len(options['places']), 'VM')} to given nodes{origin}"
    what = listed(options["namespaces"]) if options["namespaces"] else ""
    if options["workloads"]:
        what += f" {plural(len(options['workloads']), 'workload')}"
    return f"roll out {what.strip()}, scope {options['scope']}"
