# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which instances run where, read from the API and shown as a table of nodes."""

from __future__ import annotations

import typing as t
from collections import defaultdict
from dataclasses import dataclass

if t.TYPE_CHECKING:
    from sandbox import Sandbox

ZONE = "topology.kubernetes.io/zone"


@dataclass(frozen=True)
class Seat:
    """A running instance: the workload that it belongs to, its name, its node, its uid."""

    workload: str
    name: str
    node: str
    uid: str


def seats(sandbox: Sandbox, namespace: str) -> list[Seat]:
    """The VMIs and the pods of Deployments in `namespace` that have a node and are not ending."""
    found = []
    served = sandbox.cluster.kubevirt
    path = sandbox.api.path("VirtualMachineInstance", namespace)
    for vmi in sandbox.api.list(path) if served else ():
        if _stays(vmi) and vmi["status"].get("phase") == "Running":
            found.append(_seat(vmi, vmi["status"].get("nodeName", "")))
    for pod in sandbox.api.list(f"/api/v1/namespaces/{namespace}/pods"):
        if _stays(pod) and _owner(pod).get("kind") == "ReplicaSet":
            found.append(_seat(pod, pod["spec"].get("nodeName", "")))
    return sorted(found, key=lambda seat: (seat.workload, seat.node, seat.name))


def nodes_of(sandbox: Sandbox, namespace: str, workload: str) -> list[str]:
    """The nodes of one workload's instances, sorted, one entry each."""
    return sorted(s.node for s in seats(sandbox, namespace) if s.workload == workload)


def without_node(sandbox: Sandbox, namespace: str) -> list[str]:
    """Names of the pods that wait for a node."""
    pods = sandbox.api.list(f"/api/v1/namespaces/{namespace}/pods")
    waiting = [pod for pod in pods if _stays(pod) and not pod["spec"].get("nodeName")]
    return sorted(pod["metadata"]["name"] for pod in waiting)


def draw(sandbox: Sandbox, namespace: str, columns: t.Mapping[str, str]) -> str:
    """A table: where a node is, the node, its other labels, and what runs on it. `columns`: label keys by heading;
    nodes are sorted by the first one."""
    by_node: dict[str, list[str]] = defaultdict(list)
    for seat in seats(sandbox, namespace):
        by_node[seat.node or "(no node)"].append(seat.workload)
    if waiting := without_node(sandbox, namespace):
        by_node["(no node)"] = waiting
    (where, place), *others = columns.items()
    rows = [(where, "NODE", *(heading for heading, _key in others), "RUNS")]

    def label(node: dict[str, t.Any], key: str) -> str:
        return str(node["metadata"]["labels"].get(key, "-"))

    nodes = sandbox.api.list("/api/v1/nodes")
    for node in sorted(nodes, key=lambda node: (label(node, place), node["metadata"]["name"])):
        name = node["metadata"]["name"]
        cordon = " (cordoned)" if node["spec"].get("unschedulable") else ""
        runs = "  ".join(by_node.pop(name, []))
        values = (label(node, key) for _heading, key in others)
        rows.append((label(node, place), name + cordon, *values, runs))
    empty = [""] * len(others)
    rows += [("", node, *empty, "  ".join(names)) for node, names in by_node.items()]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return "\n".join(
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in rows
    )


def _stays(manifest: dict[str, t.Any]) -> bool:
    return "deletionTimestamp" not in manifest["metadata"]


def _owner(manifest: dict[str, t.Any]) -> dict[str, t.Any]:
    owners = manifest["metadata"].get("ownerReferences") or [{}]
    return next((owner for owner in owners if owner.get("controller")), owners[0])


def _seat(manifest: dict[str, t.Any], node: str) -> Seat:
    meta = manifest["metadata"]
    owner = _owner(manifest)
    workload = owner.get("name", meta["name"])
    if owner.get("kind") == "ReplicaSet":
        workload = workload.rsplit("-", 1)[0]
    return Seat(workload, meta["name"], node, meta["uid"])
