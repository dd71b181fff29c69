# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The next pod of a VM as the real virt-controller makes it, forecast and then seen: on nodes of two CPU
generations and two vendors."""

from __future__ import annotations

import typing as t

import pytest

from sandbox import Sandbox, drain, objects
from sandbox.pytest_plugin import MakeNamespace
from tests.conftest import RunModule

from .test_scenarios import MIGRATION, Stage

JSON = t.Any
NODES = ("old1", "old2", "new1", "new2", "amd1", "amd2")


@pytest.fixture
def stage(mixed: Sandbox, run_module: RunModule, namespace: MakeNamespace) -> t.Iterator[Stage]:
    begun = Stage(mixed, run_module, namespace(mixed, "next"))
    yield begun
    begun.end()


def open_nodes(stage: Stage, *names: str) -> None:
    """Cordon all nodes but these."""
    stage.sandbox.restore_nodes()
    for node in NODES:
        if node not in names:
            drain.cordon(stage.sandbox, node)


def start(stage: Stage, node: str, name: str = "db", **more: JSON) -> None:
    open_nodes(stage, node)
    stage.create(objects.virtual_machine(name, **more))
    assert stage.node_of(name) == node


def migrate(stage: Stage, name: str = "db") -> str:
    """The node that a migration takes the VM to; empty where no node takes its target."""
    before = stage.node_of(name)
    stage.create(objects.migration(name, name=f"{name}-{before}"))

    def decided(pods: list[JSON]) -> bool:
        alive = [pod for pod in pods if pod["status"].get("phase") not in ("Succeeded", "Failed")]
        targets = [pod for pod in alive if pod["spec"].get("nodeName") != before]
        conditions = [c for pod in targets for c in pod["status"].get("conditions") or ()]
        refused = any(c.get("reason") == "Unschedulable" for c in conditions)
        return refused or (len(alive) == 1 and bool(targets) and _runs_on_target(stage, name))

    stage.api.wait_list(stage.path("Pod"), decided, timeout=60)
    after = stage.node_of(name)
    return after if after != before else ""


def _runs_on_target(stage: Stage, name: str) -> bool:
    migrations = stage.api.list(stage.path(MIGRATION))
    return all(each["status"].get("phase") == "Succeeded" for each in migrations)


def forecast_of_drain(stage: Stage, node: str) -> tuple[str, list[str]]:
    found = stage.forecast(unavailable={"nodes": [node]})
    return found["forecast"], [node for move in found["moves"] for node in move["targets"]]


def test_guest_with_its_hosts_cpu_does_not_migrate_to_an_older_cpu(stage: Stage) -> None:
    start(stage, "new1")
    open_nodes(stage, "new1", "old1", "old2", "amd1", "amd2")

    assert forecast_of_drain(stage, "new1") == ("impossible", [])

    assert migrate(stage) == ""


def test_guest_with_its_hosts_cpu_migrates_to_a_newer_cpu_and_back(stage: Stage) -> None:
    start(stage, "old1")
    open_nodes(stage, "old1", "new1", "amd1")

    assert forecast_of_drain(stage, "old1") == ("guaranteed", ["new1"])

    assert migrate(stage) == "new1"
    open_nodes(stage, "old2", "new1", "amd1")
    assert forecast_of_drain(stage, "new1") == ("guaranteed", ["old2"])
    assert migrate(stage) == "old2"


def test_no_guest_migrates_to_another_vendors_cpu(stage: Stage) -> None:
    spec = objects.virtual_machine("x")["spec"]["template"]["spec"]
    domain = {**spec["domain"], "cpu": {"model": "host-passthrough"}}
    start(stage, "new1", placement={"domain": domain})
    open_nodes(stage, "new1", "amd1", "amd2")

    assert forecast_of_drain(stage, "new1") == ("impossible", [])

    assert migrate(stage) == ""


def test_migrated_guest_restarts_on_any_cpu(stage: Stage) -> None:
    start(stage, "old1", placement={"evictionStrategy": "None"})
    open_nodes(stage, "old1", "new1")
    assert migrate(stage) == "new1"
    open_nodes(stage, "new1", "amd1")

    assert forecast_of_drain(stage, "new1") == ("guaranteed", ["amd1"])

    drain.drain(stage.sandbox, "new1")
    assert stage.node_of("db") == "amd1"
