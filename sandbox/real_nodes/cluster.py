# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The real nodes of a sandbox, and the network that they share with its control plane."""

from __future__ import annotations

import shutil
import sys
import time
import typing as t
from pathlib import Path

from .. import certificates, identities, nodes, processes
from ..admin_api import AdminApi
from ..cluster_file import Cluster
from ..control_plane import ControlPlane
from ..layout import Layout
from . import control_groups, files, network, power
from .node import Node

KEYS = "node-keys"
"""Folder of a sandbox with what kubelets and virt-handlers identify themselves by."""

ADDRESS = network.ADDRESS
_TIMEOUT = 600.0
_SCHEDULABLE = "kubevirt.io/schedulable"
Object = dict[str, t.Any]


class RealNodes:
    """The nodes of a cluster file, as machines. Their processes belong to the sandbox's supervisor."""

    def __init__(self, directory: Path, cluster: Cluster, api: AdminApi) -> None:
        self._directory, self._cluster, self._api = directory, cluster, api
        self._labels: dict[str, Object] = {}

    def __getitem__(self, name: str) -> Node:
        if name not in self.names():
            raise KeyError(f"no node {name}; there are {', '.join(self.names())}")
        return Node(name, self._directory / "nodes" / name)

    def names(self) -> list[str]:
        """The names of all nodes."""
        return [node.name for node in self._cluster.nodes]

    def boot(self, control_plane: ControlPlane) -> None:
        """Start the machines; they join the cluster by themselves."""
        groups = groups_of(self._directory)
        built = files.find()
        keys = self._directory / KEYS
        for number, name in enumerate(self.names(), 1):
            folder = self[name].directory
            folder.mkdir(parents=True)
            (folder / "power").write_text(power.ON)
            control_plane.run(
                f"node-{name}",
                "-I",
                "-S",
                power.__file__,
                folder,
                name,
                number,
                groups,
                f"/proc/{control_plane.network}/ns/net",
                built.programs,
                built.images,
                built.root,
                keys,
                program=Path(sys.executable),
                outside=True,
            )

    def wait_ready(self, control_plane: ControlPlane) -> None:
        """Wait until each node takes VMs, and give it the labels and taints of the cluster file."""
        control_plane.wait("the nodes take VMs", self.all_ready, _TIMEOUT)
        for node in self._cluster.nodes:
            path = self._api.path("Node", name=node.name)
            spec = {"taints": [dict(taint) for taint in node.taints] or None}
            wanted = {"metadata": {"labels": dict(node.labels)}, "spec": spec}
            self._labels[node.name] = self._api.patch(path, wanted)["metadata"]["labels"]

    def all_ready(self) -> bool:
        """Whether every node is Ready, without taints of its controllers, and virt-handler works on it."""
        seen = self._api.list(self._api.path("Node"))
        ready = {
            node["metadata"]["name"]
            for node in seen
            if nodes.is_ready(node)
            and node["metadata"]["labels"].get(_SCHEDULABLE) == "true"
            and not any(x["key"].startswith("node.") for x in node["spec"].get("taints", ()))
        }
        return ready == set(self.names())

    def restore(self) -> None:
        """Every node runs, with all services and with the labels and taints that it had first."""
        for name in self.names():
            self[name].power_on()
            self[name].start("containerd", "kubelet", "virt-handler")
        deadline = time.monotonic() + _TIMEOUT
        for node in self._cluster.nodes:
            path = self._api.path("Node", name=node.name)
            current = self._api.get(path)["metadata"]["labels"]
            first = self._labels.get(node.name, current)
            own = {key for key in current if "kubevirt.io/" in key}  # written by virt-handler
            labels = {**dict.fromkeys(set(current) - own - set(first)), **dict(node.labels)}
            taints = [dict(taint) for taint in node.taints] or None
            spec = {"unschedulable": None, "taints": taints}
            self._api.patch(path, {"metadata": {"labels": labels}, "spec": spec})
        while not self.all_ready():
            if time.monotonic() > deadline:
                raise processes.ProcessError(f"the nodes do not take VMs after {_TIMEOUT:g} s")
            time.sleep(0.5)


def remove_groups_at_end(supervisor: processes.Supervisor) -> None:
    """Let the supervisor remove the control groups after the end of all nodes."""
    groups = groups_of(supervisor.directory)
    supervisor.at_end([sys.executable, "-I", "-S", control_groups.__file__, "remove", groups])


def start_network(control_plane: ControlPlane) -> None:
    """Let all programs that start from now on run in a network of their own."""
    layout = control_plane.layout
    ready = layout.directory / "network"
    pid = control_plane.run(
        "network",
        "-I",
        "-S",
        network.__file__,
        ready,
        *layout.ports.values(),
        program=Path(sys.executable),
    )
    control_plane.wait("the network of the nodes is there", ready.exists)
    control_plane.network = pid


def write_keys(layout: Layout, names: t.Iterable[str]) -> None:
    """Write what nodes need to identify themselves, which is all that they see of the sandbox's keys."""
    keys = layout.directory / KEYS
    keys.mkdir(mode=0o700)
    for name in certificates.VIRT_HANDLER:
        for ending in ("crt", "key"):
            shutil.copy(layout.pki / f"{name}.{ending}", keys)
    for name in ("kubevirt-handler", *names):
        content = identities.for_nodes(layout, name, network.ADDRESS)
        (keys / f"{name}.kubeconfig").write_text(content)


def groups_of(directory: Path) -> str:
    """The name of the control groups of a sandbox; its supervisor's process is in it."""
    holder = (processes.PidFile(directory).read() or {})["supervisor"]
    return control_groups.name_of(holder["pid"], holder["started"])


def virt_handlers() -> Object:
    """A pod for each virt-handler: virt-api finds the process, which runs beside it, by the pod's address."""
    labels = {"kubevirt.io": "virt-handler"}
    container = {"name": "virt-handler", "image": "pause", "imagePullPolicy": "IfNotPresent"}
    spec = {
        "hostNetwork": True,
        "containers": [container],
        "tolerations": [{"operator": "Exists"}],
    }
    template = {"metadata": {"labels": labels}, "spec": spec}
    return {
        "apiVersion": "apps/v1",
        "kind": "DaemonSet",
        "metadata": {"name": "virt-handler", "namespace": "kubevirt", "labels": labels},
        "spec": {"selector": {"matchLabels": labels}, "template": template},
    }
