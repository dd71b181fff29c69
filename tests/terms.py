# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Placement terms as a person would patch them in."""

from __future__ import annotations

import typing as t

from sandbox import Sandbox, objects
from tests.shop import ZONE, Object, Shop

VMI_ID, VM_NAME = "vmi.kubevirt.io/id", "vm.kubevirt.io/name"


def name_label(sandbox: Sandbox) -> str:
    """The label of a launcher pod that has the name of a VM without a hostname: VMI_ID from KubeVirt 1.7 on."""
    return VMI_ID if sandbox.versions.has_kubevirt("1.7") else VM_NAME


def apart_over_zone(names: t.Sequence[str], label: str = VMI_ID) -> Object:
    """The required term that keeps VMs apart and lets them migrate inside their zone."""
    return apart_over(ZONE, names, label)


def apart_over(key: str, names: t.Sequence[str], label: str = VMI_ID) -> Object:
    """As `apart_over_zone`, over another topology key."""
    term = {
        "labelSelector": {
            "matchExpressions": [{"key": label, "operator": "In", "values": list(names)}]
        },
        "topologyKey": key,
        "mismatchLabelKeys": ["kubevirt.io/created-by"],
    }
    return {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}


def keep_machines_apart(shop: Shop, names: t.Sequence[str]) -> None:
    apart = apart_over_zone(names, name_label(shop.sandbox))
    for name in names:
        shop.patch_template("VirtualMachine", name, {"affinity": apart})


def pair_on_one_node(shop: Shop, *, faults: Object | None = None) -> list[str]:
    """Two running VMs on w1 that are to be in different zones: one move heals them."""
    names = ["p0", "p1"]
    machines = [objects.virtual_machine(name, shop.namespace, annotations=faults) for name in names]
    shop.start(*machines, nodes=["w1"])
    keep_machines_apart(shop, names)
    return names
