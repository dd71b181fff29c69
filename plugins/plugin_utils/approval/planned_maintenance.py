# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The plan of all drains of the role placement_maintenance: what check mode makes, and what a job carries out."""

from __future__ import annotations

from ansible_collections.virt.placement.plugins.module_utils.maintenance.registry import (
    PLAN_READERS,
)
from ansible_collections.virt.placement.plugins.module_utils.maintenance.returned_plan import (
    DRAIN_PLAN,
    joined,
)
from ansible_collections.virt.placement.plugins.module_utils.model.findings import InvalidInput
from ansible_collections.virt.placement.plugins.module_utils.moves.run_plan import (
    options_with_plan,
)
from ansible_collections.virt.placement.plugins.plugin_utils.approval.plan_files import (
    given_plan,
    require,
)
from ansible_collections.virt.placement.plugins.plugin_utils.job import Job
from ansible_collections.virt.placement.plugins.plugin_utils.job_record import Result
from ansible_collections.virt.placement.plugins.plugin_utils.maintenance_plan import (
    MaintenancePlan,
)
from ansible_collections.virt.placement.plugins.plugin_utils.role_variables import defaults_of


def approved_maintenance(job: Job) -> Result | None:
    """The plan that is to be carried out. The job has its options, and its nodes where it names none. Nodes are put in
    service without a plan."""
    options = job.record.asked
    plan = given_plan(job) if options["state"] != "in_service" else None
    if plan is None:
        return None
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
    return plan


def require_planned_nodes(job: Job, approved: Result, plan: MaintenancePlan) -> None:
    """JobFailed where the nodes of the job are not those of the approved plan. Nodes that this change has serviced
    already need no plan."""
    planned = [node["name"] for node in approved["nodes"]]
    selected = [node["name"] for node in plan.nodes]
    done = [node["name"] for node in plan.done]
    others = [name for name in selected if name not in planned]
    left_out = [name for name in planned if name not in (*selected, *done)]
    variable = f"{job.role}_topology" if job.record.asked["topology"] else f"{job.role}_nodes"
    faults = (
        [f"{variable}: not among the nodes of the plan: {', '.join(others)}."] if others else []
    )
    if left_out:
        faults.append(f"{variable}: without these nodes of the plan: {', '.join(left_out)}.")
    require(faults)


def note_plan(job: Job, drained: Result) -> None:
    """The plan of a drain in check mode. Once all drains have theirs, that of the maintenance."""
    known = job.record.maintenance
    if "plan" in drained and job.check_mode:
        known["plans"].append(drained["plan"])
        if len(known["plans"]) == len(known["groups"]):
            known["plan"] = joined(known["plans"])
