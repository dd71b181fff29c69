# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""A plan asks its late aspects while it is made, and is made once."""

from __future__ import annotations

import os
import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ansible_collections.virt.placement.plugins.module_utils.compliance.instances import (
    InstanceSelection,
    movable_instances,
)
from ansible_collections.virt.placement.plugins.module_utils.kubevirt.moving import MoveOptions
from ansible_collections.virt.placement.plugins.module_utils.model.objects import Pod, Ref
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
from ansible_collections.virt.placement.plugins.module_utils.rules.term_slots import TermLocation
from tests.support.cluster import Cluster, apart

from .movable import Kept, movable
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


def test_vm_whose_restart_is_refused_migrates_where_that_enforces_a_part() -> None:
    """A restart would bring the label of its template, too; a migration enforces the terms alone."""
    cluster = Cluster()
    ref = cluster.run("db", "n1")
    cluster.workloads[ref]["spec"]["runStrategy"] = "Always"
    label = (TermLocation.LABEL, {"key": "tier", "value": "db"})
    cluster.write(ref, "apart", (TermLocation.ANTI_AFFINITY, apart(tier="db")), label)
    cluster.propagate(ref)
    snapshot = cluster.snapshot()
    candidates = movable_instances(snapshot, SHOP)
    allow = frozenset({Method.MIGRATE, Method.RESTART})

    def methods(late: Refusing) -> list[Method]:
        request = PlanRequest(SHOP, "not_enforced", allow, late=[late], apply_pending_changes=True)
        return [move.method for move in plan_moves(snapshot, request, candidates).moves]

    assert methods(Refusing(set())) == [Method.RESTART]
    assert methods(Refusing({x.uid for x in candidates})) == [Method.MIGRATE]


@pytest.mark.parametrize(
    ("awaited", "kept", "waits"),
    [(None, False, True), (Method.RESTART, False, False), (None, True, False)],
)
def test_instance_that_the_run_has_moved_is_waited_for_as_any_other(
    awaited: Method | None, kept: bool, waits: bool
) -> None:
    """Not for a method that is not allowed, and not where an aspect keeps it."""
    pod = Pod("shop", "db", node_name="n1")
    instance = Instance(Ref("VirtualMachineInstance", "shop", "db"), "db", None, pod)
    options = MoveOptions((), Obstacle("in_progress", "volumes are changed", True), awaited=awaited)
    vm = movable(instance, pod, move_options=lambda **_options: options)
    label = Obstacle("do_not_move", "it has the label")
    request = PlanRequest(
        SHOP,
        aspects=[Kept({"db": label} if kept else {})],
        settled=[Kept({"db": Obstacle("moved_already", "this rollout moved it already")})],
    )

    assert request.is_waited_for(vm) is waits
