# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Room for failures: what a role shows of capacity_info, and the words with which it refuses to spend the room."""

from __future__ import annotations

import typing as t

from ansible_collections.virt.placement.plugins.module_utils.model.quantity import (
    cpu_text,
    memory_text,
)
from ansible_collections.virt.placement.plugins.module_utils.model.rendering import listed
from ansible_collections.virt.placement.plugins.module_utils.model.topology import Topology
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
    topology = Topology.of(job.record.asked["topology_keys"])
    state = f"{result['capacity']} already" if already else result["capacity"]
    sentences = [f"{when} the capacity is {state}, not green ({option})", _why(result, topology)]
    if before is not None:
        sentences.append(_cause(before(), without, topology))
    sentences.append("The lines above show all")
    return [f"{'. '.join(filter(None, sentences))}. {nothing}".rstrip()]


def _cause(before: Result, without: str, topology: Topology) -> str:
    state = before["capacity"]
    if state == "green":
        return f"Without {without} it is green"
    text, why = f"It is {state} already without {without}", _why(before, topology)
    return f"{text}: {why}" if why else text


def _why(result: Result, topology: Topology) -> str:
    """What the worst failure leaves without a node, and what lacks."""
    if not result["domains"]:
        return next(iter(result.get("reasons") or ()), "").rstrip(".")
    worst = result["domains"][0]
    fails = f"If {topology.name_of(worst['topology_key'])} {worst['domain']} fails"
    without = [*worst["pending"], *worst["not_recreated"]]
    message = _message(worst, without)
    if not without:
        if worst["forecast"] == "impossible":
            return f"{fails}, an instance has no node: {message}"
        return f"{fails}, the forecast is {worst['forecast']} ({message})"
    names = [f"{x['kind']} {x['namespace']}/{x['name']}" for x in without]
    lacks = worst["missing"]
    requested = ""
    if any(lacks.values()):
        requested = f" ({cpu_text(lacks['cpu_millicores'])}, {memory_text(lacks['memory_bytes'])} requested)"
    have = "has" if len(names) == 1 else "have"
    return f"{fails}, {listed(names, 3)} {have} no node{requested}: {message}"


def _message(worst: Result, without: t.Sequence[Result]) -> str:
    """Of the first of these instances, else of the failure."""
    of_first = [x["message"] for x in worst["blocked"] if x["instance"] in without[:1]]
    return str(next(iter([*of_first, *worst["reasons"]]), worst["forecast"])).rstrip(".")
