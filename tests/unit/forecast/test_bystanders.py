# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Instances that break no rule themselves, and whose move heals several that do."""

from __future__ import annotations

from ansible_collections.virt.placement.plugins.module_utils.compliance.instances import (
    InstanceSelection,
    movable_instances,
)
from ansible_collections.virt.placement.plugins.module_utils.model.plan import Method, Plan
from ansible_collections.virt.placement.plugins.module_utils.planning.plan import plan_moves
from ansible_collections.virt.placement.plugins.module_utils.planning.plan_request import (
    PlanRequest,
)
from tests.support.cluster import ZONE, Cluster, cluster, machine

ABOUT_A = {
    "topologySpreadConstraints": [
        {
            "maxSkew": 1,
            "topologyKey": ZONE,
            "whenUnsatisfiable": "DoNotSchedule",
            "labelSelector": {"matchLabels": {"app": "a"}},
        }
    ]
}


def planned(made: Cluster) -> Plan:
    request = PlanRequest(InstanceSelection(frozenset({"shop"})), allow=frozenset({Method.MIGRATE}))
    snapshot = made.snapshot()
    return plan_moves(snapshot, request, movable_instances(snapshot, request.selection))


def test_one_move_of_a_selected_instance_repairs_all_that_select_it() -> None:
    """Who spreads by the pods of others has nothing to do with others who do the same."""
    made = cluster("ab")
    for name in ("a-1", "a-2"):
        machine(made, name, "n1", app="a")
    for name in ("b-1", "b-2"):
        machine(made, name, "n1", ABOUT_A, app="b")

    plan = planned(made)

    assert plan.skipped == ()
    assert [(move.instance.name, move.targets) for move in plan.moves] == [("a-1", ("n2",))]
