# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""KubeVirt before 1.7 serves VirtualMachinePool in v1alpha1 alone, and the first releases not at all.

The definition of the real KubeVirt is changed to what these releases serve, on a sandbox of its own."""

from __future__ import annotations

import time
import typing as t

import pytest

from ansible_collections.virt.placement.plugins.module_utils.cluster.reading import read_snapshot
from ansible_collections.virt.placement.plugins.module_utils.model.objects import Ref
from ansible_collections.virt.placement.plugins.modules import placement_info
from sandbox import Sandbox, objects
from sandbox.pytest_plugin import MakeNamespace
from tests.maintenance import Maintenance, maintenance, vms
from tests.modules.test_snapshot import api_client
from tests.shop import Object

DEFINITION = (
    "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/virtualmachinepools.pool.kubevirt.io"
)
GROUP = "/apis/pool.kubevirt.io"


@pytest.fixture(scope="module")
def older() -> t.Iterator[Sandbox]:
    with Sandbox.start("small") as sandbox:
        yield sandbox


@pytest.fixture
def shop(older: Sandbox, namespace: MakeNamespace, run_module: t.Any) -> t.Iterator[Maintenance]:
    with maintenance(older, namespace(older, "older"), run_module) as shop:
        yield shop


def remove(sandbox: Sandbox) -> Object:
    """Returns the definition as it was."""
    definition = sandbox.api.get(DEFINITION)
    sandbox.api.delete(DEFINITION)
    sandbox.api.wait_gone(GROUP)
    return definition


def restore_old_version(sandbox: Sandbox, definition: Object) -> None:
    """The definition as KubeVirt before 1.7 has it: one version, which is stored."""
    (old,) = (x for x in definition["spec"]["versions"] if x["name"] == "v1alpha1")
    spec = {**definition["spec"], "versions": [{**old, "storage": True}]}
    name = definition["metadata"]["name"]
    sandbox.api.create(
        DEFINITION.rpartition("/")[0],
        {**definition, "metadata": {"name": name}, "spec": spec, "status": None},
    )
    deadline = time.monotonic() + 30
    while sandbox.api.find(f"{GROUP}/v1alpha1") is None:
        assert time.monotonic() < deadline
        time.sleep(0.2)


def drains(shop: Maintenance) -> None:
    """A node with a VM is emptied and put in service; nothing is said of pools."""
    (vm,) = vms(shop, "db", placement={"evictionStrategy": "LiveMigrate"})
    shop.api.apply([vm])
    path = shop.api.path("VirtualMachineInstance", shop.namespace, "db")
    vmi = shop.api.wait(lambda vmi: vmi["status"].get("phase") == "Running", path)
    node = vmi["status"]["nodeName"]
    for state in ("drained", "in_service"):
        result = shop.maintain(state, node)
        assert not result.get("failed"), result.get("msg")
        assert [x for x in result["findings"] if "pool" in str(x)] == []
        assert "pool" not in str(result.get("warnings") or "")
    assert shop.api.get(path)["status"]["nodeName"] != node


def test_without_or_with_the_old_version_of_pools_nothing_is_missing(
    older: Sandbox, shop: Maintenance
) -> None:
    definition = remove(older)
    nothing_is_missing(shop)
    drains(shop)

    restore_old_version(older, definition)
    web = objects.pool("web", shop.namespace, replicas=2)
    older.api.create(
        f"{GROUP}/v1alpha1/namespaces/{shop.namespace}/virtualmachinepools",
        {**web, "apiVersion": "pool.kubevirt.io/v1alpha1"},
    )
    assert [x["version"] for x in older.api.get(GROUP)["versions"]] == ["v1alpha1"]
    nothing_is_missing(shop)
    drains(shop)
    assert Ref("VirtualMachinePool", shop.namespace, "web") in {
        workload.ref for workload in read_snapshot(api_client(older)).workloads
    }


def nothing_is_missing(shop: Maintenance) -> None:
    result = shop.task(placement_info.main, "reader", namespaces=[shop.namespace])
    assert not result.get("warnings"), result["warnings"]
    assert result["permission_gaps"] == []
