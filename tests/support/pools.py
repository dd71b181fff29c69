# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""A VirtualMachinePool with VMs that run, as KubeVirt 1.8 makes them."""

from __future__ import annotations

import copy
import json
import typing as t

from ansible_collections.virt.placement.plugins.module_utils.kubevirt.labels import (
    POOL_REVISION,
)
from ansible_collections.virt.placement.plugins.module_utils.model.kinds import HOLD
from ansible_collections.virt.placement.plugins.module_utils.model.objects import Ref

from .cluster import Cluster, machine

JSON = t.Any


def pool(made: Cluster, name: str, nodes: t.Iterable[str], spec: JSON = None, **labels: str) -> Ref:
    """A pool with a VM on each of these nodes, all of its first revision."""
    vms = [
        machine(made, f"{name}-{number}", node, spec, pool=name, **labels)
        for number, node in enumerate(nodes)
    ]
    template = copy.deepcopy(made.workloads[vms[0]]["spec"]["template"])
    template["metadata"] = {"labels": {"pool": name, **labels}}
    made_spec = {
        "replicas": len(vms),
        "selector": {"matchLabels": {"pool": name}},
        "virtualMachineTemplate": {
            "metadata": {"labels": {"pool": name}},
            "spec": {"runStrategy": "Always", "template": template},
        },
    }
    ref = made.workload("VirtualMachinePool", name, made_spec)
    metadata = made.workloads[ref]["metadata"]
    metadata["generation"] = 1
    owner = {"kind": ref.kind, "name": name, "uid": metadata["uid"], "controller": True}
    for vm in vms:
        made.workloads[vm]["metadata"] |= {
            "ownerReferences": [owner],
            "labels": {"pool": name, POOL_REVISION: f"{name}-1"},
        }
        made.machines[vm.name]["metadata"]["labels"][POOL_REVISION] = f"{name}-1"
    return ref


def change(
    made: Cluster, ref: Ref, affinity: JSON, *, brought: bool = True, live: bool = True
) -> None:
    """Rules with a hold are written to the pool; KubeVirt has `brought` the template to the VMs, and to the VMIs."""
    found = made.workloads[ref]
    found["spec"]["updateStrategy"] = {"opportunistic": {}}
    found["metadata"] |= {
        "annotations": {HOLD: json.dumps({"updateStrategy": {}})},
        "generation": 2,
    }
    template = found["spec"]["virtualMachineTemplate"]["spec"]["template"]
    template["spec"]["affinity"] = affinity
    for vm in list(made.workloads):
        owners = made.workloads[vm]["metadata"].get("ownerReferences") or ()
        if not brought or all(owner["uid"] != found["metadata"]["uid"] for owner in owners):
            continue
        made.workloads[vm]["spec"]["template"]["spec"]["affinity"] = affinity
        made.workloads[vm]["metadata"]["labels"][POOL_REVISION] = f"{ref.name}-2"
        if live:
            made.machines[vm.name]["spec"]["affinity"] = affinity
