# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What do the labels of KubeVirt's node labeller say about the CPU of a node?

Source: KubeVirt 1.8.4, pkg/virt-handler/node-labeller (prepareLabels, cpu_plugin.go) and
cmd/virt-launcher/node-labeller.sh. `models` are those that libvirt calls usable and KubeVirt's configuration does not
call obsolete. `features` are those that the host offers to a guest with host-model. The labels
cpu-model-migration.node.kubevirt.io/ name each model that libvirt knows, also one that the host cannot run.
"""

from __future__ import annotations

import typing as t
from collections import defaultdict
from dataclasses import dataclass

from ..kubevirt.labels import (
    CPU_FEATURE,
    CPU_MODEL,
    CPU_VENDOR,
    HOST_MODEL_CPU,
    HOST_MODEL_FEATURE,
    SCHEDULABLE,
)
from ..kubevirt.launcher import OBSOLETE_HOST_MODEL
from ..model.objects import Labels, Node

ARCHITECTURE = "kubernetes.io/arch"
_WITH_MODELS = ("amd64", "s390x")
"""Architectures whose nodes get labels of models (node-labeller, archLabeller.supportsNamedModels)."""


@dataclass(frozen=True)
class NodeCpu:
    """The CPU of a node as its labels have it. `zone` is None without a label of the zone."""

    node: Node
    zone: str | None
    architecture: str
    vendor: str
    models: frozenset[str]
    features: frozenset[str]
    host_model: str
    required: frozenset[str]
    obsolete: bool

    @property
    def name(self) -> str:
        return self.node.name

    @property
    def expects_models(self) -> bool:
        """Whether KubeVirt labels nodes of this architecture with models."""
        return self.architecture in _WITH_MODELS


Group = tuple[str, str]
"""Architecture and vendor: no VM is live-migrated from one to another."""


def node_cpus(nodes: t.Iterable[Node], zone_key: str) -> tuple[NodeCpu, ...]:
    """The CPUs of the nodes on which virt-handler runs, or ran, by name."""
    of_vms = sorted((x for x in nodes if SCHEDULABLE in x.labels), key=lambda node: node.name)
    return tuple(
        NodeCpu(
            node=node,
            zone=node.labels.get(zone_key),
            architecture=node.labels.get(ARCHITECTURE, ""),
            vendor=next(iter(sorted(_set(node.labels, CPU_VENDOR))), ""),
            models=_set(node.labels, CPU_MODEL),
            features=_set(node.labels, CPU_FEATURE),
            host_model=next(iter(sorted(_set(node.labels, HOST_MODEL_CPU), reverse=True)), ""),
            required=_set(node.labels, HOST_MODEL_FEATURE),
            obsolete=OBSOLETE_HOST_MODEL in node.labels,
        )
        for node in of_vms
    )


def _set(labels: Labels, prefix: str) -> frozenset[str]:
    """The names after a prefix whose labels are true: pods select that value."""
    return frozenset(
        key.removeprefix(prefix)
        for key, value in labels.items()
        if key.startswith(prefix) and value == "true"
    )


def groups(cpus: t.Iterable[NodeCpu]) -> dict[Group, tuple[NodeCpu, ...]]:
    """The nodes that have models, by architecture and vendor."""
    found: dict[Group, list[NodeCpu]] = defaultdict(list)
    for cpu in cpus:
        if cpu.models:
            found[cpu.architecture, cpu.vendor].append(cpu)
    return {group: tuple(found[group]) for group in sorted(found)}
