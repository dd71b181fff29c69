# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a search of all sequences proves, and where it proves nothing."""

from __future__ import annotations

import pytest

from ansible_collections.virt.placement.plugins.module_utils.forecast.conclusion import (
    NO_PROOF,
    Doubt,
    ForecastResult,
)
from ansible_collections.virt.placement.plugins.module_utils.forecast.decide import (
    Decision,
    SearchOptions,
    evaluate,
)
from ansible_collections.virt.placement.plugins.module_utils.forecast.simulation import (
    PendingPod,
    PlacementSimulation,
)
from tests.unit.scheduler.builders import index, node, pod


def packed(options: SearchOptions) -> Decision:
    """Pods of 3, 3 and 2 CPUs on two nodes of 4: as much as there is, and one has no node."""
    pending = [PendingPod(pod(name, cpu=name[-1])) for name in ("a3", "b3", "c2")]
    nodes = [node(name, cpu="4") for name in ("n1", "n2")]
    return evaluate(PlacementSimulation(index(nodes), pending), options)


def test_search_of_all_sequences_proves_that_a_pod_has_no_node() -> None:
    decision = packed(SearchOptions())

    assert (decision.answer, decision.least) == (ForecastResult.IMPOSSIBLE, 1)


@pytest.mark.parametrize(
    "options",
    [SearchOptions(limit=1), SearchOptions((Doubt("old_pods_end", "", NO_PROOF),))],
    ids=["ends early", "several old pods may end at once"],
)
def test_search_that_does_not_see_every_sequence_proves_nothing(options: SearchOptions) -> None:
    decision = packed(options)

    assert (decision.answer, decision.least) == (ForecastResult.UNKNOWN, 0)
