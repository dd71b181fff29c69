# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The stage that verifies a placement, alone or at the end of another role."""

from __future__ import annotations

import typing as t

from ansible_collections.virt.placement.plugins.plugin_utils.job import Job, JobFailed
from ansible_collections.virt.placement.plugins.plugin_utils.job_record import Result
from ansible_collections.virt.placement.plugins.plugin_utils.verification import failures, passed


def verify_placement(
    job: Job,
    selected: Result,
    *,
    fail_on: t.Sequence[str],
    only: t.Sequence[Result] | None = None,
    heading: str = "",
) -> Result:
    """The result of placement_info."""
    asked = {key: value for key, value in selected.items() if value}
    keys = job.record.asked["topology_keys"]
    result = job.run("placement_info", {**asked, "topology_keys": keys, "details": "problems"})
    errors = failures(result, fail_on, only)
    job.show([*filter(None, [heading]), *result["table"].splitlines()])
    if errors:
        raise JobFailed(errors)
    job.show(passed(result, fail_on, only))
    return result


def verify(job: Job) -> Result:
    """The role placement_verify."""
    options = job.record.asked
    selected = {name: options[name] for name in ("namespaces", "workloads", "columns")}
    return verify_placement(job, selected, fail_on=options["fail_on"])


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
