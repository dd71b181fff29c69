# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which CPU models do the nodes of a cluster and of a zone have in common, and what must a new node have?"""

from __future__ import annotations

import typing as t
from dataclasses import dataclass

from ..kubevirt.labels import CPU_MODEL
from .labels_of_nodes import NodeCpu, groups
from .models import newest, newest_first
from .reach import VmCpu


@dataclass(frozen=True)
class Baseline:
    """What nodes of one architecture and vendor have in common. `zone` is None for those of the whole cluster.

    `models`: those that each node can run, the newest first. `model`: the newest of them; empty where none is known.
    `must_have` and `must_not_have`: what a new node needs, so that each VM that runs on these nodes can be migrated to
    it, and a VM with the model can start there: labels as `key=value`, and keys.
    """

    zone: str | None
    architecture: str
    vendor: str
    nodes: tuple[str, ...]
    models: tuple[str, ...]
    model: str
    must_have: tuple[str, ...]
    must_not_have: tuple[str, ...]


def baselines(cpus: t.Sequence[NodeCpu], vms: t.Sequence[VmCpu]) -> tuple[Baseline, ...]:
    """For the cluster, and for each zone where there are several."""
    zones = sorted({cpu.zone for cpu in cpus if cpu.zone is not None})
    found = list(_of_scope(None, cpus, vms))
    for zone in zones if len(zones) > 1 else ():
        found += _of_scope(zone, [cpu for cpu in cpus if cpu.zone == zone], vms)
    return tuple(found)


def _of_scope(
    zone: str | None, cpus: t.Sequence[NodeCpu], vms: t.Sequence[VmCpu]
) -> t.Iterator[Baseline]:
    for (architecture, vendor), members in groups(cpus).items():
        names = tuple(cpu.name for cpu in members)
        shared = common_models(members)
        model = newest(shared, vendor)
        asked = {
            text
            for vm in vms
            if vm.node in names and vm.needs is not None
            for text in vm.needs.as_text()
        }
        if model:
            asked.add(f"{CPU_MODEL}{model}=true")
        yield Baseline(
            zone=zone,
            architecture=architecture,
            vendor=vendor,
            nodes=names,
            models=newest_first(shared, vendor),
            model=model or "",
            must_have=tuple(sorted(x for x in asked if not x.startswith("!"))),
            must_not_have=tuple(sorted(x[1:] for x in asked if x.startswith("!"))),
        )


def common_models(cpus: t.Iterable[NodeCpu]) -> frozenset[str]:
    """The models that each of these nodes can run."""
    sets = [cpu.models for cpu in cpus]
    return frozenset.intersection(*sets) if sets else frozenset()
