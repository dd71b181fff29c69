# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The plan of a rollout: check mode saves and publishes it, and the job after an approval makes it. The map of VMs to
nodes, which may be a saved placement.
"""

from __future__ import annotations

import json
import typing as t

from ansible_collections.virt.placement.plugins.plugin_utils.job import NOTHING, Job, JobFailed
from ansible_collections.virt.placement.plugins.plugin_utils.job_record import JobRecord, Result
from ansible_collections.virt.placement.plugins.plugin_utils.places import (
    NoPlacement,
    read_placement,
)
from ansible_collections.virt.placement.plugins.plugin_utils.report.files import (
    ReportFile,
    Unwritable,
    faults_of_paths,
    write_file,
)

PLAN_FILE, PLAN = "placement_rollout_plan_file", "placement_rollout_plan"
PLACES_FILE, PLACES = "placement_rollout_places_file", "placement_rollout_places"


def check(job: Job) -> Result:
    """The role placement_rollout. Returns the plan that is to be made and the places of VMs, if there are any."""
    options = job.record.asked
    places = _places(job)
    if options["plan_file"]:
        file = ReportFile(PLAN_FILE, options["plan_file"])
        _require(faults_of_paths([file], job.host, job.hosts))
    plan = None if job.check_mode else _approved(job.host, options)
    if plan is None and places is None and not (options["namespaces"] or options["workloads"]):
        raise JobFailed(
            [
                "Give placement_rollout_namespaces, a list of names, or placement_rollout_workloads, or"
                f" placement_rollout_places: one of them is required. {NOTHING}"
            ]
        )
    if job.check_mode and options["plan_file"]:
        _require(_written(options["plan_file"], "", only_check=True))
    result: Result = {} if places is None else {"places": places}
    if plan is not None:
        options["plan_checksum"] = str(plan["checksum"])
        result["plan"] = plan
    return result


def _places(job: Job) -> Result | None:
    """The map of VMs to nodes. A saved placement without VMs is no reason to move anything."""
    options = job.record.asked
    given, path = options["places"], options["places_file"]
    if given and path:
        _require([f"Give {PLACES} or {PLACES_FILE}, and not both."])
    if not path:
        return given or None
    try:
        places, cluster_uid = read_placement(path)
    except NoPlacement as error:
        _require([f"{PLACES_FILE}: {error}"])
    else:
        if places:
            _require(_other_cluster(job, path, cluster_uid))
            options["places"] = places
            return places
        _require([f"{PLACES_FILE}: {path} has no VM with a node."])
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


def _require(faults: t.Sequence[str]) -> None:
    if faults:
        raise JobFailed([*faults, NOTHING])


def _approved(host: str, options: Result) -> Result | None:
    """The plan in the file, or that which an earlier job of the workflow has published."""
    published = options["plan"]
    if published and not _is_plan(published.get(host)):
        names = ", ".join(sorted(map(str, published)))
        _require(
            [f"{PLAN}: has no plan of {host}, only of: {names}. Launch the job in check mode."]
        )
    plan: Result | None = published[host] if published else None
    if not options["plan_file"]:
        return plan
    saved = _read(options["plan_file"])
    if plan is not None and plan.get("checksum") != saved.get("checksum"):
        _require([f"{PLAN_FILE} and {PLAN} have different plans of {host}: give one of them."])
    return saved


def _is_plan(value: t.Any) -> bool:
    """The module checks the rest. An empty map must not become a rollout without a plan."""
    return isinstance(value, dict) and "checksum" in value


def _read(path: str) -> Result:
    """Raises JobFailed for a file that is not there, or that has no plan."""
    try:
        with open(path, encoding="utf-8") as file:
            plan: t.Any = json.load(file)
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
    raise JobFailed([f"{PLAN_FILE}: {fault}", NOTHING])


def plan_of(record: JobRecord) -> Result | None:
    """The plan that check mode has returned."""
    notes = record.of("rollout")
    return notes[-1].get("plan") if notes and record.role == "placement_rollout" else None


def save_plan(job: Job) -> list[str]:
    """Save the plan that check mode has returned, and say so where that replaces another one, which may have been
    approved. Returns the errors."""
    plan, path = plan_of(job.record), job.record.asked.get("plan_file")
    if plan is None or not path:
        return []
    try:
        before = _read(path)["checksum"]
    except JobFailed:
        before = plan["checksum"]
    errors = _written(path, f"{json.dumps(plan, indent=2)}\n", only_check=False)
    if not errors and before != plan["checksum"]:
        known = f"{path} had another plan (checksum {before!s:.12})"
        job.show([f"{known}. It has the plan of this job now: have that one approved."])
    return errors


def _written(path: str, text: str, *, only_check: bool) -> list[str]:
    try:
        write_file(ReportFile(PLAN_FILE, path), text, only_check=only_check)
    except Unwritable as error:
        return [str(error)]
    return []
