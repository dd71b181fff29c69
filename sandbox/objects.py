# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Workloads for tests and demos, as plain dicts in the form that users write them.

Every builder returns a whole object; a test changes it as needed. By default workloads request enough
resources to affect the scheduler's scores, since it packs those that request little.
"""

from __future__ import annotations

import typing as t

Object = dict[str, t.Any]
Labels = t.Mapping[str, str]

_DISK_IMAGE = "registry.example/containerdisks/fedora:42"
_POD_IMAGE = "registry.example/web:1"


def virtual_machine(
    name: str,
    namespace: str = "default",
    *,
    labels: Labels | None = None,
    annotations: Labels | None = None,
    placement: Object | None = None,
    run_strategy: str = "Always",
    cpu: str = "500m",
    memory: str = "1Gi",
) -> Object:
    """A VirtualMachine; ``labels`` and ``annotations`` go on its template.

    ``placement`` holds fields of the template's spec: affinity, nodeSelector, tolerations,
    topologySpreadConstraints, evictionStrategy, hostname ...
    """
    return {
        "apiVersion": "kubevirt.io/v1",
        "kind": "VirtualMachine",
        "metadata": {"name": name, "namespace": namespace},
        "spec": {
            "runStrategy": run_strategy,
            "template": _instance_template(labels, annotations, placement, cpu, memory),
        },
    }


def replica_set(
    name: str,
    namespace: str = "default",
    *,
    replicas: int = 3,
    labels: Labels | None = None,
    annotations: Labels | None = None,
    placement: Object | None = None,
    cpu: str = "500m",
    memory: str = "1Gi",
) -> Object:
    """A VirtualMachineInstanceReplicaSet that selects its labels (default: kubevirt.io/domain)."""
    labels = labels or {"kubevirt.io/domain": name}
    return {
        "apiVersion": "kubevirt.io/v1",
        "kind": "VirtualMachineInstanceReplicaSet",
        "metadata": {"name": name, "namespace": namespace},
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": dict(labels)},
            "template": _instance_template(labels, annotations, placement, cpu, memory),
        },
    }


def pool(
    name: str,
    namespace: str = "default",
    *,
    replicas: int = 3,
    labels: Labels | None = None,
    annotations: Labels | None = None,
    placement: Object | None = None,
    cpu: str = "500m",
    memory: str = "1Gi",
) -> Object:
    """A VirtualMachinePool whose VMs, instances and selector carry the labels (default: kubevirt.io/vmpool)."""
    labels = dict(labels or {"kubevirt.io/vmpool": name})
    template = _instance_template(labels, annotations, placement, cpu, memory)
    return {
        "apiVersion": "pool.kubevirt.io/v1beta1",
        "kind": "VirtualMachinePool",
        "metadata": {"name": name, "namespace": namespace},
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": labels},
            "virtualMachineTemplate": {
                "metadata": {"labels": labels},
                "spec": {"runStrategy": "Always", "template": template},
            },
        },
    }


def migration(instance: str, namespace: str = "default", *, name: str = "") -> Object:
    """A VirtualMachineInstanceMigration of one instance; without a name the server makes one up."""
    metadata = {"name": name} if name else {"generateName": f"{instance}-"}
    return {
        "apiVersion": "kubevirt.io/v1",
        "kind": "VirtualMachineInstanceMigration",
        "metadata": {"namespace": namespace, **metadata},
        "spec": {"vmiName": instance},
    }


def deployment(
    name: str,
    namespace: str = "default",
    *,
    replicas: int = 3,
    labels: Labels | None = None,
    placement: Object | None = None,
    cpu: str = "500m",
    memory: str = "512Mi",
) -> Object:
    """A Deployment that selects its labels (default: app)."""
    labels = dict(labels or {"app": name})
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": name, "namespace": namespace, "labels": labels},
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": labels},
            "template": _pod_template(labels, placement, cpu, memory),
        },
    }


def stateful_set(
    name: str,
    namespace: str = "default",
    *,
    replicas: int = 3,
    labels: Labels | None = None,
    placement: Object | None = None,
    cpu: str = "500m",
    memory: str = "512Mi",
) -> Object:
    """A StatefulSet without volumes that selects its labels (default: app)."""
    made = deployment(
        name,
        namespace,
        replicas=replicas,
        labels=labels,
        placement=placement,
        cpu=cpu,
        memory=memory,
    )
    return {**made, "kind": "StatefulSet", "spec": {**made["spec"], "serviceName": name}}


def daemon_set(name: str, namespace: str = "default", *, labels: Labels | None = None) -> Object:
    """A DaemonSet on every node that it can use."""
    made = deployment(name, namespace, labels=labels, cpu="100m", memory="64Mi")
    spec = {key: value for key, value in made["spec"].items() if key != "replicas"}
    return {**made, "kind": "DaemonSet", "spec": spec}


def pod(
    name: str,
    namespace: str = "default",
    *,
    labels: Labels | None = None,
    placement: Object | None = None,
    cpu: str = "500m",
    memory: str = "512Mi",
) -> Object:
    """A Pod without an owner."""
    template = _pod_template(labels or {}, placement, cpu, memory)
    metadata = {"name": name, "namespace": namespace, **template["metadata"]}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": template["spec"]}


def disruption_budget(
    name: str, namespace: str = "default", *, labels: Labels, max_unavailable: int = 1
) -> Object:
    """A PodDisruptionBudget over pods with these labels."""
    return {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": {"name": name, "namespace": namespace},
        "spec": {"maxUnavailable": max_unavailable, "selector": {"matchLabels": dict(labels)}},
    }


def _instance_template(
    labels: Labels | None,
    annotations: Labels | None,
    placement: Object | None,
    cpu: str,
    memory: str,
) -> Object:
    metadata: Object = {"labels": dict(labels or {})}
    if annotations:
        metadata["annotations"] = dict(annotations)
    disks = [{"name": "root", "disk": {"bus": "virtio"}}]
    # masquerade, since a bridge on the pod network cannot be migrated
    interfaces = [{"name": "default", "masquerade": {}}]
    return {
        "metadata": metadata,
        "spec": {
            "domain": {
                "devices": {"disks": disks, "interfaces": interfaces},
                "resources": {"requests": {"cpu": cpu, "memory": memory}},
            },
            "networks": [{"name": "default", "pod": {}}],
            "terminationGracePeriodSeconds": 30,
            "volumes": [{"name": "root", "containerDisk": {"image": _DISK_IMAGE}}],
            **(placement or {}),
        },
    }


def _pod_template(labels: Labels, placement: Object | None, cpu: str, memory: str) -> Object:
    requests = {"cpu": cpu, "memory": memory}
    container = {"name": "main", "image": _POD_IMAGE, "resources": {"requests": requests}}
    return {
        "metadata": {"labels": dict(labels)},
        "spec": {"containers": [container], **(placement or {})},
    }
