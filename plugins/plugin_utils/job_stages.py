# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The stages of the roles, by name."""

from __future__ import annotations

import time
import typing as t

from ansible_collections.virt.placement.plugins.plugin_utils import (
    job_maintenance,
    job_report,
    job_verify,
)
from ansible_collections.virt.placement.plugins.plugin_utils.ansible_internals import statistics
from ansible_collections.virt.placement.plugins.plugin_utils.closing import ARTIFACT, has_entry
from ansible_collections.virt.placement.plugins.plugin_utils.closings import closing_of
from ansible_collections.virt.placement.plugins.plugin_utils.job import (
    NOTHING,
    Job,
    JobFailed,
    require,
)
from ansible_collections.virt.placement.plugins.plugin_utils.job_record import Result
from ansible_collections.virt.placement.plugins.plugin_utils.registry import CAPABILITIES, at


def check(job: Job) -> Result:
    """Variables, clusters and what the role can check before its first write. Returns `check_mode` of its tasks."""
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
    job.added = at(f"check {job.role}", job)
    returned = CHECKS[job.role](job) if job.role in CHECKS else job.added
    return {"check_mode": job.check_mode, **returned}


def _check_rollout(job: Job) -> Result:
    options = job.record.asked
    if not (job.added or options["namespaces"] or options["workloads"]):
        require(
            [
                "Give placement_rollout_namespaces, a list of names, or placement_rollout_workloads, or"
                " placement_rollout_places: one of them is required."
            ]
        )
    return job.added


CHECKS: dict[str, t.Callable[[Job], Result]] = {
    "placement_maintenance": job_maintenance.check,
    "placement_report": job_report.check,
    "placement_rollout": _check_rollout,
    "placement_verify": job_report.check_verify,
}


def show(job: Job) -> Result:
    """Lines that a role made of a result, and statistics to `publish`. The task fails with `failures`, or a
    `failed_task` of the user has, which they name."""
    job.show(map(str, job.arguments.get("lines") or ()))
    errors = [str(line) for line in job.arguments.get("failures") or ()]
    if errors := [*errors, *at(f"verdict {job.role}", job).get("failures", ())]:
        raise JobFailed(errors, str(job.arguments.get("failed_task", "")))
    data = job.arguments.get("publish")
    return statistics(data) if data else {}


ARTIFACTS = {
    "placement_info": ("placement_summary", "summary"),
    "rules": ("placement_policy", "new_members"),
    "rules_info": ("placement_rules", "rules"),
    "drill_info": ("placement_drill", "domains"),
}
"""The artifact of a module, and the part of its result that this is."""


def _is_refused(note: Result) -> bool:
    """Whether the rules were refused otherwise than by a missing right, so that a policy would be of rules that no
    workload has."""
    types = {error["type"] for error in note.get("errors") or ()}
    return has_entry(note, "done", "none_written") and "permission" not in types


def close(job: Job) -> Result:
    """What the job did, as its last lines and as artifacts. It runs after a failure, too, and does not fail: Ansible
    takes no statistics of a task that fails. Only a plan that could not be saved fails it."""
    record, before = job.record, len(job.record.failures)
    # closing_of notes a failure, too, where a task of the user or its limit of time has ended the job
    data, has_failed = at("close", job), len(record.failures) > before
    closing = closing_of(record, time.time() - record.began)
    job.show(closing.lines())
    data[ARTIFACT] = {job.host: {job.role.removeprefix("placement_"): closing.data()}}
    if states := record.maintenance.get("states"):
        data["placement_maintenance"] = {job.host: states}
    for note in record.notes:
        artifact, field = ARTIFACTS.get(note["module"], ("", ""))
        if field in note and not _is_refused(note):
            data[artifact] = {job.host: note[field]}
    if has_failed:
        raise JobFailed([])
    return statistics(data)


STAGES: dict[str, t.Callable[[Job], Result]] = {
    "check": check,
    "show": show,
    "verify": job_verify.verify,
    "verify_applied": job_verify.verify_applied,
    "drain": job_maintenance.drain,
    "begin_work": job_maintenance.begin_work,
    "in_service": job_maintenance.in_service,
    "finish": job_maintenance.finish,
    "report": job_report.report,
    "close": close,
    **{name: stage for x in CAPABILITIES for name, stage in x.stages.items()},
}
