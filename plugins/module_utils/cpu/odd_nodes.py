# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which nodes differ from the others by their CPU labels, so that VMs do not move between them?"""

from __future__ import annotations

import typing as t
from collections import defaultdict
from dataclasses import dataclass

from ..model.rendering import listed, plural
from .baseline import common_models
from .labels_of_nodes import NodeCpu, groups
from .models import newest, rank

_SHOWN = 5


@dataclass(frozen=True)
class OddNode:
    """`code` names the kind of difference, `why` is a sentence about it."""

    node: str
    code: str
    why: str


def odd_nodes(cpus: t.Sequence[NodeCpu]) -> tuple[OddNode, ...]:
    """By node, each with one entry for each difference."""
    found = [*_labels(cpus), *_vendors(cpus)]
    for (_architecture, vendor), members in groups(cpus).items():
        found += [*_older(members, vendor), *_other_features(members)]
    return tuple(sorted(found, key=lambda odd: (odd.node, odd.code)))


def _labels(cpus: t.Iterable[NodeCpu]) -> t.Iterator[OddNode]:
    for cpu in cpus:
        if not cpu.expects_models:
            continue
        if not cpu.models:
            why = "has no label of a CPU model, so only VMs with host-model or host-passthrough start there"
            yield OddNode(cpu.name, "no_models", why)
        elif not cpu.host_model:
            why = "has no label host-model-cpu.node.kubevirt.io/, so KubeVirt does not ask for the CPU model of a VM"
            yield OddNode(cpu.name, "no_host_model", f"{why} with host-model that leaves it")
        if cpu.obsolete:
            why = f"its own CPU model {cpu.host_model} is obsolete, so no VM with host-model starts there"
            yield OddNode(cpu.name, "obsolete_host_model", why)


def _vendors(cpus: t.Sequence[NodeCpu]) -> t.Iterator[OddNode]:
    """The nodes of each group that is smaller than the largest one."""
    found = groups(cpus)
    total = sum(map(len, found.values()))
    most = max(map(len, found.values()), default=0)
    for (_architecture, vendor), members in found.items():
        if len(members) < most:
            for cpu in members:
                has = f"has a CPU of {vendor}" if vendor else "has no label of a vendor"
                why = f"{has}, {total - len(members)} of {total} nodes another one, and no VM is migrated between them"
                yield OddNode(cpu.name, "other_vendor", why)


def _older(members: t.Sequence[NodeCpu], vendor: str) -> t.Iterator[OddNode]:
    """At most half of the nodes, all with the same models, without which the others would share a newer one."""
    by_models: dict[frozenset[str], list[NodeCpu]] = defaultdict(list)
    for cpu in members:
        by_models[cpu.models].append(cpu)
    shared = newest(common_models(members), vendor)
    for models, alike in by_models.items():
        others = [cpu for cpu in members if cpu.models != models]
        if not others or len(alike) > len(others):
            continue
        better = newest(common_models(others), vendor)
        if better and (not shared or _generation(better) > _generation(shared)):
            limit = (
                f"the newest model of all is {shared}"
                if shared
                else "no model is known to be in common"
            )
            also = (
                f" and {plural(len(alike) - 1, 'node')} with the same models"
                if len(alike) > 1
                else ""
            )
            for cpu in alike:
                why = f"without it{also}, the newest model of the others would be {better}; now {limit}"
                yield OddNode(cpu.name, "older", why)


def _generation(model: str) -> int:
    place = rank(model)
    return place.generation if place is not None else -1


def _other_features(members: t.Sequence[NodeCpu]) -> t.Iterator[OddNode]:
    """Nodes whose own model is that of others, and whose features differ from those of most of these: VMs with
    host-model may move in one direction alone."""
    by_model: dict[str, list[NodeCpu]] = defaultdict(list)
    for cpu in members:
        if cpu.host_model:
            by_model[cpu.host_model].append(cpu)
    for model, alike in by_model.items():
        by_features: dict[frozenset[str], list[NodeCpu]] = defaultdict(list)
        for cpu in alike:
            by_features[cpu.features].append(cpu)
        usual = max(by_features, key=lambda x: (len(by_features[x]), len(x), sorted(x)))
        for features, different in by_features.items():
            differences = [
                f"{verb} {listed(sorted(names), _SHOWN)}"
                for verb, names in (("lacks", usual - features), ("has", features - usual))
                if names
            ]
            others = plural(len(by_features[usual]), "other node")
            for cpu in different if differences else ():
                why = f"{' and '.join(differences)}, other than {others} with the same CPU model {model}"
                yield OddNode(cpu.name, "other_features", why)
