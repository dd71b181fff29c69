# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Nodes that are lost without maintenance: what was forecast, and what really happens."""

from __future__ import annotations

import typing as t

from ansible_collections.virt.placement.plugins.modules import drill_info, placement_info
from tests.guests import Guests
from tests.shop import PATIENCE

#: virt-controller takes virt-handler for dead after five minutes; evictions of the taint manager follow
LONG = 2 * PATIENCE
OUT_OF_SERVICE = {
    "key": "node.kubernetes.io/out-of-service",
    "value": "nodeshutdown",
    "effect": "NoExecute",
}


def test_node_that_reboots_within_seconds_boots_its_guests_anew(guests: Guests) -> None:
    guests.start_guests("q0", node="w2")
    guests.start_guests("q1", node="w1")
    node = guests.sandbox.real_nodes["w2"]
    uid = guests.instances()["q0"]["metadata"]["uid"]
    boot = guests.node("w2")["status"]["nodeInfo"]["bootID"]

    node.power_off()
    node.power_on()

    path = guests.path("VirtualMachineInstance", "q0")
    guests.api.wait(
        lambda vmi: vmi["metadata"]["uid"] != uid and vmi["status"]["phase"] == "Running",
        path,
        LONG,
    )
    guests.api.wait(
        lambda seen: seen["status"]["nodeInfo"]["bootID"] != boot, "/api/v1/nodes/w2", LONG
    )
    guests.witness.wait("q0", timeout=LONG)
    assert len(guests.witness.count("q0").boots) == 2
    guests.assert_went_on("q1")


def losses(guests: Guests) -> dict[str, dict[str, t.Any]]:
    """What the drill says of the loss of each node."""
    result = guests.done(drill_info.main, "reader", domains_of=["node"])
    found = [*result["domains"], *result["without_impact"]]
    assert len(found) == result["counts"]["domains"]
    return {entry["domain"]: entry for entry in found}


def named(refs: t.Iterable[dict[str, str]]) -> list[str]:
    return sorted(ref["name"] for ref in refs)


def verdicts(guests: Guests) -> dict[str, tuple[str, bool]]:
    """The verdict on each VM by a verification of the namespace, and whether its node is down."""
    wanted = {"namespaces": [guests.namespace], "details": "all"}
    result = guests.done(placement_info.main, "reader", **wanted)
    return {
        entry["workload"]["name"]: (entry["verdict"], entry["down"])
        for entry in result["instances"]
    }


def wait_for_node(guests: Guests, name: str, holds: t.Callable[[dict[str, t.Any]], bool]) -> None:
    guests.api.wait(holds, f"/api/v1/nodes/{name}", LONG)


def is_unknown(node: dict[str, t.Any]) -> bool:
    conditions = {entry["type"]: entry["status"] for entry in node["status"]["conditions"]}
    return str(conditions["Ready"]) == "Unknown"


def takes_vms(node: dict[str, t.Any]) -> bool:
    return str(node["metadata"]["labels"]["kubevirt.io/schedulable"]) == "true"


def test_lost_node_happens_as_the_drill_of_each_node_said(guests: Guests) -> None:
    """kubelet and virt-handler die, the guests do not: no controller may start them a second time. Once the node is
    fenced, by its power and the out-of-service taint, what has another node boots there, and nothing else moves."""
    guests.start_guests("l0", "pinned", node="w3")
    guests.start_guests("l1", node="w1")
    guests.declare(
        {"name": "apart", "workloads": [{"names": ["l0", "l1"]}], "keep_apart": "zone"},
        {"name": "pinned", "workloads": ["pinned"], "run_on": {"zone": "zone3"}},
    )
    before = guests.instances()
    node = guests.sandbox.real_nodes["w3"]

    drill_of_each_node(guests)
    node.stop("kubelet", "virt-handler")
    nothing_starts_a_second_time(guests, before)
    node.power_off()
    guests.api.patch("/api/v1/nodes/w3", {"spec": {"taints": [OUT_OF_SERVICE]}})
    what_has_another_node_boots_there(guests, before)
    node.power_on()
    node.start("kubelet", "virt-handler")
    guests.api.patch("/api/v1/nodes/w3", {"spec": {"taints": None}})
    what_waited_for_its_node_boots(guests)


def drill_of_each_node(guests: Guests) -> None:
    said = losses(guests)
    assert {name: entry.get("forecast") for name, entry in said.items()} == {
        "w1": None,
        "w2": None,
        "w3": "impossible",
    }
    assert (said["w1"]["instances_to_schedule"], said["w1"]["down_until_fenced"]) == (1, 1)
    assert (said["w2"]["instances_to_schedule"], said["w2"]["down_until_fenced"]) == (0, 0)
    lost = said["w3"]
    assert named(lost["down_until_fenced"]) == ["l0", "pinned"]
    assert (named(lost["pending"]), lost["instances_to_schedule"]) == (["pinned"], 2)
    (blocked,) = lost["blocked"]
    assert blocked["rules"] == [f"{guests.namespace}/real/pinned"]


def nothing_starts_a_second_time(guests: Guests, before: dict[str, dict[str, t.Any]]) -> None:
    wait_for_node(guests, "w3", is_unknown)
    assert verdicts(guests) == {
        "l0": ("not_enforced", True),
        "pinned": ("not_enforced", True),
        "l1": ("not_enforced", False),
    }
    wait_for_node(guests, "w3", lambda seen: not takes_vms(seen))
    assert guests.uids() == {vmi["metadata"]["uid"] for vmi in before.values()}, (
        "no second instance is started while the first may run"
    )
    assert guests.nodes() == {"l0": "w3", "pinned": "w3", "l1": "w1"}


def what_has_another_node_boots_there(guests: Guests, before: dict[str, dict[str, t.Any]]) -> None:
    guests.api.wait(
        lambda vmi: (
            vmi["metadata"]["uid"] != before["l0"]["metadata"]["uid"]
            and vmi["status"]["phase"] == "Running"
        ),
        guests.path("VirtualMachineInstance", "l0"),
        LONG,
    )
    guests.api.wait(
        lambda vmi: (
            vmi["metadata"]["uid"] != before["pinned"]["metadata"]["uid"]
            and vmi["status"]["phase"] == "Scheduling"
        ),
        guests.path("VirtualMachineInstance", "pinned"),
        LONG,
    )

    guests.witness.wait("l0", timeout=PATIENCE)
    assert guests.nodes() == {"l0": "w2", "pinned": "", "l1": "w1"}
    assert guests.instances()["l1"]["metadata"]["uid"] == before["l1"]["metadata"]["uid"]
    assert verdicts(guests) == {
        "l0": ("satisfied", False),
        "pinned": ("pending", False),
        "l1": ("not_enforced", False),
    }
    boots = guests.boots("l0", "pinned", "l1")
    assert {name: len(found) for name, found in boots.items()} == {"l0": 2, "pinned": 1, "l1": 1}
    guests.assert_went_on("l1")
    assert guests.migrated() == 0


def what_waited_for_its_node_boots(guests: Guests) -> None:
    wait_for_node(guests, "w3", takes_vms)
    guests.witness.wait("pinned", timeout=LONG)
    assert guests.nodes() == {"l0": "w2", "pinned": "w3", "l1": "w1"}
    assert len(guests.boots("pinned")["pinned"]) == 2
    guests.assert_went_on("l1")
