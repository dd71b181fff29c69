# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Findings and the table of cpu_info, and what its flow returns."""

from __future__ import annotations

import typing as t
from unittest import mock

import pytest

from ansible_collections.virt.placement.plugins.module_utils.cpu.report import (
    entries,
    findings,
    table,
)
from ansible_collections.virt.placement.plugins.module_utils.flows import cpu_info
from ansible_collections.virt.placement.plugins.module_utils.model.snapshot import Unreadable

from .labeled_nodes import FEATURE, HOST, MIGRATION, MODEL, labeled, relabel, report_of, run_vm

NODES = {
    "i1": "Broadwell-noTSX",
    "i2": "Broadwell-noTSX",
    "i3": "Cascadelake-Server-noTSX",
}


def test_vm_that_no_other_node_takes_is_a_finding_with_the_label() -> None:
    made = labeled(NODES)
    for name in ("db", "web"):
        run_vm(made, name, "i3")
    run_vm(made, "free", "i1")

    (finding,) = findings(report_of(made))

    assert (finding.name, finding.severity) == ("blocks_live_migration", "warning")
    assert [ref.name for ref in finding.objects] == ["db", "web"]
    assert finding.why == (
        "VirtualMachine shop/db, VirtualMachine shop/web on node i3 cannot be live-migrated: 0 of the 2 other nodes"
        f" has {FEATURE}avx512vnni=true, which KubeVirt asks of the next node."
    )
    assert finding.advice == (
        f"Add a node with these labels ({FEATURE}avx512vnni=true), or give these VMs the CPU model Broadwell-noTSX,"
        " which such nodes have in common, and restart them."
    )


def test_labels_that_changed_below_a_running_vm_are_named() -> None:
    """As an upgrade does: the model under which the VM started, and which its pod selects, is known no more."""
    made = labeled({"i1": "Broadwell-noTSX", "i2": "Broadwell-noTSX"})
    run_vm(made, "db", "i2", "host-model", **{f"{MIGRATION}Haswell-noTSX": "true"})
    for node in ("i1", "i2"):
        relabel(made, node, f"{MIGRATION}Haswell-noTSX")

    (finding,) = findings(report_of(made))

    assert "0 of the 1 other node has" in finding.why
    assert finding.why.endswith(
        f"The labels changed after the start: i2 itself does not fit {MIGRATION}Haswell-noTSX=true any more."
    )
    assert "restart these VMs, which then ask for the labels of today" in finding.advice


def test_labels_that_change_where_another_node_fits_are_no_finding() -> None:
    made = labeled({"i1": "Broadwell-noTSX", "i2": "Broadwell-noTSX"})
    run_vm(made, "db", "i2", "Haswell-noTSX")
    relabel(made, "i2", f"{MODEL}Haswell-noTSX")

    assert findings(report_of(made)) == ()


@pytest.mark.parametrize("case", ["one node", "not migratable"])
def test_vm_that_the_cpu_does_not_keep_is_no_finding(case: str) -> None:
    made = labeled({"i3": "Cascadelake-Server-noTSX"} if case == "one node" else NODES)
    run_vm(made, "db", "i3")
    if case == "not migratable":
        conditions = made.machines["db"]["status"]["conditions"]
        conditions[0] = {
            "type": "LiveMigratable",
            "status": "False",
            "reason": "DisksNotLiveMigratable",
        }

    report = report_of(made)

    assert [str(vm.reach) for vm in report.vms] == ["node"]
    assert findings(report) == ()


def test_table_has_the_baseline_the_bound_vms_the_costs_and_the_odd_nodes() -> None:
    made = labeled(NODES, {"i3": "b"})
    run_vm(made, "db", "i3")
    run_vm(made, "free", "i1")

    assert table(report_of(made)).splitlines() == [
        "2 VMs on 3 nodes: 1 bound to one node",
        "",
        "ZONE   CPU          NODES  BEST MODEL                OTHER COMMON MODELS",
        "(all)  amd64 Intel  3      Broadwell-noTSX           Haswell-noTSX",
        "a      amd64 Intel  2      Broadwell-noTSX           Haswell-noTSX",
        "b      amd64 Intel  1      Cascadelake-Server-noTSX  Skylake-Server-noTSX-IBRS, Broadwell-noTSX,"
        " Haswell-noTSX",
        "",
        "VM       NODE  CPU MODEL   BOUND TO  WHY",
        f"shop/db  i3    host-model  its node  {FEATURE}avx512vnni=true (2 nodes without)",
        "",
        "CPU MODEL NOW                          COMMON MODEL     VMS                     LOSES                MAY LOSE",
        "host-model (Cascadelake-Server-noTSX)  Broadwell-noTSX  VirtualMachine shop/db  avx512f, avx512vnni  3"
        " features",
    ]


def test_table_without_kubevirt_says_so() -> None:
    made = labeled({"i1": "Broadwell-noTSX"})
    relabel(made, "i1", "kubevirt.io/schedulable")

    assert table(report_of(made)) == (
        "no node has the label kubevirt.io/schedulable: KubeVirt runs on none"
    )


def test_table_has_the_vms_that_are_bound_most_and_counts_the_others() -> None:
    made = labeled(NODES, {"i3": "b"})
    for number in range(40):
        run_vm(made, f"db{number:02}", "i3")

    lines = table(report_of(made)).splitlines()

    assert sum(line.startswith("shop/db") for line in lines) == 30
    assert "and 10 more VMs" in lines


def flow(monkeypatch: pytest.MonkeyPatch, snapshot: t.Any, **options: t.Any) -> dict[str, t.Any]:
    monkeypatch.setattr(cpu_info, "read_snapshot", lambda *_args: snapshot)
    params: dict[str, t.Any] = {"namespaces": None, "workloads": None, "details": False}
    params |= {"exclude_namespaces": [], "topology_keys": {}, "cluster_uid": None, **options}
    return cpu_info.run(mock.Mock(params=params), mock.Mock())


def test_result_has_the_vms_that_are_bound_and_with_details_all(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    made = labeled(NODES)
    run_vm(made, "db", "i3")
    run_vm(made, "free", "i1")

    result = flow(monkeypatch, made.snapshot())

    (vm,) = result["vms"]
    assert vm == {
        "kind": "VirtualMachine",
        "namespace": "shop",
        "name": "db",
        "instance": "db",
        "node": "i3",
        "model": "host-model",
        "next_model": "host-model",
        "features": [],
        "reach": "node",
        "reason": "",
        "reason_code": "",
        "nodes": [],
        "nodes_count": 0,
        "doubtful_nodes": [],
        "selects": [
            f"{FEATURE}avx512vnni=true",
            f"{FEATURE}x2apic=true",
            f"{MIGRATION}Cascadelake-Server-noTSX=true",
            "cpu-vendor.node.kubevirt.io/Intel=true",
            "kubernetes.io/arch=amd64",
            "machine-type.node.kubevirt.io/q35=true",
            "!node-labeller.kubevirt.io/obsolete-host-model",
        ],
        "lacking": [{"label": f"{FEATURE}avx512vnni=true", "nodes": ["i1", "i2"], "count": 2}],
    }
    assert result["counts"] == {
        "nodes": 3,
        "vms": 2,
        "free": 1,
        "zone": 0,
        "node": 1,
        "none": 0,
        "unknown": 0,
        "unproven": 0,
    }
    assert [x["name"] for x in flow(monkeypatch, made.snapshot(), details=True)["vms"]] == [
        "db",
        "free",
    ]


def test_node_to_add_is_one_without_the_labels_that_must_not_be_there() -> None:
    made = labeled({"i1": "Broadwell-noTSX", "i3": "Cascadelake-Server-noTSX"})
    forbidden = {"name": "avx512vnni", "policy": "forbid"}
    run_vm(made, "db", "i1", "Broadwell-noTSX", forbidden)

    (finding,) = findings(report_of(made))

    assert f"is without {FEATURE}avx512vnni, which KubeVirt asks" in finding.why
    assert finding.advice == f"Add a node without the labels {FEATURE}avx512vnni."


def test_list_that_could_not_be_read_counts_as_unknown(monkeypatch: pytest.MonkeyPatch) -> None:
    made = labeled(NODES)
    gap = Unreadable("virtualmachines", "", "list", "no")

    result = flow(monkeypatch, made.snapshot(unreadable=(gap,)))

    assert result["counts"]["unknown"] == 1
    assert [x["resource"] for x in result["permission_gaps"]] == ["virtualmachines"]


def test_vm_that_reaches_doubtful_nodes_alone_is_listed(monkeypatch: pytest.MonkeyPatch) -> None:
    made = labeled({"i1": "Haswell-noTSX", "i3": "Skylake-Server-noTSX-IBRS"})
    run_vm(made, "db", "i3")

    result = flow(monkeypatch, made.snapshot())

    assert [(x["reach"], x["nodes"], x["doubtful_nodes"]) for x in result["vms"]] == [
        ("free", ["i1"], ["i1"])
    ]
    assert result["counts"]["unproven"] == 1
    assert "its node, maybe" in result["table"]
    assert HOST not in result["table"]


def test_table_names_the_zone_out_of_which_doubtful_nodes_alone_lead() -> None:
    made = labeled(
        {"i1": "Broadwell-noTSX", "i2": "Broadwell-noTSX", "i3": "Haswell-noTSX"}, {"i3": "b"}
    )
    run_vm(made, "db", "i1")

    lines = table(report_of(made)).splitlines()

    assert lines[0] == "1 VM on 3 nodes: 1 perhaps bound: libvirt may refuse the other nodes"
    assert any("its zone, maybe" in line and "that 1 node fits its CPU" in line for line in lines)


def test_entries_have_the_vms_that_are_bound() -> None:
    counts = {"vms": 5, "nodes": 6, "free": 3, "zone": 0, "node": 2, "none": 0, "unknown": 0}
    assert [(x.code, x.text) for x in entries({**counts, "unproven": 1})] == [
        ("vms", "5 VMs"),
        ("node", "2 bound to one node"),
        ("unproven", "1 perhaps bound: libvirt may refuse the other nodes"),
    ]
