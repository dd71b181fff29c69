# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Pods of a drain end one by one: what still stands counts for a spread, and leads who is to be near."""

from __future__ import annotations

import typing as t

import pytest

from ansible_collections.virt.placement.plugins.module_utils.forecast.conclusion import (
    ForecastResult,
)
from ansible_collections.virt.placement.plugins.module_utils.forecast.simulation import (
    PendingPod,
    PlacementSimulation,
)
from ansible_collections.virt.placement.plugins.module_utils.scheduler.framework import pod_key
from tests.support.cluster import (
    HOST,
    ZONE,
    Cluster,
    affinity,
    cluster,
    deployment,
    keep_apart,
    machine,
    selector,
    spread,
)
from tests.unit.planning.scenes import lost
from tests.unit.scheduler import builders
from tests.unit.scheduler.builders import REQUIRED, term


def spread_over_three(on_the_lost: int) -> Cluster:
    """Zone c has only the node that is drained."""
    made = cluster("abc")
    deployment(made, "web", ["n1", "n2", *["n3"] * on_the_lost], spread(ZONE, 2, app="web"))
    return made


def test_a_spread_lets_in_early_what_it_would_refuse_late() -> None:
    """At once, zone c counts 0 and two have a place. With two that stand there, zone a takes one
    more, with one another one, and the last goes to zone b."""
    found = lost(spread_over_three(3), "n3")

    assert (found.answer, found.instances_to_schedule, found.min_unschedulable) == (
        ForecastResult.POSSIBLE,
        3,
        0,
    )
    assert len(found.pending) == 1
    assert not any(each.certain for each in found.pending)
    assert len(found.moves) == 3


@pytest.mark.parametrize(("on_the_lost", "least"), [(4, 1), (9, 2)])
def test_search_counts_running_pods(on_the_lost: int, least: int) -> None:
    found = lost(spread_over_three(on_the_lost), "n3")

    assert (found.answer, found.min_unschedulable) == (ForecastResult.IMPOSSIBLE, least)
    assert found.reasons[0].startswith("every choice of nodes was tried: at most ")


def test_pod_with_affinity_to_a_pod_that_ends_may_be_placed_first() -> None:
    made = cluster("aab")
    made.bare_pod("leader", "n1", app="leader")
    near = affinity({"labelSelector": selector(app="leader"), "topologyKey": ZONE})
    deployment(made, "db", ["n1"], near)

    found = lost(made, "n1")

    assert found.answer is ForecastResult.POSSIBLE
    assert [each.certain for each in found.pending] == [False]
    assert [move.targets for move in found.moves] == [("n2",)]


def test_the_source_of_a_migration_counts_until_it_has_ended() -> None:
    """Both targets find a place on the other node at once: the two sources count there still. Once
    the first of them has ended the other target would be one too many."""
    made = cluster("ab")
    for name, node in (("db-a", "n1"), ("db-b", "n1"), ("db-c", "n2")):
        machine(made, name, node, spread(HOST, app="db"), app="db")

    found = lost(made, "n1")

    assert found.answer is ForecastResult.POSSIBLE
    assert [each.certain for each in found.not_migratable] == [False]


def test_no_single_pod_of_several_is_certain_to_stay_pending() -> None:
    made = cluster("ab")
    spec = {"affinity": keep_apart(over=HOST, plain=True, app="web")}
    deployment(made, "web", ["n1"], spec)
    deployment(made, "db", ["n1"], {"affinity": keep_apart(over=HOST, plain=True, app="db")})
    made.nodes["n2"]["status"]["allocatable"]["cpu"] = "1"

    found = lost(made, "n1")

    assert (found.answer, found.min_unschedulable) == (ForecastResult.IMPOSSIBLE, 1)
    assert [each.certain for each in found.pending] == [False]


def test_drain_of_many_pods_places_those_that_have_room() -> None:
    found = lost(spread_over_three(75), "n3")

    assert (found.answer, found.min_unschedulable) == (ForecastResult.IMPOSSIBLE, 45)
    assert len(found.moves) == 30


def test_pod_of_a_deployment_is_created_when_the_one_before_it_terminates() -> None:
    """By affinity it goes to the node of that one, which counts for affinity until it has gone."""
    spec: dict[str, t.Any] = {
        "affinity": {"podAffinity": {REQUIRED: [term({"app": "db"}, HOST)]}},
        **spread(HOST, app="db"),
    }
    old = builders.pod("old", "n1", labels={"app": "db"}, **spec)
    new = builders.pod("new", labels={"app": "db"}, **spec)
    free = builders.index([builders.node("n1"), builders.node("n2")])
    simulation = PlacementSimulation(free, [PendingPod(new, old, "recreate")], ended=[old])

    open_to = []
    with simulation.ended_present():
        for _phase in ("runs", "terminates", "has gone"):
            open_to.append(simulation.table.names_of(simulation.open_nodes(0)))
            if simulation.can_advance(0):
                simulation.advance(0)

    assert open_to == [(), ("n1",), ("n1", "n2")]


def test_source_of_a_migration_goes_with_its_placement_again_once_none_are_to_stay() -> None:
    old = builders.pod("old", "n1", labels={"app": "db"})
    new = builders.pod("new", labels={"app": "db"}, **spread(HOST, app="db"))
    placed = builders.index([builders.node("n1"), builders.node("n2")], [old])
    simulation = PlacementSimulation(placed, [PendingPod(new, old, "migrate")])

    with simulation.ended_present():
        simulation.place(0, "n2")
        assert pod_key(old) in placed
    simulation.place(0, "n2")
    assert pod_key(old) not in placed
