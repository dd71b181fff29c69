# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What do objects of Cluster API and its providers say about the hosts of machines?

Fields and their names: cluster-api api/v1beta1 and v1beta2 machine_types.go; cluster-api-provider-vsphere
apis/v1beta1 vspherevm_types.go, vspherecluster_types.go and pkg/services/network SanitizeHostInfoLabel; harvester
docker-machine-driver-harvester; cluster-api-provider-kubevirt pkg/kubevirt/utils.go.
"""

from __future__ import annotations

import ipaddress
import re
import typing as t
from dataclasses import dataclass

from ..model.json_pointer import Object
from ..model.objects import Labels, Ref

HOST_KEY = "node.cluster.x-k8s.io/esxi-host"
"""Label of Machines and Nodes with the ESXi host (cluster-api-provider-vsphere, ESXiHostInfoLabel)."""

_CAPI = "cluster.x-k8s.io/"
_CLUSTER = f"{_CAPI}cluster-name"
_DEPLOYMENT = f"{_CAPI}deployment-name"
_CONTROL_PLANE = f"{_CAPI}control-plane"
_CONTROL_PLANE_NAME = f"{_CAPI}control-plane-name"
_ROLE = f"{_CAPI}role"
_HARVESTER_CLUSTER = "guestcluster.harvesterhci.io/name"
_HARVESTER_POOL = "harvesterhci.io/machineSetName"

CONTROL_PLANE = "KubeadmControlPlane"
DEPLOYMENT = "MachineDeployment"
POOL = "MachinePool"


_LIMIT = 63


def host_label(host: str) -> str:
    """The label value of a host name or address, as cluster-api-provider-vsphere writes it."""
    name = host.partition("%")[0]
    try:
        address = ipaddress.ip_address(name)
    except ValueError:
        return name[:_LIMIT]
    return name if address.version == 4 else f"{name.replace(':', '-')}.ipv6-literal"


@dataclass(frozen=True)
class Group:
    """The machines that one object creates: a control plane, a MachineDeployment, a pool of VMs."""

    kind: str
    name: str


@dataclass(frozen=True)
class HostedNode:
    """A machine with its node and host; each may be empty. `label` is what its Machine's own label has. `missing`:
    why there is no host."""

    ref: Ref
    cluster: str
    group: Group
    node: str = ""
    host: str = ""
    label: str = ""
    missing: str = ""

    @property
    def value(self) -> str:
        """The value of the label for the node."""
        return self.label or host_label(self.host)


def machines_of_vsphere(
    machines: t.Iterable[Object], vms: t.Iterable[Object]
) -> tuple[HostedNode, ...]:
    """The Machines with the hosts of their VSphereVMs."""
    by_name: dict[tuple[str, str], Object] = {}
    for vm in vms:
        metadata = vm["metadata"]
        owners = (owner["name"] for owner in metadata.get("ownerReferences") or ())
        for name in (metadata["name"], *owners):
            by_name.setdefault((metadata["namespace"], str(name)), vm)
    return tuple(_machine(machine, by_name) for machine in machines)


def _machine(machine: Object, vms: t.Mapping[tuple[str, str], Object]) -> HostedNode:
    metadata, spec = machine["metadata"], machine.get("spec") or {}
    labels: Labels = metadata.get("labels") or {}
    node = str(((machine.get("status") or {}).get("nodeRef") or {}).get("name") or "")
    infrastructure = spec.get("infrastructureRef") or {}
    names = (str(infrastructure.get("name") or ""), node, str(metadata["name"]))
    vm = next((vms[key] for name in names if (key := (metadata["namespace"], name)) in vms), None)
    host = str(((vm or {}).get("status") or {}).get("host") or "")
    missing = ""
    if vm is None:
        kind = infrastructure.get("kind") or "its infrastructure"
        missing = f"no VSphereVM belongs to it ({kind} {names[0] or 'without a name'})"
    elif not host:
        missing = (
            f"status.host of VSphereVM {metadata['namespace']}/{vm['metadata']['name']} is empty"
        )
    return HostedNode(
        Ref("Machine", str(metadata["namespace"]), str(metadata["name"])),
        str(spec.get("clusterName") or labels.get(_CLUSTER) or ""),
        _group(labels, metadata.get("ownerReferences") or ()),
        node,
        host,
        str(labels.get(HOST_KEY) or ""),
        missing,
    )


def _group(labels: Labels, owners: t.Sequence[Object]) -> Group:
    if _CONTROL_PLANE in labels:
        owner = next((str(x["name"]) for x in owners if x.get("controller")), "")
        return Group(CONTROL_PLANE, labels.get(_CONTROL_PLANE_NAME) or owner)
    return Group(DEPLOYMENT, labels.get(_DEPLOYMENT, ""))


def machines_of_kubevirt(vmis: t.Iterable[Object]) -> tuple[HostedNode, ...]:
    """The VMIs that are nodes of guest clusters. A node has the name of its VMI; its host is the node of the VMI."""
    return tuple(
        HostedNode(
            Ref("VirtualMachineInstance", str(metadata["namespace"]), str(metadata["name"])),
            cluster,
            Group(
                POOL,
                labels.get(_HARVESTER_POOL) or labels.get(_DEPLOYMENT) or labels.get(_ROLE, ""),
            ),
            str(metadata["name"]),
            host := str((vmi.get("status") or {}).get("nodeName") or ""),
            missing="" if host else "status.nodeName of the VMI is empty: it does not run",
        )
        for vmi in vmis
        for metadata in (vmi["metadata"],)
        for labels in (metadata.get("labels") or {},)
        if (cluster := _guest_cluster(labels, str(metadata["namespace"])))
    )


def _guest_cluster(labels: Labels, namespace: str) -> str:
    """The guest cluster of a VMI. Older node drivers of Harvester write it only into the name of the machine set:
    namespace, cluster and pool, with dashes between."""
    named = labels.get(_HARVESTER_CLUSTER) or labels.get(_CLUSTER)
    if named:
        return named
    prefix = f"{namespace}-"
    pool = labels.get(_HARVESTER_POOL, "")
    return pool.removeprefix(prefix).rpartition("-")[0] if pool.startswith(prefix) else ""


@dataclass(frozen=True)
class Controller:
    """The controller of a provider: its release, (0, 0) where it is not known, and its feature gates."""

    version: str
    release: tuple[int, int]
    gates: t.Mapping[str, bool]


_RELEASE = re.compile(r"v?(\d+)\.(\d+)")


def controller_from(deployment: Object) -> Controller:
    """From a Deployment such as capv-controller-manager: the tag of its image and --feature-gates."""
    pod = ((deployment.get("spec") or {}).get("template") or {}).get("spec") or {}
    containers = pod.get("containers") or [{}]
    container = next((x for x in containers if x.get("name") == "manager"), containers[0])
    name = str(container.get("image") or "").partition("@")[0].rpartition("/")[2]
    version = name.partition(":")[2]  # empty for an image by digest alone
    match = _RELEASE.match(version)
    arguments = [*(container.get("command") or ()), *(container.get("args") or ())]
    gates: dict[str, bool] = {}
    for number, argument in enumerate(arguments):
        name, _equals, value = str(argument).partition("=")
        if name.lstrip("-") != "feature-gates":
            continue
        text = value or str(next(iter(arguments[number + 1 :]), ""))
        for pair in text.split(","):
            gate, _equals, state = pair.partition("=")
            gates[gate.strip()] = state.strip().lower() == "true"
    return Controller(version, (int(match[1]), int(match[2])) if match else (0, 0), gates)


@dataclass(frozen=True)
class VSphereSettings:
    """What a VSphereCluster says of cluster modules. `modules`: UUIDs by whether it is a control plane, and name."""

    modules: t.Mapping[tuple[bool, str], str]
    disabled: bool
    vcenter: str


def settings_from(cluster: Object) -> VSphereSettings:
    spec = cluster.get("spec") or {}
    modules = {
        (bool(x.get("controlPlane")), str(x.get("targetObjectName"))): str(
            x.get("moduleUUID") or ""
        )
        for x in spec.get("clusterModules") or ()
    }
    vcenter = str((cluster.get("status") or {}).get("vCenterVersion") or "")
    return VSphereSettings(modules, bool(spec.get("disableClusterModule")), vcenter)


def cluster_of(cluster: Object) -> str:
    """The name of the Cluster that owns an infrastructure cluster."""
    metadata = cluster["metadata"]
    owners = metadata.get("ownerReferences") or ()
    owner = next((str(x["name"]) for x in owners if x.get("kind") == "Cluster"), "")
    return owner or str((metadata.get("labels") or {}).get(_CLUSTER) or metadata["name"])
