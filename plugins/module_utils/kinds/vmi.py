# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What is a VMI? A VirtualMachineInstance is a VM that runs, in a launcher pod; a VM or a replica set makes it."""

from __future__ import annotations

KUBEVIRT_V1 = "kubevirt.io/v1"
VMI = "VirtualMachineInstance"
VMIS = "virtualmachineinstances"
VM = "VirtualMachine"
"""The kind of the object of the same name that a VMI belongs to, unless it is of a replica set."""


def is_vmi(kind: str) -> bool:
    """Whether an object of this kind is a VMI."""
    return kind == VMI
