# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""VMs that a drain restarts start on nodes that are serviced already, on a real control plane with three nodes.

The VM is on w2. A DaemonSet takes half of w1, so that kube-scheduler prefers w3 unless it is told otherwise."""

from __future__ import annotations

import typing as t
from pathlib import Path

import pytest

from sandbox import Sandbox, objects
from sandbox.fault_proxy import Rule, status
from tests.job import Job
from tests.maintenance import SERVICED_LATER, Maintenance, maintenance, vms
from tests.shop import HOSTNAME, Object

STUCK = {"sandbox.virt/not-migratable": "DisksNotLiveMigratable"}
OTHER = {"key": "example.com/mine", "value": "x", "effect": "PreferNoSchedule"}
LATER: Object = {"vm_policy": ["migrate", "restart"], "serviced_later": ["w2", "w3", "gone"]}


@pytest.fixture
def shop(small: Sandbox, namespace: t.Any, run_module: t.Any) -> t.Iterator[Maintenance]:
    with maintenance(small, namespace(small, "steered"), run_module) as shop:
        load = objects.daemon_set("load", shop.namespace)
        pod = load["spec"]["template"]["spec"]
        pod["nodeSelector"] = {HOSTNAME: "w1"}
        pod["containers"][0]["resources"]["requests"] = {"cpu": "4", "memory": "12Gi"}
        shop.api.create(shop.api.collection_of(load), load)
        shop.wait_ready(1)  # it would count as the VM's pod
        shop.start(*vms(shop, "stuck", annotations=STUCK), nodes=["w2"])
        shop.wait_ready(2)
        yield shop


def taints(shop: Maintenance, node: str) -> list[Object]:
    """Without that of a cordon."""
    found = shop.node(node)["spec"].get("taints") or []
    return [x for x in found if x["key"] != "node.kubernetes.io/unschedulable"]


def put_on(shop: Maintenance, node: str, *wanted: Object) -> None:
    shop.api.patch(f"/api/v1/nodes/{node}", {"spec": {"taints": list(wanted)}})


def steering(run: str) -> Object:
    return {"key": SERVICED_LATER, "value": run, "effect": "PreferNoSchedule"}


def done(result: Object) -> Object:
    assert not result.get("failed"), result.get("msg")
    return result


def patched(shop: Maintenance, mark: t.Any) -> list[str]:
    return [x.name for x in shop.sandbox.audit.writes(since=mark) if x.resource == "nodes"]


@pytest.mark.parametrize(("later", "target"), [([], "w3"), (["w3"], "w1")])
def test_restarted_vm_starts_on_a_node_that_is_not_serviced_later(
    shop: Maintenance, later: list[str], target: str
) -> None:
    mark = shop.sandbox.audit.mark()
    result = done(shop.maintain("drained", "w2", **{**LATER, "serviced_later": later}))

    assert shop.nodes() == {"stuck": target}
    assert taints(shop, "w3") == []
    assert patched(shop, mark).count("w3") == 2 * len(later), "on, and off"
    assert ("taint placement.virt/serviced-later" in " ".join(result["progress"])) is bool(later)
    mark = shop.sandbox.audit.mark()
    again = done(shop.maintain("drained", "w2", **LATER))
    assert (again["changed"], patched(shop, mark)) == (False, [])


def test_taints_of_others_stay_in_their_order(shop: Maintenance) -> None:
    others = [OTHER, {"key": "example.com/second", "effect": "PreferNoSchedule"}]
    put_on(shop, "w1", *others)
    put_on(shop, "w3", *others)
    with shop.meanwhile(
        until=lambda: steering_is_on(shop), do=lambda: put_on(shop, "w3", *taints(shop, "w3"), LAST)
    ):
        done(shop.maintain("drained", "w2", **LATER))

    assert shop.nodes() == {"stuck": "w1"}
    assert (taints(shop, "w1"), taints(shop, "w3")) == (others, [*others, LAST])
    for node in ("w1", "w3"):
        put_on(shop, node)


LAST = {"key": "example.com/last", "effect": "PreferNoSchedule"}


def steering_is_on(shop: Maintenance) -> bool:
    return any(x["key"] == SERVICED_LATER for x in taints(shop, "w3"))


@pytest.mark.parametrize(
    ("options", "why"),
    [
        ({"vm_policy": ["migrate", "stop_and_start"]}, "no VM is restarted"),
        ({"serviced_later": ["w1", "w3"]}, "no other node takes pods"),
        ({"serviced_later": []}, "no node is serviced later"),
    ],
)
def test_taint_is_not_used_where_it_is_of_no_use(
    shop: Maintenance, options: Object, why: str
) -> None:
    mark = shop.sandbox.audit.mark()
    done(shop.maintain("drained", "w2", **{**LATER, **options}))
    assert set(patched(shop, mark)) == {"w2"}, why


def test_check_mode_shows_the_taint_and_writes_nothing(shop: Maintenance) -> None:
    put_on(shop, "w1", steering("rkilled"))
    mark = shop.sandbox.audit.mark()
    result = done(shop.maintain("drained", "w2", check=True, diff=True, **LATER))

    writes = {write["name"]: write["patch"] for write in result["writes"]}
    assert writes["w3"] == [
        {"op": "add", "path": "/spec/taints", "value": [steering("check-mode")]}
    ]
    assert writes["w1"] == [{"op": "remove", "path": "/spec/taints"}]
    shown = {x["after_header"]: (x["before"], x["after"]) for x in result["diff"]}
    assert shown["Node w3"] == ({"serviced_later": None}, {"serviced_later": "check-mode"})
    assert shop.sandbox.audit.writes(since=mark) == []
    assert taints(shop, "w1") == [steering("rkilled")]


def test_next_drain_takes_away_what_a_killed_run_has_left(shop: Maintenance) -> None:
    put_on(shop, "w1", OTHER, steering("rkilled"))
    put_on(shop, "w3", steering("rkilled"))
    result = done(shop.maintain("drained", "w2", **LATER))

    assert (taints(shop, "w1"), taints(shop, "w3")) == ([OTHER], [])
    assert any(
        "a maintenance that was killed has left, removed from w1" in x for x in result["progress"]
    )
    put_on(shop, "w1")


def test_in_service_takes_away_the_taint_of_the_run_that_drained_its_node(
    shop: Maintenance,
) -> None:
    done(shop.maintain("drained", "w2", **LATER))
    left = shop.mark("w2")
    assert left is not None
    put_on(shop, "w1", steering("rother"))
    put_on(shop, "w3", OTHER, steering(left["run"]))
    planned = done(shop.maintain("in_service", "w2", check=True))
    assert [write["name"] for write in planned["writes"]] == ["w3", "w2"]

    done(shop.maintain("in_service", "w2"))

    assert not shop.cordoned("w2"), "such a taint does not hold a node"
    assert (taints(shop, "w1"), taints(shop, "w3")) == ([steering("rother")], [OTHER])
    for node in ("w1", "w3"):
        put_on(shop, node)


def test_node_with_the_taint_is_put_in_service(shop: Maintenance) -> None:
    """It came after the maintenance began, and is not of another system."""
    done(shop.maintain("drained", "w2", **LATER))
    put_on(shop, "w2", *(shop.node("w2")["spec"]["taints"]), steering("rother"))
    done(shop.maintain("in_service", "w2"))
    assert not shop.cordoned("w2")


def test_drain_goes_on_where_the_taint_is_refused(shop: Maintenance) -> None:
    with shop.sandbox.fault_proxy([Rule("PATCH", "/nodes/w3", status(403))]) as proxy:
        kubeconfig = str(proxy.kubeconfig(shop.identity))
        result = done(shop.maintain("drained", "w2", kubeconfig=kubeconfig, **LATER))

    assert shop.nodes() == {"stuck": "w3"}
    warnings = [line for line in result["progress"] if line.startswith("warning: taint")]
    assert len(warnings) == 1, result["progress"]
    assert (
        "placement.virt/serviced-later:PreferNoSchedule of w3 could not be changed" in warnings[0]
    )
    assert "apply rbac/maintainer.yml and rbac/policies.yml of this release" in warnings[0]


def test_run_that_ends_before_the_drain_is_done_takes_the_taint_away(shop: Maintenance) -> None:
    """The restart is refused until the time is over."""
    with shop.sandbox.fault_proxy([Rule("PUT", "/restart", status(409), nth=None)]) as proxy:
        kubeconfig = str(proxy.kubeconfig(shop.identity))
        result = shop.maintain(
            "drained", "w2", kubeconfig=kubeconfig, **{**LATER, "run_timeout": 20}
        )

    assert result.get("failed"), result
    assert any("avoid nodes that are serviced later" in line for line in result["progress"])
    assert taints(shop, "w3") == []


@pytest.mark.parametrize(("steers", "restarts"), [(True, 1), (False, 2)])
def test_vm_that_cannot_migrate_is_restarted_once_in_a_maintenance_of_three_nodes(
    shop: Maintenance, tmp_path: Path, steers: bool, restarts: int
) -> None:
    job = Job(shop, tmp_path, "node_maintenance", shop.identity)
    play = shop.play(
        tmp_path,
        ["w1", "w2", "w3"],
        {"ansible.builtin.debug": {"msg": "work"}},
        vm_policy=["migrate", "restart"],
        steer_restarts=steers,
        change_id="",
        allow_findings=["daemonset_missing"],
    )
    uids = shop.uids()
    mark = shop.sandbox.audit.mark()
    checked = job.start_play(play, "--check", "--diff").rest()
    assert ('"serviced_later": "check-mode"' in checked) is steers, checked
    assert shop.sandbox.audit.writes(since=mark) == []
    process = job.start_play(play)
    output = process.rest()

    assert process.returncode == 0, output
    done_writes = [x for x in shop.sandbox.audit.writes(since=mark) if x.code < 300]
    assert [x.subresource for x in done_writes].count("restart") == restarts, output
    assert shop.uids() != uids and len(shop.uids()) == 1
    assert ("restarted more than once: " in output) is not steers
    assert [taints(shop, node) for node in ("w1", "w2", "w3")] == [[], [], []]
