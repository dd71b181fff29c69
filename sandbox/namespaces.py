# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Emptying a namespace quickly: workloads first, then what they leave."""

from __future__ import annotations

from .admin_api import AdminApi
from .kinds import KINDS

#: owners before what they own, so that nothing is made again
_WORKLOADS = (
    "VirtualMachinePool",
    "VirtualMachine",
    "VirtualMachineInstanceReplicaSet",
    "Deployment",
    "StatefulSet",
    "DaemonSet",
    "ReplicaSet",
    "Job",
    "VirtualMachineInstanceMigration",
    "VirtualMachineInstance",
)
_TIMEOUT = 60


def delete_namespace(api: AdminApi, name: str) -> None:
    """Delete a namespace with all that is in it, and return when its pods are gone.

    The rest, which takes no room on nodes, goes in the background. Guests do not get their grace.
    """
    kubevirt = api.find("/apis/kubevirt.io/v1") is not None
    for kind in _WORKLOADS:
        if kubevirt or "kubevirt" not in KINDS[kind].api_version:
            api.delete(api.path(kind, name), propagationPolicy="Background")
    pods = api.path("Pod", name)
    api.delete(pods, gracePeriodSeconds=0)
    if kubevirt:
        api.wait_list(api.path("VirtualMachineInstance", name), lambda left: not left, _TIMEOUT)
    api.wait_list(pods, lambda left: not left, _TIMEOUT)
    api.delete(api.path("Namespace", name=name))
