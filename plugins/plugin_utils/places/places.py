# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which node is each VM to run on: read from a saved placement, and shown as a table when a rollout has ended."""

from __future__ import annotations

import os
import typing as t

from ansible_collections.virt.placement.plugins.module_utils.kinds.registry import (
    has_vmis,
)
from ansible_collections.virt.placement.plugins.module_utils.model.json_text import content_fault
from ansible_collections.virt.placement.plugins.module_utils.model.regular_file import (
    read_json_file,
)
from ansible_collections.virt.placement.plugins.module_utils.model.rendering import (
    columns,
    one_line,
)
from ansible_collections.virt.placement.plugins.module_utils.scheduler.labels import is_subdomain
from ansible_collections.virt.placement.plugins.plugin_utils.job import (
    NOTHING,
    Capability,
    Job,
    JobFailed,
    require,
)
from ansible_collections.virt.placement.plugins.plugin_utils.job_record import Result

Entry = dict[str, t.Any]

PLACES_FILE, PLACES = "placement_rollout_places_file", "placement_rollout_places"

SHOWN = 50
"""VMs in a table at most. Those that are not in their places come first."""

_RESULTS = {"in_place": "there already", "planned": "would move", "deferred": "not moved yet"}


class NoPlacement(ValueError):
    """A file has no placement, with the reason."""


class SavedPlacement(t.NamedTuple):
    """The nodes of VMs (namespace/name), and the cluster that it is of: its UID, empty where that is not known."""

    places: dict[str, str]
    cluster_uid: str = ""


def read_placement(path: str) -> SavedPlacement:
    """The nodes of VMs in a file: a result of placement_info, or a map of VMs to nodes as JSON. Pods are left out,
    since they cannot be moved to a node, and so are VMs that had no node. Nothing of another file is in a message."""
    if not os.path.isabs(path):
        raise NoPlacement(f"{path} is not an absolute path.")
    try:
        saved = read_json_file(path)
    except OSError as error:
        raise NoPlacement(f"cannot read {path}: {error.strerror or error}.") from error
    except ValueError as error:
        raise NoPlacement(f"{path} is not a placement, since it is not JSON: {error}.") from error
    if not isinstance(saved, dict):
        raise NoPlacement(f"{path} is not a placement: it has no map.")
    if "instances" not in saved:
        return SavedPlacement(_checked(saved, path))
    if not saved.get("nodes"):
        raise NoPlacement(
            f"{path} has not all VMs: save a result of placement_info with details: placement."
        )
    try:
        entries = [*saved["instances"], *saved.get("satisfied_instances", [])]
        cluster_uid = str(saved.get("cluster", {}).get("uid") or "")
        places = dict(filter(None, map(_place, entries)))
        return SavedPlacement(_checked(places, path), cluster_uid)
    except (KeyError, TypeError, AttributeError) as error:
        raise NoPlacement(
            f"{path} is a damaged result of placement_info ({content_fault(error)})."
        ) from error


def _checked(places: Entry, path: str) -> dict[str, str]:
    """Raises NoPlacement where something is no VM with its node."""
    for number, (vm, node) in enumerate(places.items(), 1):
        namespace, _slash, name = vm.partition("/")
        if not all(isinstance(x, str) and is_subdomain(x) for x in (namespace, name, node)):
            text = f"entry {number} is no VM, as namespace/name, with the name of a node"
            raise NoPlacement(f"{path} is not a placement: {text}.")
    return places


def _place(entry: Entry) -> tuple[str, str] | None:
    instance = entry["instance"]
    if isinstance(instance, str):
        kind, namespace, name = entry["kind"], entry["namespace"], instance
    else:
        kind, namespace, name = (instance[x] for x in ("kind", "namespace", "name"))
    return (f"{namespace}/{name}", entry["node"]) if has_vmis(kind) and entry["node"] else None


def check(job: Job) -> Result:
    """The map of VMs to nodes. A saved placement without VMs is no reason to move anything."""
    options = job.record.asked
    path = options["places_file"]
    if options["places"] and path:
        require([f"Give {PLACES} or {PLACES_FILE}, and not both."])
    if not path:
        return {name: options[name] for name in ("places",) if options[name]}
    try:
        places, cluster_uid = read_placement(path)
    except NoPlacement as error:
        raise JobFailed([f"{PLACES_FILE}: {error}", NOTHING]) from error
    require([] if places else [f"{PLACES_FILE}: {path} has no VM with a node."])
    require(_other_cluster(job, path, cluster_uid))
    options["places"] = places
    return {"places": places}


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


def ended(result: Result, moves: t.Sequence[Entry]) -> list[str]:
    """Add what the moves of all steps did to the places of a result. Returns their table."""
    result["places"] = with_moves(result["places"], moves)
    return table(result["places"])


def with_moves(places: t.Sequence[Entry], moves: t.Iterable[Entry]) -> list[Entry]:
    """The places of a result, with what the moves of all steps did."""
    made = {(x["namespace"], x["instance"]): x for x in moves if x["state"] != "planned"}
    entries = []
    for place in places:
        move = made.get((place["namespace"], place["name"]))
        entry = dict(place)
        if move is not None:
            entry["from_node"] = move["from_node"]
            if entry["state"] == "in_place":
                entry["state"] = "moved"
            elif move["state"] == "failed":
                entry["reason"] = move["reason"]
        entries.append(entry)
    return entries


def table(places: t.Sequence[Entry]) -> list[str]:
    """One line for each VM: where it ran, where it is to run, and what became of it."""
    if not places:
        return []
    ordered = sorted(places, key=lambda x: x["state"] in ("in_place", "moved"))
    rows = [("VM", "from", "to", "result")]
    for place in ordered[:SHOWN]:
        name = f"{place['namespace']}/{place['name']}"
        rows.append((name, place["from_node"] or "-", place["to_node"], _result(place)))
    more = len(ordered) - SHOWN
    return [*columns(rows), *([f"and {more} more, see places in the result"] if more > 0 else [])]


def _result(place: Entry) -> str:
    if place["state"] == "not_moved":
        return one_line(f"NOT moved: {place['reason'] or 'the rollout ended before'}")
    return _RESULTS.get(place["state"], str(place["state"]))


CAPABILITY = Capability(points={"check placement_rollout": check}, tables={"places": ended})
