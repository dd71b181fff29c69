# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The plan of a role, in a file or as what a job has published: check mode saves and publishes it, and the job after an
approval carries it out. The plan of a maintenance is that of all its drains.

The variables are those of the role, `..._plan_file` and `..._plan`.
"""

from __future__ import annotations

import json
import typing as t

from ansible_collections.virt.placement.plugins.module_utils.maintenance.registry import (
    PLAN_READERS,
)
from ansible_collections.virt.placement.plugins.module_utils.maintenance.returned_plan import (
    DRAIN_PLAN,
    joined,
)
from ansible_collections.virt.placement.plugins.module_utils.model.findings import InvalidInput
from ansible_collections.virt.placement.plugins.module_utils.model.regular_file import (
    read_json_file,
)
from ansible_collections.virt.placement.plugins.module_utils.moves.run_plan import (
    options_with_plan,
)
from ansible_collections.virt.placement.plugins.plugin_utils.job import (
    NOTHING,
    Capability,
    Job,
    JobFailed,
    require,
)
from ansible_collections.virt.placement.plugins.plugin_utils.job_record import JobRecord, Result
from ansible_collections.virt.placement.plugins.plugin_utils.report.files import (
    ReportFile,
    Unwritable,
    faults_of_paths,
    write_file,
)
from ansible_collections.virt.placement.plugins.plugin_utils.role_variables import defaults_of


def _given_plan(job: Job) -> Result | None:
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


def _plan_of(record: JobRecord) -> Result | None:
    """The plan that check mode has returned. That of a maintenance once all drains have theirs."""
    if record.role == "placement_rollout":
        return record.last("rollout").get("plan")
    plans = [note["plan"] for note in record.of("node_maintenance") if "plan" in note]
    is_whole = plans and len(plans) == len(record.maintenance["groups"])
    return joined(plans) if is_whole and record.check_mode and not record.failures else None


def saved(record: JobRecord) -> Result:
    """The file with the plan that check mode has returned, and its checksum."""
    plan, path = _plan_of(record), record.asked.get("plan_file")
    if plan is None or not path or record.failures:
        return {}
    return {"done": (f"plan: {path} (checksum {plan['checksum']:.12})",)}


def close(job: Job) -> Result:
    """Save the plan that check mode has returned, and say so where that replaces another one, which may have been
    approved."""
    plan, path = _plan_of(job.record), job.record.asked.get("plan_file")
    if plan is None:
        return {}
    if path:
        try:
            before = _read(job)["checksum"]
        except JobFailed:
            before = plan["checksum"]
        errors = _written(job, f"{json.dumps(plan, indent=2)}\n", only_check=False)
        job.complain(errors)
        if not errors and before != plan["checksum"]:
            known = f"{path} had another plan (checksum {before!s:.12})"
            job.show([f"{known}. It has the plan of this job now: have that one approved."])
    return {f"{job.role}_plan": {job.host: plan}}


def _written(job: Job, text: str, *, only_check: bool) -> list[str]:
    file = ReportFile(f"{job.role}_plan_file", job.record.asked["plan_file"])
    try:
        write_file(file, text, only_check=only_check)
    except Unwritable as error:
        return [str(error)]
    return []


def check_rollout(job: Job) -> Result:
    plan = _given_plan(job)
    return {} if plan is None else {"plan": plan}


def check_maintenance(job: Job) -> Result:
    """The plan that is to be carried out. The job has its options, and its nodes where it names none. Nodes are put in
    service without a plan."""
    options = job.record.asked
    plan = _given_plan(job) if options["state"] != "in_service" else None
    if plan is None:
        return {}
    try:
        given = {**options, "plan": plan, "state": "drained", "nodes": None}
        if given.get("window"):  # as the module returns it
            given["window"] = {"days": None, "timezone": "UTC", **given["window"]}
        planned, _approved = options_with_plan(given, defaults_of(job.role), PLAN_READERS)
    except InvalidInput as error:
        own = "plan_file" if options["plan_file"] else "plan"
        names = ((own if x.where == "plan" else x.where, x.message) for x in error.errors)
        require([f"{job.role}_{name}: {message}" for name, message in names])
    options |= {name: planned[name] for name in DRAIN_PLAN.options}
    if not options["nodes"] and not options["topology"]:
        options["nodes"] = planned["nodes"]
    return {"plan": plan}


def check_nodes(job: Job) -> None:
    """JobFailed where the nodes of the job are not those of the approved plan. Nodes that this change has serviced
    already need no plan."""
    known = job.record.maintenance
    if "plan" not in known["added"]:
        return
    planned = [node["name"] for node in known["added"]["plan"]["nodes"]]
    selected = [name for group in known["groups"] for name in group]
    done = [node["name"] for node in known["done"]]
    others = [name for name in selected if name not in planned]
    left_out = [name for name in planned if name not in (*selected, *done)]
    variable = f"{job.role}_topology" if job.record.asked["topology"] else f"{job.role}_nodes"
    faults = (
        [f"{variable}: not among the nodes of the plan: {', '.join(others)}."] if others else []
    )
    if left_out:
        faults.append(f"{variable}: without these nodes of the plan: {', '.join(left_out)}.")
    require(faults)


CAPABILITY = Capability(
    points={
        "check placement_maintenance": check_maintenance,
        "check placement_rollout": check_rollout,
        "nodes": check_nodes,
        "close": close,
    },
    parts=dict.fromkeys(("placement_maintenance", "placement_rollout"), saved),
)
