# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which node labels do the pods of a VM ask for though its template does not name them?

Those of its instance type and those of KubeVirt's configuration. Sources: KubeVirt
pkg/instancetype/apply/nodeselector.go (applyNodeSelector), pkg/virt-controller/services/nodeselectorrenderer.go
(NewNodeSelectorRenderer), pkg/virt-config (GetNodeSelectors). A preference names no node labels; the CPU
features that it prefers are in the spec of the VMI.
"""

from __future__ import annotations

import typing as t
from functools import cached_property

from ..model.json_pointer import JSON
from ..model.objects import Labels, Ref
from ..model.snapshot import Platform, Snapshot, Workload
from .instances import vmi_workload


def cluster_node_selector(platform: Platform) -> Labels:
    """The node labels that every launcher pod of the cluster asks for."""
    developer = platform.configuration.get("developerConfiguration") or {}
    selector: Labels = developer.get("nodeSelectors") or {}
    return selector


def vm_spec(workload: Workload) -> t.Mapping[str, JSON]:
    """The spec of the VirtualMachine that a workload is, or that a pool makes."""
    spec = workload.manifest.get("spec") or {}
    return (spec.get("virtualMachineTemplate") or {}).get("spec") or spec


def needs_expansion(workload: Workload) -> bool:
    """Whether an instance type or a preference adds to the template."""
    spec = vm_spec(workload)
    return bool(spec.get("instancetype") or spec.get("preference"))


class AddedNodeSelectors:
    """The node labels that are added to the templates of one snapshot."""

    def __init__(self, snapshot: Snapshot) -> None:
        self._snapshot = snapshot
        self._of_cluster = cluster_node_selector(snapshot.platform)

    def of(self, workload: Workload) -> dict[str, str]:
        """Labels with their values, without those whose keys the template has."""
        if not workload.kind.virtual_machines:
            return {}
        typed = "instancetype" in vm_spec(workload)
        if not typed and not self._of_cluster:
            return {}
        own = (workload.template.get("spec") or {}).get("nodeSelector") or {}
        added = {**self._of_cluster, **(self._expanded(workload) if typed else {})}
        return {key: value for key, value in added.items() if key not in own}

    def _expanded(self, workload: Workload) -> Labels:
        """The node selector of the template with its instance type: as the server expands it, or as it
        is on a running VMI."""
        template = self._snapshot.expanded.get(workload.ref) or {}
        spec = template.get("spec") or self._running.get(workload.ref) or {}
        selector: Labels = spec.get("nodeSelector") or {}
        return selector

    @cached_property
    def _running(self) -> dict[Ref, t.Mapping[str, JSON]]:
        workloads = {workload.ref: workload for workload in self._snapshot.workloads}
        return {vmi_workload(vmi, workloads): vmi.spec for vmi in self._snapshot.vmis}
