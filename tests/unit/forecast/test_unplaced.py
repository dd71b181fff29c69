# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which pods stay unschedulable, and which pods would the scheduler preempt for them?"""

from __future__ import annotations

import pytest

from ansible_collections.virt.placement.plugins.module_utils.forecast.change import what_if
from ansible_collections.virt.placement.plugins.module_utils.forecast.forecast import forecast
from ansible_collections.virt.placement.plugins.module_utils.forecast.unplaced import (
    preemption_nodes,
    victims,
)
from ansible_collections.virt.placement.plugins.module_utils.model.objects import (
    NodeTerm,
    Requirement,
)
from tests.support.cluster import HOST, ZONE, anti_affinity, apart, cluster, deployment, keep_apart
from tests.unit.planning.scenes import JSON, lost, template_write, written
from tests.unit.scheduler.builders import index, node, pod

FULL = [pod("low", "n1", cpu="4", priority=0), pod("high", "n2", cpu="4", priority=9)]


def test_higher_priority_pod_is_unschedulable_and_has_a_preemption_node() -> None:
    scheduler = index([node("n1"), node("n2")], FULL)
    new = pod("new", cpu="1", priority=5)
    assert scheduler.feasible_nodes(new) == ()
    assert preemption_nodes(scheduler, new) == ("n1",)
    assert [victim.name for victim in victims(scheduler, new, "n1")] == ["low"]
    assert scheduler.feasible_nodes(new) == ()


def test_feasible_node_means_no_preemption() -> None:
    scheduler = index([node("n1"), node("n2"), node("n3")], FULL)
    assert preemption_nodes(scheduler, pod("new", cpu="1", priority=5)) == ()


def test_no_preemption_if_it_frees_too_little_or_policy_is_never() -> None:
    scheduler = index([node("n1"), node("n2")], FULL)
    assert preemption_nodes(scheduler, pod("new", cpu="5", priority=5)) == ()
    assert preemption_nodes(scheduler, pod("new", cpu="1", priority=0)) == ()
    never = pod("new", cpu="1", priority=5, preemptionPolicy="Never")
    assert preemption_nodes(scheduler, never) == ()


def test_pod_is_not_its_own_victim() -> None:
    running = pod("vm", "n1", cpu="4", priority=5)
    scheduler = index([node("n1")], [running])
    assert preemption_nodes(scheduler, running) == ()
    assert preemption_nodes(scheduler, pod("vm", cpu="4", priority=7), without="shop/vm") == ()
    assert scheduler.feasible_nodes(running, without="shop/vm") == ("n1",)


@pytest.mark.parametrize(
    ("priority", "more", "preemption_candidates"),
    [(1000, {}, ["low"]), (0, {}, []), (1000, {"preemptionPolicy": "Never"}, [])],
)
def test_pods_of_lower_priority_may_be_preempted_for_an_unschedulable_pod(
    priority: int, more: dict[str, str], preemption_candidates: list[str]
) -> None:
    made = cluster("aa")
    spec = {"affinity": keep_apart(over=HOST, team="a")}
    labels = {"team": "a"}
    deployment(made, "high", ["n1"], {**spec, "priority": priority, **more}, labels)
    deployment(made, "low", ["n2"], {**spec, "priority": 0}, labels)

    result = lost(made, "n1")

    (pending,) = result.pending
    assert pending.certain
    assert [ref.name for ref in pending.preemption_candidates] == preemption_candidates


def test_replicas_with_volumes_in_two_zones_may_preempt_different_pods() -> None:
    made = cluster("abab")
    spec = {"affinity": keep_apart(over=HOST, team="a")}
    labels = {"team": "a"}
    high = deployment(made, "high", ["n1", "n2"], {**spec, "priority": 1000}, labels)
    for (_namespace, name), manifest in made.pods.items():
        volume = {"name": "d", "persistentVolumeClaim": {"claimName": name}}
        manifest["spec"]["volumes"] = [volume]
    for name, node_name in (("low-a", "n3"), ("low-b", "n4")):
        deployment(made, name, [node_name], {**spec, "priority": 0}, labels)
    snapshot = made.snapshot(
        claim_terms={
            ("shop", f"{high.name}-{number}"): (NodeTerm((Requirement(ZONE, "In", (zone,)),)),)
            for number, zone in enumerate("ab")
        }
    )

    lost_nodes = ["n1", "n2"]
    result = forecast(what_if(snapshot, lost_nodes=lost_nodes))

    assert [[ref.name for ref in blocked.preemption_candidates] for blocked in result.pending] == [
        ["low-a"],
        ["low-b"],
    ]


def test_replaced_pod_that_ends_first_is_not_in_the_way() -> None:
    made = cluster("a")
    spec: JSON = {"affinity": keep_apart(over=HOST, plain=True, app="high"), "priority": 1000}
    high = deployment(made, "high", ["n1"], spec)
    made.workloads[high]["spec"]["strategy"] = {
        "rollingUpdate": {"maxSurge": 0, "maxUnavailable": 1}
    }
    deployment(made, "low", ["n1"], {"priority": 0})
    both = anti_affinity(*(apart(HOST, plain=True, app=name) for name in ("high", "low")))

    result = written(made, template_write(high, "affinity", both["affinity"]))

    assert [[ref.name for ref in blocked.preemption_candidates] for blocked in result.pending] == [
        ["low"]
    ]
