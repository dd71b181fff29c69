# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Emptying a namespace quickly: workloads first, then what they leave."""

from __future__ import annotations

from .admin_api import AdminApi, ApiFailure, WaitTimeout
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
_PATIENCE = 5
_TIMEOUT = 60


def delete_namespace(api: AdminApi, name: str, patience: float = _PATIENCE) -> None:
    """Delete a namespace with all that is in it, and return when its pods are gone.

    The rest, which takes no room on nodes, goes in the background. Guests do not get their grace,
    and what does not end within `patience` seconds, such as an instance on a dead node, is let go.
    """
    kubevirt = api.find("/apis/kubevirt.io/v1") is not None
    for kind in _WORKLOADS:
        if kubevirt or "kubevirt" not in KINDS[kind].api_version:
            api.delete(api.path(kind, name), propagationPolicy="Background")
    if kubevirt:
        _await_instances(api, name, patience)
    pods = api.path("Pod", name)
    api.delete(pods, gracePeriodSeconds=0)
    api.wait_list(pods, lambda left: not left, max(_TIMEOUT, patience))
    api.delete(api.path("Namespace", name=name))


def _await_instances(api: AdminApi, name: str, patience: float) -> None:
    path = api.path("VirtualMachineInstance", name)
    try:
        api.wait_list(path, lambda left: not left, patience)
    except WaitTimeout:
        for kind in ("VirtualMachineInstanceMigration", "VirtualMachineInstance"):
            for entry in api.list(api.path(kind, name)):
                release = {"metadata": {"finalizers": None}}
                try:
                    api.patch(api.path(kind, name, entry["metadata"]["name"]), release)
                except ApiFailure as error:
                    if error.status != 404:  # gone meanwhile
                        raise
        api.wait_list(path, lambda left: not left, _TIMEOUT)
