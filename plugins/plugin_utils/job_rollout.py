# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The role placement_rollout: its plan, and the map of VMs to nodes, which may be a saved placement."""

from __future__ import annotations

from ansible_collections.virt.placement.plugins.plugin_utils.approval.plan_files import (
    given_plan,
    require,
)
from ansible_collections.virt.placement.plugins.plugin_utils.job import NOTHING, Job, JobFailed
from ansible_collections.virt.placement.plugins.plugin_utils.job_record import Result
from ansible_collections.virt.placement.plugins.plugin_utils.places.places import (
    NoPlacement,
    read_placement,
)

PLACES_FILE, PLACES = "placement_rollout_places_file", "placement_rollout_places"


def check(job: Job) -> Result:
    """Returns the plan that is to be made and the places of VMs, if there are any."""
    options = job.record.asked
    places, plan = _places(job), given_plan(job)
    if plan is None and places is None and not (options["namespaces"] or options["workloads"]):
        raise JobFailed(
            [
                "Give placement_rollout_namespaces, a list of names, or placement_rollout_workloads, or"
                f" placement_rollout_places: one of them is required. {NOTHING}"
            ]
        )
    result: Result = {} if places is None else {"places": places}
    return result if plan is None else {**result, "plan": plan}


def _places(job: Job) -> Result | None:
    """The map of VMs to nodes. A saved placement without VMs is no reason to move anything."""
    options = job.record.asked
    given, path = options["places"], options["places_file"]
    if given and path:
        require([f"Give {PLACES} or {PLACES_FILE}, and not both."])
    if not path:
        return given or None
    try:
        places, cluster_uid = read_placement(path)
    except NoPlacement as error:
        require([f"{PLACES_FILE}: {error}"])
    else:
        if places:
            require(_other_cluster(job, path, cluster_uid))
            options["places"] = places
            return places
        require([f"{PLACES_FILE}: {path} has no VM with a node."])
    return None


def _other_cluster(job: Job, path: str, saved_from: str) -> list[str]:
    """An error where the placement is of another cluster, which may have VMs and nodes of the same names."""
    uid, api = job.record.uid, job.record.api
    if saved_from and not uid:
        cluster = job.run("topology_info", {}, check=True)["cluster"]
        uid, api = cluster["uid"], cluster["api"]
    if not saved_from or uid == saved_from:
        return []
    seen = f"this is cluster {uid}" if uid else "the UID of this cluster cannot be read"
    fault = f"{PLACES_FILE}: {path} was saved from cluster {saved_from}, and {seen} ({api})"
    return [f"{fault}: check the file, the connection and placement_clusters."]
