# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which labels, node keys and tolerations do KubeVirt and controllers add to pods by themselves?

A launcher pod never has just what its template has. What is listed here is neither missing in a
template nor stale on a pod. Sources: KubeVirt pkg/apimachinery/labels.go,
pkg/virt-controller/services/template.go (podLabels), watch/migration/migration.go.

Pods of a VM also ask for the node labels of its instance type and of KubeVirt's configuration. Sources:
pkg/instancetype/apply/nodeselector.go (applyNodeSelector), pkg/virt-controller/services/nodeselectorrenderer.go
(NewNodeSelectorRenderer), pkg/virt-config (GetNodeSelectors). A preference names no node labels; the CPU
features that it prefers are in the spec of the VMI.
"""

from __future__ import annotations

import hashlib
import typing as t
from functools import cached_property

from ..model.json_pointer import JSON
from ..model.objects import Labels, PodTerm, Ref, Toleration
from ..model.placement_manifests import CREATED_BY
from ..model.snapshot import Platform, Snapshot, Workload
from ..model.topology import HOSTNAME
from .instances import vmi_workload
from .ordinals import POD_INDEX, POD_NAME

LAUNCHER_LABEL = ("kubevirt.io", "virt-launcher")
"""Key and value of a label that every launcher pod has (KubeVirt: AppLabel)."""

MIGRATION_JOB = "kubevirt.io/migrationJobUID"
"""Label on a migration's target pod: the uid of the migration (services/template.go)."""

REJECTED_BY_QUOTA = "migrationRejectedByResourceQuota"
"""Condition of a migration with a target pod that a ResourceQuota refuses (kubevirt.io/api core/v1/types.go)."""

UNSCHEDULABLE_TIMEOUT = "kubevirt.io/migrationUnschedulablePodTimeoutSeconds"
"""Annotation on a migration: seconds until KubeVirt gives up on a target pod that no node takes. The
default is 300; until then it holds one of the cluster's few migration slots."""

SCHEDULABLE = "kubevirt.io/schedulable"
"""Node label: "true" where virt-handler runs. Every launcher pod selects it."""

DEVICE = "devices.kubevirt.io/"
"""Prefix of the devices that virt-handler offers on a node and launcher pods ask for."""

VMI_ID = "vmi.kubevirt.io/id"
"""Pod label: the VMI's name. Pods that an older KubeVirt made do not have it."""

MISMATCH_SINCE = (1, 3)
"""First KubeVirt whose templates have mismatchLabelKeys in pod terms."""

PRIORITIES_SINCE = (1, 9)
"""First KubeVirt in which virt-controller queues migrations by priority, without a feature gate."""

VMI_ID_SINCE = (1, 7)
"""First KubeVirt whose launcher pods have the label VMI_ID (services/template.go of v1.7.0, podLabels)."""

VM_HOSTNAME = "vm.kubevirt.io/name"
"""Pod label: the guest's hostname, whatever the key says. Several VMs may share it."""

_LIMIT = 63
_KEPT = 54


def vmi_id(name: str) -> str:
    """The value of VMI_ID for a VMI of this name."""
    if len(name) <= _LIMIT:
        return name
    return f"{name[:_KEPT]}-{hashlib.sha1(name.encode()).hexdigest()[:8]}"


def hostname(vm: Workload) -> str:
    """The value of VM_HOSTNAME for a VirtualMachine."""
    return hostname_of_vmi(vm.ref.name, vm.template.get("spec") or {})


def hostname_of_vmi(name: str, spec: t.Mapping[str, JSON]) -> str:
    """The value of VM_HOSTNAME for a VMI of this name and spec (pkg/dns, SanitizeHostname)."""
    own = spec.get("hostname")
    return str(own) if own else name.split(".", 1)[0][:_LIMIT]


POOL_REVISION = "kubevirt.io/vm-pool-revision-name"
"""Label of the VMs of a pool and of their VMIs: the ControllerRevision with the pool's spec that each was made from.
The controller of the pool sets it, also in the templates of the VMs (watch/pool/pool.go)."""


HOST_MODEL_CPU = "host-model-cpu.node.kubevirt.io/"
HOST_MODEL_FEATURE = "host-model-required-features.node.kubevirt.io/"
MIGRATION_CPU = "cpu-model-migration.node.kubevirt.io/"
CPU_FEATURE = "cpu-feature.node.kubevirt.io/"
CPU_VENDOR = "cpu-vendor.node.kubevirt.io/"
CPU_MODEL = "cpu-model.node.kubevirt.io/"
MACHINE_TYPE = "machine-type.node.kubevirt.io/"
"""Prefixes of node labels of KubeVirt's node labeller (api/core/v1/types.go): the CPU model that a node has
and the features that belong to it, models that a VM can migrate to it with, its features, its vendor,
models that a VM can start with, and types of virtual machines."""

MACHINE_TYPE_SINCE = (1, 6)
"""First KubeVirt whose launcher pods ask for the machine type (services/nodeselectorrenderer.go, WithMachineType;
not in v1.5.0)."""

HOST_MODEL = "host-model"
"""The CPU model of a VM that does not ask for one: the model of the node on which it starts."""

_NODE_KEYS = frozenset({"kubernetes.io/arch", "cpumanager"})
_POD_LABELS = frozenset(
    {
        "pod-template-hash",
        "pod-template-generation",
        "controller-revision-hash",
        POD_NAME,
        POD_INDEX,
    }
)
_BOUND_LABELS = frozenset({"topology.kubernetes.io/zone", "topology.kubernetes.io/region"})
"""Copied from the node at binding (Kubernetes 1.35, KEP 4742): a new pod has none of these yet."""


def of_kubevirt(key: str) -> bool:
    """Whether a key is in KubeVirt's domain."""
    domain = key.partition("/")[0]
    return domain == "kubevirt.io" or domain.endswith(".kubevirt.io")


def adds_node_key(key: str) -> bool:
    """Whether KubeVirt itself makes launcher pods ask for a node label: schedulable, machine type,
    CPU model and features."""
    return key in _NODE_KEYS or of_kubevirt(key)


def adds_toleration(toleration: Toleration) -> bool:
    """Whether it is a default toleration (not-ready, unreachable; more for DaemonSets) or one of
    KubeVirt's own."""
    return toleration.key.startswith("node.kubernetes.io/") or of_kubevirt(toleration.key)


def adds_anti_affinity(term: PodTerm) -> bool:
    """Whether it is the term that keeps a migration's target off the node of its source."""
    requirements = term.selector.requirements if term.selector is not None else ()
    keys = {requirement.key for requirement in requirements}
    return term.topology_key == HOSTNAME and keys == {CREATED_BY}


def carried_labels(labels: Labels) -> dict[str, str]:
    """The labels that the next pod of the same owner carries beside those of its template."""
    return {k: v for k, v in labels.items() if k in _POD_LABELS or of_kubevirt(k)}


def unbound_labels(labels: Labels) -> dict[str, str]:
    """The labels without those that binding copied from the node."""
    return {k: v for k, v in labels.items() if k not in _BOUND_LABELS}


def cluster_node_selector(platform: Platform) -> Labels:
    """The node labels that every launcher pod of the cluster asks for."""
    developer = platform.configuration.get("developerConfiguration") or {}
    selector: Labels = developer.get("nodeSelectors") or {}
    return selector


def vm_spec(workload: Workload) -> t.Mapping[str, JSON]:
    """The spec of the VirtualMachine that a workload is, or that a pool makes."""
    spec = workload.spec
    return (spec.get("virtualMachineTemplate") or {}).get("spec") or spec


def needs_expansion(workload: Workload) -> bool:
    """Whether an instance type or a preference adds to the template."""
    spec = vm_spec(workload)
    return bool(spec.get("instancetype") or spec.get("preference"))


class AddedNodeSelectors:
    """The node labels that are added to the templates of one snapshot."""

    def __init__(self, snapshot: Snapshot) -> None:
        self._expanded, self._vmis = snapshot.expanded, snapshot.vmis
        self._workloads = snapshot.workloads_by_ref
        self._of_cluster = cluster_node_selector(snapshot.platform)

    def of(self, workload: Workload) -> dict[str, str]:
        """Labels with their values, without those whose keys the template has."""
        if not workload.runs_vms:
            return {}
        typed = "instancetype" in vm_spec(workload)
        if not typed and not self._of_cluster:
            return {}
        own = (workload.template.get("spec") or {}).get("nodeSelector") or {}
        added = dict(self._of_cluster)
        if typed:
            # With its instance type, as the server expands the template or as it is on a running VMI.
            template = self._expanded.get(workload.ref) or {}
            spec = template.get("spec") or self._running.get(workload.ref) or {}
            added |= spec.get("nodeSelector") or {}
        return {key: value for key, value in added.items() if key not in own}

    @cached_property
    def _running(self) -> dict[Ref, t.Mapping[str, JSON]]:
        return {vmi_workload(vmi, self._workloads): vmi.spec for vmi in self._vmis}
