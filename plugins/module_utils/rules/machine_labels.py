# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Labels that KubeVirt gives every launcher pod, and what their values are.

Source: KubeVirt pkg/apimachinery/labels.go and pkg/virt-controller/services/template.go podLabels.
"""

from __future__ import annotations

import hashlib

from ..model.snapshot import Workload

MACHINE_ID = "vmi.kubevirt.io/id"
"""The VMI's name. Pods that were made before KubeVirt knew the label do not have it."""

MACHINE_ID_SINCE = (1, 8)

HOSTNAME = "vm.kubevirt.io/name"
"""The guest's hostname, whatever the label's name says: several machines may share it."""

_LIMIT = 63
_KEPT = 54


def machine_id(name: str) -> str:
    """The value of MACHINE_ID for a VMI of this name."""
    if len(name) <= _LIMIT:
        return name
    return f"{name[:_KEPT]}-{hashlib.sha1(name.encode()).hexdigest()[:8]}"


def hostname(machine: Workload) -> str:
    """The value of HOSTNAME for a VirtualMachine."""
    own = (machine.template.get("spec") or {}).get("hostname")
    return str(own) if own else machine.ref.name.split(".", 1)[0][:_LIMIT]


def knows_machine_id(kubevirt: str | None) -> bool:
    """Whether launcher pods that this release of KubeVirt makes carry MACHINE_ID."""
    return release(kubevirt) >= MACHINE_ID_SINCE


def release(version: str | None) -> tuple[int, int]:
    """(major, minor) of a version such as `v1.8.4`; (0, 0) where it says nothing."""
    parts = (version or "").lstrip("v").split(".")
    try:
        return int(parts[0]), int(parts[1])
    except (IndexError, ValueError):
        return 0, 0
