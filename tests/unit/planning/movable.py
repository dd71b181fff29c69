# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Movable instances whose facts a test states, and a simulation that counts risks as violations."""

from __future__ import annotations

import typing as t

from ansible_collections.virt.placement.plugins.module_utils.compliance.instances import (
    DeclaredInstance,
    InstanceReader,
)
from ansible_collections.virt.placement.plugins.module_utils.model.objects import Pod
from ansible_collections.virt.placement.plugins.module_utils.model.plan import Uid
from ansible_collections.virt.placement.plugins.module_utils.model.snapshot import (
    Instance,
    Snapshot,
    Workload,
)
from ansible_collections.virt.placement.plugins.module_utils.planning.simulation import (
    ClusterSimulation,
)
from ansible_collections.virt.placement.plugins.module_utils.scheduler.framework import FilterStatus


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
