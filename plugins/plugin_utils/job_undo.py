# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The stage with which a job begins to undo its own change, since it has failed."""

from __future__ import annotations

from ansible_collections.virt.placement.plugins.plugin_utils.closing_undo import own_change
from ansible_collections.virt.placement.plugins.plugin_utils.job import Job, JobFailed
from ansible_collections.virt.placement.plugins.plugin_utils.job_record import Result


def begin_undo(job: Job) -> Result:
    """The role placement_apply with on_failure undo. Returns the change of this job. Fails where an undo would undo
    what this job has not written."""
    record = job.record
    own = own_change(record)
    record.undo = {"notes": len(record.notes), "failures": len(record.failures)}
    if not own.id:
        reason = own.kept or "this job has written no rule"
        raise JobFailed([f"Nothing is undone, since {reason}."])
    options = record.asked
    job.show(
        [
            f"{record.failed_task} has failed, so the change of rule set {options['rule_set']} in namespace"
            f" {options['namespace']} is undone."
        ]
    )
    return {"change": own.id}
