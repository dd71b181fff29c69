# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Simulated nodes: made at the start, given their first state again by tests."""

from __future__ import annotations

import datetime
import typing as t
import uuid
import zlib

from .admin_api import AdminApi
from .cluster_file import Cluster, Node
from .control_plane import MANAGED_NODE
from .node_labeller import HEARTBEAT, SCHEDULABLE
from .releases import DEFAULT, Release

_PRESSURES = {
    "MemoryPressure": ("KubeletHasSufficientMemory", "kubelet has sufficient memory available"),
    "DiskPressure": ("KubeletHasNoDiskPressure", "kubelet has no disk pressure"),
    "PIDPressure": ("KubeletHasSufficientPID", "kubelet has sufficient PID available"),
}

Object = dict[str, t.Any]


def create(api: AdminApi, cluster: Cluster, release: Release) -> None:
    """Make all nodes of a cluster, Ready as a kubelet registers them."""
    api.create_all([node_object(node, release) for node in cluster.nodes])


def node_object(node: Node, release: Release = DEFAULT) -> Object:
    """The Node as its kubelet would register it."""
    resources = dict(node.allocatable)
    now = datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")
    times = {"lastHeartbeatTime": now, "lastTransitionTime": now}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {
            "name": node.name,
            "labels": dict(node.labels) | {MANAGED_NODE: "fake"},
            "annotations": {HEARTBEAT: now} if SCHEDULABLE in node.labels else {},
        },
        "spec": {"taints": [dict(taint) for taint in node.taints]},
        "status": {
            "phase": "Running",  # KWOK's heartbeat wants it
            "capacity": resources,
            "allocatable": resources,
            "conditions": [{**condition, **times} for condition in conditions(ready=True)],
            "addresses": [
                {"type": "InternalIP", "address": _address(node.name)},
                {"type": "Hostname", "address": node.name},
            ],
            "daemonEndpoints": {"kubeletEndpoint": {"Port": 10250}},
            "runtimeHandlers": [
                {
                    "name": "",
                    "features": {"recursiveReadOnlyMounts": True, "userNamespaces": True},
                }
            ],
            "nodeInfo": {
                "bootID": node.boot_id,
                "machineID": uuid.uuid5(uuid.NAMESPACE_DNS, f"{node.name}.machine").hex,
                "systemUUID": str(uuid.uuid5(uuid.NAMESPACE_DNS, f"{node.name}.system")),
                "kernelVersion": "6.12.0",
                "osImage": "sandbox",
                "containerRuntimeVersion": "sandbox://1",
                "kubeletVersion": f"v{release.kubernetes}",
                "kubeProxyVersion": "",
                "operatingSystem": "linux",
                "architecture": "amd64",
            },
        },
    }


def conditions(*, ready: bool) -> list[Object]:
    """The conditions of a kubelet, without times: as it reports them, or as the node lifecycle controller marks them
    once no report comes."""
    if not ready:
        unknown = {
            "status": "Unknown",
            "reason": "NodeStatusUnknown",
            "message": "Kubelet stopped posting node status.",
        }
        return [{"type": kind, **unknown} for kind in (*_PRESSURES, "Ready")]
    fine = [
        {"type": kind, "status": "False", "reason": reason, "message": message}
        for kind, (reason, message) in _PRESSURES.items()
    ]
    message = "kubelet is posting ready status"
    return [
        *fine,
        {"type": "Ready", "status": "True", "reason": "KubeletReady", "message": message},
    ]


def _address(name: str) -> str:
    """An address for each name: nothing listens there."""
    number = zlib.crc32(name.encode())
    return f"10.77.{number // 256 % 256}.{number % 254 + 1}"


def all_ready(api: AdminApi, cluster: Cluster) -> bool:
    """Whether the node controller has taken every node in: Ready, and with its own taints only."""
    taints = {node.name: len(node.taints) for node in cluster.nodes}
    ready = {
        node["metadata"]["name"]
        for node in api.list(api.path("Node"))
        if is_ready(node)
        and len(node["spec"].get("taints", ())) == taints[node["metadata"]["name"]]
    }
    return ready == set(taints)


def is_ready(manifest: Object) -> bool:
    """Whether the Ready condition of a Node or a Pod is True."""
    conditions = manifest.get("status", {}).get("conditions", ())
    return any(c["type"] == "Ready" and c["status"] == "True" for c in conditions)


def restore(api: AdminApi, cluster: Cluster) -> None:
    """Give every node the labels, taints and schedulability of the cluster file again."""
    for node in cluster.nodes:
        path = api.path("Node", name=node.name)
        current = api.get(path)
        foreign = set(current["metadata"].get("labels", {})) - set(node.labels)
        labels = {**dict.fromkeys(foreign - {MANAGED_NODE}), **node.labels}
        spec = {"unschedulable": None, "taints": [dict(taint) for taint in node.taints] or None}
        api.patch(path, {"metadata": {"labels": labels}, "spec": spec})
