# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What does the closing block of a maintenance say of its nodes and VMs?"""

from __future__ import annotations

import datetime
import json
import re
import typing as t

from ansible_collections.virt.placement.plugins.module_utils.kinds.registry import kind_of
from ansible_collections.virt.placement.plugins.module_utils.model.obstacle import OUTSIDE_OF_WINDOW
from ansible_collections.virt.placement.plugins.module_utils.model.rendering import (
    AGAIN,
    UNFINISHED,
    listed,
)
from ansible_collections.virt.placement.plugins.module_utils.moves.window import parse_window
from ansible_collections.virt.placement.plugins.plugin_utils.closing import (
    CORRECT_OR_PLAN,
    LAUNCH,
    has_entry,
    joined,
)
from ansible_collections.virt.placement.plugins.plugin_utils.closing_unread import again
from ansible_collections.virt.placement.plugins.plugin_utils.maintenance_plan import topology_values

if t.TYPE_CHECKING:
    from ansible_collections.virt.placement.plugins.plugin_utils.job_record import JobRecord

Parts = dict[str, t.Any]

UNREAD = " by this job, and those of earlier jobs were not read"

PLAIN = re.compile(r"[A-Za-z][\w.-]*")
"""Texts that are texts in YAML without quotes."""

WOULD = {
    "serviced": "would be serviced",
    "drained": "would be drained",
    "in_service": "would be put in service",
    "nothing": "in service already",
    "refused": "would be refused",
    "closed": "would not be begun, outside of the window",
}
"""What check mode says of a node, by what it has found (`found` of the record)."""


def maintenance_parts(record: JobRecord) -> Parts:
    """What was asked, what became of each node and VM, and what is left to do."""
    options, known, notes = record.asked, record.maintenance, record.of("node_maintenance")
    home = record.of("return_home")
    states: dict[str, str] = dict(known.get("states", {}))
    verb = {
        "serviced": "service",
        "drained": "drain",
        "in_service": "put in service",
    }[options["state"]]
    nodes = list(states) or options["nodes"]
    domains = [*options["topology"], ", ".join(topology_values(options))]
    where = listed(nodes, 12) if nodes else " ".join(domains).strip()
    by_plan = f" by {record.given_plan}" if record.given_plan else ""
    asked = [f"{verb} {where or 'no node'}{by_plan}"]
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
        "node_words": _node_words(record, states),
        "heading": _heading(record, states),
        "skipped": (*joined(home, "skipped"), *skipped),
        "next_steps": (*joined(notes, "next"), *_after_maintenance(record, states)),
        "done": (
            *joined((*_last_of_nodes(notes).values(), *home), "done"),
            *_restarted_again(record),
        ),
    }


def _last_of_nodes(notes: t.Iterable[Parts]) -> dict[tuple[str, ...], Parts]:
    """A VM that a drain has stopped may have been started since."""
    return {tuple(node["name"] for node in note.get("nodes") or ()): note for note in notes}


def _node_words(record: JobRecord, states: t.Mapping[str, str]) -> dict[str, str]:
    """Of nodes that were not begun: check mode begins none, and may end before it has checked all of them."""
    found: Parts = record.maintenance.get("found", {})
    left = [name for name, state in states.items() if state == "not_begun"]
    if record.check_mode:
        return {name: WOULD.get(found.get(name, ""), "not checked") for name in left}
    closed = (name for name in left if found.get(name) == "closed")
    return dict.fromkeys(closed, "not begun, outside of the window")


def _heading(record: JobRecord, states: t.Mapping[str, str]) -> str:
    """In place of "done", for a job with nodes that its window has kept from being begun."""
    if "closed" not in record.maintenance.get("found", {}).values():
        return ""
    if all(state in ("not_begun", "skipped") for state in states.values()):
        return "nothing begun"
    return "done in part"


def _next_window(record: JobRecord) -> str:
    """` in the window, which opens next on ...`; empty for a job without a window."""
    window, _faults = parse_window(record.asked.get("window"))
    if window is None:
        return ""
    return window.opens_next(datetime.datetime.fromtimestamp(record.began, datetime.timezone.utc))


def _restarted_again(record: JobRecord) -> t.Iterator[str]:
    """kube-scheduler chooses where a restarted VM runs, perhaps on a node that is serviced later."""
    routes: dict[tuple[str, str], list[str]] = {}
    for move in record.moves:
        if kind_of(move["kind"]).run_strategy and (move["method"], move["state"]) == (
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


def _after_maintenance(record: JobRecord, states: t.Mapping[str, str]) -> t.Iterator[str]:
    options = record.asked
    drained = [name for name, state in states.items() if state == "drained"]
    waiting = [name for name, state in states.items() if state == "not_begun"]
    failing = bool(record.failures or record.open)
    found = record.maintenance.get("found", {})
    stays = has_entry(record.last("return_home"), "skipped", OUTSIDE_OF_WINDOW)
    opens = _next_window(record) if stays or "closed" in found.values() else ""
    if failing and not record.check_mode:
        yield from _after_failure(record, states)
    elif (
        record.check_mode
        and not failing
        and options.get("plan_file")
        and any("plan" in note for note in record.of("node_maintenance"))
    ):
        yield f"to do exactly this: {LAUNCH}"
    elif record.check_mode:
        yield from again(record) if failing else [f"{LAUNCH}{opens}"]
    elif waiting:
        yield f"launch the same job again for {listed(waiting, 12)}{_next_window(record)}"
    elif opens:
        yield f"launch the same job again{opens}: it moves VMs home where a rule asks for it"
    elif drained and options["state"] == "drained":
        work = f"do the work on {listed(drained, 12)}"
        yield f"{work}, then launch the playbook maintenance with {_back(options, drained)}"


def _after_failure(record: JobRecord, states: t.Mapping[str, str]) -> t.Iterator[str]:
    if record.asked["state"] == "in_service":
        yield from again(record)
        return
    begun = any(state not in ("not_begun", "skipped") for state in states.values())
    if record.given_plan:
        yield CORRECT_OR_PLAN
    else:
        yield UNFINISHED.text if begun else f"no node was begun{'' if states else UNREAD}: {AGAIN}"
    if any(state in ("failed", "draining", "drained") for state in states.values()):
        yield (
            "to undo it: launch it with placement_maintenance_state: in_service and without"
            " placement_maintenance_change_id"
        )


def _back(options: Parts, nodes: t.Sequence[str]) -> str:
    """The variables of the job that ends the maintenance of these nodes."""
    values = {"nodes": f"[{', '.join(map(_yaml, nodes))}]", "state": "in_service"}
    if options["change_id"]:
        values["change_id"] = _yaml(str(options["change_id"]))
    if options.get("reboot_expected"):
        values["reboot_expected"] = "true"
    return ", ".join(f"placement_maintenance_{name}: {value}" for name, value in values.items())


def _yaml(text: str) -> str:
    return text if PLAIN.fullmatch(text) else json.dumps(text)
