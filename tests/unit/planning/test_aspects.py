# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""A plan asks its late aspects while it is made, and is made once."""

from __future__ import annotations

import os
import random

from hypothesis import given, settings
from hypothesis import strategies as st

from ansible_collections.virt.placement.plugins.module_utils.compliance.instances import (
    InstanceSelection,
    movable_instances,
)
from ansible_collections.virt.placement.plugins.module_utils.model.obstacle import Obstacle
from ansible_collections.virt.placement.plugins.module_utils.model.plan import Method, Uid
from ansible_collections.virt.placement.plugins.module_utils.model.snapshot import (
    Instance,
    Snapshot,
)
from ansible_collections.virt.placement.plugins.module_utils.planning.plan import plan_moves
from ansible_collections.virt.placement.plugins.module_utils.planning.plan_request import (
    PlanRequest,
    Scope,
)

from .random_clusters import random_cluster

SHOP = InstanceSelection(namespaces=frozenset({"shop"}))
SCOPES: tuple[Scope, ...] = ("violated", "preference_not_met", "not_enforced", "all")
WHY = Obstacle("pending_changes", "a restart would also apply other changes")


class Refusing:
    """A late aspect that refuses the restarts of some VMs, and keeps what it was asked."""

    def __init__(self, uids: set[Uid]) -> None:
        self.uids = uids
        self.asked: list[tuple[Uid, Method]] = []
        self.refused: list[Uid] = []

    def obstacle(self, instance: Instance, method: Method) -> Obstacle | None:
        return WHY if method is Method.RESTART and instance.uid in self.refused else None

    def permits(self, instance: Instance, method: Method) -> bool:
        self.asked.append((instance.uid, method))
        if method is Method.RESTART and instance.uid in self.uids:
            self.refused.append(instance.uid)
            return False
        return True


def snapshot_of(seed: int) -> Snapshot:
    """A random cluster, of which half of the VMs cannot be migrated, and all can be restarted."""
    made, chance = random_cluster(seed, rooms=("2", "3", "16")), random.Random(seed)
    for workload in made.workloads.values():
        if workload["kind"] == "VirtualMachine":
            workload["spec"]["runStrategy"] = "Always"
    for vmi in made.machines.values():
        if chance.random() < 0.5:
            condition = {"type": "LiveMigratable", "status": "False", "reason": "HostDevice"}
            vmi["status"]["conditions"] = [condition]
    return made.snapshot()


@settings(max_examples=int(os.environ.get("PLACEMENT_EXAMPLES", "60")))
@given(seed=st.integers(0, 10**9), scope=st.sampled_from(SCOPES))
def test_plan_that_is_made_once_has_only_moves_that_were_permitted_and_ends(
    seed: int, scope: Scope
) -> None:
    """It ends since each refusal takes a method away from an instance, and none is refused twice."""
    snapshot = snapshot_of(seed)
    candidates = movable_instances(snapshot, SHOP)
    chance = random.Random(seed)
    late = Refusing({x.uid for x in candidates if chance.random() < 0.5})
    allow = frozenset({Method.MIGRATE, Method.RESTART})
    request = PlanRequest(SHOP, scope, allow, late=[late], apply_pending_changes=True)

    plan = plan_moves(snapshot, request, candidates)

    moves = {(move.uid, move.method) for move in plan.moves}
    assert moves <= set(late.asked), "each was asked for"
    assert not [uid for uid, method in moves if method is Method.RESTART and uid in late.uids]
    assert len(late.refused) == len(set(late.refused))
