# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Room for failures: what a role shows of capacity_info, and the words with which it refuses to spend the room."""

from __future__ import annotations

import typing as t

from ansible_collections.virt.placement.plugins.plugin_utils.job import Job, JobFailed, lines_of
from ansible_collections.virt.placement.plugins.plugin_utils.job_record import Result


def read_room(job: Job, drained: t.Sequence[str] = (), *, noted: bool = False) -> Result:
    """What capacity_info says while these nodes are drained. `noted`: it is a result of the job."""
    option = f"{job.role}_keep_room_for"
    asked: Result = {
        "tolerate": job.record.asked["keep_room_for"],
        "topology_keys": job.record.asked["topology_keys"],
    }
    if drained:
        asked["unavailable"] = {"nodes": list(drained)}
    result = job.run("capacity_info", asked, check=not noted, may_fail=True)
    if result.get("failed"):
        raise JobFailed([x.replace("tolerate[", f"{option}[") for x in lines_of(result)])
    return result


def show_room(job: Job, result: Result, when: str = "Now", nothing: str = "") -> list[str]:
    """Print the table. An error where the capacity is not green; `when` begins it, `nothing` ends it."""
    job.show(result["table"].splitlines())
    if result["capacity"] == "green":
        return []
    return [
        f"{when} the capacity is {result['capacity']}, not green ({job.role}_keep_room_for). The lines above show"
        f" why. {nothing}".rstrip()
    ]
