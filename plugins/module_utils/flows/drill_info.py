# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""drill_info from its options to its result: one reading, and a forecast for the loss of each domain."""

from __future__ import annotations

import typing as t

from ..api.client import ApiClient
from ..forecast.drill import Drill, DrillReport, drill
from ..forecast.drill_entries import drill_entries, room_steps
from ..forecast.drill_table import n_plus_1, table
from ..interface.arguments import topology_of
from ..interface.results import warn_unreadable
from ..model.json_pointer import JSON
from ..model.rendering import as_json, one_line, outcome
from ..model.snapshot import unreadable_texts
from ..model.topology import Topology
from .forecast import read_question, with_new_pods

if t.TYPE_CHECKING:
    from ansible.module_utils.basic import AnsibleModule

ADD_ROOM = "for what the lines above name, add nodes or room, or change the rules"


def run(module: AnsibleModule, api: ApiClient) -> dict[str, t.Any]:
    """Raises InvalidInput with every fault of the options, and ApiError."""
    topology = topology_of(module.params)
    question = read_question(module.params, api, topology)
    question, change = with_new_pods(api, question)
    request = question.request
    report = drill(change.after, request.domains_of, event=request.event, topology=topology)
    warn_unreadable(module.warn, report.unreadable)
    for key in question.left_out:
        module.warn(f"domains_of: no node has the label {key}: it was left out")
    result = drills_as_json(report, topology)
    left_out = [
        f"{topology.name_of(key)}: left out, since no node has the label {key}"
        for key in question.left_out
    ]
    return {
        **result,
        "n_plus_1": n_plus_1(report) or "",
        "left_out": list(question.left_out),
        "table": "\n".join([str(result["table"]), *map(one_line, left_out)]),
        **question.findings_as_json(module.warn),
        **outcome(drill_entries(report), following=room_steps(report.drills, ADD_ROOM)),
    }


def drills_as_json(report: DrillReport, topology: Topology) -> dict[str, JSON]:
    """The domains whose loss has an impact are listed in full, the others by name."""
    impact = [drill for drill in report.drills if drill.has_impact]
    return {
        "forecast": str(report.worst),
        "reasons": [one_line(f"unknown: {x}") for x in unreadable_texts(report.unreadable)],
        "event": report.event,
        "domains": [_drill(drill) for drill in impact],
        "without_impact": [
            {
                "topology_key": drill.key,
                "domain": one_line(drill.domain),
                "nodes": list(drill.nodes),
                "instances_to_schedule": drill.instances_to_schedule,
                "down_until_fenced": len(drill.down_until_fenced),
            }
            for drill in report.drills
            if not drill.has_impact
        ],
        "counts": {"domains": len(report.drills), "impact": len(impact)},
        "table": table(report, topology),
        "permission_gaps": as_json(report.unreadable),
    }


def _drill(drill: Drill) -> dict[str, JSON]:
    result: dict[str, JSON] = as_json(drill)
    result["topology_key"] = result.pop("key")
    result["forecast"] = result.pop("answer")
    del result["room"], result["used"]
    cpu, memory = drill.missing
    result["missing"] = {"cpu_millicores": cpu, "memory_bytes": memory}
    for entry, blocked in zip(result["blocked"], drill.blocked, strict=True):
        del entry["own"], entry["blocker"], entry["lacks"]
        entry["message"] = one_line(blocked.message)
    return result
