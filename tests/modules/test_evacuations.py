# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""An evacuation that was given up goes on, on the real virt-api and virt-controller (case 64)."""

from __future__ import annotations

import re
import typing as t

import pytest

from ansible_collections.virt.placement.plugins.modules import placement_info
from sandbox import Sandbox, drain
from tests.maintenance import Maintenance, maintenance, vms
from tests.page_commands import run_as_printed

NAME = "evacuation_goes_on"


@pytest.fixture
def shop(six: Sandbox, namespace: t.Any, run_module: t.Any) -> t.Iterator[Maintenance]:
    with maintenance(six, namespace(six, "evacuations"), run_module) as shop:
        yield shop


def give_up_a_drain(shop: Maintenance, node: str) -> None:
    """As kubectl drain with a timeout, and kubectl uncordon."""
    with pytest.raises(TimeoutError):
        drain.drain(shop.sandbox, node, timeout=4)
    drain.uncordon(shop.sandbox, node)


def marked(shop: Maintenance) -> str:
    return str(shop.instances()["depot-1"]["status"].get("evacuationNodeName", ""))


def pending(shop: Maintenance) -> list[str]:
    """The migrations that go on. One that was just created has no phase."""
    return [
        x["metadata"]["name"]
        for x in shop.api.list(shop.path("VirtualMachineInstanceMigration"))
        if x.get("status", {}).get("phase") not in ("Failed", "Succeeded")
    ]


def test_case_64_evacuation_that_goes_on_is_named_and_ends_as_printed(shop: Maintenance) -> None:
    pinned = {"nodeSelector": {"kubernetes.io/hostname": "w3"}, "evictionStrategy": "LiveMigrate"}
    shop.start(*vms(shop, "depot-1", placement=pinned), nodes=["w3"])
    before = shop.uids()
    give_up_a_drain(shop, "w3")
    assert marked(shop) == "w3"

    verified = shop.done(placement_info.main, "reader", namespaces=[shop.namespace])
    result = shop.maintain("in_service", "w3")

    (of_verify,) = [x for x in verified["findings"] if x["name"] == NAME]
    assert of_verify["objects"] == [f"VirtualMachine {shop.namespace}/depot-1"]
    assert not result.get("failed") and not result["changed"]
    (of_node,) = [x for x in result["findings"] if x["name"] == NAME]
    (line,) = [x for x in result["progress"] if x.startswith(f"warning: {NAME}")]
    assert of_node["why"] in line and of_node["advice"] in line
    assert of_verify["advice"] == of_node["advice"]

    commands = re.findall("`(.*?)`", of_node["advice"])
    printed = [run_as_printed(shop.sandbox, command, "admin") for command in commands]
    assert [ended.returncode for ended in printed] == [0, 0], printed
    shop.api.wait(
        lambda _vmi: not marked(shop) and not pending(shop),
        shop.path("VirtualMachineInstance", "depot-1"),
    )

    again = shop.done(placement_info.main, "reader", namespaces=[shop.namespace])
    assert not [x for x in again["findings"] if x["name"] == NAME]
    assert shop.nodes() == {"depot-1": "w3"} and shop.uids() == before
    assert (marked(shop), pending(shop)) == ("", []), "no controller begins another migration"
