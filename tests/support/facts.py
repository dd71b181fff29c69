# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Facts about single objects in the namespace shop, with the least words: a test states what it is about. `fields` are
those of the model."""

from __future__ import annotations

import typing as t

from ansible_collections.virt.placement.plugins.module_utils.model.objects import (
    Node,
    Owner,
    Pod,
    Ref,
    Taint,
)
from ansible_collections.virt.placement.plugins.module_utils.model.snapshot import Vmi, Workload

from .cluster import CREATED_BY, HOST, ZONE

JSON = t.Any
VM, VMI = "VirtualMachine", "VirtualMachineInstance"
CONTROL_PLANE = Taint("node-role.kubernetes.io/control-plane", "", "NoSchedule")


def node(
    name: str, zone: str = "", labels: t.Mapping[str, str] | None = None, **fields: JSON
) -> Node:
    known = {HOST: name, **({ZONE: zone} if zone else {}), **(labels or {})}
    return Node(name, **{"uid": f"uid-{name}", "labels": known, **fields})


def vm(
    name: str = "db",
    template: JSON = None,
    *,
    labels: JSON = None,
    owner: Owner | None = None,
    metadata: JSON = None,
    status: JSON = None,
    **spec: JSON,
) -> Workload:
    """A VirtualMachine. `template` is the spec of its template, `labels` those of the template."""
    manifest = {
        "metadata": {"name": name, "namespace": "shop", **(metadata or {})},
        "spec": {
            "template": {"metadata": {"labels": labels or {}}, "spec": template or {}},
            **spec,
        },
        "status": status or {},
    }
    return Workload(Ref(VM, "shop", name), f"vm-{name}", manifest, owner)


def vmi(name: str = "db", node_name: str = "w1", *, namespace: str = "shop", **fields: JSON) -> Vmi:
    """A VMI that runs, of the VM with its name."""
    known = {"uid": f"u-{name}", "phase": "Running", "labels": {}, "spec": {}}
    known["owner"] = Owner(VM, name, f"vm-{name}")
    return Vmi(Ref(VMI, namespace, name), node_name=node_name, **{**known, **fields})


def pod(
    name: str = "p1", owner: Owner | None = None, *, node_name: str = "w1", **fields: JSON
) -> Pod:
    """A pod that runs."""
    known = {"namespace": "shop", "uid": f"u-{name}", "phase": "Running", "owner": owner}
    return Pod(name=name, node_name=node_name, **{**known, **fields})


def launcher(
    name: str = "db",
    node_name: str = "w1",
    suffix: str = "1",
    labels: t.Mapping[str, str] | None = None,
    **fields: JSON,
) -> Pod:
    """A launcher pod of the VMI with this name."""
    known = {
        "namespace": "shop",
        "name": f"{name}-{suffix}",
        "uid": f"p-{name}-{suffix}",
        "labels": {CREATED_BY: f"u-{name}", **(labels or {})},
        "phase": "Running" if node_name else "Pending",
        "owner": Owner(VMI, name, f"u-{name}"),
    }
    return Pod(node_name=node_name, **{**known, **fields})
