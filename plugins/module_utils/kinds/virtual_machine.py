# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What is a VirtualMachine? KubeVirt makes one VMI of its name from its template, by its run strategy.

That VirtualMachineInstance (VMI) runs in a launcher pod."""

from __future__ import annotations

from .kind import Kind

KUBEVIRT_V1 = "kubevirt.io/v1"
VMI = "VirtualMachineInstance"
VMIS = "virtualmachineinstances"


def is_vmi(kind: str) -> bool:
    """Whether an object of this kind is a VMI."""
    return kind == VMI


VIRTUAL_MACHINE = Kind(
    "VirtualMachine",
    KUBEVIRT_V1,
    "virtualmachines",
    virtual_machines=True,
    selected=(),
    run_strategy=True,
    has_vm=True,
    keeps_names=True,
)
