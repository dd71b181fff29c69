# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Two dozen rules of an export, each broken by a move that no scheduler made: it is red, and no other."""

from __future__ import annotations

import typing as t

import pytest

from ansible_collections.virt.placement.plugins.module_utils.drs.vm_names import forklift_name
from ansible_collections.virt.placement.plugins.modules import (
    drs_import,
    node_labels,
    placement_info,
    rules,
)
from sandbox import Sandbox, objects
from sandbox.pytest_plugin import MakeNamespace
from tests.conftest import CHECKOUT, RunModule
from tests.shop import Shop
from tests.vsphere import VsphereRules, name_in_vcenter

EXPORTS = CHECKOUT / "tests" / "unit" / "drs" / "exports" / "vcsim"
HOSTS = {f"esx{n}.example.com": f"w{n}" for n in range(1, 7)}
FILES = [str(path) for path in sorted(EXPORTS.glob("*.json"))]
SATISFIED = {
    "w1": ("app", "db.prod", "cache", "lone"),
    "w2": ("SAP HANA", "sap-app", "Legacy VM (old)", "mail-1"),
    "w3": ("WEB_1", "mail-2", "build"),
    "w4": ("WEB_2", "batch"),
    "w5": ("WEB_3",),
}
BROKEN = ("violated", "preference_not_met")


@pytest.fixture
def shop(six: Sandbox, namespace: MakeNamespace, run_module: RunModule) -> t.Iterator[Shop]:
    yield Shop(six, namespace(six, "drs"), run_module)
    six.restore_nodes()


@pytest.fixture
def export() -> VsphereRules:
    return VsphereRules.read(EXPORTS, HOSTS)


@pytest.mark.sweep
def test_each_broken_rule_is_red_and_no_other(shop: Shop, export: VsphereRules) -> None:
    """By the move, of one VM or of VMs that belong together, that breaks the fewest other rules."""
    placed = {vm: node for node, names in SATISFIED.items() for vm in names}
    vms = start_migrated_vms(shop, export, placed)
    write_imported(shop)
    assert red(shop, export) == export.broken(placed) == {}
    alone: set[str] = set()
    together: set[str] = set()
    for rule in export.rules:
        move, broken = export.smallest_break(rule, placed)
        for vm, node in move.items():
            force(shop, vms[vm], node)

        assert red(shop, export) == broken, (rule, move)
        (alone if set(broken) == {rule} else together).add(rule)
        for vm in move:
            force(shop, vms[vm], placed[vm])
    assert red(shop, export) == {}
    # two are the same rule twice; no node that has the GPU is in site A
    assert together == {"batch / build apart", "batch-build apart", "legacy not on gpu"}
    assert alone | together == set(export.rules)


def start_migrated_vms(
    shop: Shop, export: VsphereRules, placed: t.Mapping[str, str]
) -> dict[str, str]:
    """VMs on these nodes as Forklift leaves them, by their name in vCenter."""
    names = {}
    for node in sorted(set(placed.values())):
        made = []
        for source in (vm for vm, there in placed.items() if there == node):
            names[source] = forklift_name(source)
            vm = objects.virtual_machine(names[source], shop.namespace, cpu="100m", memory="64Mi")
            if names[source] != source:
                names[source] += "-x7qz"
                vm["metadata"]["name"] = names[source]
                vm["metadata"]["annotations"] = {
                    "openshift.io/display-name": source,
                    "original-ID": export.vms[source],
                }
            made.append(vm)
        shop.start(*made, nodes=[node])
    return names


def write_imported(shop: Shop) -> None:
    """The rules and labels of nodes that the export becomes."""
    vms = shop.api.list(shop.path("VirtualMachine"))
    options = {"files": FILES, "namespace": shop.namespace, "vms": vms, "host_names": HOSTS}
    imported = shop._run_module(drs_import.main, options)
    assert not imported.get("failed"), imported
    shop.done(node_labels.main, "labeler", per_value=imported["node_labels"])
    (written,) = imported["namespaces"]
    shop.done(rules.main, "mover", rule_set="drs", **written)


def force(shop: Shop, vm: str, node: str) -> None:
    """Migrate a VM to a node. If the scheduler refuses that, its pod is bound to the node nevertheless."""
    migration = objects.migration(vm, shop.namespace)
    migration["spec"]["addedNodeSelector"] = {"kubernetes.io/hostname": node}
    created = shop.api.create(shop.path("VirtualMachineInstanceMigration"), migration)
    label = f"kubevirt.io/migrationJobUID={created['metadata']['uid']}"

    def decided(pods: list[dict[str, t.Any]]) -> bool:
        return any(pod["spec"].get("nodeName") or conditions(pod) for pod in pods)

    (pod,) = shop.api.wait_list(f"{shop.path('Pod')}?labelSelector={label}", decided, 30)
    if not pod["spec"].get("nodeName"):
        name = pod["metadata"]["name"]
        target = {"apiVersion": "v1", "kind": "Node", "name": node}
        body = {"apiVersion": "v1", "kind": "Binding", "metadata": {"name": name}, "target": target}
        shop.api.create(f"{shop.path('Pod', name)}/binding", body)
    path = shop.path("VirtualMachineInstance", vm)
    shop.api.wait(lambda vmi: vmi["status"]["nodeName"] == node, path, 60)
    shop.wait_ready(len(shop.instances()))


def conditions(pod: dict[str, t.Any]) -> list[str]:
    return [c["type"] for c in pod.get("status", {}).get("conditions") or []]


def red(shop: Shop, export: VsphereRules) -> dict[str, str]:
    """The rules that are not satisfied, by their name in vCenter, as placement_info reports them."""
    found = shop.done(placement_info.main, "reader", namespaces=[shop.namespace])
    verdicts = {
        (rule["rule"].rpartition("/")[2], rule["verdict"])
        for instance in found["instances"]
        for rule in instance["rules"]
        if rule["verdict"] in BROKEN
    }
    return {name_in_vcenter(name, export.rules): verdict for name, verdict in verdicts}
