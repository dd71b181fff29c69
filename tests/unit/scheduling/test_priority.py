# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""A place that exists only by preemption is no place, and who would be preempted is known."""

from __future__ import annotations

from ansible_collections.virt.placement.plugins.module_utils.scheduling.priority import (
    preemption_nodes,
    victims,
)

from .builders import HOST, apart, index, node, pod

FULL = [pod("low", "n1", cpu="4", priority=0), pod("high", "n2", cpu="4", priority=9)]


def test_a_pod_of_higher_priority_finds_no_place_but_could_make_one() -> None:
    cluster = index([node("n1"), node("n2")], FULL)
    new = pod("new", cpu="1", priority=5)
    assert cluster.feasible(new) == ()
    assert preemption_nodes(cluster, new) == ("n1",)
    assert [each.name for each in victims(cluster, new, "n1")] == ["low"]
    assert cluster.feasible(new) == ()


def test_nobody_is_preempted_while_a_node_is_open() -> None:
    cluster = index([node("n1"), node("n2"), node("n3")], FULL)
    assert preemption_nodes(cluster, pod("new", cpu="1", priority=5)) == ()


def test_nobody_is_preempted_in_vain_or_against_the_policy() -> None:
    cluster = index([node("n1"), node("n2")], FULL)
    assert preemption_nodes(cluster, pod("new", cpu="5", priority=5)) == ()
    assert preemption_nodes(cluster, pod("new", cpu="1", priority=0)) == ()
    never = pod("new", cpu="1", priority=5, preemptionPolicy="Never")
    assert preemption_nodes(cluster, never) == ()


def test_the_pod_itself_is_no_victim_and_may_be_gone_already() -> None:
    running = pod("vm", "n1", cpu="4", priority=5)
    cluster = index([node("n1")], [running])
    assert preemption_nodes(cluster, running) == ()
    assert preemption_nodes(cluster, pod("vm", cpu="4", priority=7), without="shop/vm") == ()
    assert cluster.feasible(running, without="shop/vm") == ("n1",)


def test_room_that_is_being_made_is_taken() -> None:
    coming = pod("coming", cpu="3", priority=5, status={"nominatedNodeName": "n1"})
    cluster = index([node("n1"), node("n2")], [coming])
    assert cluster.feasible(pod("new", cpu="2", priority=5)) == ("n2",)
    assert cluster.feasible(pod("new", cpu="2", priority=6)) == ("n1", "n2")
    assert cluster.feasible(coming) == ("n1", "n2")
    assert cluster.failures(pod("new", cpu="2", priority=0), "n1")
    assert not cluster.pods


def test_a_nominated_pod_must_not_be_needed_either() -> None:
    """The scheduler wants the pod to fit with and without the one that may come."""
    leader = pod("leader", labels={"app": "web"}, status={"nominatedNodeName": "n1"})
    cluster = index([node("n1"), node("n2")], [leader])
    near = {
        "podAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": [
                {"labelSelector": {"matchLabels": {"app": "web"}}, "topologyKey": HOST}
            ]
        }
    }
    assert cluster.feasible(pod("follower", affinity=near)) == ()
    assert cluster.feasible(pod("other", affinity=apart({"app": "web"}, HOST))) == ("n2",)
