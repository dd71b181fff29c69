# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The modules that the role placement_maintenance calls, as actions on a cluster that is a JSON file.

The variable `played_cluster` has its path. It holds `nodes`, by name, `window_open`, `room`, the answer of
capacity_info while nodes are drained, where that is not green, and `calls`, one line for each task; `quiet` are those
of them that show no progress. `gone` are the names of nodes that were deleted in their maintenance. A node is deleted
when the one of its field `deleted_with` is drained.
"""

from __future__ import annotations

import json
import typing as t
from pathlib import Path

from ansible.plugins.action import ActionBase

from ansible_collections.virt.placement.plugins.plugin_utils.job import QUIET

Node = dict[str, t.Any]
Result = dict[str, t.Any]


class ActionModule(ActionBase):  # type: ignore[misc]
    """node_maintenance. The other modules only find nothing to do."""

    def run(self, tmp: str | None = None, task_vars: Result | None = None) -> Result:
        args = self._task.args
        if not (groups := args.get("step_state", {}).get("groups")):
            return self._played(args, task_vars or {})
        played = [
            (group, self._played({**args, "nodes": group}, task_vars or {})) for group in groups
        ]
        return {"_refused": [(group, x["msg"]) for group, x in played if x.get("failed")]}

    def _played(self, args: Result, task_vars: Result) -> Result:
        file = Path(task_vars["played_cluster"])
        cluster = json.loads(file.read_text())
        check = self._task.check_mode
        if domains := args.get("topology"):
            zones = [
                x
                for zone in domains["zone"]
                for x in cluster["nodes"].values()
                if x["zone"] == zone
            ]
            args = {**args, "nodes": [node["name"] for node in zones]}
        name = self._task.action.rpartition(".")[2]
        if name == "node_maintenance":
            name = args["state"]
        only = [item["name"] for item in args.get("only", ())]
        only += (args.get("unavailable") or {}).get("nodes", ())
        shows = check and name != "capacity_info"
        words = [name, "check" if shows else "", ",".join(args.get("nodes", only))]
        cluster["calls"].append(" ".join(word for word in words if word))
        if QUIET in task_vars:
            cluster["quiet"].append(cluster["calls"][-1])
        nodes = [cluster["nodes"][x] for x in args.get("nodes", ()) if x in cluster["nodes"]]
        result: Result = {
            "moves": [],
            "stop_reason": "",
            "rules": [{"namespace": "shop", "workloads": ["a"]}],
        }
        result |= {"table": "as played"}
        if name == "capacity_info":
            state = cluster["room"].get(",".join(only), "green")
            result |= {"capacity": state, "table": f"{state.upper()}: as played", "worst": ""}
            result["room_for"] = None
        if name == "in_service":
            result |= put_in_service(nodes, args, check=check)
        elif name == "drained":
            result |= drain(nodes, cluster, args, check=check)
        result["nodes"] = [
            {
                **node,
                "state": "drained" if node["since"] else "in_service",
                "cordoned": node["unschedulable"],
            }
            for node in nodes
        ]
        if name == "drained" and result.get("failed"):
            del result["nodes"]
        if missing := [x for x in args.get("nodes", ()) if x not in cluster["nodes"]]:
            message = f"there is no node {missing}"
            error = {"type": "input", "message": message}
            result |= {"failed": True, "msg": message, "errors": [error]}
            result["gone"] = [x for x in missing if x in cluster["gone"]]
            if name != "in_service" or not nodes:
                del result["nodes"]
        file.write_text(json.dumps(cluster))
        return result


def put_in_service(nodes: list[Node], args: Result, *, check: bool) -> Result:
    marked = [node for node in nodes if node["since"]]
    if check:
        return {}
    if lacking := [node["name"] for node in nodes if not node["ready"]]:
        return {"failed": True, "msg": f"not back: {lacking}"}
    for node in marked:
        node |= {"since": None, "unschedulable": False, "change_id": args["change_id"]}
    return {}


def drain(nodes: list[Node], cluster: Result, args: Result, *, check: bool) -> Result:
    if refused := [node["refused"] for node in nodes if "refused" in node]:
        text = "; ".join(refused)
        return {"failed": True, "msg": text, "errors": [{"type": "finding", "message": text}]}
    begun = any(node["since"] and node["unschedulable"] for node in nodes)
    if args.get("window") and not cluster["window_open"] and not begun:
        return {"stop_reason": "outside of the window"}
    assumed = args.get("assume_in_service", ())
    others = [x for x in cluster["nodes"].values() if x["since"] and x["name"] not in assumed]
    if nodes and len({node["zone"] for node in [*nodes, *others]}) > 1:
        return {"failed": True, "msg": "would be in maintenance in 2 topology domains"}
    if not check:
        for node in nodes:
            cordoned = not node.get("uncordoned_later", False)
            node |= {"since": "2026-11-22T19:00:00Z", "ours": True, "unschedulable": cordoned}
        names = {node["name"] for node in nodes}
        for name, node in list(cluster["nodes"].items()):
            if node.get("deleted_with") in names:
                del cluster["nodes"][name]
    return {}
