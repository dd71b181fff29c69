# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Groups that have nothing in common but room on nodes."""

from __future__ import annotations

import pytest

from ansible_collections.virt.placement.plugins.module_utils.compliance.instances import (
    InstanceSelection,
    movable_instances,
)
from ansible_collections.virt.placement.plugins.module_utils.model.plan import Method, Plan
from ansible_collections.virt.placement.plugins.module_utils.planning.plan import plan_moves
from ansible_collections.virt.placement.plugins.module_utils.planning.plan_request import (
    PlanRequest,
)
from tests.support.cluster import (
    ZONE,
    Cluster,
    cluster,
    expression,
    keep_apart,
    machine,
    node_affinity,
)


def two_groups(choosy: str) -> Cluster:
    """Two pairs in zone a that are to be apart. There is one place in zone b, where nodes are the
    emptiest, and more in zone c; the pair `choosy` cannot use that."""
    made = cluster("abc")
    made.nodes["n2"]["status"]["allocatable"]["cpu"] = "1"
    for name in "xy":
        machine(made, name, "n3")
    for group in ("first", "second"):
        spec = {"affinity": keep_apart(g=group)}
        if group == choosy:
            only = node_affinity({"matchExpressions": [expression(ZONE, "NotIn", "c")]})
            spec = {"affinity": {**spec["affinity"], **only["affinity"]}}
        for number in (1, 2):
            machine(made, f"{group}-{number}", "n1", spec, g=group)
    return made


def planned(made: Cluster) -> Plan:
    request = PlanRequest(InstanceSelection(frozenset({"shop"})), allow=frozenset({Method.MIGRATE}))
    snapshot = made.snapshot()
    return plan_moves(snapshot, request, movable_instances(snapshot, request.selection))


@pytest.mark.parametrize("choosy", ["first", "second"])
def test_last_capacity_goes_to_the_group_without_another_node(choosy: str) -> None:
    plan = planned(two_groups(choosy))
    assert plan.skipped == ()
    assert len(plan.moves) == 2
    to = {move.instance.name.partition("-")[0]: move.targets[0] for move in plan.moves}
    assert to[choosy] == "n2"
    assert set(to.values()) == {"n2", "n3"}


def test_with_capacity_for_one_group_one_is_repaired_and_one_skipped() -> None:
    made = two_groups("second")
    made.nodes["n3"]["status"]["allocatable"]["cpu"] = "2"
    plan = planned(made)
    assert len(plan.moves) == 1
    assert len(plan.skipped) == 2
