# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Cluster files: which nodes a sandbox has and how its KubeVirt is configured.

A file in ``sandbox/clusters/`` (or anywhere) holds::

    kubevirt: true            # false: plain Kubernetes
    controllers: true         # false: etcd and the API server alone, with KubeVirt's kinds
    real: false               # true: at most nine real nodes with kubelets and guests (sandbox/real_nodes)
    configuration: {}         # KubeVirt's spec.configuration; empty is upstream's default
    heartbeat_grace: 40       # seconds without a heartbeat until a node is NotReady
    nodes:
      - name: w1              # one node, or
      - prefix: w             # w1 .. w6, two a zone in this order
        count: 6
        zones: [zone1, zone2, zone3]
        virt_handler: true    # false: none of its labels and devices, as on a control plane
        labels: {}            # beside the usual ones; null takes a usual one away
        taints: []
        allocatable: {}       # beside the usual one; null takes a resource away
        boot_id: ""           # status.nodeInfo.bootID, made from the name where not given

A real node has the labels and resources that its kubelet and virt-handler report. It gets the labels and taints of this
file, and neither resources nor a boot ID.
"""

from __future__ import annotations

import dataclasses
import re
import typing as t
import uuid
from pathlib import Path

import yaml

from . import node_labeller
from .real_nodes import network
from .releases import DEFAULT, Release

FOLDER = Path(__file__).resolve().parent / "clusters"
ZONE = "topology.kubernetes.io/zone"
_NODE_FIELDS = {
    "name",
    "prefix",
    "count",
    "zones",
    "virt_handler",
    "labels",
    "taints",
    "allocatable",
    "boot_id",
}
_NUMBERED = re.compile(r"(\d+)-(real-)?nodes-(\d+)-zones")
#: the name of a real node is that of its network interface at the bridge (IFNAMSIZ)
_REAL_NAME = re.compile(r"[a-z0-9]([-a-z0-9.]{0,13}[a-z0-9])?")
_TAKEN: t.Final = (network.BRIDGE, "lo")

#: guests run without KVM, and images are on each node already
_OF_REAL_NODES: t.Final = {
    "imagePullPolicy": "IfNotPresent",
    "developerConfiguration": {"useEmulation": True},
}
Object = dict[str, t.Any]


class ClusterFileError(ValueError):
    """A cluster file is not there or says something that is not understood."""


@dataclasses.dataclass(frozen=True)
class Node:
    """A node as it should be made."""

    name: str
    labels: t.Mapping[str, str]
    taints: t.Sequence[Object]
    allocatable: t.Mapping[str, str]
    boot_id: str


@dataclasses.dataclass(frozen=True)
class Cluster:
    """What a cluster file says."""

    name: str
    kubevirt: bool
    controllers: bool
    real: bool
    configuration: Object
    heartbeat_grace: int
    nodes: tuple[Node, ...]


def known() -> list[str]:
    """Names of the clusters in the project's own folder."""
    return sorted(path.stem for path in FOLDER.glob("*.yml"))


def load(cluster: str | Path, release: Release = DEFAULT) -> Cluster:
    """The cluster of this name (of the project's folder, or made by `numbered`), or of this file, as it is on these
    releases."""
    if numbers := _NUMBERED.fullmatch(str(cluster)):
        nodes, real, zones = numbers.groups()
        return parse(str(cluster), _content(int(nodes), int(zones), bool(real)), release)
    path = Path(cluster) if str(cluster).endswith((".yml", ".yaml")) else FOLDER / f"{cluster}.yml"
    try:
        content = yaml.safe_load(path.read_text())
    except FileNotFoundError:
        raise ClusterFileError(
            f"no cluster {cluster}: {path} is missing; known are {', '.join(known())}"
        ) from None
    return parse(path.stem, content, release)


def numbered(nodes: int, zones: int, *, real: bool = False) -> str:
    """The name of a cluster of so many nodes, evenly in so many zones (0: without zone labels)."""
    if real:
        _check_number(nodes)
    if nodes < 1 or not 0 <= zones <= nodes:
        raise ClusterFileError(
            f"a cluster of {nodes} nodes in {zones} zones: needs at least 1 node, and at most as many zones as nodes"
        )
    return f"{nodes}-{'real-' if real else ''}nodes-{zones}-zones"


def _content(nodes: int, zones: int, real: bool) -> Object:
    names = [f"zone{number}" for number in range(1, zones + 1)]
    return {
        "real": real,
        "configuration": {"evictionStrategy": "LiveMigrate"},
        "nodes": [{"prefix": "w", "count": nodes, "zones": names}],
    }


def parse(name: str, content: Object, release: Release = DEFAULT) -> Cluster:
    """The cluster that this content of a cluster file describes, over what the releases need."""
    _only(
        content,
        {"kubevirt", "controllers", "real", "configuration", "heartbeat_grace", "nodes"},
        name,
    )
    kubevirt, real = content.get("kubevirt", True), content.get("real", False)
    if real and release != DEFAULT:
        raise ClusterFileError(f"RELEASE {release.name} has no real nodes; {DEFAULT.name} has")
    configuration = _over(release.configuration, _OF_REAL_NODES if real else {})
    make = _real_nodes if real else _nodes
    cluster = Cluster(
        name=name,
        kubevirt=kubevirt,
        controllers=content.get("controllers", True),
        real=real,
        configuration=_over(configuration, content.get("configuration") or {}),
        heartbeat_grace=content.get("heartbeat_grace", 40),
        nodes=tuple(
            node for entry in content["nodes"] for node in make(entry, name, kubevirt=kubevirt)
        ),
    )
    if real:
        _check_real(cluster)
    return cluster


def _check_real(cluster: Cluster) -> None:
    """ClusterFileError for what real nodes cannot be."""
    if not (cluster.kubevirt and cluster.controllers):
        raise ClusterFileError(f"{cluster.name}: real nodes need kubevirt and controllers")
    _check_number(len(cluster.nodes))
    names = [node.name for node in cluster.nodes]
    for name in names:
        if not _REAL_NAME.fullmatch(name) or name in _TAKEN or names.count(name) > 1:
            raise ClusterFileError(
                f"{cluster.name}: a real node cannot be called {name!r}: its name is used once, is not "
                f"{' or '.join(_TAKEN)}, and has at most 15 of a-z, 0-9, - and ."
            )


def _check_number(nodes: int) -> None:
    if nodes > network.MOST_NODES:
        raise ClusterFileError(f"{nodes} real nodes: at most {network.MOST_NODES} run here")


def _nodes(entry: Object, where: str, *, kubevirt: bool) -> t.Iterator[Node]:
    """The nodes of one entry."""
    _only(entry, _NODE_FIELDS, f"{where}: node")
    kubevirt = kubevirt and entry.get("virt_handler", True)
    given = entry.get("labels") or {}
    own_cpu = any(key.startswith(node_labeller.HOST_CPU) for key in given)
    count, zones = entry.get("count", 1), entry.get("zones", ())
    for index in range(count):
        name = entry["name"] if "name" in entry else f"{entry['prefix']}{index + 1}"
        labels = _usual_labels(name, kubevirt, own_cpu)
        if zones:
            labels[ZONE] = zones[index * len(zones) // count]
        yield Node(
            name=name,
            labels=_merged(labels, given),
            taints=tuple(entry.get("taints", ())),
            allocatable=_merged(_usual_allocatable(kubevirt), entry.get("allocatable")),
            boot_id=entry.get("boot_id") or str(uuid.uuid5(uuid.NAMESPACE_DNS, f"{name}.boot")),
        )


def _real_nodes(entry: Object, where: str, *, kubevirt: bool) -> t.Iterator[Node]:
    """The nodes of one entry, with the labels and taints that are set on them after their kubelets made them."""
    _only(entry, {"name", "prefix", "count", "zones", "labels", "taints"}, f"{where}: real node")
    for node in _nodes(entry, where, kubevirt=False):
        wanted = {
            **(entry.get("labels") or {}),
            **{k: v for k, v in node.labels.items() if k == ZONE},
        }
        yield dataclasses.replace(node, labels=wanted, allocatable={})


def _usual_labels(name: str, kubevirt: bool, own_cpu: bool) -> dict[str, str]:
    labels = {
        "kubernetes.io/hostname": name,
        "kubernetes.io/arch": "amd64",
        "kubernetes.io/os": "linux",
    }
    if not kubevirt:
        return labels
    return labels | node_labeller.LABELS | ({} if own_cpu else node_labeller.CPU_LABELS)


def _usual_allocatable(kubevirt: bool) -> dict[str, str]:
    resources = {"cpu": "32", "memory": "64Gi", "pods": "110", "ephemeral-storage": "100Gi"}
    return resources | (node_labeller.DEVICES if kubevirt else {})


def _over(below: t.Mapping[str, t.Any], given: t.Mapping[str, t.Any]) -> Object:
    """The given configuration over that of the release; lists, such as featureGates, are joined."""
    result = dict(below)
    for key, value in given.items():
        if isinstance(value, dict):
            result[key] = _over(result.get(key) or {}, value)
        elif isinstance(value, list):
            result[key] = [*(result.get(key) or []), *value]
        else:
            result[key] = value
    return result


def _merged(usual: dict[str, str], given: t.Mapping[str, t.Any] | None) -> dict[str, str]:
    merged = usual | dict(given or {})
    return {key: str(value) for key, value in merged.items() if value is not None}


def _only(content: Object, allowed: set[str], where: str) -> None:
    if unknown := sorted(set(content) - allowed):
        raise ClusterFileError(f"{where}: unknown {unknown}; known are {sorted(allowed)}")
