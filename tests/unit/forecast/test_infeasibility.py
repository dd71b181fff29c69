# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which pods that keep apart are matched with domains?"""

from __future__ import annotations

import pytest

from ansible_collections.virt.placement.plugins.module_utils.forecast.bounds import reachable_nodes
from ansible_collections.virt.placement.plugins.module_utils.forecast.infeasibility import (
    examine,
)
from ansible_collections.virt.placement.plugins.module_utils.forecast.simulation import (
    PendingPod,
    PlacementSimulation,
)
from tests.unit.scheduler.builders import apart, index, node, pod


@pytest.mark.parametrize(("pods", "hinted"), [(1, set()), (2, {0, 1})])
def test_only_pods_that_keep_apart_from_each_other_are_matched_with_domains(
    pods: int, hinted: set[int]
) -> None:
    db = {"app": "db"}
    nodes = [node("n1", "a"), node("n2", "b"), node("n3", "b")]
    pending = [PendingPod(pod(f"db{n}", labels=db, affinity=apart(db))) for n in range(pods)]
    simulation = PlacementSimulation(index(nodes), pending)

    found = examine(simulation, reachable_nodes(simulation))

    assert (found.proofs, set(found.hints)) == ((), hinted)
