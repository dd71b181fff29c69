# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What differs between the kinds of workload, and of their instances: where they live."""

from __future__ import annotations

import typing as t
from dataclasses import dataclass

from .objects import Ref
from .pointer import Pointer


@dataclass(frozen=True)
class Kind:
    """One kind of workload.

    `template` leads from the object to its pod-like template, the mapping that holds
    `metadata.labels` and the `spec` with the placement fields.
    """

    name: str
    group_version: str
    plural: str
    template: Pointer
    virtual_machines: bool
    writable: bool = True
    self_rolling: bool = False
    """A template write starts a roll-out by the kind's own controller."""

    def namespace_path(self, namespace: str) -> str:
        return f"/apis/{self.group_version}/namespaces/{namespace}/{self.plural}"

    def path(self, namespace: str, name: str) -> str:
        return f"{self.namespace_path(namespace)}/{name}"


_KUBEVIRT = "kubevirt.io/v1"
_TEMPLATE = Pointer(("spec", "template"))

VIRTUAL_MACHINE = Kind("VirtualMachine", _KUBEVIRT, "virtualmachines", _TEMPLATE, True)
REPLICA_SET = Kind(
    "VirtualMachineInstanceReplicaSet",
    _KUBEVIRT,
    "virtualmachineinstancereplicasets",
    _TEMPLATE,
    True,
)
POOL = Kind(
    "VirtualMachinePool",
    "pool.kubevirt.io/v1beta1",
    "virtualmachinepools",
    Pointer(("spec", "virtualMachineTemplate", "spec", "template")),
    True,
    self_rolling=True,
)
DEPLOYMENT = Kind("Deployment", "apps/v1", "deployments", _TEMPLATE, False, self_rolling=True)
STATEFUL_SET = Kind("StatefulSet", "apps/v1", "statefulsets", _TEMPLATE, False, self_rolling=True)
DAEMON_SET = Kind("DaemonSet", "apps/v1", "daemonsets", _TEMPLATE, False, writable=False)

KINDS: t.Mapping[str, Kind] = {
    kind.name: kind
    for kind in (VIRTUAL_MACHINE, REPLICA_SET, POOL, DEPLOYMENT, STATEFUL_SET, DAEMON_SET)
}

MACHINE_INSTANCE = "VirtualMachineInstance"


def instances_path(kind: str, namespace: str) -> str:
    """The list of a namespace's instances: of its VMIs, or else of its pods."""
    if kind == MACHINE_INSTANCE:
        return f"/apis/{_KUBEVIRT}/namespaces/{namespace}/virtualmachineinstances"
    return f"/api/v1/namespaces/{namespace}/pods"


def instance_path(instance: Ref) -> str:
    """Of a VMI or a pod."""
    return f"{instances_path(instance.kind, instance.namespace)}/{instance.name}"
