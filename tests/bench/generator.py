# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""A large KubeVirt cluster as the API server would return it: same seed, same cluster.

Pods have the fields and the size of virt-launcher pods (8 to 10 kB of JSON each), nodes carry the
labels of KubeVirt's node-labeller. Virtual machines come in groups with rules of every kind, most
of them obeyed, some not. A node is taken for its zone, rack and spare room, never at random alone.
"""

from __future__ import annotations

import random
import typing as t
import uuid
from dataclasses import dataclass, field

JSON = dict[str, t.Any]

ZONE, RACK = "topology.kubernetes.io/zone", "example.com/rack"
HOSTNAME = "kubernetes.io/hostname"
CREATED_BY = "kubevirt.io/created-by"
REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"

RULES = (
    ("apart-host", 34),
    ("apart-zone", 20),
    ("spread-zone", 14),
    ("run-on", 10),
    ("together", 4),
    ("prefer-apart", 6),
    ("none", 12),
)
SIZES = ((500, "1", "2Gi"), (1000, "2", "4Gi"), (2000, "2", "8Gi"), (4000, "4", "16Gi"))
OUT_OF_PLACE = 0.01
"""How many machines end up on any node with room, whatever their rule says."""


@dataclass
class Cluster:
    """Manifests, as lists of JSON objects."""

    nodes: list[JSON] = field(default_factory=list)
    pods: list[JSON] = field(default_factory=list)
    namespaces: list[JSON] = field(default_factory=list)


@dataclass
class _Node:
    name: str
    zone: str
    rack: str
    fast: bool
    room: int


def generate(nodes: int, machines: int, groups: int, *, seed: int = 20260) -> Cluster:
    """A cluster with so many nodes, and so many virtual machines in so many groups."""
    rng = random.Random(seed)
    room = -(-machines * 12 // (nodes * 10)) + 2
    places = [
        _Node(f"w{n:05}", f"z{n % 10}", f"r{n % 10}-{n // 200}", n // 10 % 5 == 0, room)
        for n in range(nodes)
    ]
    spaces = [f"project-{n:03}" for n in range(max(1, groups // 200))]
    return Cluster(
        nodes=[_node(place, rng) for place in places],
        pods=list(_pods(places, machines, groups, spaces, rng)),
        namespaces=[
            _metadata_only("Namespace", name, {"kubernetes.io/metadata.name": name})
            for name in spaces
        ],
    )


def _pods(
    places: list[_Node], machines: int, groups: int, spaces: list[str], rng: random.Random
) -> t.Iterator[JSON]:
    by_zone: dict[str, list[_Node]] = {}
    for place in places:
        by_zone.setdefault(place.zone, []).append(place)
    kinds = rng.choices(
        [name for name, _share in RULES], [share for _name, share in RULES], k=groups
    )
    sizes = [machines // groups + (n < machines % groups) for n in range(groups)]
    for n in range(0, groups - 1, 2):  # pairs of a small and a large group instead of equal ones
        shift = rng.randrange(sizes[n])
        sizes[n], sizes[n + 1] = sizes[n] - shift, sizes[n + 1] + shift
    for number, (kind, size) in enumerate(zip(kinds, sizes, strict=True)):
        namespace, group = spaces[number % len(spaces)], f"g{number:05}"
        zones = rng.sample(sorted(by_zone), min(size, len(by_zone)))
        for member in range(size):
            zone = zones[0] if kind == "together" else zones[member % len(zones)]
            place = _choose(by_zone[zone] if rng.random() > OUT_OF_PLACE else places, kind, rng)
            place.room -= 1
            yield _launcher(namespace, group, member, kind, place, rng)


def _choose(places: list[_Node], kind: str, rng: random.Random) -> _Node:
    for _attempt in range(50):
        place = rng.choice(places)
        if place.room > 0 and (kind != "run-on" or place.fast):
            return place
    return max(places, key=lambda each: each.room)


def _terms(kind: str, group: str, uid: str) -> JSON:
    """The affinity and spread that a rule compiles to, as the API server stores them."""
    own = {"key": CREATED_BY, "operator": "NotIn", "values": [uid]}
    selector = {"matchExpressions": [{"key": "group", "operator": "In", "values": [group]}, own]}
    key = ZONE if kind == "apart-zone" else HOSTNAME
    term = {
        "labelSelector": selector,
        "mismatchLabelKeys": [CREATED_BY],
        "topologyKey": key,
    }
    if kind in ("apart-host", "apart-zone"):
        return {"podAntiAffinity": {REQUIRED: [term]}}
    if kind == "prefer-apart":
        return {"podAntiAffinity": {PREFERRED: [{"podAffinityTerm": term, "weight": 100}]}}
    if kind == "together":
        near = {"labelSelector": {"matchLabels": {"group": group}}, "topologyKey": ZONE}
        return {"podAffinity": {REQUIRED: [near]}}
    return {}


def _node_affinity(kind: str) -> JSON:
    expressions: list[JSON] = [
        {"key": "node-labeller.kubevirt.io/obsolete-host-model", "operator": "DoesNotExist"}
    ]
    if kind == "run-on":
        expressions.append({"key": "performance", "operator": "In", "values": ["fast"]})
    return {"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": [{"matchExpressions": expressions}]}}}


def _uuid(rng: random.Random) -> str:
    return str(uuid.UUID(int=rng.getrandbits(128), version=4))


def _launcher(
    namespace: str, group: str, member: int, kind: str, place: _Node, rng: random.Random
) -> JSON:
    name, uid, pod_uid = f"{group}-vm{member}", _uuid(rng), _uuid(rng)
    suffix = f"{rng.getrandbits(26):05x}"[:5]
    millicores, cpu, memory = rng.choice(SIZES)
    spec = {
        "affinity": {**_node_affinity(kind), **_terms(kind, group, uid)},
        "automountServiceAccountToken": False,
        "containers": [_compute(name, namespace, uid, millicores, memory, cpu)],
        "dnsPolicy": "ClusterFirst",
        "enableServiceLinks": False,
        "hostname": name,
        "initContainers": [_console_log()],
        "nodeName": place.name,
        "nodeSelector": {
            "cpu-model.node.kubevirt.io/Skylake-Server": "true",
            "kubernetes.io/arch": "amd64",
            "kubevirt.io/schedulable": "true",
            "machine-type.node.kubevirt.io/q35": "true",
        },
        "preemptionPolicy": "PreemptLowerPriority",
        "priority": 0,
        "readinessGates": [{"conditionType": "kubevirt.io/virtual-machine-unpaused"}],
        "restartPolicy": "Never",
        "schedulerName": "default-scheduler",
        "securityContext": {
            "fsGroup": 107,
            "runAsGroup": 107,
            "runAsNonRoot": True,
            "runAsUser": 107,
            "seccompProfile": {"type": "RuntimeDefault"},
        },
        "serviceAccount": "default",
        "serviceAccountName": "default",
        "terminationGracePeriodSeconds": 210,
        "tolerations": [_not_ready("not-ready"), _not_ready("unreachable")],
        "volumes": _volumes(name),
    }
    if kind == "spread-zone":
        spec["topologySpreadConstraints"] = [
            {
                "labelSelector": {"matchLabels": {"group": group}},
                "maxSkew": 1,
                "nodeTaintsPolicy": "Honor",
                "topologyKey": ZONE,
                "whenUnsatisfiable": "DoNotSchedule",
            }
        ]
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "annotations": {
                "descheduler.alpha.kubernetes.io/request-evict-only": "",
                "kubevirt.io/domain": name,
                "kubevirt.io/migrationTransportUnix": "true",
                "kubevirt.io/vm-generation": "1",
                "post.hook.backup.velero.io/command": f'["/usr/bin/virt-freezer", "--unfreeze",'
                f' "--name", "{name}", "--namespace", "{namespace}"]',
                "post.hook.backup.velero.io/container": "compute",
                "pre.hook.backup.velero.io/command": f'["/usr/bin/virt-freezer", "--freeze",'
                f' "--name", "{name}", "--namespace", "{namespace}"]',
                "pre.hook.backup.velero.io/container": "compute",
            },
            "creationTimestamp": "2026-05-01T08:00:00Z",
            "generateName": f"virt-launcher-{name}-",
            "labels": {
                "app": group,
                "group": group,
                "kubevirt.io": "virt-launcher",
                CREATED_BY: uid,
                "kubevirt.io/nodeName": place.name,
                "team": f"team-{rng.randrange(40)}",
                "tier": rng.choice(("gold", "silver", "iron")),
                "vm.kubevirt.io/name": name,
                "vmi.kubevirt.io/id": name,
            },
            "name": f"virt-launcher-{name}-{suffix}",
            "namespace": namespace,
            "ownerReferences": [
                {
                    "apiVersion": "kubevirt.io/v1",
                    "blockOwnerDeletion": True,
                    "controller": True,
                    "kind": "VirtualMachineInstance",
                    "name": name,
                    "uid": uid,
                }
            ],
            "resourceVersion": str(rng.randrange(10**8)),
            "uid": pod_uid,
        },
        "spec": spec,
        "status": _status(place, pod_uid, rng),
    }


def _compute(name: str, namespace: str, uid: str, millicores: int, memory: str, cpu: str) -> JSON:
    return {
        "command": [
            "/usr/bin/virt-launcher-monitor",
            "--qemu-timeout",
            "312s",
            "--name",
            name,
            "--uid",
            uid,
            "--namespace",
            namespace,
            "--kubevirt-share-dir",
            "/var/run/kubevirt",
            "--ephemeral-disk-dir",
            "/var/run/kubevirt-ephemeral-disks",
            "--container-disk-dir",
            "/var/run/kubevirt/container-disks",
            "--grace-period-seconds",
            "195",
            "--hook-sidecars",
            "0",
            "--ovmf-path",
            "/usr/share/OVMF",
            "--disk-memory-limit",
            "2097152000",
            "--run-as-nonroot",
        ],
        "env": [
            {"name": "XDG_CACHE_HOME", "value": "/var/run/kubevirt-private"},
            {"name": "XDG_CONFIG_HOME", "value": "/var/run/kubevirt-private"},
            {"name": "XDG_RUNTIME_DIR", "value": "/var/run"},
            {"name": "VIRT_LAUNCHER_LOG_VERBOSITY", "value": "2"},
            {"name": "SHARED_FILESYSTEM_PATHS"},
            {
                "name": "POD_NAME",
                "valueFrom": {"fieldRef": {"apiVersion": "v1", "fieldPath": "metadata.name"}},
            },
        ],
        "image": "quay.example/kubevirt/virt-launcher@sha256:" + "0" * 64,
        "imagePullPolicy": "IfNotPresent",
        "name": "compute",
        "resources": {
            "limits": {
                "cpu": cpu,
                "devices.kubevirt.io/kvm": "1",
                "devices.kubevirt.io/tun": "1",
                "devices.kubevirt.io/vhost-net": "1",
            },
            "requests": {
                "cpu": f"{millicores // 10}m",
                "devices.kubevirt.io/kvm": "1",
                "devices.kubevirt.io/tun": "1",
                "devices.kubevirt.io/vhost-net": "1",
                "ephemeral-storage": "50M",
                "memory": memory,
            },
        },
        "securityContext": {
            "allowPrivilegeEscalation": False,
            "capabilities": {"add": ["NET_BIND_SERVICE"], "drop": ["ALL"]},
            "privileged": False,
            "runAsGroup": 107,
            "runAsNonRoot": True,
            "runAsUser": 107,
        },
        "terminationMessagePath": "/dev/termination-log",
        "terminationMessagePolicy": "File",
        "volumeDevices": [{"devicePath": "/dev/rootdisk", "name": "rootdisk"}],
        "volumeMounts": [
            {"mountPath": f"/var/run/{path}", "name": each, **extra}
            for each, path, extra in (
                ("private", "kubevirt-private", {}),
                ("public", "kubevirt", {}),
                ("ephemeral-disks", "kubevirt-ephemeral-disks", {}),
                (
                    "container-disks",
                    "kubevirt/container-disks",
                    {"mountPropagation": "HostToContainer"},
                ),
                ("libvirt-runtime", "libvirt", {}),
                ("sockets", "kubevirt/sockets", {}),
                ("cloudinitdisk", "kubevirt-private/secret/cloudinitdisk", {"readOnly": True}),
                (
                    "hotplug-disks",
                    "kubevirt/hotplug-disks",
                    {"mountPropagation": "HostToContainer"},
                ),
            )
        ],
    }


def _console_log() -> JSON:
    return {
        "args": ["--logfile", "/var/run/kubevirt-private/virt-serial0-log"],
        "command": ["/usr/bin/virt-tail"],
        "env": [{"name": "VIRT_LAUNCHER_LOG_VERBOSITY", "value": "2"}],
        "image": "quay.example/kubevirt/virt-launcher@sha256:" + "0" * 64,
        "imagePullPolicy": "IfNotPresent",
        "name": "guest-console-log",
        "resources": {
            "limits": {"cpu": "15m", "memory": "60M"},
            "requests": {"cpu": "5m", "memory": "35M"},
        },
        "restartPolicy": "Always",
        "securityContext": {
            "allowPrivilegeEscalation": False,
            "capabilities": {"drop": ["ALL"]},
            "runAsNonRoot": True,
            "runAsUser": 107,
        },
        "terminationMessagePath": "/dev/termination-log",
        "terminationMessagePolicy": "File",
        "volumeMounts": [
            {"mountPath": "/var/run/kubevirt-private", "name": "private", "readOnly": True}
        ],
    }


def _volumes(name: str) -> list[JSON]:
    empty = (
        "private",
        "public",
        "sockets",
        "virt-bin-share-dir",
        "libvirt-runtime",
        "ephemeral-disks",
        "container-disks",
        "hotplug-disks",
    )
    return [
        *({"emptyDir": {}, "name": each} for each in empty),
        {"name": "rootdisk", "persistentVolumeClaim": {"claimName": f"{name}-root"}},
        {"name": "cloudinitdisk", "secret": {"defaultMode": 420, "secretName": f"{name}-init"}},
    ]


def _not_ready(what: str) -> JSON:
    return {
        "effect": "NoExecute",
        "key": f"node.kubernetes.io/{what}",
        "operator": "Exists",
        "tolerationSeconds": 300,
    }


def _status(place: _Node, pod_uid: str, rng: random.Random) -> JSON:
    address = f"10.{rng.randrange(256)}.{rng.randrange(256)}.{rng.randrange(256)}"
    conditions = (
        "PodReadyToStartContainers",
        "kubevirt.io/virtual-machine-unpaused",
        "Initialized",
        "Ready",
        "ContainersReady",
        "PodScheduled",
    )
    return {
        "conditions": [
            {
                "lastProbeTime": None,
                "lastTransitionTime": "2026-05-01T08:00:12Z",
                "observedGeneration": 1,
                "status": "True",
                "type": each,
            }
            for each in conditions
        ],
        "containerStatuses": [_container_status("compute", pod_uid)],
        "hostIP": address,
        "hostIPs": [{"ip": address}],
        "initContainerStatuses": [_container_status("guest-console-log", pod_uid)],
        "phase": "Running",
        "podIP": address,
        "podIPs": [{"ip": address}],
        "qosClass": "Burstable",
        "startTime": "2026-05-01T08:00:00Z",
    }


def _container_status(name: str, pod_uid: str) -> JSON:
    return {
        "containerID": "cri-o://" + pod_uid.replace("-", "") * 2,
        "image": "quay.example/kubevirt/virt-launcher@sha256:" + "0" * 64,
        "imageID": "quay.example/kubevirt/virt-launcher@sha256:" + "1" * 64,
        "lastState": {},
        "name": name,
        "ready": True,
        "restartCount": 0,
        "started": True,
        "state": {"running": {"startedAt": "2026-05-01T08:00:10Z"}},
    }


def _node(place: _Node, rng: random.Random) -> JSON:
    models = ("Skylake-Server", "Cascadelake-Server", "Icelake-Server", "Broadwell", "Haswell")
    labels = {
        HOSTNAME: place.name,
        ZONE: place.zone,
        RACK: place.rack,
        "kubernetes.io/arch": "amd64",
        "kubernetes.io/os": "linux",
        "kubevirt.io/schedulable": "true",
        "machine-type.node.kubevirt.io/q35": "true",
        **{f"cpu-model.node.kubevirt.io/{model}": "true" for model in models},
        **{f"cpu-feature.node.kubevirt.io/feature{n}": "true" for n in range(30)},
    }
    if place.fast:
        labels["performance"] = "fast"
    amounts = {
        "cpu": "128",
        "devices.kubevirt.io/kvm": "1k",
        "devices.kubevirt.io/tun": "1k",
        "devices.kubevirt.io/vhost-net": "1k",
        "ephemeral-storage": "500Gi",
        "memory": "1Ti",
        "pods": "250",
    }
    manifest = _metadata_only("Node", place.name, labels)
    manifest["metadata"]["uid"] = _uuid(rng)
    manifest["spec"] = {}
    manifest["status"] = {
        "allocatable": amounts,
        "capacity": amounts,
        "conditions": [{"status": "True", "type": "Ready"}],
        "nodeInfo": {"bootID": _uuid(rng), "kubeletVersion": "v1.36.2"},
    }
    return manifest


def _metadata_only(kind: str, name: str, labels: t.Mapping[str, str]) -> JSON:
    return {
        "apiVersion": "v1",
        "kind": kind,
        "metadata": {"labels": dict(labels), "name": name},
    }
