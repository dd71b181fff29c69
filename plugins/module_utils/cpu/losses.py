# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which CPU features would VMs lose with another CPU model, and which would reach more nodes with the common one?

Labels do not say which features a model has. It has none that a node lacks which can run it. Of the others nothing is
known.
"""

from __future__ import annotations

import typing as t
from collections import defaultdict
from dataclasses import dataclass

from ..kubevirt.labels import HOST_MODEL
from ..model.objects import Ref
from .baseline import Baseline
from .labels_of_nodes import NodeCpu
from .node_needs import NodeNeeds
from .reach import HOST_PASSTHROUGH, VmCpu

_ON = ("force", "require")
_OFF = ("disable", "forbid")
"""Policies of features in the spec of a VM, which stay with another model."""
_NAMES_NO_FEATURES = "node labels do not say which CPU features the model {} has"
_MIGRATED = (
    "they have migrated, and nothing shows all CPU features of the node on which they started"
)


@dataclass(frozen=True)
class ModelLoss:
    """What a running VM loses with another model. `current` is its present one. `loses` are CPU features that its node
    offers to it and that the model does not have, `may_lose` those of which it is not known. `unknown` says why more
    may be lost."""

    current: str
    loses: tuple[str, ...] = ()
    may_lose: tuple[str, ...] = ()
    unknown: str = ""


@dataclass(frozen=True)
class ModelChange:
    """VMs that gain from the common model in the same way, with what each loses, as in ModelLoss."""

    current: str
    model: str
    vms: tuple[Ref, ...]
    reaches: int
    """The number of nodes that a VM with the common model can be on."""
    loses: tuple[str, ...]
    may_lose: tuple[str, ...]
    unknown: str


def offered_with(model: str, cpus: t.Iterable[NodeCpu]) -> frozenset[str]:
    """The CPU features that a model may have: those of each node that can run it."""
    sets = [cpu.features for cpu in cpus if model in cpu.models and cpu.features]
    return frozenset.intersection(*sets) if sets else frozenset()


def loss_of(vm: VmCpu, source: NodeCpu, offered: frozenset[str]) -> ModelLoss:
    """Of a VM that runs on the node `source`, with a model that may have the features `offered`."""
    current, features, unknown = _features(vm, source)
    kept = {name for name, policy in vm.policies.items() if policy in _ON}
    return ModelLoss(
        current=current,
        loses=tuple(sorted(features - offered - kept)),
        may_lose=tuple(sorted((features & offered) - kept)),
        unknown=unknown,
    )


def model_changes(
    cpus: t.Sequence[NodeCpu], vms: t.Sequence[VmCpu], baselines: t.Iterable[Baseline]
) -> tuple[ModelChange, ...]:
    """For the running VMs that do not reach each node of the same architecture and vendor that has all else they
    select."""
    by_name = {cpu.name: cpu for cpu in cpus}
    of_cluster = [x for x in baselines if x.zone is None and x.model]
    by_node = {name: baseline for baseline in of_cluster for name in baseline.nodes}
    offered_by = {
        baseline.model: offered_with(baseline.model, cpus)
        for baseline in of_cluster
        if any(by_name[name].features for name in baseline.nodes)
    }
    found: dict[ModelChange, list[Ref]] = defaultdict(list)
    fitting: dict[tuple[NodeNeeds, tuple[str, ...]], list[str]] = {}
    for vm in vms:
        baseline = by_node.get(vm.node)
        if baseline is None or vm.needs is None or vm.model in baseline.models:
            continue
        required = frozenset(name for name, policy in vm.policies.items() if policy == "require")
        asked = vm.needs.without_model(required), baseline.nodes
        if asked not in fitting:
            fitting[asked] = [
                name for name in baseline.nodes if not asked[0].unmet_by(by_name[name].node.labels)
            ]
        if {*vm.nodes, vm.node}.difference(vm.doubtful).issuperset(fitting[asked]):
            continue
        loss = loss_of(vm, by_name[vm.node], offered_by.get(baseline.model, frozenset()))
        change = ModelChange(
            model=baseline.model, vms=(), reaches=len(fitting[asked]), **vars(loss)
        )
        found[change].append(vm.ref)
    changes = (
        ModelChange(**{**vars(change), "vms": tuple(sorted(set(refs)))})
        for change, refs in found.items()
    )
    return tuple(sorted(changes, key=lambda x: (x.model, x.current, x.vms)))


def _features(vm: VmCpu, source: NodeCpu) -> tuple[str, frozenset[str], str]:
    """The present model as text, the features that are offered to the guest, and why it may have more."""
    off = {name for name, policy in vm.policies.items() if policy in _OFF}
    if vm.model not in (HOST_MODEL, HOST_PASSTHROUGH):
        return vm.model, frozenset(), _NAMES_NO_FEATURES.format(vm.model)
    if vm.migrated:
        return vm.model, vm.kept - off, _MIGRATED
    unknown = (
        "" if vm.model == HOST_MODEL else "host-passthrough may have features beyond the labels"
    )
    host = f"{vm.model} ({source.host_model})" if source.host_model else vm.model
    return host, source.features - off, unknown
