# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The stages of the roles, by name."""

from __future__ import annotations

import time
import typing as t

from ansible_collections.virt.placement.plugins.plugin_utils import (
    job_maintenance,
    job_report,
    job_rollout,
    job_verify,
    registry,
)
from ansible_collections.virt.placement.plugins.plugin_utils.ansible_internals import statistics
from ansible_collections.virt.placement.plugins.plugin_utils.approval import plan_files
from ansible_collections.virt.placement.plugins.plugin_utils.capacity import room
from ansible_collections.virt.placement.plugins.plugin_utils.closing import ARTIFACT
from ansible_collections.virt.placement.plugins.plugin_utils.closings import closing_of
from ansible_collections.virt.placement.plugins.plugin_utils.job import (
    NOTHING,
    Job,
    JobFailed,
)
from ansible_collections.virt.placement.plugins.plugin_utils.job_record import Result
from ansible_collections.virt.placement.plugins.plugin_utils.undo import own_change as undo


def check(job: Job) -> Result:
    """Variables, clusters and what the role can check before its first write."""
    record = job.begun()
    record.open = job.task_name
    options, errors = job.read_options()
    if errors:
        raise JobFailed([*errors, NOTHING], reasons=errors)
    record.asked = options
    if len(job.hosts) > 1:
        read = job.run("topology_info", {}, check=True)
        record.uid, record.api = read["cluster"]["uid"] or "", str(read["cluster"]["api"])
        if not record.uid:
            raise JobFailed(
                [
                    "The UID of the cluster cannot be read, so it is unknown whether two inventory hosts are the"
                    f" same cluster: grant the right to get the namespace kube-system. {NOTHING}"
                ]
            )
    return CHECKS[job.role](job) if job.role in CHECKS else {}


def _check_room(job: Job) -> Result:
    """The role placement_apply, before it writes: must it still be possible that any one of these fails?"""
    options = job.record.asked
    if not options["keep_room_for"]:
        return {}
    names = ("namespace", "rule_set", "rules", "state", "prune", "adopt")
    asked = {name: options[name] for name in names}
    now = {"tolerate": options["keep_room_for"], "topology_keys": options["topology_keys"]}
    if job.check_mode:  # the role placement_topology has not written its labels
        now["assume_node_labels"] = job.variable("__placement_topology_planned") or {}
    result = job.run("capacity_info", {**asked, **now})
    if errors := room.show_room(
        job,
        result,
        "With these rules",
        "No rule was written, and nothing is moved.",
        without="these rules",
        before=lambda: job.run("capacity_info", now, check=True),
    ):
        raise JobFailed(errors)
    return result


CHECKS: dict[str, t.Callable[[Job], Result]] = {
    "placement_apply": _check_room,
    "placement_maintenance": job_maintenance.check,
    "placement_report": job_report.check,
    "placement_rollout": job_rollout.check,
    "placement_verify": job_report.check_verify,
    **registry.CHECKS,
}


def show(job: Job) -> Result:
    """Lines that a role made of a result, and statistics to `publish`. The task fails with `failures`."""
    job.show(map(str, job.arguments.get("lines") or ()))
    if errors := [str(line) for line in job.arguments.get("failures") or ()]:
        raise JobFailed(errors)
    data = job.arguments.get("publish")
    return statistics(data) if data else {}


def show_drill(job: Job) -> Result:
    """The role placement_drill: the lines and failures that it made of its result, and the room for failures."""
    job.show(map(str, job.arguments.get("lines") or ()))
    errors = [str(line) for line in job.arguments.get("failures") or ()]
    if job.record.asked["keep_room_for"]:
        errors += room.show_room(job, room.read_room(job, noted=True))
    if errors:
        raise JobFailed(errors)
    return {}


ARTIFACTS = {
    "placement_info": ("placement_summary", "summary"),
    "rules_info": ("placement_rules", "rules"),
    "drill_info": ("placement_drill", "domains"),
}
"""The artifact of a module, and the part of its result that this is."""


def close(job: Job) -> Result:
    """What the job did, as its last lines and as artifacts. It runs after a failure, too, and does not fail: Ansible
    takes no statistics of a task that fails. Only a plan that could not be saved fails it."""
    record = job.record
    if errors := plan_files.save_plan(job):
        job.complain(errors)
    closing = closing_of(record, time.time() - record.began)
    job.show(closing.lines())
    name = job.role.removeprefix("placement_")
    data: Result = {ARTIFACT: {job.host: {name: closing.data()}}}
    if plan := plan_files.plan_of(record):
        data[f"{record.role}_plan"] = {job.host: plan}
    if states := record.maintenance.get("states"):
        data["placement_maintenance"] = {job.host: states}
    for note in record.notes:
        artifact, field = ARTIFACTS.get(note["module"], ("", ""))
        if field in note:
            data[artifact] = {job.host: note[field]}
        if note["module"] == "capacity_info" and "capacity" in note:
            names = ("capacity", "room_for", "domains")
            data["placement_capacity"] = {job.host: {name: note[name] for name in names}}
    if errors:
        raise JobFailed([])
    return statistics(data)


STAGES: dict[str, t.Callable[[Job], Result]] = {
    "check": check,
    "show": show,
    "show_drill": show_drill,
    "verify": job_verify.verify,
    "verify_applied": job_verify.verify_applied,
    "begin_undo": undo.begin_undo,
    "drain": job_maintenance.drain,
    "begin_work": job_maintenance.begin_work,
    "end_work": job_maintenance.end_work,
    "in_service": job_maintenance.in_service,
    "finish": job_maintenance.finish,
    "report": job_report.report,
    "close": close,
}
