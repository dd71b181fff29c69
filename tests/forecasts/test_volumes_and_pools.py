# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Volumes of three kinds that bind a VM to a zone or do not, and VMs of a pool: forecast, then seen with the
real virt-controller."""

from __future__ import annotations

import typing as t

import pytest

from ansible_collections.virt.placement.plugins.module_utils.kubevirt.instances import (
    attaches_volume,
)
from ansible_collections.virt.placement.plugins.module_utils.model.manifests import (
    pod_from_manifest,
)
from sandbox import Sandbox, drain, objects
from sandbox.pytest_plugin import MakeNamespace
from tests.conftest import RunModule
from tests.volumes import bound_claim, delete_volumes

from .random_vms import START, volume_on
from .test_next_pods import forecast_of_drain, open_nodes
from .test_scenarios import Stage

JSON = t.Any


@pytest.fixture
def stage(mixed: Sandbox, run_module: RunModule, namespace: MakeNamespace) -> t.Iterator[Stage]:
    begun = Stage(mixed, run_module, namespace(mixed, "volumes"))
    yield begun
    delete_volumes(begun)
    begun.end()


def create_halted(stage: Stage, kind: str) -> None:
    """A halted VM with a volume of this kind, on a claim that is bound to zone1."""
    placement = {"evictionStrategy": "None"}
    vm = objects.virtual_machine("db", run_strategy="Halted", placement=placement)
    spec = vm["spec"]["template"]["spec"]
    spec["domain"]["devices"]["disks"].append({"name": "data", "disk": {"bus": "scsi"}})
    spec["volumes"].append({"name": "data", **volume_on("db", kind)})
    stage.create(vm)
    bound_claim(stage, "db", "zone1")


def start(stage: Stage) -> None:
    stage.api.patch(stage.path("VirtualMachine", "db"), {"spec": {"runStrategy": "Always"}})


@pytest.mark.parametrize("kind", ["persistent", "ephemeral", "hotpluggable"])
def test_claim_of_a_volume_binds_its_vm_unless_it_is_hotpluggable(stage: Stage, kind: str) -> None:
    create_halted(stage, kind)
    open_nodes(stage, "old2", "new2")
    rule = {"name": "anywhere", "workloads": ["db"], "run_on": {"zone": ["zone1", "zone2"]}}

    found = stage.forecast(namespace=stage.namespace, rules=[rule])

    start(stage)
    if kind == "hotpluggable":
        assert found["forecast"] == "guaranteed", found
        assert stage.node_of("db") in ("old2", "new2")
    else:
        assert found["forecast"] == "impossible", found
        assert stage.placed(1) == [""]


def test_pod_that_attaches_a_volume_leaves_with_its_vm(stage: Stage) -> None:
    create_halted(stage, "hotpluggable")
    open_nodes(stage, "old1")
    start(stage)
    assert stage.node_of("db") == "old1"
    stage.api.wait_list(
        stage.path("Pod"), lambda pods: any(map(attaches_volume, map(pod_from_manifest, pods)))
    )
    open_nodes(stage, "old1", "new1")

    assert forecast_of_drain(stage, "old1") == ("guaranteed", ["new1"])

    drain.drain(stage.sandbox, "old1")
    db = stage.path("VirtualMachineInstance", "db")
    stage.api.wait(lambda vmi: vmi["status"].get("nodeName") == "new1", db)


@pytest.mark.parametrize("run_strategy", ["Always", "Manual"])
def test_vm_of_a_pool_starts_again_by_its_run_strategy(stage: Stage, run_strategy: str) -> None:
    open_nodes(stage, "old1")
    pool = objects.pool("web", replicas=1, placement={"evictionStrategy": "None"})
    pool["spec"]["virtualMachineTemplate"]["spec"]["runStrategy"] = run_strategy
    stage.create(pool)
    if run_strategy == "Manual":
        path = stage.path("VirtualMachine", "web-0")
        stage.api.wait(lambda vm: vm["status"].get("printableStatus") == "Stopped", path)
        stage.api.put(START.format(stage.namespace, "web-0"), {})
    assert stage.node_of("web-0") == "old1"
    open_nodes(stage, "old1", "new1")

    found = stage.forecast(unavailable={"nodes": ["old1"]})

    drain.drain(stage.sandbox, "old1")
    ended = [finding["name"] for finding in found["findings"]]
    if run_strategy == "Manual":
        assert (found["forecast"], ended) == ("guaranteed", ["not_recreated"]), found
        path = stage.path("VirtualMachine", "web-0")
        stage.api.wait(
            lambda vm: vm["status"].get("printableStatus") in ("Stopped", "Failed"), path
        )
    else:
        assert (found["forecast"], ended) == ("guaranteed", []), found
        assert stage.node_of("web-0") == "new1"
