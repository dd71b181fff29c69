# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which pods have a node in the worst case, while replaced pods terminate?"""

from __future__ import annotations

import typing as t

import pytest

from ansible_collections.virt.placement.plugins.module_utils.forecast.bounds import WorstCase
from ansible_collections.virt.placement.plugins.module_utils.forecast.simulation import (
    PendingPod,
    PlacementSimulation,
)
from tests.support.cluster import spread
from tests.unit.scheduler.builders import REQUIRED, ZONE, index, node, pod, term

DB = {"app": "db"}
AFFINITY: dict[str, t.Any] = {"affinity": {"podAffinity": {REQUIRED: [term(DB)]}}}


def is_placed(*, labels: dict[str, str], spec: dict[str, t.Any], replaced: bool) -> bool:
    """Whether `web` is placed, beside pod `new`, which its terms do not select. With `replaced`, `new` replaces
    `old`, which they select."""
    nodes = [node("n1", "a", cpu="1"), node("n2", "b")]
    stays = pod("stays", "n2", labels=DB)
    old = pod("old", "n1", labels=DB)
    simulation = PlacementSimulation(
        index(nodes, [old, stays]),
        [
            PendingPod(pod("web", labels=labels, cpu="1", **spec)),
            PendingPod(pod("new", cpu="1"), old if replaced else None, "surge"),
        ],
    )
    return WorstCase(simulation).is_placed(0)


@pytest.mark.parametrize("replaced", [True, False])
@pytest.mark.parametrize(
    ("labels", "spec"),
    [(DB, spread(ZONE, app="db")), ({}, AFFINITY)],
    ids=["spread", "affinity"],
)
def test_pod_may_be_unschedulable_once_a_replaced_pod_that_its_term_selects_leaves(
    labels: dict[str, str], spec: dict[str, t.Any], replaced: bool
) -> None:
    assert is_placed(labels=labels, spec=spec, replaced=replaced) is not replaced


@pytest.mark.parametrize(("min_domains", "placed"), [(1, True), (2, False)])
def test_spread_over_fewer_domains_than_min_domains_may_leave_a_pod_unschedulable(
    min_domains: int, placed: bool
) -> None:
    spec = spread(ZONE, app="db")
    spec["topologySpreadConstraints"][0]["minDomains"] = min_domains
    pending = [PendingPod(pod(name, labels=DB, **spec)) for name in ("db1", "db2")]
    simulation = PlacementSimulation(index([node("n1", "a"), node("n2", "a")]), pending)

    assert WorstCase(simulation).is_placed(0) is placed


@pytest.mark.parametrize(("nodes", "placed"), [(2, False), (3, True)])
def test_three_pods_with_anti_affinity_need_three_nodes(nodes: int, placed: bool) -> None:
    spec: dict[str, t.Any] = {"affinity": {"podAntiAffinity": {REQUIRED: [term(DB)]}}}
    pending = [PendingPod(pod(name, labels=DB, **spec)) for name in ("db1", "db2", "db3")]
    zones = [node(f"n{zone}", zone) for zone in "abc"[:nodes]]

    assert WorstCase(PlacementSimulation(index(zones), pending)).is_placed(0) is placed


@pytest.mark.parametrize(("free", "placed"), [("0", False), ("1", True)])
def test_pod_that_replaces_one_of_a_full_node_may_lose_the_room_to_another_pod(
    free: str, placed: bool
) -> None:
    """The old pod leaves first, and the scheduler may try the other pending pod next."""
    nodes = [node("n1", cpu="1"), node("n2", cpu=free)]
    old = pod("old", "n1", cpu="1")
    pending = [PendingPod(pod("new", cpu="1"), old, "replace"), PendingPod(pod("other", cpu="1"))]
    simulation = PlacementSimulation(index(nodes, [old]), pending)

    assert WorstCase(simulation).is_placed(0) is placed


@pytest.mark.parametrize("left", ["", "deleted-node"])
def test_pod_that_terminates_on_no_node_opens_and_closes_none(left: str) -> None:
    """A finalizer can keep a Pending pod, or one whose Node is deleted."""
    pending = [PendingPod(pod("web", labels=DB, **AFFINITY))]
    ended = [pod("old", left, labels=DB)]

    simulation = PlacementSimulation(index([node("n1", "a")]), pending, ended=ended)

    assert simulation.terminating == ()
    assert WorstCase(simulation).is_placed(0)
