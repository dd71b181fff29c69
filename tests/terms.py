# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Placement terms as a person would patch them in."""

from __future__ import annotations

import typing as t

from sandbox import objects
from tests.shop import ZONE, Object, Shop


def apart_over_zone(names: t.Sequence[str]) -> Object:
    """The required term that keeps VMs apart and lets them migrate inside their zone."""
    return apart_over(ZONE, names)


def apart_over(key: str, names: t.Sequence[str]) -> Object:
    """As `apart_over_zone`, over another topology key."""
    term = {
        "labelSelector": {
            "matchExpressions": [
                {"key": "vmi.kubevirt.io/id", "operator": "In", "values": list(names)}
            ]
        },
        "topologyKey": key,
        "mismatchLabelKeys": ["kubevirt.io/created-by"],
    }
    return {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}


def keep_machines_apart(shop: Shop, names: t.Sequence[str]) -> None:
    for name in names:
        shop.patch_template("VirtualMachine", name, {"affinity": apart_over_zone(names)})


def pair_on_one_node(shop: Shop, *, faults: Object | None = None) -> list[str]:
    """Two running VMs on w1 that are to be in different zones: one move heals them."""
    names = ["p0", "p1"]
    machines = [objects.virtual_machine(name, shop.namespace, annotations=faults) for name in names]
    shop.start(*machines, nodes=["w1"])
    keep_machines_apart(shop, names)
    return names
