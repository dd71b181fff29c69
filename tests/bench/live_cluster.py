# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""A generated cluster as a live API server keeps it: python -m tests.bench.live_cluster ETCD NODES VMS

Beside nodes, pods (8 kB each), VMs (5 kB) and VMIs (6 kB) there are a PersistentVolume and a migration
that has ended for each VM: what no verdict needs, and what a list of everything reads. TEAM is a
namespace of ten VMs, STRAY one of three VMs that must be apart and of which two share a node.
"""

from __future__ import annotations

import base64
import itertools
import json
import sys
import typing as t

from sandbox.etcd import Etcd

from .generator import JSON, RACK, REQUIRED, ZONE, generate
from .machines import displaced, machine

TEAM = "project-team"
STRAY = "project-stray"
TEAM_VMS = 10
STRAY_VMS = tuple(f"g00000-vm{number}" for number in range(3))

__all__ = ["RACK", "STRAY", "STRAY_VMS", "TEAM", "objects", "stray", "team"]

_LAST_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"
_STARTED = "2026-05-01T08:00:12Z"


def objects(nodes: int, vms: int) -> t.Iterator[JSON]:
    """Everything, in the storage version of each kind."""
    cluster = generate(nodes, vms - TEAM_VMS - len(STRAY_VMS), vms * 2 // 5)
    zones = {node["metadata"]["name"]: node["metadata"]["labels"][ZONE] for node in cluster.nodes}
    yield from cluster.nodes
    yield from cluster.namespaces
    for number, pod in enumerate(cluster.pods):
        yield from _with_machine(pod)
        yield _volume(pod, zones if number % 10 == 0 else {})
        yield _ended_migration(pod)
    yield from team(nodes)
    yield from stray(nodes)


def team(nodes: int) -> t.Iterator[JSON]:
    """The namespace TEAM with its VMs, VMIs and pods."""
    return _namespace(TEAM, generate(nodes, TEAM_VMS, 4, seed=7).pods)


def stray(nodes: int) -> t.Iterator[JSON]:
    """The namespace STRAY with its VMs, VMIs and pods."""
    return _namespace(STRAY, _stray_pods(nodes))


def _stray_pods(nodes: int) -> list[JSON]:
    for seed in itertools.count():
        cluster = generate(nodes, len(STRAY_VMS), 1, seed=seed)
        if REQUIRED in cluster.pods[0]["spec"]["affinity"].get("podAntiAffinity", {}):
            return list(displaced(cluster.pods, cluster.nodes, every=1))
    raise AssertionError("unreachable")


def _namespace(name: str, pods: t.Iterable[JSON]) -> t.Iterator[JSON]:
    labels = {"kubernetes.io/metadata.name": name}
    yield {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": labels}}
    for pod in pods:
        pod["metadata"]["namespace"] = name
        yield from _with_machine(pod)


def _with_machine(pod: JSON) -> t.Iterator[JSON]:
    """The pod, its VM and its VMI with what KubeVirt and clients add to them."""
    vm, vmi = machine(pod)
    cloud_init = {"cloudInitNoCloud": {"userData": _user_data(vm["metadata"]["name"])}}
    for spec in (vm["spec"]["template"]["spec"], vmi["spec"]):
        spec["volumes"] = [*spec["volumes"], {"name": "cloudinitdisk", **cloud_init}]
        disks = [*spec["domain"]["devices"]["disks"], _disk("cloudinitdisk")]
        interfaces = [{"name": "default", "masquerade": {}, "model": "virtio"}]
        spec["domain"]["devices"] = {"disks": disks, "interfaces": interfaces, "rng": {}}
    vm["status"] |= {
        "desiredGeneration": 1,
        "observedGeneration": 1,
        "printableStatus": "Running",
        "ready": True,
        "runStrategy": "Always",
        "volumeSnapshotStatuses": [_snapshot_status(volume) for volume in _names(vmi)],
    }
    vmi["status"] |= _vmi_status(pod, _names(vmi))
    for kind, entry in (("VirtualMachine", vm), ("VirtualMachineInstance", vmi)):
        entry |= {"apiVersion": "kubevirt.io/v1", "kind": kind}
        metadata = entry["metadata"]
        metadata.pop("resourceVersion", None)
        metadata |= {
            "annotations": {
                "kubevirt.io/latest-observed-api-version": "v1",
                "kubevirt.io/storage-observed-api-version": "v1",
                "kubevirt.io/vm-generation": "1",
            },
            "creationTimestamp": _STARTED,
            "finalizers": ["kubevirt.io/virtualMachineControllerFinalize"],
            "generation": 1,
        }
        if kind == "VirtualMachine":
            metadata["annotations"][_LAST_APPLIED] = json.dumps({"spec": entry["spec"]})
        metadata["managedFields"] = [
            _managed(
                "kubectl-client-side-apply", "", {"metadata": metadata, "spec": entry["spec"]}
            ),
            _managed("virt-controller", "status", {"status": entry["status"]}),
        ]
    pod["metadata"].pop("resourceVersion", None)
    yield from (pod, vm, vmi)


def _names(vmi: JSON) -> list[str]:
    return [volume["name"] for volume in vmi["spec"]["volumes"]]


def _disk(name: str) -> JSON:
    return {"name": name, "disk": {"bus": "virtio"}}


def _user_data(name: str) -> str:
    keys = base64.b64encode(name.encode() * 45).decode()
    return f"#cloud-config\nhostname: {name}\nssh_authorized_keys:\n  - ssh-ed25519 {keys}\n"


def _snapshot_status(volume: str) -> JSON:
    reason = f"No VolumeSnapshotClass: Volume snapshots are not configured for this StorageClass [{volume}]"
    return {"enabled": False, "name": volume, "reason": reason}


def _vmi_status(pod: JSON, volumes: list[str]) -> JSON:
    phases = ("Pending", "Scheduling", "Scheduled", "Running")
    return {
        "currentCPUTopology": {"cores": 2, "sockets": 1, "threads": 1},
        "guestOSInfo": {
            "id": "fedora",
            "kernelRelease": "6.12.7-200.fc42.x86_64",
            "kernelVersion": "#1 SMP PREEMPT_DYNAMIC Fri Dec 27 17:05:33 UTC 2024",
            "machine": "x86_64",
            "name": "Fedora Linux",
            "prettyName": "Fedora Linux 42 (Cloud Edition)",
            "version": "42 (Cloud Edition)",
            "versionId": "42",
        },
        "interfaces": [
            {
                "infoSource": "domain, guest-agent",
                "interfaceName": "eth0",
                "ipAddress": pod["status"]["podIP"],
                "ipAddresses": [pod["status"]["podIP"], "fe80::858:aff:fe80:1"],
                "mac": "02:00:00:00:00:01",
                "name": "default",
                "podInterfaceName": "eth0",
                "queueCount": 1,
            }
        ],
        "launcherContainerImageVersion": "quay.example/kubevirt/virt-launcher@sha256:" + "0" * 64,
        "machine": {"type": "pc-q35-rhel9.6.0"},
        "memory": {"guestAtBoot": "4Gi", "guestCurrent": "4Gi", "guestRequested": "4Gi"},
        "migrationMethod": "LiveMigration",
        "migrationTransport": "Unix",
        "phaseTransitionTimestamps": [
            {"phase": phase, "phaseTransitionTimestamp": _STARTED} for phase in phases
        ],
        "qosClass": "Burstable",
        "runtimeUser": 107,
        "selinuxContext": "system_u:object_r:container_file_t:s0:c1,c2",
        "virtualMachineRevisionName": f"revision-start-vm-{pod['metadata']['uid']}-1",
        "volumeStatus": [{"name": name, "target": "vda"} for name in volumes],
    }


def _managed(manager: str, subresource: str, fields: JSON) -> JSON:
    return {
        "apiVersion": "kubevirt.io/v1",
        "fieldsType": "FieldsV1",
        "fieldsV1": _fields(fields),
        "manager": manager,
        "operation": "Update",
        "time": _STARTED,
        **({"subresource": subresource} if subresource else {}),
    }


def _fields(value: t.Any) -> JSON:
    """The names of fields as metav1.FieldsV1 writes them."""
    if not isinstance(value, dict):
        return {}
    return {f"f:{name}": _fields(inner) for name, inner in value.items()}


def _volume(pod: JSON, zones: t.Mapping[str, str]) -> JSON:
    """The volume of a VM's root disk; with `zones` one that only the nodes of its zone reach."""
    namespace, name = pod["metadata"]["namespace"], pod["metadata"]["ownerReferences"][0]["name"]
    uid = pod["metadata"]["uid"]
    spec: JSON = {
        "accessModes": ["ReadWriteMany"],
        "capacity": {"storage": "30Gi"},
        "claimRef": {
            "apiVersion": "v1",
            "kind": "PersistentVolumeClaim",
            "name": f"{name}-root",
            "namespace": namespace,
            "uid": uid,
        },
        "csi": {
            "driver": "openshift-storage.rbd.csi.ceph.com",
            "controllerExpandSecretRef": {"name": "rook-csi-rbd-provisioner", "namespace": "rook"},
            "nodeStageSecretRef": {"name": "rook-csi-rbd-node", "namespace": "rook"},
            "volumeAttributes": {
                "clusterID": "rook",
                "imageFeatures": "layering,deep-flatten,exclusive-lock,object-map,fast-diff",
                "imageName": f"csi-vol-{uid}",
                "pool": "replicapool",
                "storage.kubernetes.io/csiProvisionerIdentity": "1714550000000-8081-rbd",
            },
            "volumeHandle": f"0001-0004-rook-0000000000000001-{uid}",
        },
        "persistentVolumeReclaimPolicy": "Delete",
        "storageClassName": "ceph-block",
        "volumeMode": "Block",
    }
    if zones:
        here = {"key": ZONE, "operator": "In", "values": [zones[pod["spec"]["nodeName"]]]}
        spec["nodeAffinity"] = {"required": {"nodeSelectorTerms": [{"matchExpressions": [here]}]}}
    entry: JSON = {
        "apiVersion": "v1",
        "kind": "PersistentVolume",
        "metadata": {
            "name": f"pvc-{uid}",
            "uid": f"pv-{uid}",
            "creationTimestamp": _STARTED,
            "annotations": {
                "pv.kubernetes.io/provisioned-by": "openshift-storage.rbd.csi.ceph.com"
            },
            "finalizers": ["kubernetes.io/pv-protection"],
        },
        "spec": spec,
        "status": {"phase": "Bound", "lastPhaseTransitionTime": _STARTED},
    }
    entry["metadata"]["managedFields"] = [_managed("csi-provisioner", "", {"spec": spec})]
    return entry


def _ended_migration(pod: JSON) -> JSON:
    namespace, name = pod["metadata"]["namespace"], pod["metadata"]["ownerReferences"][0]["name"]
    uid = pod["metadata"]["uid"]
    phases = (
        "Pending",
        "Scheduling",
        "Scheduled",
        "PreparingTarget",
        "TargetReady",
        "Running",
        "Succeeded",
    )
    node = pod["spec"]["nodeName"]
    status = {
        "phase": "Succeeded",
        "migrationState": {
            "completed": True,
            "startTimestamp": _STARTED,
            "endTimestamp": _STARTED,
            "migrationUid": f"migration-{uid}",
            "mode": "PreCopy",
            "sourceNode": node,
            "targetNode": node,
            "sourcePod": f"virt-launcher-{name}-aaaaa",
            "targetPod": pod["metadata"]["name"],
            "targetDirectMigrationNodePorts": {"36467": 0, "42271": 49152},
            "targetNodeAddress": pod["status"]["hostIP"],
            "targetNodeDomainReadyTimestamp": _STARTED,
            "migrationConfiguration": {
                "allowAutoConverge": False,
                "allowPostCopy": False,
                "bandwidthPerMigration": "0",
                "completionTimeoutPerGiB": 150,
                "parallelMigrationsPerCluster": 5,
                "parallelOutboundMigrationsPerNode": 2,
                "progressTimeout": 150,
            },
        },
        "phaseTransitionTimestamps": [
            {"phase": phase, "phaseTransitionTimestamp": _STARTED} for phase in phases
        ],
    }
    entry: JSON = {
        "apiVersion": "kubevirt.io/v1",
        "kind": "VirtualMachineInstanceMigration",
        "metadata": {
            "name": f"{name}-ended",
            "namespace": namespace,
            "uid": f"migration-{uid}",
            "creationTimestamp": _STARTED,
            "labels": {"kubevirt.io/vmi-name": name},
        },
        "spec": {"vmiName": name},
        "status": status,
    }
    entry["metadata"]["managedFields"] = [
        _managed("virt-controller", "", {"spec": entry["spec"], "status": status})
    ]
    return entry


if __name__ == "__main__":
    print(Etcd(sys.argv[1]).put_all(objects(int(sys.argv[2]), int(sys.argv[3]))))
