# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Nodes that are lost without maintenance: what was forecast, and what really happens."""

from __future__ import annotations

import typing as t

from ansible_collections.virt.placement.plugins.modules import drill_info, placement_info
from tests.guests import PATIENCE, Guests

#: virt-controller takes virt-handler for dead after five minutes; evictions of the taint manager follow
LONG = 2 * PATIENCE


def drill(guests: Guests) -> dict[str, t.Any]:
    """Which loss of a node hurts, of the namespace's rules and VMs."""
    return guests.done(drill_info.main, "reader", domains_of=["node"])


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


def test_lost_node_is_forecast_and_its_guests_run_on_until_it_is_fenced(guests: Guests) -> None:
    """kubelet and virt-handler die, the guest does not: no controller may start it a second time."""
    guests.start_guests("l0", node="w3")
    guests.start_guests("l1", node="w1")
    before = guests.uids()
    forecast = drill(guests)
    assert forecast["counts"]["domains"] == 3
    node = guests.sandbox.real_nodes["w3"]

    node.stop("kubelet", "virt-handler")
    guests.api.wait(
        lambda seen: any(
            x["type"] == "Ready" and x["status"] == "Unknown" for x in seen["status"]["conditions"]
        ),
        "/api/v1/nodes/w3",
        LONG,
    )
    lost = guests.done(placement_info.main, "reader", namespaces=[guests.namespace])
    guests.api.wait(
        lambda seen: seen["metadata"]["labels"]["kubevirt.io/schedulable"] == "false",
        "/api/v1/nodes/w3",
        LONG,
    )

    assert "w3" in str(lost), "the VM's node is named"
    assert guests.uids() == before, "no second instance is started while the first may run"
    guests.assert_went_on("l1")

    node.start("kubelet", "virt-handler")
    guests.api.wait(
        lambda seen: seen["metadata"]["labels"]["kubevirt.io/schedulable"] == "true",
        "/api/v1/nodes/w3",
        LONG,
    )
