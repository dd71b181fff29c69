# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Maintenance of real nodes: drains, a loss of power, a boot."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
import yaml

from demos.stage import Stage
from sandbox.objects import disruption_budget
from tests.guests import Guests, servers
from tests.maintenance import pods_on
from tests.shop import PATIENCE

CHECKOUT = Path(__file__).resolve().parents[2]
HOME = "example.com/home"


@pytest.mark.real_tour
def test_drain_migrates_guests_and_keeps_a_budget(guests: Guests) -> None:
    guests.start_guests("d0", "d1", node="w2")
    budget = disruption_budget("server", guests.namespace, labels={"app": "server"})
    guests.api.create(guests.path("PodDisruptionBudget"), budget)
    with guests.alone("w2"):
        guests.api.create(guests.path("Deployment"), servers(guests, 2))
        deployment = guests.path("Deployment", "server")
        guests.api.wait(lambda x: x["status"]["readyReplicas"] == 2, deployment, PATIENCE)
    before = guests.uids()
    fewest: list[int] = []

    def note_ready() -> bool:
        fewest.append(guests.api.get(deployment)["status"].get("readyReplicas", 0))
        return False

    with guests.meanwhile(until=note_ready, do=lambda: None):
        result = guests.drain("drained", "w2")

    assert not result.get("failed"), result.get("msg")
    assert guests.cordoned("w2")
    assert [name for name in pods_on(guests, "w2") if "virt-handler" not in name] == []
    assert guests.uids() == before and "w2" not in guests.nodes().values()
    guests.assert_went_on("d0", "d1")
    assert min(fewest) >= 1, "the budget allows one of two to be away"

    result = guests.drain("in_service", "w2")

    assert not result.get("failed"), result.get("msg")
    assert not guests.cordoned("w2") and guests.mark("w2") is None


def test_drain_of_ten_guests_keeps_a_budget_and_the_limit_of_migrations(guests: Guests) -> None:
    """KubeVirt runs two migrations from a node at once: the drain has no third one in flight, and no fewer."""
    names = [f"t{number}" for number in range(10)]
    guests.start_guests(*names, node="w2")
    budget = disruption_budget("server", guests.namespace, labels={"app": "server"})
    guests.api.create(guests.path("PodDisruptionBudget"), budget)
    deployment = guests.path("Deployment", "server")
    with guests.alone("w2"):
        guests.api.create(guests.path("Deployment"), servers(guests, 2))
        guests.api.wait(lambda x: x["status"].get("readyReplicas") == 2, deployment, PATIENCE)
    before, boots = guests.uids(), guests.boots(*names)
    fewest: list[int] = []
    flights: list[int] = []

    def note() -> bool:
        fewest.append(guests.api.get(deployment)["status"].get("readyReplicas", 0))
        flights.append(guests.in_flight())
        return False

    with guests.meanwhile(until=note, do=lambda: None):
        result = guests.drain("drained", "w2")

    assert not result.get("failed"), result.get("msg")
    assert [name for name in pods_on(guests, "w2") if "virt-handler" not in name] == []
    assert sorted(guests.nodes()) == sorted(names) and "w2" not in guests.nodes().values()
    assert (guests.uids(), guests.boots(*names)) == (before, boots)
    guests.assert_went_on(*names)
    assert guests.migrations() == {name: ["Succeeded"] for name in names}
    assert max(flights) == 2
    assert min(fewest) >= 1, "the budget allows one of two to be away"


@pytest.mark.real_tour
def test_node_loses_its_power_in_maintenance_and_guests_return_home(
    guests: Guests, tmp_path: Path
) -> None:
    for node in guests.sandbox.real_nodes.names():
        labels = {"metadata": {"labels": {HOME: node}}}
        guests.api.patch(f"/api/v1/nodes/{node}", labels)
    guests.start_guests("h0", node="w3")
    home = {"name": "home", "workloads": ["h0"], "run_on": {HOME: "w3"}, "preferred": True}
    guests.declare({**home, "weight": 100})
    boot = guests.node("w3")["status"]["nodeInfo"]["bootID"]
    before = guests.uids()
    reboot = [sys.executable, "-m", "sandbox", "reboot", "--dir"]
    command = [*reboot, str(guests.sandbox.directory), "{{ placement_maintenance_node }}"]
    run = {"argv": command, "chdir": str(CHECKOUT)}
    task = {"name": "Reboot", "ansible.builtin.command": run, "changed_when": True}
    (tmp_path / "reboot.yml").write_text(yaml.safe_dump([task]))
    wanted = {
        "placement_maintenance_nodes": ["w3"],
        "placement_maintenance_tasks": str(tmp_path / "reboot.yml"),
        "placement_maintenance_reboot_expected": True,
        "placement_maintenance_run_timeout": 3 * PATIENCE,
        "placement_maintenance_move_timeout": PATIENCE // 2,
    }
    stage = Stage(guests.sandbox, guests.namespace, quiet=True)

    result = stage.play("maintenance", wanted, identity="maintainer-mover", timeout=6 * PATIENCE)

    assert result.rc == 0, result.stdout
    assert guests.node("w3")["status"]["nodeInfo"]["bootID"] != boot
    assert not guests.cordoned("w3") and guests.mark("w3") is None
    assert guests.nodes() == {"h0": "w3"}
    assert guests.uids() == before
    guests.assert_went_on("h0")
    assert guests.migrated() == 2
