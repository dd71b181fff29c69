# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which pods tie a VM to its node, so that it can never migrate live?

The target pod of a migration needs another node (KubeVirt gives it required anti-affinity with its source pod,
virt-controller, watch/migration/migration.go). Two VMs that require each other on one node have none: each target
would have to be where the other one is.
"""

from __future__ import annotations

import typing as t

from ..model.objects import Pod
from ..model.obstacle import Obstacle
from ..model.rendering import listed
from ..scheduler.framework import PodInfo, pod_key

if t.TYPE_CHECKING:
    from ..scheduler.index import Index

NAMED = 3


def _tied_to(index: Index, pod: Pod) -> tuple[Pod, ...]:
    """The pods on the node of a VM's pod that it must be near, and that must be near it; empty where one of them, or
    the VM, may go elsewhere first."""
    key = pod_key(pod)
    if key not in index:
        return ()
    info = index.placed_info(key)
    near = _near_on_its_node(index, info)
    if near and all(info in _near_on_its_node(index, other) for other in near):
        return tuple(other.pod for other in sorted(near, key=lambda x: x.key))
    return ()


def _near_on_its_node(index: Index, info: PodInfo) -> frozenset[PodInfo]:
    """The other pods that satisfy the required affinity of the pod, where all of them are on its node, and no node
    beside it is in the same topology domain."""
    affinity = info.placement_info.affinity_terms.affinity
    if affinity is None or affinity.differs_in:
        return frozenset()
    others = frozenset(affinity.members) - {info}
    if not others or any(other.node != info.node for other in others):
        return frozenset()
    for topology_key, _counts in affinity.counts_by_key:
        domain = info.node_labels.get(topology_key)
        if domain is not None:
            nodes = index.table.domains(topology_key).get(domain, 0)
            if nodes & (nodes - 1) == 0:
                return others
    return frozenset()


def tied(index: Index, pod: Pod) -> Obstacle | None:
    """The pods that tie a VM's pod to its node. The index holds the cluster as declared."""
    others = _tied_to(index, pod)
    if not others:
        return None
    vms = [f"{x.namespace}/{x.owner.name if x.owner is not None else x.name}" for x in others]
    names = listed(vms, NAMED)
    return Obstacle(
        "tied_to_node",
        f"no live migration is possible, since it and {names} require each other on one node; make these terms"
        " preferred to migrate them",
    )
