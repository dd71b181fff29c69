# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Each move that has begun has room of its own, whatever kube-scheduler decides meanwhile."""

from __future__ import annotations

import random
import typing as t
from dataclasses import replace

import pytest

from ansible_collections.virt.placement.plugins.module_utils.moves.move import Phase
from ansible_collections.virt.placement.plugins.module_utils.moves.observe import Observer
from ansible_collections.virt.placement.plugins.module_utils.moves.reconciliation import (
    Reconciliation,
)
from tests.support.cluster import HOST, Cluster, anti_affinity, apart, cluster
from tests.unit.moves.played import Played, must_run_on, not_migratable, vm
from tests.unit.moves.test_reconcile import NO_API, NODES

JSON = t.Any
UNTIL_THE_END = 400
SEEDS = (1, 6, 11, 16, 21, 44, 58, 100, 101, 108)
"""Each one has shown a fault."""


def tight_cluster(seed: int) -> Cluster:
    """Most VMs run on nodes that their rules do not allow any more, and few nodes have much room."""
    chance = random.Random(seed)
    made = cluster("abcd"[: chance.randint(3, 4)])
    nodes = list(made.nodes)
    free = dict.fromkeys(nodes, 16)
    for number in range(chance.randint(3, 7)):
        cpu = chance.choice((3, 5, 7, 8, 10))
        here = [node for node in nodes if free[node] >= cpu]
        if not here:
            continue
        node = chance.choice(here)
        free[node] -= cpu
        spec: JSON = {}
        if chance.random() < 0.7:
            spec |= must_run_on(*chance.sample(nodes, chance.randint(1, 2)))
        if chance.random() < 0.2:
            terms = anti_affinity(apart(HOST, app="db"))["affinity"]
            spec["affinity"] = {**spec.get("affinity", {}), **terms}
        ref = vm(made, f"vm{number}", node, cpu, spec, app=chance.choice(("web", "db")))
        if chance.random() < 0.3:
            not_migratable(made, ref.name)
    return made


@pytest.mark.parametrize("seed", SEEDS)
def test_each_move_that_has_begun_has_room_of_its_own(seed: int) -> None:
    """At each moment, and the rollout does not end before a pod that is ending has left its room to a VM."""
    chance = random.Random(seed)
    played = Played(tight_cluster(seed), allow=["migrate", "restart"])
    for _turn in range(UNTIL_THE_END):
        events = played.events()
        if chance.random() < 0.5 or not events:
            played.reconcile()
            if played.over:
                break
        else:
            chance.choice(events)()
        for pod, nodes in played.waiting():
            assert nodes, f"{pod['metadata']['name']} has no node"
    assert played.over
    while events := played.events():
        events[0]()
    assert played.view().plan(played.journal).moves == ()


def two_for_one_room(*, leaver: bool = False) -> Cluster:
    """Two VMs that have room on n2 each, and not both, before a third one has left it."""
    made = cluster("abc")
    vm(made, "other", "n2", 7, must_run_on("n3") if leaver else None)
    vm(made, "first", "n1", 7, must_run_on("n2"))
    vm(made, "second", "n1", 7, must_run_on("n2"))
    return made


def test_of_two_vms_for_the_room_of_one_the_second_waits_until_the_third_has_left() -> None:
    played = Played(two_for_one_room(leaver=True))
    assert played.reconcile() == ["other", "first"]
    assert played.why == (
        "VirtualMachine shop/second waits until VirtualMachine shop/first has its node: there may be room for one of"
        " the two only"
    )
    played.play_to_the_end()
    assert played.nodes() == {"first": "n2", "second": "n2", "other": "n3"}


@pytest.mark.parametrize("places", [None, {"shop/first": "n2", "shop/second": "n2"}])
def test_room_of_a_migration_in_flight_is_not_given_away(places: JSON) -> None:
    """Its target pod has no node yet."""
    given = {} if places is None else {"places": places, "namespaces": None}
    played = Played(two_for_one_room(), **given)
    assert played.reconcile() == ["first"]
    assert played.reconcile() == []
    assert played.why.startswith("VirtualMachine shop/second waits until VirtualMachine shop/first")
    played.play_to_the_end()
    assert played.nodes() == {"first": "n2", "second": "n1", "other": "n2"}


def test_node_that_the_migration_in_flight_is_held_to_is_the_only_one_that_it_takes() -> None:
    made = cluster("abc")
    for name in ("first", "second"):
        vm(made, name, "n1", 7)
    vm(made, "other", "n2", 7)
    vm(made, "another", "n3", 7)
    places = {"shop/first": "n2", "shop/second": "n3"}
    assert Played(made, places=places, namespaces=None).reconcile() == ["first", "second"]


def test_move_takes_no_room_that_a_restart_in_flight_counts_on() -> None:
    """A migration might get the only node of a VM that is down meanwhile."""
    made = cluster("abcd")
    not_migratable(made, vm(made, "alone", "n1", 10, must_run_on("n2")).name)
    vm(made, "vm", "n4", 7, must_run_on("n2", "n3"))
    vm(made, "other", "n3", 5)
    played = Played(made, allow=["restart", "migrate"])
    assert played.reconcile() == ["alone"]
    for _until in ("it has stopped", "its VMI is created"):
        played.happens()
        assert played.reconcile() == []
        assert "waits until VirtualMachine shop/alone has its node" in played.why
    played.happens()
    assert played.reconcile() == ["vm"]


def test_end_of_the_source_pod_of_an_ended_migration_is_waited_for() -> None:
    made = cluster("abc")
    vm(made, "big", "n1", 10, must_run_on("n2"))
    vm(made, "leaver", "n2", 10, must_run_on("n3"))
    played = Played(made)
    assert played.reconcile() == ["leaver"]
    for _until in ("the target pod is created", "has a node", "the guest has moved"):
        played.happens()
    assert (played.reconcile(), played.reconcile(), played.over) == ([], [], False)
    assert played.why.endswith(
        "as long as pods exist that are ending: Pod shop/virt-launcher-leaver-1"
    )
    played.happens()
    assert played.reconcile() == ["big"]


def test_move_that_was_not_sent_waits_for_room_like_any_other() -> None:
    """A run was killed before it sent the second one, and the first one had no node yet."""
    played = Played(two_for_one_room())
    played.reconcile()
    (begun,) = played.journal.records
    second = next(x for x in played.view().candidates if x.instance.ref.name == "second")
    workload = second.instance.workload
    assert workload is not None
    intended = replace(
        begun,
        instance=second.instance.ref,
        uid=second.uid,
        workload=workload,
        phase=Phase.INTENDED,
    )
    played.journal = played.journal.with_record(intended)
    assert played.reconcile() == []
    assert [x.instance.name for x in played.journal.records] == ["first"]


def test_move_that_would_wait_for_one_that_was_given_up_is_left_out() -> None:
    played = Played(two_for_one_room())
    played.reconcile()
    (begun,) = played.journal.records
    given_up = replace(begun, phase=Phase.GIVEN_UP)
    played.journal = played.journal.with_record(given_up)
    assert (played.reconcile(), played.over) == ([], True)
    (why,) = played.held.values()
    assert str(why).startswith("VirtualMachine shop/second waits until VirtualMachine shop/first")


def free_node(played: Played) -> str | None:
    """Of the only move in flight."""
    view = played.view()
    (record,) = played.journal.records
    now = Reconciliation(view, Observer(NO_API, view.snapshot, played.journal), NODES)
    assert now.room is not None
    return now.room.free_node(record)


def test_free_node_takes_the_target_pod_of_a_migration_now() -> None:
    """The first of n2 and n4 by name, while it has room. None before the pod exists, nor once it has a node."""
    made = cluster("abcd")
    vm(made, "first", "n1", 7, must_run_on("n2", "n4"))
    played = Played(made)
    assert played.reconcile() == ["first"]
    assert free_node(played) is None
    played.happens()
    assert free_node(played) == "n2"
    vm(made, "new", "n2", 10)
    assert free_node(played) == "n4"
    made.nodes["n4"]["spec"]["unschedulable"] = True
    assert free_node(played) is None
    made.nodes["n4"]["spec"]["unschedulable"] = False
    played.happens()
    assert {pod["spec"]["nodeName"] for pod in played.pods("first")} == {"n1", "n4"}
    assert free_node(played) is None


def test_restart_has_no_free_node() -> None:
    """Not even the one of the target pod of a migration by another client."""
    made = cluster("ab")
    not_migratable(made, vm(made, "alone", "n1", 7, must_run_on("n2")).name)
    played = Played(made, allow=["restart"])
    assert played.reconcile() == ["alone"]
    made.launcher("alone", "")
    assert free_node(played) is None
