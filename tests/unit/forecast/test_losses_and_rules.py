# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Rules that are written while nodes are drained, or while what they are for begins to roll: what ends
or leaves meanwhile makes room, and takes away what others were near."""

from __future__ import annotations

import pytest

from ansible_collections.virt.placement.plugins.module_utils.forecast.conclusion import (
    ForecastResult,
)
from tests.support.cluster import HOST, ZONE, cluster, deployment, keep_apart, machine, near, spread
from tests.unit.planning.scenes import lost, pinned, template_write, written

# A machine has to move that has nothing to do with the loss.


def test_spread_counts_running_pods_while_a_vm_moves_too() -> None:
    made = cluster("abc")
    deployment(made, "web", ["n1", "n2", "n3", "n3", "n3"], spread(ZONE, 2, app="web"))
    ref = machine(made, "vm1", "n1", g="x")

    alone, both = lost(made, "n3"), written(made, pinned(ref, "b"), lost_nodes=["n3"])

    assert (alone.answer, both.answer) == (ForecastResult.POSSIBLE, ForecastResult.POSSIBLE)
    assert [move.instance.name for move in both.moves] == ["vm1", "web-3", "web-4", "web-2"]


def test_spread_with_too_many_pods_is_never_possible_while_a_vm_moves_too() -> None:
    """A search finds no choice of nodes, and proves nothing: what a spread admits has no proof of its own."""
    made = cluster("abc")
    deployment(made, "web", ["n1", "n2", *["n3"] * 9], spread(ZONE, 2, app="web"))
    ref = machine(made, "vm1", "n1", g="x")

    found = written(made, pinned(ref, "b"), lost_nodes=["n3"])

    assert found.answer is ForecastResult.UNKNOWN


def test_affinity_to_a_pod_that_ends_is_possible_while_a_vm_moves_too() -> None:
    made = cluster("aab")
    made.bare_pod("leader", "n1", app="leader")
    deployment(made, "db", ["n1"], {"affinity": near(app="leader")})
    ref = machine(made, "vm1", "n2", g="x")

    found = written(made, pinned(ref, "b"), lost_nodes=["n1"])

    assert found.answer is ForecastResult.POSSIBLE


# What leaves makes room for a machine that has to move.


def test_obstacle_by_old_pods_of_a_workload_rollout_is_not_impossible() -> None:
    made = cluster("ab")
    apart = {"affinity": keep_apart(over=HOST, plain=True, g="x")}
    cache = deployment(made, "cache", ["n2"], apart)
    ref = machine(made, "vm1", "n1", g="x")

    stays = written(made, pinned(ref, "b"))
    rolls = written(made, pinned(ref, "b"), template_write(cache, "affinity", {}))

    assert stays.answer is ForecastResult.IMPOSSIBLE
    assert rolls.answer is ForecastResult.UNKNOWN
    assert "other pods end or need a node meanwhile" in rolls.reasons[-1]


def test_missing_capacity_during_a_workload_rollout_is_not_impossible() -> None:
    made = cluster("ab")
    made.nodes["n2"]["status"]["allocatable"]["cpu"] = "1"
    asks = {"containers": [{"name": "c", "resources": {"requests": {"cpu": "1"}}}]}
    cache = deployment(made, "cache", ["n2"], asks)
    ref = machine(made, "vm1", "n1", {"domain": {"resources": {"requests": {"cpu": "1"}}}})

    found = written(made, pinned(ref, "b"), pinned(cache, "a"))

    assert found.answer is ForecastResult.UNKNOWN


def test_affinity_to_a_new_pod_of_a_workload_rollout_is_possible() -> None:
    made = cluster("ab")
    cache = deployment(made, "cache", ["n1"], {})
    ref = machine(made, "vm1", "n2", g="x")
    made.nodes["n1"]["status"]["allocatable"]["cpu"] = "0"

    found = written(made, template_write(ref, "affinity", near(app="cache")), pinned(cache, "b"))

    assert found.answer is ForecastResult.UNKNOWN


def test_vm_that_migrates_off_a_drained_node_makes_room() -> None:
    """d keeps x out of zone a until it has gone, and x keeps d out of zone b until it has."""
    made = cluster("aabc")
    machine(made, "d", "n1", {"affinity": keep_apart(g="x")}, g="d")
    ref = machine(made, "v", "n3", g="x")

    found = written(made, pinned(ref, "a"), lost_nodes=["n1"])

    assert found.answer is ForecastResult.UNKNOWN
    assert found.deadlock is None


def test_rule_of_a_vm_that_leaves_causes_no_proof_about_a_cordoned_node() -> None:
    made = cluster("aa")
    machine(made, "d", "n1", {"affinity": keep_apart(g="x")}, g="d")
    ref = machine(made, "v", "n2", g="x")
    made.nodes["n2"]["spec"]["unschedulable"] = True

    found = written(made, pinned(ref, "a"), lost_nodes=["n1"])

    assert not any("VM v:" in text for text in found.reasons)


# A rule that is written may be broken by who leaves later.


def test_affinity_to_a_vm_that_leaves_a_drained_node_is_not_guaranteed() -> None:
    made = cluster("aab")
    machine(made, "leader", "n1", app="leader")
    follower = machine(made, "follower", "n2", app="follower")
    made.nodes["n2"]["status"]["allocatable"]["cpu"] = "0"
    write = template_write(follower, "affinity", near(app="leader"))

    away = written(made, write, lost_nodes=["n1"])
    made.nodes["n2"]["status"]["allocatable"]["cpu"] = "16"
    close = written(made, write, lost_nodes=["n1"])

    assert away.answer is ForecastResult.UNKNOWN
    assert away.reasons[0].startswith("nodes were found for all 1, but")
    assert away.reasons[1].startswith("not guaranteed: pods that new rules select")
    assert close.answer is ForecastResult.POSSIBLE
    assert [move.targets[0] for move in close.moves] == ["n2"]


def test_a_spread_that_is_written_is_no_certainty_once_one_that_it_counts_has_to_leave() -> None:
    """The target is placed while the source counts: then it may be one too many in zone a."""
    made = cluster("abcc")
    refs = [
        machine(made, name, node, g="web")
        for name, node in (("web-a", "n1"), ("web-b", "n2"), ("web-c", "n3"))
    ]
    rule = spread(ZONE, g="web")["topologySpreadConstraints"]
    writes = [template_write(ref, "topologySpreadConstraints", rule) for ref in refs]

    found = written(made, *writes, lost_nodes=["n3"])

    assert found.answer is not ForecastResult.GUARANTEED


def test_a_spread_of_one_that_starts_is_no_certainty_where_it_counts_others_that_do() -> None:
    made = cluster("ab")
    db = machine(made, "db", "", g="db")
    refs = [machine(made, name, "", g="web") for name in ("web-a", "web-b")]
    rule = spread(ZONE, g="web")["topologySpreadConstraints"]

    found = written(
        made,
        template_write(db, "topologySpreadConstraints", rule),
        *(pinned(ref, "a", "b") for ref in refs),
    )

    assert found.answer is ForecastResult.POSSIBLE


def test_a_move_is_no_certainty_where_it_leaves_one_that_no_rule_is_written_for() -> None:
    made = cluster("aabb")
    leader = machine(made, "leader", "n1", g="leader")
    alone = written(made, pinned(leader, "b"))
    machine(made, "follower", "n2", {"affinity": near(g="leader")}, g="follower")

    followed = written(made, pinned(leader, "b"))

    assert alone.answer is ForecastResult.GUARANTEED
    assert followed.answer is ForecastResult.POSSIBLE


# Reasons of the forecast.


def test_proof_is_reported_once_and_certain_while_another_vm_moves() -> None:
    made = cluster("ab")
    moves = machine(made, "vm1", "n1", g="x")
    halted = machine(made, "db", "", g="db")

    found = written(made, pinned(moves, "b"), pinned(halted, "zz"))

    assert found.answer is ForecastResult.IMPOSSIBLE
    assert [text.split(":")[0] for text in found.reasons] == ["VM db"]
    assert [(each.instance.name, each.certain) for each in found.pending] == [("db", True)]
    assert found.min_unschedulable == 1


def test_proof_that_depends_on_moving_vms_is_qualified() -> None:
    """Three machines want the room of node n1 while vm1 leaves it, and others could leave as well."""
    made = cluster("ab")
    for node in made.nodes.values():
        node["status"]["allocatable"]["cpu"] = "1"
    domain = {"domain": {"resources": {"requests": {"cpu": "1"}}}}
    moves = machine(made, "vm1", "n1", {"domain": {}}, g="x")
    halted = [machine(made, name, "", domain, g="db") for name in ("db1", "db2", "db3")]

    found = written(made, pinned(moves, "b"), *(pinned(ref, "a", "b") for ref in halted))

    assert found.answer is ForecastResult.UNKNOWN
    assert found.reasons[0].startswith("unless other VMs move: 3 VMs")
    assert found.reasons[1].startswith("not proven: VMs may move to other nodes")


@pytest.mark.parametrize(
    ("vms", "answer"), [(7, ForecastResult.POSSIBLE), (8, ForecastResult.UNKNOWN)]
)
def test_sequences_of_moves_are_tried_for_seven_vms_and_for_no_more(
    vms: int, answer: ForecastResult
) -> None:
    """vm1 has to make room for vm2. The others obey where they are."""
    made = cluster("abb")
    made.nodes["n1"]["status"]["allocatable"]["cpu"] = "1"
    domain = {"domain": {"resources": {"requests": {"cpu": "1"}}}}
    first, second = (machine(made, f"vm{n}", f"n{n}", domain, g="x") for n in (1, 2))
    more = [machine(made, f"vm{n}", "n3", domain, g="x") for n in range(3, vms + 1)]

    found = written(
        made, pinned(first, "a", "b"), pinned(second, "a"), *(pinned(ref, "b") for ref in more)
    )

    assert [left.instance.name for left in found.skipped] == ["vm2"]
    assert found.answer is answer
    assert any("the search has a limit" in text for text in found.reasons) is (vms > 7)


@pytest.mark.parametrize("others", [False, True])
def test_repair_that_needs_a_move_of_another_vm_is_not_called_impossible(others: bool) -> None:
    """vm1 obeys where it is, in the only room for vm2. Once it makes that room both are well."""
    made = cluster("abb")
    made.nodes["n1"]["status"]["allocatable"]["cpu"] = "1"
    domain = {"domain": {"resources": {"requests": {"cpu": "1"}}}}
    refs = [machine(made, f"vm{n}", f"n{n}", domain, g="x") for n in (1, 2)]
    writes = [pinned(refs[0], "a", "b"), pinned(refs[1], "a")]
    if others:
        writes.append(pinned(machine(made, "db", "", g="db"), "b"))

    found = written(made, *writes)

    assert [left.instance.name for left in found.skipped] == ["vm2"]
    assert found.answer is (ForecastResult.UNKNOWN if others else ForecastResult.POSSIBLE)
    assert not any("no sequence" in text for text in found.reasons)
    assert (
        any("moves were found that satisfy all rules" in text for text in found.reasons) is others
    )
