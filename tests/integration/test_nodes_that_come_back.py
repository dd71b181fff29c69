# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The playbook maintenance, on nodes that come back from the work otherwise than they were."""

from __future__ import annotations

import datetime
import typing as t
from pathlib import Path

import pytest
import yaml

from demos.stage import Stage
from sandbox import Sandbox
from tests.maintenance import Maintenance, maintenance, vms
from tests.shop import PATIENCE

CILIUM = {"key": "node.cilium.io/agent-not-ready", "value": "true", "effect": "NoSchedule"}
Object = dict[str, t.Any]


@pytest.fixture
def shop(six: Sandbox, namespace: t.Any, run_module: t.Any) -> t.Iterator[Maintenance]:
    with maintenance(six, namespace(six, "come-back"), run_module) as shop:
        yield shop


class Work:
    """The tasks for each node: they wait until the test has done the work on it."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.tasks = folder / "work.yml"
        begun, ended = (f"{folder}/{{{{ placement_maintenance_node }}}}.{x}" for x in ("b", "e"))
        touch = {"name": "Begin", "ansible.builtin.copy": {"content": "", "dest": begun}}
        wait = {"name": "Wait", "ansible.builtin.wait_for": {"path": ended, "timeout": PATIENCE}}
        self.tasks.write_text(yaml.safe_dump([touch, wait]))

    def begun(self, node: str) -> bool:
        return (self._folder / f"{node}.b").exists() and not (self._folder / f"{node}.e").exists()

    def end(self, node: str) -> None:
        (self._folder / f"{node}.e").touch()


def test_case_68_next_node_is_drained_once_the_startup_taint_is_gone(
    shop: Maintenance, tmp_path: Path
) -> None:
    """The VM may run on w1 and w2 only. w1 is Ready, and its network agent becomes ready after the job has looked."""
    pinned = {"nodeSelector": {"topology.kubernetes.io/zone": shop.zone("w1")}}
    shop.start(*vms(shop, "till-1", placement=pinned), nodes=["w2"])
    work, before = Work(tmp_path), shop.uids()
    uncordoned: list[datetime.datetime] = []

    def look() -> bool:
        if work.begun("w1"):
            shop.api.patch("/api/v1/nodes/w1", {"spec": {"taints": [CILIUM]}})
            work.end("w1")
        elif work.begun("w2"):
            work.end("w2")
        elif CILIUM in (shop.node("w1")["spec"].get("taints") or ()) and not shop.cordoned("w1"):
            uncordoned.append(datetime.datetime.now(datetime.timezone.utc))
            if shop.nodes_are_read(uncordoned[0]):
                shop.api.patch("/api/v1/nodes/w1", {"spec": {"taints": None}})
        return False

    selected = {
        "placement_maintenance_nodes": ["w1", "w2"],
        "placement_maintenance_tasks": str(work.tasks),
    }
    stage = Stage(shop.sandbox, shop.namespace, quiet=True)
    result = stage.play("maintenance", selected, identity="maintainer-mover", cancel=look)

    assert result.rc == 0, result.stdout
    lines = [
        "node w1: uncordoned",
        "waiting: node w1 has a startup taint, which a component of the node removes once it is ready:"
        f" {CILIUM['key']}=true:NoSchedule",
        "node w1: in service",
        "node w2: in service",
    ]
    places = [result.stdout.index(line) for line in lines]
    assert places == sorted(places)
    assert uncordoned and not shop.cordoned("w1") and not shop.cordoned("w2")
    assert shop.uids() == before and shop.nodes() == {"till-1": "w1"}


@pytest.mark.usefixtures("own_process")
def test_case_68_relaunched_job_waits_for_the_serviced_node(
    shop: Maintenance, tmp_path: Path
) -> None:
    """The first job is killed once it has uncordoned w1, whose network agent is not ready before the third job. The VM
    may run on w1 and w2 only."""
    pinned = {"nodeSelector": {"topology.kubernetes.io/zone": shop.zone("w1")}}
    shop.start(*vms(shop, "till-1", placement=pinned), nodes=["w2"])
    work, before = Work(tmp_path), shop.uids()
    selected = {
        "placement_maintenance_nodes": ["w1", "w2"],
        "placement_maintenance_change_id": "CHG68",
        "placement_maintenance_tasks": str(work.tasks),
    }
    stage = Stage(shop.sandbox, shop.namespace, quiet=True)

    def is_uncordoned() -> bool:
        if work.begun("w1"):
            shop.api.patch("/api/v1/nodes/w1", {"spec": {"taints": [CILIUM]}})
            work.end("w1")
        taints = shop.node("w1")["spec"].get("taints") or ()
        return CILIUM in taints and not shop.cordoned("w1")

    stage.play("maintenance", selected, identity="maintainer-mover", cancel=is_uncordoned)
    annotations = shop.node("w1")["metadata"]["annotations"]
    mark, limit = shop.sandbox.audit.mark(), {"placement_maintenance_run_timeout": 15}
    second = stage.play("maintenance", {**selected, **limit}, identity="maintainer-mover")
    written = shop.sandbox.audit.writes(since=mark)
    shop.api.patch("/api/v1/nodes/w1", {"spec": {"taints": None}})
    work.end("w2")
    third = stage.play("maintenance", selected, identity="maintainer-mover")

    assert annotations["placement.virt/serviced"] == "CHG68"
    assert second.rc != 0 and written == []
    assert "node w1: skipped, since its change_id is CHG68 already" in second.stdout
    assert (
        "not back within 15 s (run_timeout): waiting: node w1 has a startup taint" in second.stdout
    )
    assert third.rc == 0, third.stdout
    assert "node w2: in service" in third.stdout and "Drain w1" not in third.stdout
    assert shop.uids() == before and shop.nodes() == {"till-1": "w1"}


def reinstall(shop: Maintenance, name: str) -> None:
    """The host is installed anew: its Node object is deleted, and the kubelet registers the same name again."""
    old = shop.node(name)
    shop.api.delete(f"/api/v1/nodes/{name}")
    metadata = {"name": name, "labels": old["metadata"]["labels"]}
    shop.api.create("/api/v1/nodes", {**old, "metadata": metadata, "spec": {}})
    status = {key: value for key, value in old["status"].items() if key != "conditions"}
    shop.api.patch(f"/api/v1/nodes/{name}/status", {"status": status})


def test_case_71_node_that_was_installed_anew_is_serviced_once(
    shop: Maintenance, tmp_path: Path
) -> None:
    """The second launch finds both nodes done."""
    shop.start(*vms(shop, "db-1"), nodes=["w1"])
    work, before, uid = Work(tmp_path), shop.uids(), shop.node("w1")["metadata"]["uid"]

    def look() -> bool:
        if work.begun("w1"):
            reinstall(shop, "w1")
            work.end("w1")
        elif work.begun("w3"):
            work.end("w3")
        return False

    selected = {
        "placement_maintenance_nodes": ["w1", "w3"],
        "placement_maintenance_change_id": "CHG7",
        "placement_maintenance_tasks": str(work.tasks),
        "placement_maintenance_return_home": "none",
    }
    stage = Stage(shop.sandbox, shop.namespace, quiet=True)
    result = stage.play("maintenance", selected, identity="maintainer-mover", cancel=look)

    assert result.rc == 0, result.stdout
    assert "node w1: its Node object was deleted in its maintenance" in result.stdout
    assert "node w1: in service" in result.stdout
    node = shop.node("w1")
    assert node["metadata"]["uid"] != uid
    assert node["metadata"]["annotations"]["placement.virt/serviced"] == "CHG7"
    assert "unschedulable" not in node["spec"]
    assert shop.uids() == before
    mark = shop.sandbox.audit.mark()
    again = stage.play("maintenance", selected, identity="maintainer-mover")
    assert (again.rc, again.changed) == (0, 0), again.stdout
    assert again.stdout.count("skipped, since its change_id is CHG7 already") == 2
    assert shop.sandbox.audit.writes(since=mark) == []


def test_case_71_job_goes_on_without_a_node_that_did_not_come_back(
    shop: Maintenance, tmp_path: Path
) -> None:
    """The first job ends at its limit. The list of nodes stays as it is for the second, and for the third."""
    work = Work(tmp_path)
    selected = {
        "placement_maintenance_nodes": ["w1", "w3"],
        "placement_maintenance_change_id": "CHG8",
        "placement_maintenance_tasks": str(work.tasks),
        "placement_maintenance_return_home": "none",
        "placement_maintenance_run_timeout": 20,
    }
    stage = Stage(shop.sandbox, shop.namespace, quiet=True)

    def look() -> bool:
        if work.begun("w1"):
            shop.api.delete("/api/v1/nodes/w1")
            work.end("w1")
        elif work.begun("w3"):
            work.end("w3")
        return False

    with shop.recreated_afterwards("w1"):
        first = stage.play("maintenance", selected, identity="maintainer-mover", cancel=look)
        second = stage.play("maintenance", selected, identity="maintainer-mover", cancel=look)
    third = stage.play("maintenance", selected, identity="maintainer-mover", cancel=look)

    gone = "node w1 does not exist: its Node object was deleted in its maintenance"
    assert first.rc != 0 and f"waiting: {gone}" in first.stdout
    assert second.rc != 0 and gone in second.stdout
    assert "node w3: in service" in second.stdout
    assert third.rc == 0, third.stdout
    serviced = (shop.node(name)["metadata"]["annotations"] for name in ("w1", "w3"))
    assert [annotations["placement.virt/serviced"] for annotations in serviced] == ["CHG8"] * 2
