# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What KubeVirt, the API server and controllers put on a pod by themselves, and take off again.

A launcher pod never says just what its template says (KubeVirt: services/template.go,
migration.go); what is listed here is neither missing in a template nor stale on a pod.
"""

from __future__ import annotations

from ..model.objects import Labels, PodTerm, Requirement, Toleration
from ..model.topology import HOSTNAME

CREATED_BY = "kubevirt.io/created-by"
"""Pod label: uid of the VirtualMachineInstance. Source and target of a migration share it."""

_NODE_KEYS = frozenset({"kubernetes.io/arch", "cpumanager"})
_POD_LABELS = frozenset(
    {
        "pod-template-hash",
        "pod-template-generation",
        "controller-revision-hash",
        "statefulset.kubernetes.io/pod-name",
        "apps.kubernetes.io/pod-index",
    }
)
_BOUND_LABELS = frozenset({"topology.kubernetes.io/zone", "topology.kubernetes.io/region"})
"""Copied from the node at binding (Kubernetes 1.35, KEP 4742): a new pod has none of them yet."""


def of_kubevirt(key: str) -> bool:
    """The key lies in KubeVirt's domain."""
    domain = key.partition("/")[0]
    return domain == "kubevirt.io" or domain.endswith(".kubevirt.io")


def adds_node_key(key: str) -> bool:
    """A node label that launcher pods ask for without being told: schedulable, machine type, CPU."""
    return key in _NODE_KEYS or of_kubevirt(key)


def adds_toleration(toleration: Toleration) -> bool:
    """Default tolerations (not-ready, unreachable; more for DaemonSets) and KubeVirt's own."""
    return toleration.key.startswith("node.kubernetes.io/") or of_kubevirt(toleration.key)


def adds_anti_affinity(term: PodTerm) -> bool:
    """The term that keeps a migration's target off the node of its source."""
    keys = {requirement.key for requirement in _requirements(term)}
    return term.topology_key == HOSTNAME and keys == {CREATED_BY}


def carried_labels(labels: Labels) -> dict[str, str]:
    """The labels that the next pod of the same owner carries beside those of its template."""
    return {k: v for k, v in labels.items() if k in _POD_LABELS or of_kubevirt(k)}


def unbound_labels(labels: Labels) -> dict[str, str]:
    """The labels without those that binding copied from the node."""
    return {k: v for k, v in labels.items() if k not in _BOUND_LABELS}


def _requirements(term: PodTerm) -> tuple[Requirement, ...]:
    return term.selector.requirements if term.selector is not None else ()
