# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""rollout, step by step in this process, on a real control plane. The audit log is the witness."""

from __future__ import annotations

import typing as t

import pytest

from sandbox import Sandbox, drain, objects
from tests.shop import ZONE, Shop
from tests.terms import keep_machines_apart


@pytest.fixture
def shop(six: Sandbox, namespace: t.Any, run_module: t.Any) -> t.Iterator[Shop]:
    yield Shop(six, namespace(six, "rollout"), run_module)
    for node in six.api.list("/api/v1/nodes"):
        if node["spec"].get("unschedulable"):
            drain.uncordon(six, node["metadata"]["name"])


def three_in_one_zone(shop: Shop) -> list[str]:
    names = ["a0", "a1", "a2"]
    machines = [objects.virtual_machine(name, shop.namespace) for name in names]
    in_one_zone = [
        node["metadata"]["name"]
        for node in shop.api.list("/api/v1/nodes")
        if node["metadata"]["labels"][ZONE] == "zone1"
    ]
    shop.start(*machines, nodes=in_one_zone)
    return names


def test_three_machines_come_apart_over_zones_by_migration_alone(shop: Shop) -> None:
    names = three_in_one_zone(shop)
    before = shop.uids()
    keep_machines_apart(shop, names)
    mark = shop.sandbox.audit.mark()

    result = shop.roll()

    assert not result.get("failed"), result.get("msg")
    assert shop.zones() == ["zone1", "zone2", "zone3"]
    assert shop.uids() == before
    migrations = [("create", "virtualmachineinstancemigrations")]
    assert shop.disruptions(mark) == migrations * 2
    assert [move["outcome"] for move in result["moves"]] == ["moved", "moved"]
    assert result["changed"] is True

    mark = shop.sandbox.audit.mark()
    again = shop.roll()

    assert again["changed"] is False
    assert again["moves"] == []
    assert shop.sandbox.audit.writes(since=mark) == []


def test_each_machine_still_migrates_inside_its_zone(shop: Shop) -> None:
    names = three_in_one_zone(shop)
    keep_machines_apart(shop, names)
    shop.roll()
    zones = {name: shop.zone(node) for name, node in shop.nodes().items()}
    before = shop.nodes()

    for name in names:
        migration = objects.migration(name, shop.namespace, name=f"again-{name}")
        shop.api.create(shop.path("VirtualMachineInstanceMigration"), migration)
        path = shop.path("VirtualMachineInstanceMigration", f"again-{name}")
        shop.api.wait(lambda seen: seen["status"]["phase"] == "Succeeded", path)

    after = shop.nodes()
    assert all(after[name] != before[name] for name in names)
    assert {name: shop.zone(node) for name, node in after.items()} == zones


def test_check_mode_names_the_moves_and_makes_none(shop: Shop) -> None:
    names = three_in_one_zone(shop)
    keep_machines_apart(shop, names)
    mark = shop.sandbox.audit.mark()

    planned = shop.roll(check=True)

    assert planned["changed"] is True
    assert shop.sandbox.audit.writes(since=mark) == []
    made = shop.roll()
    assert sorted(m["method"] for m in planned["moves"]) == ["migrate", "migrate"]
    assert sorted(m["uid"] for m in planned["moves"]) == sorted(m["uid"] for m in made["moves"])
    assert planned["moves"][1]["after"] == [planned["moves"][0]["uid"]]


def test_a_machine_that_cannot_migrate_is_left_with_the_reason(shop: Shop) -> None:
    stuck = {"sandbox.virt/not-migratable": "DisksNotLiveMigratable"}
    machines = [
        objects.virtual_machine(name, shop.namespace, annotations=stuck) for name in ("b0", "b1")
    ]
    shop.start(*machines, nodes=["w1"])
    keep_machines_apart(shop, ["b0", "b1"])
    mark = shop.sandbox.audit.mark()

    result = shop.roll()

    assert not result.get("failed")
    assert shop.sandbox.audit.writes(since=mark) == []
    assert {left["name"] for left in result["left"]} == {"b0", "b1"}
    assert "DisksNotLiveMigratable" in result["left"][0]["reason"]
    assert "moving it takes restart" in result["left"][0]["reason"]


def test_a_restart_moves_what_cannot_migrate_where_it_is_allowed(shop: Shop) -> None:
    stuck = {"sandbox.virt/not-migratable": "DisksNotLiveMigratable"}
    machines = [
        objects.virtual_machine(name, shop.namespace, annotations=stuck) for name in ("b0", "b1")
    ]
    shop.start(*machines, nodes=["w1"])
    keep_machines_apart(shop, ["b0", "b1"])
    mark = shop.sandbox.audit.mark()

    result = shop.roll(allow=["migrate", "restart"])

    assert not result.get("failed"), result.get("msg")
    assert shop.disruptions(mark) == [("update", "virtualmachines/restart")]
    assert len(set(shop.zones())) == 2


def test_halted_machines_stay_halted(shop: Shop) -> None:
    halted = objects.virtual_machine("h0", shop.namespace, run_strategy="Halted")
    shop.api.create(shop.api.collection_of(halted), halted)
    keep_machines_apart(shop, ["h0"])
    mark = shop.sandbox.audit.mark()

    result = shop.roll(allow=["migrate", "restart", "recreate"], scope="all")

    assert result["moves"] == []
    assert shop.sandbox.audit.writes(since=mark) == []
    assert shop.api.get(shop.path("VirtualMachine", "h0"))["spec"]["runStrategy"] == "Halted"


def test_once_is_not_restarted(shop: Shop) -> None:
    annotations = {"sandbox.virt/not-migratable": "HostDeviceNotLiveMigratable"}
    machines = [
        objects.virtual_machine(name, shop.namespace, annotations=annotations, run_strategy="Once")
        for name in ("o0", "o1")
    ]
    shop.start(*machines, nodes=["w1"])
    keep_machines_apart(shop, ["o0", "o1"])

    result = shop.roll(allow=["migrate", "restart"])

    assert result["moves"] == []
    assert "run strategy Once is not restarted" in result["left"][0]["reason"]


def test_a_migration_that_fails_fails_the_run_and_says_why(shop: Shop) -> None:
    failing = {"sandbox.virt/migration-fails": "1"}
    machines = [
        objects.virtual_machine(name, shop.namespace, annotations=failing) for name in ("f0", "f1")
    ]
    shop.start(*machines, nodes=["w1"])
    keep_machines_apart(shop, ["f0", "f1"])

    result = shop.roll()

    assert result["failed"]
    assert "1 moves failed, failures_allowed is 0" in result["msg"]
    assert [move["outcome"] for move in result["moves"]] == ["failed"]
    assert result["moves"][0]["reason"]
    assert shop.lease()["spec"]["holderIdentity"] == ""


def test_a_run_that_is_alive_is_not_disturbed(shop: Shop) -> None:
    names = three_in_one_zone(shop)
    keep_machines_apart(shop, names)
    with shop.another_run("r-other"):
        mark = shop.sandbox.audit.mark()
        result = shop.roll()
        writes = shop.sandbox.audit.writes(since=mark)

    assert result["failed"]
    assert "is held by run r-other, which is at work" in result["msg"]
    assert writes == []


def test_a_dead_run_is_taken_over(shop: Shop) -> None:
    names = three_in_one_zone(shop)
    keep_machines_apart(shop, names)
    shop.hold_lease("r-dead")

    result = shop.roll()

    assert not result.get("failed"), result.get("msg")
    assert any("waiting up to" in line and "r-dead" in line for line in result["progress"])
    assert shop.zones() == ["zone1", "zone2", "zone3"]


def test_evictions_wait_for_a_disruption_budget(shop: Shop) -> None:
    deployment = objects.deployment("web", shop.namespace, replicas=2)
    shop.start(deployment, nodes=["w1"])
    budget = objects.disruption_budget(
        "web", shop.namespace, labels={"app": "web"}, max_unavailable=0
    )
    shop.api.create(shop.api.collection_of(budget), budget)
    result = shop.roll(allow=["recreate"], scope="all", move_timeout=8, timeout=20)

    assert result["failed"]
    assert "disruption budget" in result["moves"][0]["reason"].lower()
    assert result["moves"][0]["outcome"] == "failed"


def test_scope_outdated_brings_well_placed_machines_under_their_new_terms(shop: Shop) -> None:
    machine = objects.virtual_machine("c0", shop.namespace)
    shop.start(machine)
    keep_machines_apart(shop, ["c0"])

    assert shop.roll()["moves"] == []
    assert [m["outcome"] for m in shop.roll(scope="outdated")["moves"]] == ["moved"]
    assert shop.roll(scope="outdated")["moves"] == []


def test_max_moves_returns_the_rest(shop: Shop) -> None:
    names = three_in_one_zone(shop)
    keep_machines_apart(shop, names)

    result = shop.roll(max_moves=1)

    assert len(result["moves"]) == 1
    assert len(result["remaining"]) == 1
    assert result["stopped"] == "max_moves (1) is reached"
    assert not result.get("failed")
    assert len(shop.roll(max_moves=1)["moves"]) == 1
    assert shop.zones() == ["zone1", "zone2", "zone3"]


def test_the_time_is_over_names_what_is_left_and_cancels(shop: Shop) -> None:
    slow = {"sandbox.virt/migration-seconds": "60"}
    machines = [
        objects.virtual_machine(name, shop.namespace, annotations=slow) for name in ("s0", "s1")
    ]
    shop.start(*machines, nodes=["w1"])
    keep_machines_apart(shop, ["s0", "s1"])

    result = shop.roll(timeout=8, move_timeout=8)

    assert result["failed"]
    assert "s0" in result["msg"] or "s1" in result["msg"]
    assert shop.lease()["spec"]["holderIdentity"] == ""


def test_all_faults_of_the_input_come_at_once_and_nothing_is_written(shop: Shop) -> None:
    mark = shop.sandbox.audit.mark()

    result = shop.roll(
        workloads=[{"kind": "VirtualMachine"}],
        max_unavailable=0,
        window={"start": "25:00", "end": "04:00"},
        on_failure="undo",
    )

    assert result["failed"]
    faults = "\n".join(result["faults"])
    assert "workloads[0]" in faults
    assert "max_unavailable: must be at least 1" in faults
    assert "window.start: '25:00' is no time of day" in faults
    assert "on_failure: undo is not supported yet" in faults
    assert shop.sandbox.audit.writes(since=mark) == []


def test_unknown_workloads_and_namespaces_are_named(shop: Shop) -> None:
    result = shop.roll(workloads=[{"name": "nobody"}, {"name": "noone", "namespace": "nowhere"}])

    assert result["failed"]
    assert "there is no VirtualMachine 'nobody'" in result["msg"]
    assert "there is no namespace 'nowhere'" in result["msg"]
