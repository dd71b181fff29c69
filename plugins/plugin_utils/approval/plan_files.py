# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The plan of a role, in a file or as what a job has published: check mode saves and publishes it, and the job after an
approval carries it out.

The variables are those of the role, `..._plan_file` and `..._plan`.
"""

from __future__ import annotations

import json
import typing as t

from ansible_collections.virt.placement.plugins.module_utils.model.regular_file import (
    read_json_file,
)
from ansible_collections.virt.placement.plugins.plugin_utils.job import NOTHING, Job, JobFailed
from ansible_collections.virt.placement.plugins.plugin_utils.job_record import (
    JobRecord,
    Result,
)
from ansible_collections.virt.placement.plugins.plugin_utils.report.files import (
    ReportFile,
    Unwritable,
    faults_of_paths,
    write_file,
)


def require(faults: t.Sequence[str]) -> None:
    if faults:
        raise JobFailed([*faults, NOTHING])


def given_plan(job: Job) -> Result | None:
    """The plan that is to be carried out: that in the file, or that which an earlier job of the workflow has published.
    None in check mode, which makes a plan, for a file that can be written."""
    options = job.record.asked
    path, name = options["plan_file"], f"{job.role}_plan_file"
    if path:
        require(faults_of_paths([ReportFile(name, path)], job.host, job.hosts))
    if job.check_mode:
        if path:
            require(_written(job, "", only_check=True))
        return None
    plan = _published(job)
    if path:
        saved = _read(job)
        if plan is not None and plan.get("checksum") != saved.get("checksum"):
            variables = f"{name} and {job.role}_plan"
            require([f"{variables} have different plans of {job.host}: give one of them."])
        plan = saved
    if plan is not None:
        options["plan_checksum"] = str(plan["checksum"])
    return plan


def _published(job: Job) -> Result | None:
    published = job.record.asked["plan"]
    if published and not _is_plan(published.get(job.host)):
        names = ", ".join(sorted(map(str, published)))
        fault = f"has no plan of {job.host}, only of: {names}. Launch the job in check mode."
        require([f"{job.role}_plan: {fault}"])
    return published[job.host] if published else None


def _is_plan(value: t.Any) -> bool:
    """The module checks the rest. An empty map must not become a job without a plan."""
    return isinstance(value, dict) and "checksum" in value


def _read(job: Job) -> Result:
    """Raises JobFailed for a file that is not there, or that has no plan."""
    path = job.record.asked["plan_file"]
    try:
        plan = read_json_file(path)
    except FileNotFoundError:
        fault = f"there is no file {path}. The job in check mode saves the plan there."
    except OSError as error:
        fault = f"cannot read {path}: {error.strerror or error}."
    except ValueError as error:
        fault = f"{path} is not a plan, since it is not JSON: {error}."
    else:
        if _is_plan(plan):
            return t.cast("Result", plan)
        fault = f"{path} is not a plan that check mode has saved."
    raise JobFailed([f"{job.role}_plan_file: {fault}", NOTHING])


def plan_of(record: JobRecord) -> Result | None:
    """The plan that check mode has returned."""
    if record.role == "placement_maintenance":
        return record.maintenance.get("plan") if not record.failures else None
    return record.last("rollout").get("plan") if record.role == "placement_rollout" else None


def carries_out_plan(record: JobRecord) -> bool:
    """Whether the job has a plan that it does not make itself. Nodes are put in service without one."""
    given = record.asked.get("plan_file") or record.asked.get("plan")
    return bool(given) and not record.check_mode and record.asked.get("state") != "in_service"


def plan_words(record: JobRecord) -> str:
    """What a job carries out, with the checksum: compare it with that of the plan that was approved."""
    checksum = record.asked.get("plan_checksum")
    known = f" (checksum {checksum:.12})" if checksum else ""
    return f"the plan {record.asked.get('plan_file') or 'of the job before'}{known}"


def saved_words(record: JobRecord) -> list[str]:
    """The file with the plan that check mode has returned, and its checksum."""
    plan, path = plan_of(record), record.asked.get("plan_file")
    return [f"plan: {path} (checksum {plan['checksum']:.12})"] if plan and path else []


def save_plan(job: Job) -> list[str]:
    """Save the plan that check mode has returned, and say so where that replaces another one, which may have been
    approved. Returns the errors."""
    plan, path = plan_of(job.record), job.record.asked.get("plan_file")
    if plan is None or not path:
        return []
    try:
        before = _read(job)["checksum"]
    except JobFailed:
        before = plan["checksum"]
    errors = _written(job, f"{json.dumps(plan, indent=2)}\n", only_check=False)
    if not errors and before != plan["checksum"]:
        known = f"{path} had another plan (checksum {before!s:.12})"
        job.show([f"{known}. It has the plan of this job now: have that one approved."])
    return errors


def _written(job: Job, text: str, *, only_check: bool) -> list[str]:
    file = ReportFile(f"{job.role}_plan_file", job.record.asked["plan_file"])
    try:
        write_file(file, text, only_check=only_check)
    except Unwritable as error:
        return [str(error)]
    return []
