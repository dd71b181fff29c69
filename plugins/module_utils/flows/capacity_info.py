# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""capacity_info from its options to its result: one reading, a drill for each failure, and room for more VMs."""

from __future__ import annotations

import typing as t
from dataclasses import replace

from ..api.client import ApiClient
from ..capacity.capacity import (
    CapacityReport,
    CapacityState,
    RoomForVms,
    Tolerated,
    VmSize,
    capacity,
    capacity_table,
    worst_failure,
)
from ..cluster.read_instance_types import instance_types
from ..forecast.change import ChangedCluster
from ..forecast.doubts import relevant_gaps
from ..forecast.drill_entries import domain_entries, room_steps
from ..forecast.forecast import forecast
from ..forecast.new_pods import new_pods
from ..forecast.preemption import preempting_vms
from ..interface.arguments import topology_of
from ..interface.results import warn_unreadable
from ..model.findings import InputError, InvalidInput
from ..model.input import InputReader, by_likeness, shown
from ..model.json_pointer import JSON
from ..model.quantity import parse_quantity, whole_units
from ..model.rendering import Entry, listed, one_line, outcome, plural
from ..model.snapshot import Snapshot
from ..model.topology import Topology
from ..scheduler.framework import pod_key
from ..view.view import view_of
from .drill_info import drills_as_json
from .forecast import Question, read_question, with_new_pods

if t.TYPE_CHECKING:
    from ansible.module_utils.basic import AnsibleModule

MAKE_ROOM = (
    "for the VMs that the lines above name: let them run on more nodes, add nodes, or shrink or stop VMs; or ask for"
    " less (option tolerate, for a job placement_capacity_tolerate or keep_room_for of its role)"
)


def run(module: AnsibleModule, api: ApiClient) -> dict[str, t.Any]:
    """Raises InvalidInput with every fault of the options, and ApiError."""
    topology = topology_of(module.params)
    faults: list[InputError] = []
    names, values = _split(module.params["tolerate"], faults)
    asked = _size(module.params["room_for"], faults)
    question = _read(module.params, api, topology, names, faults)
    tolerated = _tolerated(question, topology, names, values)
    out, question = question.unavailable, replace(question, unavailable=frozenset())
    question, change = with_new_pods(api, question)
    after, added = _after(question, change)
    moving: set[str] = set()  # what violates one of the rules has to move
    if question.plan is not None and not relevant_gaps(change.after):
        moving = {move.uid for move in forecast(change, topology=topology).moves}
    size = asked if isinstance(asked, VmSize) or asked is None else _of_type(api, asked)
    report = capacity(
        after, tolerated, topology=topology, size=size, added=added, out=out, moving=moving
    )
    warn_unreadable(module.warn, report.drills.unreadable)
    preempting = () if report.drills.unreadable else tuple(preempting_vms(view_of(after).instances))
    return {
        **_drills(report, topology),
        "capacity": str(report.state),
        "worst": one_line(worst_failure(report, topology)),
        "room_for": _room(report),
        "table": capacity_table(report, topology),
        **question.findings_as_json(module.warn, preempting),
        **entries(report, module.params["tolerate"]),
    }


def entries(report: CapacityReport, tolerate: t.Sequence[str]) -> dict[str, JSON]:
    """The state, the failures by what is known of them, the room for more VMs, and what makes room, for people."""
    drills, room = report.drills.drills, report.room
    text = f"capacity if any one of these fails ({listed(tolerate, 8)}): {report.state}"
    done = [Entry("capacity", text), *domain_entries(drills)]
    done += [] if room is None else [Entry("room_for", _room_text(room, report.state))]
    enough = report.state is CapacityState.GREEN
    return outcome(done, following=() if enough else room_steps(drills, MAKE_ROOM))


def _room_text(room: RoomForVms, state: CapacityState) -> str:
    kind, cores = room.size.instance_type, plural(room.size.cores, "core")
    size = f"of {kind}" if kind else f"with {cores}"
    if state is not CapacityState.GREEN:
        return f"no room for more VMs {size} while the capacity is {state}"
    if room.doubt:
        return f"room for more VMs: unknown: {room.doubt}"
    if not room.at_least:
        return f"room for no more VM {size} that is proven"
    return f"room for at least {room.at_least} more VMs {size}"


def _after(question: Question, change: ChangedCluster) -> tuple[Snapshot, set[str]]:
    """The cluster after the change, and the keys of pods that need a node then: those that `scale` adds, and those of
    workloads that the rules roll, without the pods that they replace."""
    scaled = {entry.workload for entry in question.scale}
    new = [x for x in new_pods(change) if x.workload in scaled or x.replaces is not None]
    replaced = {x.replaces.number for x in new if x.replaces is not None}
    pods = tuple(pod for pod in change.after.pods if pod.number not in replaced)
    return replace(change.after, pods=pods), {pod_key(x.pod) for x in new}


def _split(tolerate: t.Sequence[str], faults: list[InputError]) -> tuple[list[str], list[str]]:
    """The topology name and the domain of each entry: `zone`, which has none, or `zone=a`."""
    pairs = [entry.partition("=") for entry in tolerate]
    for number, (_name, sign, value) in enumerate(pairs):
        if sign and not value:
            faults.append(
                InputError(f"tolerate[{number}]", f"{tolerate[number]!r} has no value after '='")
            )
    return [name for name, _sign, _value in pairs], [value for _name, _sign, value in pairs]


def _size(given: JSON, faults: list[InputError]) -> VmSize | str | None:
    """The VM of the option room_for: `{cores, memory}`, or the name of an instance type."""
    given = {key: value for key, value in (given or {}).items() if value is not None}
    if not given:
        return None
    reader = InputReader("room_for", faults)
    fields = reader.mapping(given, ("cores", "memory", "instance_type")) or {}
    if "instance_type" in fields:
        if len(fields) > 1:
            reader.error(
                "has an instance_type, and cores or memory, which come from it: leave them out"
            )
        if not fields["instance_type"]:
            reader.at("instance_type").error("must not be empty: omit it")
        return str(fields["instance_type"])
    for name in ("cores", "memory"):
        if name not in fields:
            reader.error(f"needs {name}, for example {{cores: 4, memory: 8Gi}}")
    if len(fields) < 2:
        return None
    cores = reader.at("cores").integer(fields["cores"], 1)
    try:
        memory = whole_units("memory", parse_quantity(fields["memory"]))
    except ValueError as error:
        reader.at("memory").error(str(error))
        return None
    if memory <= 0:
        reader.at("memory").error(f"must be more than 0, not {shown(fields['memory'])}")
    return VmSize(cores, memory) if cores and memory > 0 else None


def _of_type(api: ApiClient, name: str) -> VmSize:
    """The VM of an instance type that the cluster has. Raises InvalidInput where it has none of that name, or several,
    and ApiError."""
    known = instance_types(api)
    found = [x for x in known if str(x) == name] or [x for x in known if x.name == name]
    if len(found) == 1:
        return VmSize(found[0].cpus, found[0].memory, found[0])
    if found:
        hint = f"several namespaces have one: name it as {by_likeness(name, map(str, found))}"
    elif known:
        hint = f"the cluster has none of that name; it has {by_likeness(name, map(str, known))}"
    else:
        hint = "the cluster has no instance types"
    raise InvalidInput([InputError("room_for, instance_type", f"{name!r}: {hint}")])


def _read(
    params: t.Mapping[str, t.Any],
    api: ApiClient,
    topology: Topology,
    names: t.Sequence[str],
    faults: t.Sequence[InputError],
) -> Question:
    try:
        question = read_question({**params, "domains_of": names, "event": "failure"}, api, topology)
    except InvalidInput as error:
        of_names = [
            replace(x, where=x.where.replace("domains_of", "tolerate")) for x in error.errors
        ]
        raise InvalidInput([*faults, *of_names]) from error
    if faults:
        raise InvalidInput(faults)
    return question


def _tolerated(
    question: Question, topology: Topology, names: t.Sequence[str], values: t.Sequence[str]
) -> list[Tolerated]:
    """Raises InvalidInput for a key or a domain that no node has."""
    faults: list[InputError] = []
    tolerated = []
    for number, (name, value) in enumerate(zip(names, values, strict=True)):
        key = topology.resolve(name)
        known = {x.labels[key] for x in question.before.nodes if key in x.labels}
        if key in question.left_out:
            faults.append(InputError(f"tolerate[{number}]", f"no node has the label {key}"))
        elif value and known and value not in known:
            hint = f"its values are {by_likeness(value, known)}"
            faults.append(InputError(f"tolerate[{number}]", f"no node has {key}={value}; {hint}"))
        tolerated.append(Tolerated(key, (value,) if value else ()))
    if faults:
        raise InvalidInput(faults)
    return tolerated


def _drills(report: CapacityReport, topology: Topology) -> dict[str, JSON]:
    result = drills_as_json(report.drills, topology)
    result["reasons"] += [one_line(note) for note in report.notes]
    del result["event"]
    return result


def _room(report: CapacityReport) -> JSON:
    """None where it was not asked for, or is not known."""
    room = report.room
    if room is None:
        return None
    return {
        "instance_type": str(room.size.instance_type or ""),
        "cores": room.size.cores,
        "memory_bytes": room.size.memory,
        "at_least": room.at_least,
        "at_most": room.at_most,
        "doubt": room.doubt,
    }
