# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What does the closing block of a maintenance say of its nodes and VMs?"""

from __future__ import annotations

import typing as t

from ansible_collections.virt.placement.plugins.module_utils.model.kinds import VIRTUAL_MACHINE
from ansible_collections.virt.placement.plugins.module_utils.model.rendering import listed
from ansible_collections.virt.placement.plugins.plugin_utils.closing import LAUNCH
from ansible_collections.virt.placement.plugins.plugin_utils.plan_files import (
    after_failure,
    carries_out_plan,
    plan_words,
    saved_words,
)

if t.TYPE_CHECKING:
    from ansible_collections.virt.placement.plugins.plugin_utils.job_record import JobRecord

Parts = dict[str, t.Any]


def maintenance_parts(record: JobRecord) -> Parts:
    """What was asked, what became of each node and VM, and what is left to do."""
    options, known = record.asked, record.maintenance
    states: dict[str, str] = dict(known.get("states", {}))
    verb = {
        "serviced": "service",
        "drained": "drain",
        "in_service": "put in service",
    }[options["state"]]
    nodes = list(states) or options["nodes"]
    where = listed(nodes, 12) if nodes else _text_of(options["topology"])
    by_plan = f" by {plan_words(record)}" if carries_out_plan(record) else ""
    asked = [f"{verb} {where}{by_plan}"]
    for name, words in (("reason", "reason"), ("change_id", "change")):
        if options[name]:
            asked[0] += f", {words} {options[name]}"
    skipped = tuple(
        f"{node['name']}: change {node['change_id']} was done {node.get('serviced_at') or 'before'}"
        for node in known.get("done", ())
    )
    return {
        "asked": tuple(asked),
        "nodes": states,
        "skipped": skipped,
        "next_steps": tuple(_after_maintenance(record, states)),
        "done": (
            *saved_words(record),
            *_started(record),
            *_stopped(known),
            *_staying(known),
            *_restarted_again(record),
        ),
    }


def _text_of(topology: t.Mapping[str, t.Any]) -> str:
    texts = []
    for key, values in topology.items():
        names = values if isinstance(values, (list, tuple)) else [values]
        texts.append(f"{key} {', '.join(map(str, names))}")
    return ", ".join(texts)


def _started(record: JobRecord) -> t.Iterator[str]:
    """VMs that are stopped for the time of the maintenance alone (vm_policy stop_and_start)."""
    notes = record.of("node_maintenance")
    started = [_name(vm) for note in notes for vm in note.get("started") or ()]
    if started:
        yield f"{'would be ' if record.check_mode else ''}started again: {listed(started, 8)}"
    nodes = {node["name"]: node for note in notes for node in note.get("nodes") or ()}
    waiting = [_name(vm) for node in nodes.values() for vm in node.get("starts_again") or ()]
    if waiting:
        yield f"stopped until the node is in service: {listed(waiting, 8)}"


def _name(vm: Parts) -> str:
    return f"{vm['namespace']}/{vm['name']}"


def _stopped(known: Parts) -> t.Iterator[str]:
    for vm in _stopped_vms(known):
        yield (
            f"stopped, and not started again: {_name(vm)}, run strategy before:"
            f" {vm.get('run_strategy')}"
        )


def _staying(known: Parts) -> t.Iterator[str]:
    """VMs that left the nodes for the maintenance and are not moved again at its end."""
    by_reason: dict[str, list[str]] = {}
    for vm in known.get("stays", ()):
        by_reason.setdefault(vm["reason"], []).append(_name(vm))
    for reason, names in by_reason.items():
        stay = "stays where it is" if len(names) == 1 else "stay where they are"
        yield f"{len(names)} {stay}, since {reason}: {listed(names, 8)}"


def _restarted_again(record: JobRecord) -> t.Iterator[str]:
    """kube-scheduler chooses where a restarted VM runs, perhaps on a node that is serviced later."""
    routes: dict[tuple[str, str], list[str]] = {}
    for move in record.moves:
        if (move["kind"], move["method"], move["state"]) == (
            VIRTUAL_MACHINE.name,
            "restart",
            "moved",
        ):
            route = routes.setdefault((move["namespace"], move["name"]), [str(move["from_node"])])
            route.append(str(move["to_node"]))
    again = [
        f"{namespace}/{name} {' -> '.join(route)}"
        for (namespace, name), route in routes.items()
        if len(route) > 2
    ]
    if again:
        yield (
            f"restarted more than once: {listed(again, 4)}; with placement_maintenance_vm_policy: [migrate,"
            " stop_and_start] such a VM is stopped and started once instead"
        )


def _stopped_vms(known: Parts) -> list[Parts]:
    vms: dict[tuple[str, str], Parts] = {}
    for node in known.get("ended", ()):
        for vm in node.get("stopped", ()):
            vms[vm["namespace"], vm["name"]] = vm
    return list(vms.values())


def _after_maintenance(record: JobRecord, states: t.Mapping[str, str]) -> t.Iterator[str]:
    options = record.asked
    drained = [name for name, state in states.items() if state == "drained"]
    waiting = [name for name, state in states.items() if state == "not_begun"]
    failing = bool(record.failures or record.open)
    if failing and not record.check_mode:
        yield after_failure(record)
        begun = any(state in ("failed", "drained") for state in states.values())
        if begun and options["state"] != "in_service":
            yield (
                "to undo it: launch it with placement_maintenance_state: in_service and without"
                " placement_maintenance_change_id"
            )
    elif record.check_mode and saved_words(record):
        yield f"to do exactly this: {LAUNCH}"
    elif record.check_mode:
        yield LAUNCH if not failing else "correct what is refused above"
    elif waiting:
        yield f"launch the same job again for {listed(waiting, 12)}"
    elif drained and options["state"] == "drained":
        yield (
            f"do the work on {listed(drained, 12)}, then launch the playbook maintenance with"
            " placement_maintenance_state: in_service"
        )
    for vm in _stopped_vms(record.maintenance):
        yield f"virtctl start {vm['name']} -n {vm['namespace']}"
