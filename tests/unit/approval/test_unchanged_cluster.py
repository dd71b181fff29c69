# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""A plan that was approved is planned again as it was, as long as the cluster has not changed."""

from __future__ import annotations

from dataclasses import replace

import pytest

from ansible_collections.virt.placement.plugins.module_utils.model.topology import Topology
from ansible_collections.virt.placement.plugins.module_utils.moves.run_plan import RunPlan
from ansible_collections.virt.placement.plugins.module_utils.rollout.judged_snapshot import (
    JudgedSnapshot,
)
from ansible_collections.virt.placement.plugins.module_utils.rollout.options import parse_options
from tests.unit.moves.test_gates import GIVEN
from tests.unit.planning.test_aspects import SCOPES, SHOP, snapshot_of


@pytest.mark.parametrize("scope", SCOPES)
@pytest.mark.parametrize("seed", [*range(8), 219, 792, 909])
def test_unchanged_cluster_has_the_approved_moves(seed: int, scope: str) -> None:
    """A VM that is to be restarted may migrate in an attempt that the planner gives up."""
    allow = ["migrate", "restart", "recreate"]
    asked = {**GIVEN, "scope": scope, "allow": allow, "apply_pending_changes": True}
    options = parse_options(asked, Topology.of())
    snapshot = snapshot_of(seed)
    plan = JudgedSnapshot.of(snapshot, SHOP, options).plan()
    approved = replace(options, approved=RunPlan("uid", {}, plan.moves))

    again = JudgedSnapshot.of(snapshot_of(seed), SHOP, approved).plan()

    methods = {move.uid: move.method for move in plan.moves}
    assert {move.uid: move.method for move in again.moves} == methods
