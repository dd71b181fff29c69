# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The patch of cpu_info against virt-api, and what virt-controller makes of it at the next restart."""

from __future__ import annotations

import typing as t

import pytest

from ansible_collections.virt.placement.plugins.modules import cpu_info, rules
from sandbox import Sandbox, objects
from sandbox.node_labeller import CPU_LABELS
from sandbox.pytest_plugin import MakeNamespace
from tests.conftest import RunModule
from tests.shop import ZONE, Shop
from tests.unit.cpu.labeled_nodes import labels_of

MODEL = "cpu-model.node.kubevirt.io/"
COMMON = "Broadwell-noTSX"
NODES = {"w1": COMMON, "w2": COMMON, "w3": "Cascadelake-Server-noTSX"}
"""The only nodes with CPU labels. The last one has the newest CPU, so that no VM leaves it with its model."""


@pytest.fixture
def shop(six: Sandbox, namespace: MakeNamespace, run_module: RunModule) -> t.Iterator[Shop]:
    for node in ("w1", "w2", "w3", "w4", "w5", "w6"):
        labels: dict[str, str | None] = dict.fromkeys(CPU_LABELS)
        if model := NODES.get(node):
            labels |= {**labels_of(model), ZONE: "zone1"}
        else:
            labels["kubevirt.io/schedulable"] = None
        six.api.patch(f"/api/v1/nodes/{node}", {"metadata": {"labels": labels}})
    yield Shop(six, namespace(six, "models"), run_module)
    six.restore_nodes()


def typed(shop: Shop, name: str) -> dict[str, t.Any]:
    """A VM whose vCPUs come from an instance type without a model."""
    shop.api.create(
        shop.path("VirtualMachineInstancetype"),
        {
            "apiVersion": "instancetype.kubevirt.io/v1beta1",
            "kind": "VirtualMachineInstancetype",
            "metadata": {"name": "small"},
            "spec": {"cpu": {"guest": 1}, "memory": {"guest": "64Mi"}},
        },
    )
    vm = objects.virtual_machine(name, shop.namespace)
    vm["spec"]["instancetype"] = {"kind": "VirtualMachineInstancetype", "name": "small"}
    del vm["spec"]["template"]["spec"]["domain"]["resources"]
    return vm


def wait_for_restart_condition(shop: Shop, name: str, *, there: bool) -> None:
    def holds(vm: dict[str, t.Any]) -> bool:
        conditions = vm["status"].get("conditions") or ()
        found = any((x["type"], x["status"]) == ("RestartRequired", "True") for x in conditions)
        return found is there

    shop.api.wait(holds, shop.path("VirtualMachine", name))


def selected_models(shop: Shop, name: str) -> list[str]:
    """The CPU models that the running launcher pod of a VM selects."""
    pods = shop.api.list(f"{shop.path('Pod')}?labelSelector=vm.kubevirt.io/name={name}")
    (pod,) = (pod for pod in pods if pod["status"]["phase"] == "Running")
    return [key.removeprefix(MODEL) for key in pod["spec"]["nodeSelector"] if MODEL in key]


def test_patch_sets_the_model_at_the_next_restart_and_leaves_no_condition(shop: Shop) -> None:
    """A model without the sockets would leave RestartRequired, and no rule would reach the running VM."""
    plain = objects.virtual_machine("plain", shop.namespace, cpu="100m", memory="64Mi")
    shop.start(plain, typed(shop, "typed"), nodes=["w3"])

    (change,) = shop.done(cpu_info.main, "reader", namespaces=[shop.namespace])["model_changes"]

    assert (change["current"], change["model"]) == ("host-model (Cascadelake-Server-noTSX)", COMMON)
    patches = {vm["name"]: vm["patch"] for vm in change["vms"]}
    assert {
        name: patch["spec"]["template"]["spec"]["domain"]["cpu"] for name, patch in patches.items()
    } == {"plain": {"model": COMMON, "sockets": 1}, "typed": {"model": COMMON}}
    for name, patch in patches.items():
        shop.api.patch(shop.path("VirtualMachine", name), patch)
        wait_for_restart_condition(shop, name, there=True)

    rolled = shop.roll(
        namespaces=None,
        workloads=[{"namespace": shop.namespace, "names": [*patches]}],
        scope="all",
        allow=["restart"],
        apply_pending_changes=True,
    )

    assert {move["name"] for move in rolled["moves"]} == set(patches)
    assert [selected_models(shop, name) for name in patches] == [[COMMON], [COMMON]]
    for name in patches:
        wait_for_restart_condition(shop, name, there=False)
    rule = {"name": "apart", "workloads": [{"names": [*patches]}], "keep_apart": "node"}
    shop.done(rules.main, "mover", namespace=shop.namespace, rules=[rule])
    for name in patches:
        shop.api.wait(
            lambda vmi: "podAntiAffinity" in (vmi["spec"].get("affinity") or {}),
            shop.path("VirtualMachineInstance", name),
        )
