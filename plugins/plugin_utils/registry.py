# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which capabilities add something to the jobs of roles? Each has a line."""

from __future__ import annotations

from ansible_collections.virt.placement.plugins.plugin_utils.approval import plan as approval
from ansible_collections.virt.placement.plugins.plugin_utils.capacity import room as capacity
from ansible_collections.virt.placement.plugins.plugin_utils.drs import stages as drs
from ansible_collections.virt.placement.plugins.plugin_utils.job import Job
from ansible_collections.virt.placement.plugins.plugin_utils.job_record import Result
from ansible_collections.virt.placement.plugins.plugin_utils.places import places
from ansible_collections.virt.placement.plugins.plugin_utils.undo import own_change as undo

CAPABILITIES = (
    places.CAPABILITY,
    approval.CAPABILITY,
    capacity.CAPABILITY,
    drs.CAPABILITY,
    undo.CAPABILITY,
)
"""In the order in which they are asked."""


def at(point: str, job: Job) -> Result:
    """What capabilities do at a point of a job, and return."""
    stages = [x.points[point] for x in CAPABILITIES if point in x.points]
    return {name: value for stage in stages for name, value in (stage(job) or {}).items()}
