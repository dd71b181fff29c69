# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""node_maintenance marks and cordons, on a real control plane."""

from __future__ import annotations

import contextlib
import typing as t
from datetime import datetime, timedelta, timezone

import pytest

from sandbox import Sandbox, drain, node_faults
from sandbox.admin_api import ApiFailure
from sandbox.fault_proxy import Rule, status
from sandbox.node_labeller import SCHEDULABLE
from tests.maintenance import MARK, Maintenance, maintenance, pods_on, vms

EVICTION = {"apiVersion": "policy/v1", "kind": "Eviction"}


@pytest.fixture
def shop(six: Sandbox, namespace: t.Any, run_module: t.Any) -> t.Iterator[Maintenance]:
    with maintenance(six, namespace(six, "maintenance"), run_module) as shop:
        yield shop


@pytest.mark.tour
def test_node_is_cordoned_with_mark_and_put_in_service(shop: Maintenance) -> None:
    uid = shop.node("w2")["metadata"]["uid"]
    result = shop.maintain("cordoned", "w2", reason="firmware")

    assert not result.get("failed"), result.get("msg")
    assert shop.cordoned("w2")
    mark = shop.mark("w2")
    assert mark is not None
    assert (mark["phase"], mark["reason"], mark["cordoned"]) == ("cordoned", "firmware", True)
    assert mark["boot_id"] == shop.node("w2")["status"]["nodeInfo"]["bootID"]
    (node,) = result["nodes"]
    assert (node["name"], node["state"], node["ours"]) == ("w2", "cordoned", True)
    assert "maintenance: cordoned (firmware)" in messages_about(shop, uid)
    assert shop.lease()["spec"]["holderIdentity"] == ""

    result = shop.maintain("in_service", "w2")

    assert not result.get("failed"), result.get("msg")
    assert result["changed"] is True
    assert not shop.cordoned("w2")
    assert shop.mark("w2") is None
    assert "maintenance: in_service" in messages_about(shop, uid)


def messages_about(shop: Maintenance, uid: str) -> list[str]:
    """Of the Events about a node."""
    events = shop.api.list("/api/v1/namespaces/default/events")
    return [x["message"] for x in events if x["involvedObject"].get("uid") == uid]


@pytest.mark.parametrize("state", ["cordoned", "in_service"])
def test_second_run_writes_nothing(shop: Maintenance, state: str) -> None:
    shop.maintain("cordoned", "w2")
    shop.maintain(state, "w2")
    mark = shop.sandbox.audit.mark()

    again = shop.maintain(state, "w2")

    assert (again["changed"], again["writes"]) == (False, [])
    assert shop.sandbox.audit.writes(since=mark) == []


def uncordoned_in_its_maintenance(shop: Maintenance) -> None:
    """Another client uncordons w2 after its drain, and the VM a is started there."""
    shop.maintain("drained", "w2")
    drain.uncordon(shop.sandbox, "w2")
    shop.start(*vms(shop, "a"), nodes=["w2"])


def test_node_that_was_uncordoned_since_its_drain_is_drained_again(shop: Maintenance) -> None:
    uncordoned_in_its_maintenance(shop)
    before = shop.uids()

    result = shop.maintain("drained", "w2")

    assert not result.get("failed"), result.get("msg")
    assert [move["name"] for move in result["moves"]] == ["a"]
    assert shop.cordoned("w2") and pods_on(shop, "w2") == []
    mark = shop.mark("w2")
    assert mark is not None and (mark["phase"], mark["cordoned"]) == ("drained", True)
    assert shop.uids() == before
    assert not shop.maintain("in_service", "w2").get("failed")
    assert not shop.cordoned("w2") and shop.mark("w2") is None


def test_node_that_was_uncordoned_since_its_drain_is_named_in_service(shop: Maintenance) -> None:
    uncordoned_in_its_maintenance(shop)
    before = shop.uids()

    result = shop.maintain("in_service", "w2")

    assert not result.get("failed"), result.get("msg")
    (line,) = [line for line in result["progress"] if line.startswith("node w2: in service")]
    assert "another client had uncordoned it" in line
    assert not shop.cordoned("w2") and shop.mark("w2") is None
    assert shop.nodes() == {"a": "w2"} and shop.uids() == before


def test_foreign_cordon_is_never_lifted(shop: Maintenance) -> None:
    drain.cordon(shop.sandbox, "w2")

    shop.maintain("cordoned", "w2")
    mark = shop.mark("w2")
    assert mark is not None and mark["cordoned"] is False
    result = shop.maintain("in_service", "w2")

    assert shop.cordoned("w2")
    assert shop.mark("w2") is None
    assert [(n["state"], n["ours"]) for n in result["nodes"]] == [("cordoned", False)]
    assert any("another client cordoned it" in line for line in result["progress"])


def test_check_mode_shows_the_cordon_and_writes_nothing(shop: Maintenance) -> None:
    mark = shop.sandbox.audit.mark()

    planned = shop.maintain("cordoned", "w2", check=True, diff=True)

    assert planned["changed"] is True
    (difference,) = planned["diff"]
    assert difference["before"] == {"cordoned": False, "maintenance": None}
    assert difference["after"] == {"cordoned": True, "maintenance": "cordoned"}
    assert shop.sandbox.audit.writes(since=mark) == []


def test_nodes_of_two_zones_are_refused(shop: Maintenance) -> None:
    other = next(name for name in ("w2", "w3", "w4") if shop.zone(name) != shop.zone("w1"))

    result = shop.maintain("cordoned", "w1", other, max_nodes=6)

    assert result["failed"]
    assert "in 2 topology domains" in result["msg"]
    assert not shop.cordoned("w1") and not shop.cordoned(other)
    shop.maintain("cordoned", "w1")
    result = shop.maintain("cordoned", other, max_nodes=6)
    assert result["failed"]
    assert "w1" in result["msg"] and "in maintenance already" in result["msg"]
    assert not shop.cordoned(other)


def test_more_nodes_than_max_nodes_are_refused(shop: Maintenance) -> None:
    result = shop.maintain("cordoned", topology={"zone": shop.zone("w1")})

    assert result["failed"]
    assert result["msg"].startswith(
        "max_nodes: allows 1 node in maintenance at the same time, and with this task it would be 2"
    )
    assert not shop.cordoned("w1")


def test_nodes_are_put_in_service_beside_one_that_was_deleted(shop: Maintenance) -> None:
    with shop.recreated_afterwards("w2"):
        shop.maintain("cordoned", "w1", "w2", max_nodes=2)
        shop.api.delete("/api/v1/nodes/w2")

        result = shop.maintain("in_service", "w1", "w2")

        assert result["failed"]
        assert "there is no node 'w2'" in result["msg"]
        assert [node["name"] for node in result["nodes"]] == ["w1"]
        assert not shop.cordoned("w1") and shop.mark("w1") is None
    result = shop.maintain("in_service", "w1", "w2")
    assert (result["changed"], result.get("msg")) == (False, None)


def test_unknown_node_is_named_with_the_nearest(shop: Maintenance) -> None:
    result = shop.maintain("cordoned", "w22")

    assert result["failed"]
    assert "there is no node 'w22'" in result["msg"] and "did you mean" in result["msg"]


def test_damaged_mark_is_an_error_about_its_node(shop: Maintenance) -> None:
    annotations = {"metadata": {"annotations": {MARK: "[" * 3000}}}
    shop.api.patch("/api/v1/nodes/w2", annotations)

    result = shop.maintain("in_service", "w2")

    assert result["failed"]
    assert result["msg"].startswith(f"Node w2: annotation {MARK} is damaged")
    assert not shop.maintain("in_service", "w1").get("failed")


@pytest.fixture
def down(shop: Maintenance) -> t.Iterator[str]:
    """Node w2 in maintenance, and switched off."""
    shop.maintain("cordoned", "w2")
    node_faults.node_down(shop.api, "w2")
    yield "w2"
    with contextlib.suppress(ValueError):
        node_faults.node_up(shop.api, "w2")
    shop.api.patch("/api/v1/nodes/w2", {"metadata": {"labels": {SCHEDULABLE: "true"}}})


def test_node_that_is_not_back_stays_cordoned_and_is_named(shop: Maintenance, down: str) -> None:
    result = shop.maintain("in_service", down, run_timeout=4)

    assert result["failed"]
    assert "not back within 4 s (run_timeout)" in result["msg"]
    assert "node w2 is not Ready" in result["msg"]
    assert shop.cordoned(down)


def test_node_with_the_same_boot_id_was_not_rebooted(shop: Maintenance, down: str) -> None:
    node_faults.node_up(shop.api, down)

    result = shop.maintain("in_service", down, run_timeout=4, reboot_expected=True)

    assert result["failed"]
    assert "node w2 was not rebooted (bootID is still " in result["msg"]
    assert shop.cordoned(down)


@pytest.mark.tour
def test_rebooted_node_is_put_in_service_when_virt_handler_is_ready(
    shop: Maintenance, down: str
) -> None:
    node_faults.node_up(shop.api, down, new_boot=True, virt_handler_ready=False)

    result = shop.maintain("in_service", down, run_timeout=4, reboot_expected=True)
    assert result["failed"]
    assert "virt-handler is not ready" in result["msg"]
    labels = {"metadata": {"labels": {SCHEDULABLE: "true"}}}
    shop.api.patch(f"/api/v1/nodes/{down}", labels)
    result = shop.maintain("in_service", down, reboot_expected=True)

    assert not result.get("failed"), result.get("msg")
    assert not shop.cordoned(down)


def cordon_others(shop: Maintenance) -> None:
    for name in ("w1", "w3", "w4", "w5", "w6"):
        drain.cordon(shop.sandbox, name)


def test_undoing_a_drain_that_was_killed_deletes_its_pending_migration(
    shop: Maintenance,
) -> None:
    shop.start(*vms(shop, "a"), nodes=["w2"])
    cordon_others(shop)
    allowed = ["no_place", "last_node_of_domain"]
    shop.maintain_one_step("drained", "w2", allow_findings=allowed, move_timeout=600)
    kind = shop.path("VirtualMachineInstanceMigration")
    shop.api.wait_list(
        kind, lambda seen: [(x.get("status") or {}).get("phase") for x in seen] == ["Scheduling"]
    )

    result = shop.maintain("in_service", "w2")

    assert not result.get("failed"), result.get("msg")
    assert any("pending migration" in line for line in result["progress"])
    assert not shop.cordoned("w2") and shop.mark("w2") is None
    assert all(shop.cordoned(name) for name in ("w1", "w3", "w4", "w5", "w6"))
    wait_none_pending(shop)
    assert shop.nodes() == {"a": "w2"}
    assert shop.lease()["metadata"]["annotations"]["placement.virt/journal"] == ""


@pytest.mark.tour
def test_evacuation_is_canceled_when_a_node_goes_in_service(shop: Maintenance) -> None:
    shop.start(*vms(shop, "a", placement={"evictionStrategy": "LiveMigrate"}), nodes=["w2"])
    cordon_others(shop)
    shop.maintain("cordoned", "w2")
    evacuate(shop, "a")
    marked = shop.path("VirtualMachineInstance", "a")

    result = shop.maintain("in_service", "w2")

    assert not result.get("failed"), result.get("msg")
    if not shop.sandbox.versions.has_kubevirt("1.7"):  # no evacuate/cancel
        assert any("may still be migrated away" in line for line in result["progress"])
        return
    assert any("evacuation of VMI" in line for line in result["progress"])
    assert not shop.api.get(marked)["status"].get("evacuationNodeName")
    wait_none_pending(shop)
    for name in ("w1", "w3"):
        drain.uncordon(shop.sandbox, name)
    assert shop.nodes() == {"a": "w2"}


def test_failed_undo_is_reported_and_the_node_stays_cordoned(shop: Maintenance) -> None:
    shop.start(*vms(shop, "a", placement={"evictionStrategy": "LiveMigrate"}), nodes=["w2"])
    cordon_others(shop)
    shop.maintain("cordoned", "w2")
    evacuate(shop, "a")
    with shop.sandbox.fault_proxy([Rule("PUT", "/evacuate/cancel", status(403))]) as proxy:
        kubeconfig = str(proxy.kubeconfig(shop.identity))
        result = shop.maintain("in_service", "w2", kubeconfig=kubeconfig)

    assert result["failed"]
    assert f"Node w2: evacuation of VMI {shop.namespace}/a could not be undone" in result["msg"]
    assert shop.cordoned("w2") and shop.mark("w2") is not None
    assert not shop.maintain("in_service", "w2").get("failed")
    assert not shop.cordoned("w2")


def test_evacuation_under_a_foreign_cordon_is_named_and_left(shop: Maintenance) -> None:
    """The client that cordoned the node may be about to drain it."""
    shop.start(*vms(shop, "a", placement={"evictionStrategy": "LiveMigrate"}), nodes=["w2"])
    cordon_others(shop)
    drain.cordon(shop.sandbox, "w2")
    shop.maintain("cordoned", "w2")
    evacuate(shop, "a")

    result = shop.maintain("in_service", "w2")

    assert not result.get("failed"), result.get("msg")
    assert (
        f"node w2: evacuation of VMI {shop.namespace}/a is left to the client that cordoned the node"
        in result["progress"]
    )
    seen = shop.api.get(shop.path("VirtualMachineInstance", "a"))
    assert seen["status"]["evacuationNodeName"] == "w2"
    assert shop.cordoned("w2") and shop.mark("w2") is None


def evacuate(shop: Maintenance, name: str) -> None:
    """Ask for the eviction of the VM on w2, which KubeVirt answers with an evacuation."""
    (pod,) = pods_on(shop, "w2")
    body = {"metadata": {"name": pod, "namespace": shop.namespace}}
    with pytest.raises(ApiFailure):
        shop.api.create(f"{shop.path('Pod', pod)}/eviction", {**EVICTION, **body})
    marked = shop.path("VirtualMachineInstance", name)
    shop.api.wait(lambda seen: seen["status"].get("evacuationNodeName") == "w2", marked)
    shop.api.wait_list(shop.path("VirtualMachineInstanceMigration"), bool)


def wait_none_pending(shop: Maintenance) -> None:
    """Until no migration is left that has not ended: a canceled one ends a moment after its deletion."""
    final = ("Succeeded", "Failed")
    shop.api.wait_list(
        shop.path("VirtualMachineInstanceMigration"),
        lambda migrations: all(x["status"]["phase"] in final for x in migrations),
    )


@pytest.mark.parametrize("state", ["cordoned", "drained", "in_service"])
def test_missing_rights_are_named_before_anything_is_written(shop: Maintenance, state: str) -> None:
    if state == "in_service":
        shop.maintain("cordoned", "w2")
    shop.identity = "reader"
    mark = shop.sandbox.audit.mark()

    result = shop.maintain(state, "w2")

    assert result["failed"]
    assert {error["type"] for error in result["errors"]} == {"permission"}
    assert "patch nodes w2" in result["msg"]
    assert "virt-placement-maintainer" in result["msg"]
    assert [event for event in shop.sandbox.audit.writes(since=mark) if event.code < 300] == []


def test_change_that_was_done_is_on_the_node(shop: Maintenance) -> None:
    shop.maintain("cordoned", "w2")
    assert not shop.maintain("in_service", "w2", change_id="CHG7").get("failed")
    mark = shop.sandbox.audit.mark()

    again = shop.maintain("in_service", "w2", change_id="CHG7")

    assert [node["change_id"] for node in again["nodes"]] == ["CHG7"]
    assert shop.sandbox.audit.writes(since=mark) == []


def test_replacement_that_is_not_ready_is_waited_for(shop: Maintenance, down: str) -> None:
    """A Node object that another one replaced has no mark."""
    shop.api.patch(f"/api/v1/nodes/{down}", {"metadata": {"annotations": {MARK: None}}})

    result = shop.maintain("in_service", down, run_timeout=3, reboot_expected=True)

    assert result["failed"]
    assert "node w2 is not Ready" in result["msg"]


def test_outside_of_the_window_nothing_begins_and_what_began_continues(shop: Maintenance) -> None:
    now, hour = datetime.now(timezone.utc), timedelta(hours=1)
    window = {"start": f"{now + hour:%H:%M}", "end": f"{now + 2 * hour:%H:%M}"}
    mark = shop.sandbox.audit.mark()

    result = shop.maintain("drained", "w2", window=window)

    assert not result.get("failed"), result.get("msg")
    assert result["stop_reason"].startswith("outside of the window from ")
    assert any(line.startswith("w2: not begun, outside") for line in result["progress"])
    assert shop.sandbox.audit.writes(since=mark) == []
    shop.maintain("cordoned", "w2")
    result = shop.maintain("drained", "w2", window=window)
    assert [node["state"] for node in result["nodes"]] == ["drained"], result.get("msg")
