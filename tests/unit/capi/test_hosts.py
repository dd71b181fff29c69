# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Hosts of the machines of Cluster API, groups that share one, and whether vSphere keeps them apart."""

from __future__ import annotations

import typing as t

import pytest

from ansible_collections.virt.placement.plugins.module_utils.capi.hosts import (
    HostReport,
    anti_affinity,
    host_report,
    missing_modules,
    node_labeling,
)
from ansible_collections.virt.placement.plugins.module_utils.capi.objects import (
    HOST_KEY,
    Controller,
    VSphereSettings,
    controller_from,
    host_label,
    machines_of_kubevirt,
    machines_of_vsphere,
    settings_from,
)

JSON = t.Any


def machine(name: str, node: str | None = "", *, pool: str = "md-0", host: str = "") -> JSON:
    """A Machine of a MachineDeployment, or of the control plane; `host` is its own label."""
    group = {"cluster.x-k8s.io/deployment-name": pool}
    if pool == "cp":
        group = {"cluster.x-k8s.io/control-plane": "", "cluster.x-k8s.io/control-plane-name": "cp"}
    labels = {**group, **({HOST_KEY: host} if host else {})}
    ref = {} if node is None else {"nodeRef": {"name": node or name}}
    return {
        "metadata": {"namespace": "tkg", "name": name, "labels": labels},
        "spec": {
            "clusterName": "prod",
            "infrastructureRef": {"kind": "VSphereMachine", "name": f"{name}-infra"},
        },
        "status": ref,
    }


def vm(name: str, host: str, owner: str = "") -> JSON:
    owners = [{"kind": "VSphereMachine", "name": owner}] if owner else []
    metadata = {"namespace": "tkg", "name": name, "ownerReferences": owners}
    return {"metadata": metadata, "status": {"host": host}}


def report(
    machines: list[JSON], vms: list[JSON], settings: VSphereSettings | None = None
) -> HostReport:
    return host_report(machines_of_vsphere(machines, vms), HOST_KEY, settings)


def hosts(found: HostReport) -> dict[str, str]:
    return {node: labels[HOST_KEY] for node, labels in found.node_labels.items()}


def names(found: HostReport) -> list[tuple[str, str]]:
    return [(finding.name, finding.severity) for finding in found.findings]


FIVE = ("esx-1", "esx-1", "esx-2", "esx-2", "fd12::7%vmk0")


def test_ac_t2_labels_of_five_machines_equal_the_hosts_of_their_vms() -> None:
    machines = [machine(f"n{i}") for i in range(5)]
    vms = [vm(f"n{i}", host, f"n{i}-infra") for i, host in enumerate(FIVE)]

    found = report(machines, vms)

    assert hosts(found) == {
        "n0": "esx-1",
        "n1": "esx-1",
        "n2": "esx-2",
        "n3": "esx-2",
        "n4": "fd12--7.ipv6-literal",
    }
    assert found.ok


@pytest.mark.parametrize(
    ("host", "value"),
    [
        ("10.0.0.7", "10.0.0.7"),
        ("fe80::1%eth0", "fe80--1.ipv6-literal"),
        ("esx-1.example.com", "esx-1.example.com"),
        ("x" * 70, "x" * 63),
    ],
)
def test_host_becomes_a_label_value_as_the_provider_writes_it(host: str, value: str) -> None:
    assert host_label(host) == value


def test_own_label_of_a_machine_counts_and_a_vm_elsewhere_is_reported() -> None:
    found = report([machine("n1", host="esx-1")], [vm("n1", "esx-2")])

    assert hosts(found) == {"n1": "esx-1"}
    assert names(found) == [("host_label_outdated", "warning")]


def test_ac_t3_control_plane_with_two_nodes_on_one_host_is_reported() -> None:
    machines = [machine(name, pool="cp") for name in ("a", "b", "c")]
    found = report(machines, [vm("a", "esx-1"), vm("b", "esx-1"), vm("c", "esx-2")])

    (group,) = found.groups
    assert (group["kind"], group["name"]) == ("KubeadmControlPlane", "cp")
    assert (group["hosts"], group["shared"]) == (["esx-1", "esx-2"], {"esx-1": ["a", "b"]})
    assert group["more_nodes_than_hosts"] is True
    (finding,) = found.findings
    assert finding.name == "nodes_share_host"
    assert "a, b on esx-1" in finding.why
    assert found.table.splitlines()[1].split() == ["KubeadmControlPlane", "cp", "esx-1", "a,", "b"]


def test_bad_input_is_named_and_its_nodes_are_left_out() -> None:
    machines = [
        machine("new", None),
        machine("twin1", "shared-node"),
        machine("twin2", "shared-node"),
        machine("gone"),
        machine("silent"),
        machine("odd"),
        machine("good"),
    ]
    vms = [
        vm("twin1-infra", "esx-1"),
        vm("twin2-infra", "esx-1"),
        vm("silent-infra", ""),
        vm("odd-infra", "_esx one"),
        vm("good-infra", "esx-1"),
    ]

    found = report(machines, vms)

    assert hosts(found) == {"good": "esx-1"}
    assert not found.ok
    assert {
        (x.name, x.severity): [ref.name for ref in x.objects] for x in found.findings
    }.keys() == {
        ("machine_without_node", "warning"),
        ("host_unknown", "error"),
        ("host_not_label_value", "error"),
        ("node_of_two_machines", "error"),
    }
    why = " ".join(finding.why for finding in found.findings)
    assert "no VSphereVM belongs to it (VSphereMachine gone-infra)" in why
    assert "status.host of VSphereVM tkg/silent-infra is empty" in why
    assert "Machine tkg/twin1, Machine tkg/twin2" in why
    assert "'_esx one'" in why


def controller(image: str, *args: str) -> Controller:
    containers = [{"name": "sidecar"}, {"name": "manager", "image": image, "args": [*args]}]
    return controller_from({"spec": {"template": {"spec": {"containers": containers}}}})


ON = controller("registry.example.com:5000/capv:v1.12.0", "--feature-gates=NodeAntiAffinity=true")
OFF = controller("capv:v1.12.0@sha256:1", "--feature-gates", "NodeAntiAffinity=false,X=true")
CORE = controller("capi:v1.9.5")
ENABLED = VSphereSettings({}, disabled=False, vcenter="8.0.2")


@pytest.mark.parametrize(
    ("gates", "settings", "state"),
    [
        (ON, ENABLED, "enabled"),
        (OFF, ENABLED, "disabled"),
        (CORE, ENABLED, "disabled"),
        (None, ENABLED, "unknown"),
        (ON, None, "unknown"),
        (ON, VSphereSettings({}, disabled=True, vcenter="8.0.2"), "opted_out"),
        (ON, VSphereSettings({}, disabled=False, vcenter="6.7.0"), "vcenter_too_old"),
        (ON, VSphereSettings({}, disabled=False, vcenter=""), "unknown"),
    ],
)
def test_ac_t1_anti_affinity_is_on_only_where_everything_for_it_is(
    gates: Controller | None, settings: VSphereSettings | None, state: str
) -> None:
    assert anti_affinity(gates, settings).state == state


def test_ac_t1_gate_that_is_off_names_the_variable_to_set() -> None:
    answer = anti_affinity(OFF, ENABLED)
    assert "EXP_NODE_ANTI_AFFINITY to true" in answer.reason


@pytest.mark.parametrize(
    ("vsphere", "core", "answer"),
    [
        (controller("capv:v1.8.4"), CORE, "superseded"),
        (controller("capv:v1.8.4"), controller("capi:v1.3.0"), "disabled"),
        (controller("capv:v1.6.0", "--feature-gates=NodeLabeling=true"), CORE, "enabled"),
        (controller("capv:v1.6.0"), CORE, "disabled"),
        (controller("capv@sha256:1"), CORE, "unknown"),
        (None, CORE, "unknown"),
        (controller("capv:v1.8.4"), None, "unknown"),
    ],
)
def test_ac_t1_labels_of_nodes_need_no_gate_where_cluster_api_copies_them(
    vsphere: Controller | None, core: Controller | None, answer: str
) -> None:
    assert node_labeling(vsphere, core) == answer


def test_group_without_a_cluster_module_is_reported_beside_one_that_has_one() -> None:
    module = {"controlPlane": True, "targetObjectName": "cp", "moduleUUID": "u-1"}
    settings = settings_from(
        {"spec": {"clusterModules": [module]}, "status": {"vCenterVersion": "8.0.2"}}
    )
    machines = [machine("a", pool="cp"), machine("b")]
    found = report(machines, [vm("a", "esx-1"), vm("b", "esx-2")], settings)

    assert [x["module_uuid"] for x in found.groups] == ["u-1", ""]
    assert missing_modules(found.groups) == ["MachineDeployment md-0"]
    assert found.findings == ()


def vmi(name: str, host: str, **labels: str) -> JSON:
    metadata = {"namespace": "default", "name": name, "labels": labels}
    return {"metadata": metadata, "status": {"nodeName": host} if host else {}}


def test_vmis_of_a_guest_cluster_have_the_node_of_the_cluster_below_as_host() -> None:
    pool = "harvesterhci.io/machineSetName"
    vmis = [
        vmi("g1-a", "node1", **{"guestcluster.harvesterhci.io/name": "g1", pool: "default-g1-p"}),
        vmi("g1-b", "node1", **{pool: "default-g1-p"}),
        vmi("g1-c", "", **{pool: "default-g1-p"}),
        vmi("k1", "node2", **{"cluster.x-k8s.io/cluster-name": "k"}),
        vmi("plain", "node2"),
    ]

    machines = machines_of_kubevirt(vmis)
    found = host_report([x for x in machines if x.cluster == "g1"], "example.com/host", None)

    assert [x.cluster for x in machines] == ["g1", "g1", "g1", "k"]
    assert found.node_labels == {
        "g1-a": {"example.com/host": "node1"},
        "g1-b": {"example.com/host": "node1"},
    }
    assert [x.name for x in found.findings] == ["host_unknown", "nodes_share_host"]
