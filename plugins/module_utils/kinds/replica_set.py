# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What is a VirtualMachineInstanceReplicaSet? It makes VMIs from its template as that is then, and changes none."""

from __future__ import annotations

from .kind import Kind
from .vmi import KUBEVIRT_V1

REPLICA_SET = Kind(
    "VirtualMachineInstanceReplicaSet",
    KUBEVIRT_V1,
    "virtualmachineinstancereplicasets",
    virtual_machines=True,
)
