# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""From what a job noted to its closing block: one function for each role, and what they share."""

from __future__ import annotations

import typing as t

from ansible_collections.virt.placement.plugins.module_utils.model.obstacle import OUTSIDE_OF_WINDOW
from ansible_collections.virt.placement.plugins.module_utils.model.rendering import (
    AGAIN,
    TO_MOVE,
    UNFINISHED,
    listed,
    plural,
)
from ansible_collections.virt.placement.plugins.module_utils.model.snapshot import unreadable_texts
from ansible_collections.virt.placement.plugins.plugin_utils.closing import (
    CORRECT_OR_PLAN,
    LAUNCH,
    Closing,
    has_entry,
    joined,
    reason_of,
)
from ansible_collections.virt.placement.plugins.plugin_utils.closing_maintenance import (
    maintenance_parts,
)
from ansible_collections.virt.placement.plugins.plugin_utils.closing_unread import (
    after_unread,
    unread,
    unread_texts,
)
from ansible_collections.virt.placement.plugins.plugin_utils.registry import (
    CAPABILITIES,
)

if t.TYPE_CHECKING:
    from ansible_collections.virt.placement.plugins.plugin_utils.job_record import JobRecord

Parts = dict[str, t.Any]
_TITLES = {"drs_import": "DRS import"}
"""Of playbooks whose name is no word."""


def closing_of(record: JobRecord, seconds: float) -> Closing:
    name = record.role.removeprefix("placement_")
    if record.open and not record.failures:
        cause = record.cut_by or "the job ended during this task, see the error above"
        record.fail(record.open, [f"{record.open}: {cause}"], lead="")
    parts = _parts(record)
    failed = list(record.failures)
    outcome = "failed" if failed else "checked" if record.check_mode else "done"
    reasons = _reasons(record, failed, parts["and_then"]) if failed else ()
    gaps = unread(record)
    notes = list(_results(record.before_undo()))
    done = joined(notes, "done")
    following = joined(_with_steps(record, notes), "next")
    if name == "maintenance":  # it says of its nodes and VMs what was done, and which job is next
        done, following = [], []
    steps = (*after_unread(gaps), *parts["next_steps"], *(() if record.undo else following))
    steps = steps or tuple(_after_failure(record) if failed else ())
    del parts["and_then"]
    return Closing(
        playbook=_TITLES.get(name) or name.replace("_", " ").capitalize(),
        outcome=outcome,
        seconds=seconds,
        moves=tuple(record.moves),
        failed=tuple(reasons),
        errors=tuple(failed),
        unread=tuple(unread_texts(gaps)),
        gaps=tuple(unreadable_texts(gaps)),
        **{
            **parts,
            "done": (*done, *parts["done"]),
            "next_steps": tuple(dict.fromkeys(steps)),
            "skipped": tuple(dict.fromkeys((*parts["skipped"], *joined(notes, "skipped")))),
        },
    )


def _parts(record: JobRecord) -> Parts:
    """The parts of a role, and what capabilities add to them."""
    parts: Parts = {"asked": (), "done": (), "skipped": (), "next_steps": (), "and_then": ""}
    of_role = (x.parts.get(record.role) for x in CAPABILITIES)
    functions = [_job_parts, CLOSINGS.get(record.role), *of_role]
    for added in (function(record) for function in functions if function and record.asked):
        if "and_then" in added:
            parts["next_steps"] = ()
        parts |= {name: parts[name] + x if name in parts else x for name, x in added.items()}
    return parts


_WRITING = {"placement_apply", "placement_rollout", "placement_topology", "placement_undo"}
"""Roles whose jobs write to clusters and have no steps of their own."""


def _after_failure(record: JobRecord) -> list[str]:
    """The next steps of a job that failed. No module knows the plan of the job, and what earlier tasks have begun."""
    if record.given_plan:
        return [CORRECT_OR_PLAN]
    if record.begun:
        return [UNFINISHED.text]
    return joined(record.notes, "next", after_failure=True) or [AGAIN]


def _results(record: JobRecord) -> t.Iterator[Parts]:
    """What the tasks returned: of a module that only reads the last one, which is true now. What rules hold is reported
    by the rollout that followed, if one did."""
    last = {note["module"]: number for number, note in enumerate(record.notes)}
    for number, note in enumerate(record.notes):
        if note["module"] == "rules" and "rollout" in last:
            outcome = {
                part: [x for x in entries if x["code"] != "held"]
                for part, entries in note.get("outcome", {}).items()
            }
            yield {**note, "outcome": outcome}
        elif not note["module"].endswith("_info") or last[note["module"]] == number:
            yield note


def _with_steps(record: JobRecord, notes: t.Sequence[Parts]) -> t.Sequence[Parts]:
    """The results whose next steps are those of the job: the placement is that before a change in check mode, and
    what a rollout has left has a step of its own. Rules whose files are not written are for no other job."""
    dropped = {"drs_import", "rules"} if record.failures else set()
    if record.role in _WRITING and (
        record.check_mode or has_entry(record.last("rollout"), "next", "skipped")
    ):
        dropped.add("placement_info")
    return [note for note in notes if note["module"] not in dropped]


def _reasons(record: JobRecord, failed: t.Sequence[str], and_then: str) -> list[str]:
    """What failed, each in short: the first one with its task, the last one with what the job did then."""
    first, *others = dict.fromkeys(record.reasons) or [reason_of(failed)]
    task, around = record.failed_task, record.open
    if task and around not in ("", task) and not record.undo:
        task = f"{task} ({around})"  # such as the gate after a group
    lead = record.lead
    if lead is None:
        lead = f"{task or around}: " if record.failures and (task or around) else ""
    texts = [f"{lead}{first}", *others]
    return [*texts[:-1], f"{texts[-1]}{and_then}"]


ASKED = {
    "placement_apply": "rules {rules} of rule set {rule_set} in namespace {namespace}, state {state}",
    "placement_capacity": "any one of these may fail: {tolerate}",
    "placement_cpu": "CPU models of VMs of {selected}",
    "placement_drill": "{event} of each {domains_of}, one at a time",
    "placement_report": "report of {selected}",
    "placement_rollout": "roll out {selected}, scope {scope}",
    "placement_rules": "rules of {selected}",
    "placement_topology": "labels of nodes",
    "placement_undo": "undo the last change of rule set {rule_set} in namespace {namespace}",
    "placement_verify": "{selected}",
}
"""What the job of a role was asked, with its options."""


def _job_parts(record: JobRecord) -> Parts:
    """What was asked, and the next steps that no module knows."""
    options = record.asked
    if record.role not in ASKED:
        return {}
    if record.given_plan:
        return {"asked": (f"carry out {record.given_plan}",)}
    if options.get("places"):
        file = options.get("places_file")
        origin = f", which {file} has" if file else ""
        return {"asked": (f"move {plural(len(options['places']), 'VM')} to given nodes{origin}",)}
    words = {x: listed(y, 8) if isinstance(y, list) else y for x, y in options.items()}
    rules = options.get("rules") or ()
    words["rules"] = listed([rule.get("name") for rule in rules if isinstance(rule, dict)], 8)
    namespaces, workloads = options.get("namespaces"), options.get("workloads")
    selected = [f"namespaces {listed(namespaces)}"] if namespaces else []
    selected += [plural(len(workloads), "workload")] if workloads else []
    words["selected"] = ", ".join(selected) or "all namespaces"
    return {"asked": (ASKED[record.role].format_map(words),)}


def _apply(record: JobRecord) -> Parts:
    if record.failures or (not record.check_mode and record.asked["rollout"]):
        return {}
    return {"next_steps": (LAUNCH if record.check_mode else TO_MOVE.text,)}


def _rollout(record: JobRecord) -> Parts:
    result = record.last("rollout")
    planned = record.check_mode and not record.failures and (result.get("plan") or {}).get("moves")
    step = (
        "to make exactly these moves: launch the same job without check mode"
        if record.asked.get("plan_file")
        else "to make exactly these moves later: placement_rollout_plan_file, first in check mode"
    )
    left = {"deferred": result.get("deferred"), "skipped": result.get("skipped_instances")}
    counts = [f"{len(entries)} {words}" for words, entries in left.items() if entries]
    heading = ", ".join(["done", *counts]) if counts else ""
    if result.get("stop_code") == OUTSIDE_OF_WINDOW and not result.get("moves"):
        heading = "nothing moved, outside of the window"
    return {"next_steps": (step,) if planned else (), "heading": heading}


CLOSINGS: dict[str, t.Callable[[JobRecord], Parts]] = {
    "placement_apply": _apply,
    "placement_maintenance": maintenance_parts,
    "placement_rollout": _rollout,
    "placement_undo": _apply,
}
