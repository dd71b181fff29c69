# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Movable instances whose facts a test states, aspects that keep them, and a simulation that counts risks as
violations."""

from __future__ import annotations

import typing as t

from ansible_collections.virt.placement.plugins.module_utils.compliance.instances import (
    DeclaredInstance,
    InstanceReader,
)
from ansible_collections.virt.placement.plugins.module_utils.model.objects import Pod
from ansible_collections.virt.placement.plugins.module_utils.model.obstacle import Obstacle
from ansible_collections.virt.placement.plugins.module_utils.model.plan import Method, Uid
from ansible_collections.virt.placement.plugins.module_utils.model.snapshot import (
    Instance,
    Snapshot,
    Workload,
)
from ansible_collections.virt.placement.plugins.module_utils.planning.simulation import (
    ClusterSimulation,
)
from ansible_collections.virt.placement.plugins.module_utils.scheduler.framework import FilterStatus


class Kept:
    """An aspect that keeps instances, by uid, from a method, or from all of them."""

    def __init__(self, obstacles: t.Mapping[Uid, Obstacle], method: Method | None = None) -> None:
        self.obstacles, self.method = obstacles, method

    def obstacle(self, instance: Instance, method: Method) -> Obstacle | None:
        return self.obstacles.get(instance.uid) if self.method in (None, method) else None


class StrictSimulation(ClusterSimulation):
    """Risks (a cordon, a taint, too little room) count as violations, as in the recorded cases."""

    def violations(self, uid: Uid) -> tuple[FilterStatus, ...]:
        return self.failures(uid)


def movable(
    instance: Instance, pod: Pod, workload: Workload | None = None, **facts: t.Any
) -> DeclaredInstance:
    """`facts` are properties of DeclaredInstance."""
    found = DeclaredInstance(instance, pod, workload, InstanceReader(Snapshot()))
    for name, value in facts.items():
        assert hasattr(DeclaredInstance, name), name
        setattr(found, name, value)
    return found
