# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The stage that verifies a placement, alone or at the end of another role."""

from __future__ import annotations

import typing as t

from ansible_collections.virt.placement.plugins.module_utils.model.rendering import listed
from ansible_collections.virt.placement.plugins.plugin_utils import job_report
from ansible_collections.virt.placement.plugins.plugin_utils.job import Job, JobFailed
from ansible_collections.virt.placement.plugins.plugin_utils.job_record import Result
from ansible_collections.virt.placement.plugins.plugin_utils.registry import at


def verify_placement(
    job: Job,
    selected: Result,
    *,
    fail_on: t.Sequence[str],
    only: t.Sequence[Result] | None = None,
    heading: str = "",
    report: t.Mapping[str, t.Any] | None = None,
) -> Result:
    """The result of placement_info. Without `columns` its table has one for each topology name. `report`: the paths of
    a report, which is written before a verdict fails the task. The verdict is printed also where the report cannot be
    written."""
    asked = {key: value for key, value in selected.items() if value}
    keys = job.record.asked["topology_keys"]
    asked.setdefault("columns", list(dict.fromkeys(["zone", *keys])))
    details = "placement" if report else "problems"
    asked |= {"topology_keys": keys, "details": details}
    if only is not None:
        asked["only"] = list(only)
    result = job.run("placement_info", asked, table=True)
    by_state = {problem["state"]: problem for problem in result["problems"]}
    found = [by_state[state] for state in fail_on if state in by_state]
    failed = [problem for problem in found if problem["count"]]
    others = [
        f"Not moved by this job, and {problem['state']}: {listed(problem['elsewhere'], 8)}."
        for problem in found
        if problem["elsewhere"]
    ]
    lines = [*filter(None, [heading]), *result["table"].splitlines()]
    unwritten: list[str] = []
    if report:
        drill = job.variable("placement_drill_result")
        written = job_report.write(job, report, result, drill, None, fail_on)
        lines += job_report.lines_of_files(job, written)
        unwritten = written.errors
        result |= {"satisfied_instances": [], "nodes": []}  # large, and in the report
    job.show(lines)
    if fail_on and not failed:
        which = "no instance" if only is None else "no instance that this job moved"
        states = ", ".join(fail_on)
        job.show([f"Verification passed: {which} is in one of these states: {states}.", *others])
    more = [*at(f"verdict {job.record.role}", job).get("failures", ()), *unwritten]
    if failed or more:
        lines = [line for problem in failed for line in problem["lines"]]
        lines += [*(others if failed else ()), *more]
        raise JobFailed(lines, reasons=[*(problem["text"] for problem in failed), *more])
    return result


def verify(job: Job) -> Result:
    """The role placement_verify."""
    options = job.record.asked
    selected = {name: options[name] for name in ("namespaces", "workloads", "columns")}
    return verify_placement(
        job,
        selected,
        fail_on=options["fail_on"],
        report=options["report"],
    )


def verify_applied(job: Job) -> Result:
    """The end of the role placement_apply."""
    options = job.record.asked
    return verify_placement(
        job,
        {"namespaces": [options["namespace"]]},
        fail_on=[] if job.check_mode else options["fail_on"],
        heading="Check mode: this is the placement now. Nothing was written."
        if job.check_mode
        else "",
    )
