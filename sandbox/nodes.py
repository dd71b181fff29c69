# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Simulated nodes: made at the start, given their first state again by tests."""

from __future__ import annotations

import typing as t
import uuid

from .admin_api import AdminApi
from .cluster_file import Cluster, Node
from .control_plane import MANAGED_NODE

Object = dict[str, t.Any]
_KUBELET_VERSION = "v1.36.2"


def create(api: AdminApi, cluster: Cluster) -> None:
    """Make all nodes of a cluster, Ready as a kubelet registers them."""
    api.create_all([node_object(node) for node in cluster.nodes])


def node_object(node: Node) -> Object:
    """The Node as its kubelet would register it."""
    resources = dict(node.allocatable)
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {
            "name": node.name,
            "labels": dict(node.labels) | {MANAGED_NODE: "fake"},
        },
        "spec": {"taints": [dict(taint) for taint in node.taints]},
        "status": {
            "phase": "Running",  # KWOK's heartbeat wants it
            "capacity": resources,
            "allocatable": resources,
            "conditions": [{"type": "Ready", "status": "True", "reason": "KubeletReady"}],
            "addresses": [{"type": "Hostname", "address": node.name}],
            "nodeInfo": {
                "bootID": node.boot_id,
                "machineID": uuid.uuid5(uuid.NAMESPACE_DNS, f"{node.name}.machine").hex,
                "systemUUID": str(uuid.uuid5(uuid.NAMESPACE_DNS, f"{node.name}.system")),
                "kernelVersion": "6.12.0",
                "osImage": "sandbox",
                "containerRuntimeVersion": "sandbox://1",
                "kubeletVersion": _KUBELET_VERSION,
                "kubeProxyVersion": "",
                "operatingSystem": "linux",
                "architecture": "amd64",
            },
        },
    }


def wait_ready(api: AdminApi, cluster: Cluster) -> None:
    """Wait until the node controller has taken every node in: Ready and without its taints."""
    wanted = {node.name: len(node.taints) for node in cluster.nodes}

    def all_ready(nodes: list[Object]) -> bool:
        settled = {
            node["metadata"]["name"]
            for node in nodes
            if is_ready(node) and len(node["spec"].get("taints", ())) == wanted[node["metadata"]["name"]]
        }
        return settled == set(wanted)

    api.wait_list(api.path("Node"), all_ready, timeout=120)


def is_ready(node: Object) -> bool:
    """Whether the Ready condition of a Node is True."""
    conditions = node.get("status", {}).get("conditions", ())
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
