# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What is a VirtualMachinePool? It makes VirtualMachines, writes its template into them, and may restart them."""

from __future__ import annotations

from .kind import Kind, UpdateStrategy
from .virtual_machine import VIRTUAL_MACHINE

POOL = Kind(
    "VirtualMachinePool",
    "pool.kubevirt.io/v1beta1",
    "virtualmachinepools",
    virtual_machines=True,
    template=("spec", "virtualMachineTemplate", "spec", "template"),
    selected=("spec", "virtualMachineTemplate", "metadata", "labels"),
    makes=VIRTUAL_MACHINE.name,
    has_vm=True,
    workload_rollout=True,
    update_strategy=UpdateStrategy("proactive", "opportunistic", typed=False),
    older_versions=("v1alpha1",),  # the only one before KubeVirt 1.7
    keeps_names=True,
)
