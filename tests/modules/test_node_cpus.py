# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""cpu_info against what virt-controller asks of a migration's target, and where the scheduler puts such a pod.

Each VM gets a migration while all nodes are cordoned, so that no node takes the target pod. Pods that ask for the same
and tolerate a cordon, one for each other node, show which nodes the scheduler accepts.
"""

from __future__ import annotations

import typing as t

import pytest

from ansible_collections.virt.placement.plugins.modules import cpu_info
from demos.stage import Stage
from sandbox import Sandbox, drain, objects
from sandbox.node_labeller import CPU_LABELS
from sandbox.pytest_plugin import MakeNamespace
from tests.conftest import RunModule
from tests.controller import PROJECT
from tests.unit.cpu.labeled_nodes import labels_of

JSON = t.Any

HOSTNAME, ZONE = "kubernetes.io/hostname", "topology.kubernetes.io/zone"
VENDOR = "cpu-vendor.node.kubevirt.io/"
CORDONED = {"key": "node.kubernetes.io/unschedulable", "operator": "Exists"}
NODES = {
    "kni-worker": ("Haswell-noTSX", "a"),
    "kni-worker2": ("Broadwell-noTSX", "a"),
    "kni-worker3": ("Cascadelake-Server-noTSX", "b"),
    "kni-worker4": ("Skylake-Server-noTSX-IBRS", "b"),
    "kni-worker5": ("EPYC-Rome", "a"),
    "kni-worker6": ("EPYC-Milan", "b"),
}
VMS: dict[str, tuple[str, JSON]] = {
    "newest": ("kni-worker3", {"model": "host-model"}),
    "oldest": ("kni-worker", {"model": "host-model"}),
    "broadwell": ("kni-worker2", {"model": "host-model"}),
    "skylake": ("kni-worker4", {"model": "host-model"}),
    "rome": ("kni-worker5", {"model": "host-model"}),
    "milan": ("kni-worker6", {"model": "host-model"}),
    "named": ("kni-worker2", {"model": "Broadwell-noTSX"}),
    "amd": ("kni-worker6", {"model": "EPYC-Rome"}),
    "passthrough": ("kni-worker6", {"model": "host-passthrough"}),
    "features": (
        "kni-worker4",
        {
            "model": "Haswell-noTSX",
            "features": [{"name": "avx512f"}, {"name": "avx512vnni", "policy": "forbid"}],
        },
    ),
}
"""The node on which each VM is to start, and its CPU."""
AT_ONCE = 4
"""Migrations: KubeVirt begins at most five in a cluster, and two from a node."""


@pytest.fixture
def labeled(article: Sandbox) -> t.Iterator[Sandbox]:
    for node, (model, zone) in NODES.items():
        labels = {**dict.fromkeys(CPU_LABELS), **labels_of(model), ZONE: zone}
        article.api.patch(f"/api/v1/nodes/{node}", {"metadata": {"labels": labels}})
    yield article
    article.restore_nodes()


def create_vms(sandbox: Sandbox, where: str) -> None:
    made = []
    for name, (node, cpu) in VMS.items():
        wished = [{"key": HOSTNAME, "operator": "In", "values": [node]}]
        preference = {"weight": 100, "preference": {"matchExpressions": wished}}
        field = "preferredDuringSchedulingIgnoredDuringExecution"
        vm = objects.virtual_machine(
            name, where, placement={"affinity": {"nodeAffinity": {field: [preference]}}}
        )
        vm["spec"]["template"]["spec"]["domain"]["cpu"] = cpu
        made.append(vm)
    sandbox.api.apply(made)
    sandbox.api.wait_list(
        sandbox.api.path("VirtualMachineInstance", where),
        lambda found: (
            {x["metadata"]["name"]: (x.get("status") or {}).get("nodeName") for x in found}
            == {name: node for name, (node, _cpu) in VMS.items()}
            and all(x["status"].get("phase") == "Running" for x in found)
        ),
    )


def target_pods(sandbox: Sandbox, where: str) -> dict[str, JSON]:
    """The target pod of a migration of each VM. No node takes it."""
    for node in NODES:
        drain.cordon(sandbox, node)
    names = list(VMS)
    pods: dict[str, JSON] = {}
    for first in range(0, len(names), AT_ONCE):
        pods |= _migrated_at_once(sandbox, where, names[first : first + AT_ONCE])
    return pods


def _migrated_at_once(sandbox: Sandbox, where: str, names: t.Sequence[str]) -> dict[str, JSON]:
    migrations = sandbox.api.path("VirtualMachineInstanceMigration", where)
    for name in names:
        sandbox.api.create(migrations, objects.migration(name, where, name=name))
    label = "kubevirt.io/migrationJobUID"

    def targets(pods: JSON) -> dict[str, JSON]:
        return {
            x["metadata"]["labels"]["vm.kubevirt.io/name"]: x
            for x in pods
            if label in x["metadata"]["labels"] and "deletionTimestamp" not in x["metadata"]
        }

    path = sandbox.api.path("Pod", where)
    found = targets(
        sandbox.api.wait_list(path, lambda pods: targets(pods).keys() == {*names}),
    )
    sandbox.api.delete(migrations)
    sandbox.api.wait_list(migrations, lambda left: not left)
    sandbox.api.wait_list(path, lambda pods: not targets(pods))
    return found


def asked_of_node(sandbox: Sandbox, name: str, pod: JSON) -> dict[str, str]:
    """The node selector of a VM's target pod. The patch releases that pairs before KubeVirt 1.8 have do not ask for the
    vendor of the source node: a migration to another one starts there, and fails."""
    selector: dict[str, str] = pod["spec"]["nodeSelector"]
    if sandbox.versions.has_kubevirt("1.8"):
        return selector
    vendor = {key: x for key, x in labels_of(NODES[VMS[name][0]][0]).items() if VENDOR in key}
    return {**vendor, **selector}


def accepted_nodes(sandbox: Sandbox, where: str, pods: t.Mapping[str, JSON]) -> dict[str, set[str]]:
    """The nodes on which the scheduler puts a pod that asks of nodes what each of these does."""
    path, count = sandbox.api.path("Pod", where), 0
    for name, pod in pods.items():
        asked = asked_of_node(sandbox, name, pod)
        for node in NODES:
            if node == VMS[name][0]:
                continue
            spec = {
                "nodeSelector": {**asked, HOSTNAME: node},
                "affinity": {"nodeAffinity": pod["spec"]["affinity"]["nodeAffinity"]},
                "containers": [{"name": "probe", "image": "probe"}],
                "tolerations": [CORDONED],
            }
            metadata = {"name": f"probe-{name}-{node}", "labels": {"probe": name}}
            sandbox.api.create(path, {"metadata": metadata, "spec": spec})
            count += 1

    def answered(found: JSON) -> list[JSON]:
        probes = [x for x in found if "probe" in (x["metadata"].get("labels") or {})]
        return [x for x in probes if (x.get("status") or {}).get("conditions")]

    probes = answered(sandbox.api.wait_list(path, lambda found: len(answered(found)) == count))
    return {
        name: {
            x["spec"]["nodeName"]
            for x in probes
            if x["metadata"]["labels"]["probe"] == name and "nodeName" in x["spec"]
        }
        for name in pods
    }


@pytest.mark.tour
def test_answers_are_those_of_virt_controller_and_the_scheduler(
    labeled: Sandbox, namespace: MakeNamespace, run_module: RunModule
) -> None:
    where = namespace(labeled, "cpu")
    create_vms(labeled, where)
    params = {"kubeconfig": str(labeled.kubeconfig("reader")), "namespaces": [where]}
    start = labeled.audit.mark()

    result = run_module(cpu_info.main, {**params, "details": True})

    assert labeled.audit.writes(since=start) == []
    vms = {vm["name"]: vm for vm in result["vms"]}
    targets = target_pods(labeled, where)
    for name, pod in targets.items():
        selector = asked_of_node(labeled, name, pod)
        listed = {x for x in vms[name]["selects"] if not x.startswith("!")}
        assert listed == {f"{k}={v}" for k, v in selector.items()} - {
            "kubevirt.io/schedulable=true"
        }
    accepted = accepted_nodes(labeled, where, targets)
    assert {name: set(vm["nodes"]) for name, vm in vms.items()} == accepted
    assert {name: vm["reach"] for name, vm in vms.items()} == {
        "newest": "node",
        "oldest": "free",
        "broadwell": "free",
        "skylake": "free",
        "rome": "free",
        "milan": "node",
        "named": "free",
        "amd": "free",
        "passthrough": "free",
        "features": "node",
    }
    assert [x["model"] for x in result["baselines"] if x["zone"] is None] == [
        "EPYC-Rome",
        "Haswell-noTSX",
    ]
    assert {x["name"] for x in result["findings"]} == {"blocks_live_migration"}
    bound = ("newest", "milan", "features")
    named = {name for x in result["findings"] for name in x["objects"]}
    assert named == {f"VirtualMachine {where}/{name}" for name in bound}
    assert_playbook_fails_on_bound_vms(labeled, where)


def assert_playbook_fails_on_bound_vms(sandbox: Sandbox, where: str) -> None:
    variables = {
        "placement_cpu_namespaces": f"[{where}]",
        "placement_cpu_fail_on": "[node, unknown]",
    }

    stage = Stage(sandbox, where, quiet=True)
    played = stage.play(str(PROJECT / "cpu.yml"), variables, identity="reader")

    assert played.rc != 0, played.stdout
    assert "10 VMs on 6 nodes: 3 bound to one node" in played.stdout
    assert (
        "VMs are bound or unknown by their CPU (node). The lines above name them" in played.stdout
    )
