# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""A small cluster as an API server returns it: two namespaces with one workload of each kind.

`shop` belongs to the others, `tenant` to the tenant whose objects are changed. The VMs of `shop` have
rules that the module `rules` wrote; two of them violate one.
"""

from __future__ import annotations

import copy
import typing as t

Object = dict[str, t.Any]
Objects = dict[str, Object]
"""Objects by path."""

OTHERS, TENANT = "shop", "tenant"
ZONE = "topology.kubernetes.io/zone"
HOSTNAME = "kubernetes.io/hostname"
SCHEDULABLE = "kubevirt.io/schedulable"
MACHINE_TYPE = "machine-type.node.kubevirt.io/q35"
CREATED_BY = "kubevirt.io/created-by"
KUBEVIRT = "kubevirt.io/v1"
NODES = {"w1": "a", "w2": "a", "w3": "b", "w4": "c"}

RULES: list[Object] = [
    {"name": "web-apart", "workloads": ["web0", "web1", "web2"], "keep_apart": "zone"},
    {"name": "db-fast", "workloads": ["db0", "off0"], "run_on": {"performance": "high"}},
    {
        "name": "cache-even",
        "workloads": [{"kind": "Deployment", "name": "cache"}],
        "spread": {"topology_key": "zone", "max_skew": 1},
    },
    {
        "name": "app-near-db",
        "workloads": ["web2"],
        "keep_together": {"topology_key": "zone", "with": "db0"},
        "preferred": True,
    },
]

_CAPACITY = {
    "cpu": "8",
    "memory": "32Gi",
    "pods": "110",
    "devices.kubevirt.io/kvm": "1k",
    "ephemeral-storage": "100Gi",
}
_READY = [{"type": "Ready", "status": "True"}]


def path_of(item: Object) -> str:
    version, metadata = item["apiVersion"], item["metadata"]
    root = f"/api/{version}" if version == "v1" else f"/apis/{version}"
    inside = f"/namespaces/{metadata['namespace']}" if metadata.get("namespace") else ""
    return f"{root}{inside}/{item['kind'].lower()}s/{metadata['name']}"


def objects() -> Objects:
    return {path_of(item): item for item in copy.deepcopy([*_platform(), *_nodes(), *_of_both()])}


def _of_both() -> t.Iterator[Object]:
    for namespace in (OTHERS, TENANT):
        yield _object("v1", "Namespace", namespace, metadata={"labels": {"name": namespace}})
        yield from _workloads(namespace)


def _object(version: str, kind: str, name: str, namespace: str = "", **rest: t.Any) -> Object:
    metadata = {"name": name, "uid": f"{kind}-{namespace}-{name}".lower(), "resourceVersion": "1"}
    if namespace:
        metadata["namespace"] = namespace
    metadata |= rest.pop("metadata", {})
    return {"apiVersion": version, "kind": kind, "metadata": metadata, **rest}


def _platform() -> t.Iterator[Object]:
    yield _object("v1", "Namespace", "kube-system")
    yield _object(
        KUBEVIRT,
        "KubeVirt",
        "kubevirt",
        "kubevirt",
        spec={"configuration": {"evictionStrategy": "LiveMigrate"}},
        status={"observedKubeVirtVersion": "v1.8.4"},
    )
    yield _object(
        "coordination.k8s.io/v1",
        "Lease",
        "virt-placement",
        "kube-system",
        metadata={"annotations": {"placement.virt/journal": ""}},
        spec={"holderIdentity": "", "leaseTransitions": 3},
    )


def _nodes() -> t.Iterator[Object]:
    for name, zone in NODES.items():
        labels = {ZONE: zone, HOSTNAME: name, SCHEDULABLE: "true", MACHINE_TYPE: "true"}
        if name in ("w1", "w3"):
            labels["performance"] = "high"
        status = {
            "allocatable": _CAPACITY,
            "capacity": _CAPACITY,
            "conditions": _READY,
            "nodeInfo": {"bootID": f"boot-{name}"},
        }
        yield _object("v1", "Node", name, metadata={"labels": labels}, spec={}, status=status)


def _workloads(namespace: str) -> t.Iterator[Object]:
    for name, node in (("web0", "w1"), ("web1", "w2"), ("web2", "w3"), ("db0", "w1")):
        yield from _virtual_machine(namespace, name, node)
    yield from list(_virtual_machine(namespace, "off0", ""))[:1]
    yield from _replicas_of_vms(namespace)
    yield from _pool(namespace)
    yield from _deployment(namespace)
    yield from _stateful_set(namespace)
    yield _migration(namespace)
    yield _object(
        "v1",
        "ResourceQuota",
        "quota",
        namespace,
        spec={"hard": {"pods": "50", "requests.cpu": "40"}},
        status={"hard": {"pods": "50", "requests.cpu": "40"}, "used": {"pods": "10"}},
    )
    yield _object(
        "policy/v1",
        "PodDisruptionBudget",
        "cache",
        namespace,
        spec={"minAvailable": 1, "selector": {"matchLabels": {"app": "cache"}}},
        status={"disruptionsAllowed": 1, "currentHealthy": 2, "desiredHealthy": 1},
    )


def _template(name: str) -> Object:
    return {
        "metadata": {"labels": {"app": name.rstrip("0123456789"), "vm": name}},
        "spec": {
            "domain": {
                "cpu": {"cores": 1},
                "memory": {"guest": "512Mi"},
                "resources": {"requests": {"cpu": "100m", "memory": "512Mi"}},
                "devices": {"disks": [{"name": "root", "disk": {"bus": "virtio"}}]},
            },
            "evictionStrategy": "LiveMigrate",
            "networks": [{"name": "default", "pod": {}}],
            "volumes": [{"name": "root", "persistentVolumeClaim": {"claimName": f"{name}-root"}}],
        },
    }


def _virtual_machine(namespace: str, name: str, node: str) -> t.Iterator[Object]:
    """The VM, and where it runs its VMI and its launcher pod."""
    template = _template(name)
    vm = _object(
        KUBEVIRT,
        "VirtualMachine",
        name,
        namespace,
        metadata={"labels": {"app": name}, "annotations": {"example.com/owner": "team"}},
        spec={"runStrategy": "Always" if node else "Halted", "template": template},
        status={
            "printableStatus": "Running" if node else "Stopped",
            "conditions": _READY if node else [],
        },
    )
    yield vm
    vmi, pod = _vmi(namespace, name, node or "w1", vm, template)
    revision = _revision(vm, vmi)
    vmi["status"]["virtualMachineRevisionName"] = revision["metadata"]["name"]
    yield from (vmi, pod, revision)


def _revision(vm: Object, vmi: Object) -> Object:
    """What the VM was when its VMI started (KubeVirt, virt-controller, createVMRevision)."""
    return _object(
        "apps/v1",
        "ControllerRevision",
        f"revision-start-vm-{vm['metadata']['uid']}-1",
        vm["metadata"]["namespace"],
        metadata=_owned_by(vmi),
        data={"spec": vm["spec"]},
        revision=1,
    )


def _vmi(
    namespace: str, name: str, node: str, owner: Object, template: Object
) -> t.Iterator[Object]:
    labels = {**template["metadata"]["labels"], "kubevirt.io/nodeName": node}
    vmi = _object(
        KUBEVIRT,
        "VirtualMachineInstance",
        name,
        namespace,
        metadata={"labels": labels, **_owned_by(owner)},
        spec=template["spec"],
        status={
            "phase": "Running",
            "nodeName": node,
            "conditions": [*_READY, {"type": "LiveMigratable", "status": "True"}],
        },
    )
    uid = vmi["metadata"]["uid"]
    pod = _object(
        "v1",
        "Pod",
        f"virt-launcher-{name}-x1",
        namespace,
        metadata={
            "labels": {
                **labels,
                "kubevirt.io": "virt-launcher",
                CREATED_BY: uid,
                "vm.kubevirt.io/name": name,
                "vmi.kubevirt.io/id": name,
            },
            "annotations": {"kubevirt.io/domain": name},
            **_owned_by(vmi),
        },
        spec={
            "nodeName": node,
            "nodeSelector": {SCHEDULABLE: "true"},
            "containers": [_container("compute")],
            "volumes": template["spec"]["volumes"],
            "tolerations": [],
        },
        status={"phase": "Running", "conditions": _READY},
    )
    vmi["status"]["activePods"] = {pod["metadata"]["uid"]: node}
    yield vmi
    yield pod


def _container(name: str) -> Object:
    return {
        "name": name,
        "resources": {"requests": {"cpu": "100m", "memory": "512Mi"}},
        "ports": [],
    }


def _owned_by(owner: Object) -> Object:
    reference = {
        "apiVersion": owner["apiVersion"],
        "kind": owner["kind"],
        "name": owner["metadata"]["name"],
        "uid": owner["metadata"]["uid"],
        "controller": True,
    }
    return {"ownerReferences": [reference]}


def _replicated(
    version: str, kind: str, name: str, namespace: str, *, replicas: int = 1, **spec: t.Any
) -> Object:
    """A workload that makes its instances from a template in its spec."""
    spec |= {"replicas": replicas, "selector": {"matchLabels": {"app": name}}}
    return _object(version, kind, name, namespace, spec=spec, status={"replicas": replicas})


def _replicas_of_vms(namespace: str) -> t.Iterator[Object]:
    template = _template("set0")
    kind = "VirtualMachineInstanceReplicaSet"
    workload = _replicated(KUBEVIRT, kind, "set", namespace, template=template)
    yield workload
    yield from _vmi(namespace, "set0", "w4", workload, template)


def _pool(namespace: str) -> t.Iterator[Object]:
    template = _template("pool0")
    vms = {
        "metadata": {"labels": {"app": "pool"}},
        "spec": {"runStrategy": "Always", "template": template},
    }
    version, kind = "pool.kubevirt.io/v1beta1", "VirtualMachinePool"
    workload = _replicated(version, kind, "pool", namespace, virtualMachineTemplate=vms)
    yield workload
    vm, *started = _virtual_machine(namespace, "pool0", "w4")
    vm["metadata"] |= _owned_by(workload)
    yield from (vm, *started)


def _pod_template(name: str) -> Object:
    return {
        "metadata": {"labels": {"app": name}},
        "spec": {"containers": [_container(name)]},
    }


def _pods(namespace: str, owner: Object, name: str, nodes: t.Iterable[str]) -> t.Iterator[Object]:
    for number, node in enumerate(nodes):
        yield _object(
            "v1",
            "Pod",
            f"{name}-{number}",
            namespace,
            metadata={"labels": {"app": name, "pod-template-hash": "h1"}, **_owned_by(owner)},
            spec={"nodeName": node, "containers": [_container(name)]},
            status={"phase": "Running", "conditions": _READY},
        )


def _deployment(namespace: str) -> t.Iterator[Object]:
    deployment = _replicated(
        "apps/v1",
        "Deployment",
        "cache",
        namespace,
        replicas=2,
        strategy={"rollingUpdate": {"maxSurge": "25%", "maxUnavailable": "25%"}},
        template=_pod_template("cache"),
    )
    deployment["status"]["conditions"] = [{"type": "Available", "status": "True"}]
    replica_set = _object(
        "apps/v1",
        "ReplicaSet",
        "cache-h1",
        namespace,
        metadata=_owned_by(deployment),
        spec={"replicas": 2},
    )
    yield deployment
    yield replica_set
    yield from _pods(namespace, replica_set, "cache-h1", ("w1", "w3"))


def _stateful_set(namespace: str) -> t.Iterator[Object]:
    stateful_set = _replicated(
        "apps/v1",
        "StatefulSet",
        "queue",
        namespace,
        template=_pod_template("queue"),
        updateStrategy={"type": "RollingUpdate"},
    )
    yield stateful_set
    yield from _pods(namespace, stateful_set, "queue", ("w2",))


def _migration(namespace: str) -> Object:
    """One that has ended: those in flight count against KubeVirt's limits."""
    return _object(
        KUBEVIRT,
        "VirtualMachineInstanceMigration",
        "earlier",
        namespace,
        spec={"vmiName": "web0"},
        status={"phase": "Succeeded"},
    )


def of_kind(objects: Objects, *kinds: str) -> list[str]:
    return [
        path
        for path, item in objects.items()
        if item["metadata"].get("namespace") == TENANT and (not kinds or item["kind"] in kinds)
    ]


WORKLOADS = (
    "VirtualMachine",
    "VirtualMachineInstanceReplicaSet",
    "VirtualMachinePool",
    "Deployment",
    "StatefulSet",
)


def template_of(item: Object) -> Object:
    spec = item["spec"]
    if item["kind"] == "VirtualMachinePool":
        spec = spec["virtualMachineTemplate"]["spec"]
    return t.cast(Object, spec["template"])
