# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The next pod of a VM as the real virt-controller makes it, forecast and then seen: on nodes of two CPU
generations and two vendors."""

from __future__ import annotations

import time
import typing as t

import pytest

from sandbox import Sandbox, drain, objects
from sandbox.pytest_plugin import MakeNamespace
from tests.conftest import RunModule

from .test_scenarios import MIGRATION, ZONE, Stage

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


ZONE1 = ("amd1", "new1", "old1")


def create_instance_type(stage: Stage, name: str = "typed", **spec: JSON) -> None:
    made = {
        "apiVersion": "instancetype.kubevirt.io/v1beta1",
        "kind": "VirtualMachineInstancetype",
        "metadata": {"name": name, "namespace": stage.namespace},
        "spec": {"cpu": {"guest": 1}, "memory": {"guest": "1Gi"}, **spec},
    }
    path = "/apis/instancetype.kubevirt.io/v1beta1/namespaces/{}/virtualmachineinstancetypes"
    stage.api.create(path.format(stage.namespace), made)


def typed_vm(name: str = "db", **more: JSON) -> JSON:
    """A VM of the instance type `typed`, which gives it CPU and memory."""
    vm = objects.virtual_machine(name, **more)
    vm["spec"]["instancetype"] = {"kind": "VirtualMachineInstancetype", "name": "typed"}
    del vm["spec"]["template"]["spec"]["domain"]["resources"]
    return vm


def rule_of_zone(verb: str, *zones: str) -> JSON:
    return {"name": "zones", "workloads": [{"name": "db"}], verb: {"zone": list(zones)}}


def is_written(stage: Stage, name: str = "db") -> bool:
    vm = stage.api.get(stage.path("VirtualMachine", name))
    return "affinity" in vm["spec"]["template"]["spec"]


@pytest.mark.parametrize("run_strategy", ["Always", "Halted"])
def test_rule_against_node_selector_of_instance_type_is_a_finding(
    stage: Stage, run_strategy: str
) -> None:
    create_instance_type(stage, nodeSelector={ZONE: "zone1"})
    stage.create(typed_vm(run_strategy=run_strategy))
    if run_strategy == "Always":
        assert stage.node_of("db") in ZONE1

    refused = stage.write(rule_of_zone("avoid", "zone1"))

    assert refused["failed"], refused
    (finding,) = [f for f in refused["findings"] if f["name"] == "unsatisfiable"]
    assert f"{ZONE} In (zone1) (the nodeSelector of its instance type" in finding["why"], finding
    assert not is_written(stage)
    written = stage.write(rule_of_zone("run_on", "zone1", "zone2"))
    assert not written.get("failed"), written
    assert is_written(stage)


def test_vm_with_instance_type_moves_where_its_node_selector_lets_it(stage: Stage) -> None:
    create_instance_type(stage, nodeSelector={ZONE: "zone1"})
    open_nodes(stage, "old1")
    stage.create(typed_vm())
    assert stage.node_of("db") == "old1"
    open_nodes(stage, "old1", "old2", "new2")
    rule = {"name": "off", "workloads": [{"name": "db"}], "avoid": {"node": "old1"}}

    found = stage.forecast(namespace=stage.namespace, rules=[rule])

    assert found["forecast"] == "impossible", found
    stage.sandbox.restore_nodes()
    found = stage.forecast(namespace=stage.namespace, rules=[rule])
    (move,) = found["moves"]
    assert (found["forecast"], move["targets"]) == ("guaranteed", ["new1"]), found
    assert stage.write(rule)["changed"]
    assert migrate(stage) == "new1"


def test_node_selector_of_the_cluster_is_part_of_every_next_pod(stage: Stage) -> None:
    configured(stage, {ZONE: "zone1"})
    try:
        start(stage, "old1")
        open_nodes(stage, "old1", "old2", "new2")

        assert forecast_of_drain(stage, "old1") == ("impossible", [])

        assert migrate(stage) == ""
        rule = {"name": "zones", "workloads": [{"name": "db"}], "avoid": {"zone": "zone1"}}
        assert "unsatisfiable" in [f["name"] for f in stage.write(rule)["findings"]]
    finally:
        configured(stage, None)


def configured(stage: Stage, node_selectors: JSON) -> None:
    """Set the cluster's node selectors, and wait until virt-controller makes pods by them."""
    developer = {"developerConfiguration": {"nodeSelectors": node_selectors}}
    path = f"{stage.api.path('KubeVirt', 'kubevirt')}/kubevirt"
    stage.api.patch(path, {"spec": {"configuration": developer}})
    time.sleep(2)  # virt-controller shows nowhere that it has read its configuration
