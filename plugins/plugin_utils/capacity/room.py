# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Room for failures: what a role shows of capacity_info, and the words with which it refuses to spend the room."""

from __future__ import annotations

import typing as t

from ansible_collections.virt.placement.plugins.plugin_utils.job import (
    NOTHING,
    Capability,
    Job,
    JobFailed,
    lines_of,
)
from ansible_collections.virt.placement.plugins.plugin_utils.job_record import Result
from ansible_collections.virt.placement.plugins.plugin_utils.maintenance_plan import (
    window_obstacle,
)


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


def show_room(
    job: Job,
    result: Result,
    when: str = "Now",
    nothing: str = "",
    *,
    without: str = "",
    before: t.Callable[[], Result] | None = None,
    already: bool = False,
) -> list[str]:
    """Print the table. An error where the capacity is not green; `when` begins it, `nothing` ends it. `before` is the
    capacity `without` the change that is refused: it is the cause, or not. `already`: it is not."""
    job.show(result["table"].splitlines())
    if result["capacity"] == "green":
        return []
    option = f"{job.role}_keep_room_for"
    state = f"{result['capacity']} already" if already else result["capacity"]
    sentences = [f"{when} the capacity is {state}, not green ({option})", result["worst"]]
    if before is not None:
        sentences.append(_cause(before(), without))
    sentences.append("The lines above show all")
    return [f"{'. '.join(filter(None, sentences))}. {nothing}".rstrip()]


def _verdict(job: Job) -> Result:
    asks = job.record.asked["keep_room_for"]
    return {"failures": show_room(job, read_room(job, noted=True))} if asks else {}


def check_rules(job: Job) -> Result:
    """The role placement_apply, before it writes: must it still be possible that any one of these fails?"""
    options = job.record.asked
    if not options["keep_room_for"]:
        return {}
    names = ("namespace", "rule_set", "rules", "state", "prune", "adopt", "new_members")
    asked = {name: options[name] for name in names}
    now = {"tolerate": options["keep_room_for"], "topology_keys": options["topology_keys"]}
    if job.check_mode:  # the role placement_topology has not written its labels
        now["assume_node_labels"] = job.variable("__placement_topology_planned") or {}
    result = job.run("capacity_info", {**asked, **now})
    if errors := show_room(
        job,
        result,
        "With these rules",
        "No rule was written, and nothing is moved.",
        without="these rules",
        before=lambda: job.run("capacity_info", now, check=True),
    ):
        raise JobFailed(errors)
    return result


def before_drains(job: Job) -> None:
    """The role placement_maintenance, before the first node is cordoned: now, since it will be so again once the nodes
    are back, and while each group is drained. A job that continues ends what it has begun, and asks before the next
    group. Outside of the window none is drained."""
    options, known = job.record.asked, job.record.maintenance
    if not options["keep_room_for"] or options["state"] == "in_service" or not known["groups"]:
        return
    now = read_room(job)
    if known["continued"] or window_obstacle(options):
        return
    if errors := show_room(job, now, "Without this maintenance", NOTHING, already=True):
        raise JobFailed(errors)
    for group in known["groups"]:
        errors += _room_without(job, group, NOTHING, "this maintenance", lambda: now)
    if errors and not job.check_mode:
        raise JobFailed(errors)
    known["has_room"] = not errors
    job.complain(errors)


def _room_without(
    job: Job,
    group: t.Sequence[str],
    nothing: str,
    without: str,
    before: t.Callable[[], Result],
) -> list[str]:
    are = "is" if len(group) == 1 else "are"
    when = f"While {', '.join(group)} {are} drained,"
    room = read_room(job, group)
    return show_room(job, room, when, nothing, without=without, before=before)


def before_drain(job: Job) -> None:
    """Before a group that is not the first one, of which `before_drains` has asked just before, and not one that an
    earlier job has begun."""
    known, group = job.record.maintenance, list(job.arguments["nodes"])
    first = group == known["groups"][0] and known.get("has_room")
    if not job.record.asked["keep_room_for"] or job.check_mode or first:
        return
    if set(group) <= set(known["continued"]) or window_obstacle(job.record.asked):
        return
    nothing = (
        f"Not cordoned: {', '.join(group)}. Launch this job again once there is room, to continue."
    )
    drain = f"the drain of {', '.join(group)}"
    if errors := _room_without(job, group, nothing, drain, lambda: read_room(job)):
        raise JobFailed(errors)


def _artifact(job: Job) -> Result:
    """The last capacity that was read for the job itself."""
    note, names = job.record.last("capacity_info"), ("capacity", "room_for", "domains")
    read = {name: note[name] for name in names if name in note}
    return {"placement_capacity": {job.host: read}} if read else {}


def _cause(before: Result, without: str) -> str:
    if before["capacity"] == "green":
        return f"Without {without} it is green"
    text = f"It is {before['capacity']} already without {without}"
    return ": ".join(filter(None, [text, before["worst"]]))


CAPABILITY = Capability(
    points={
        "check placement_apply": check_rules,
        "before drains": before_drains,
        "before drain": before_drain,
        "verdict placement_drill": _verdict,
        "verdict placement_verify": _verdict,
        "close": _artifact,
    },
)
