# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Where VMs get by their CPU, on four generations of two vendors."""

from __future__ import annotations

import dataclasses
import typing as t

import pytest

from ansible_collections.virt.placement.plugins.module_utils.cpu.reach import VmCpu
from ansible_collections.virt.placement.plugins.module_utils.cpu.report import CpuReport
from ansible_collections.virt.placement.plugins.module_utils.model.snapshot import Unreadable

from .labeled_nodes import (
    FEATURE,
    HOST,
    MIGRATION,
    MODEL,
    OBSOLETE,
    VENDOR,
    labeled,
    relabel,
    report_of,
    run_vm,
)

JSON = t.Any

NODES = {
    "i1": "Haswell-noTSX",
    "i2": "Broadwell-noTSX",
    "i3": "Skylake-Server-noTSX-IBRS",
    "i4": "Cascadelake-Server-noTSX",
    "a1": "EPYC-Rome",
    "a2": "EPYC-Milan",
}
ZONES = {"i1": "a", "i2": "a", "i3": "b", "i4": "b", "a1": "a", "a2": "a"}


def one(report: CpuReport) -> VmCpu:
    (vm,) = report.vms
    return vm


@pytest.mark.parametrize(
    ("node", "model", "nodes", "reach"),
    [
        # host-model: the host's model, which each node of the vendor knows, and the features that it requires
        ("i1", "host-model", "i2 i3 i4", "free"),
        ("i2", "host-model", "i1 i3 i4", "free"),
        ("i3", "host-model", "i1 i2 i4", "free"),
        ("i4", "host-model", "", "node"),
        ("a1", "host-model", "a2", "zone"),
        ("a2", "host-model", "", "node"),
        # a named model: the nodes of the vendor that can run it
        ("i2", "Haswell-noTSX", "i1 i3 i4", "free"),
        ("i2", "Broadwell-noTSX", "i3 i4", "free"),
        ("i3", "Skylake-Server-noTSX-IBRS", "i4", "zone"),
        ("i4", "Cascadelake-Server-noTSX", "", "node"),
        ("a1", "EPYC-Rome", "a2", "zone"),
        ("a2", "EPYC-Milan", "", "node"),
        # host-passthrough: KubeVirt asks for the vendor alone
        ("i4", "host-passthrough", "i1 i2 i3", "free"),
        ("a2", "host-passthrough", "a1", "zone"),
    ],
)
def test_running_vm_reaches_exactly_these_nodes(
    node: str, model: str, nodes: str, reach: str
) -> None:
    made = labeled(NODES, ZONES)
    run_vm(made, "db", node, model)

    vm = one(report_of(made))

    assert (set(vm.nodes), vm.reach) == (set(nodes.split()), reach)


@pytest.mark.parametrize(
    ("node", "model", "doubtful"),
    [
        ("i1", "host-model", ""),
        ("i2", "host-model", "i1"),
        ("i2", "Broadwell-noTSX", ""),
        ("i4", "host-passthrough", "i1 i2 i3"),
    ],
)
def test_nodes_that_may_refuse_the_guest_are_doubtful(node: str, model: str, doubtful: str) -> None:
    """KubeVirt's label of known models is on nodes that cannot run them: libvirt refuses such a migration."""
    made = labeled(NODES, ZONES)
    run_vm(made, "db", node, model)

    assert set(one(report_of(made)).doubtful) == set(doubtful.split())


def test_required_and_forbidden_features_count() -> None:
    made = labeled(NODES, ZONES)
    features = {"name": "avx512f"}, {"name": "avx512vnni", "policy": "forbid"}
    run_vm(made, "db", "i3", "Haswell-noTSX", *features)

    report = report_of(made)

    assert one(report).nodes == ()
    assert report.lacking(one(report)) == {
        f"{FEATURE}avx512f=true": ("a1", "a2", "i1", "i2"),
        f"{MODEL}Haswell-noTSX=true": ("a1", "a2"),
        f"{VENDOR}Intel=true": ("a1", "a2"),
        f"!{FEATURE}avx512vnni": ("i4",),
    }


def test_vm_that_has_migrated_keeps_the_model_on_which_it_started() -> None:
    made = labeled(NODES, ZONES)
    run_vm(
        made,
        "db",
        "i4",
        "host-model",
        **{f"{MIGRATION}Haswell-noTSX": "true", f"{FEATURE}x2apic": "true"},
    )

    vm = one(report_of(made))

    assert (set(vm.nodes), vm.doubtful, vm.host_model) == ({"i1", "i2", "i3"}, (), "Haswell-noTSX")


def test_obsolete_host_model_keeps_vms_with_host_model_away() -> None:
    made = labeled(NODES, ZONES)
    relabel(made, "i2", **{OBSOLETE: "true"})
    run_vm(made, "db", "i1")

    report = report_of(made)

    assert set(one(report).nodes) == {"i3", "i4"}
    assert report.lacking(one(report))[f"!{OBSOLETE}"] == ("i2",)


@pytest.mark.parametrize(
    ("model", "nodes", "reach"),
    [
        ("host-model", "a1 a2 i1 i2 i3 i4", "free"),
        ("Haswell-noTSX", "i1 i2 i3 i4", "free"),
        ("Broadwell-noTSX", "i2 i3 i4", "free"),
        ("Skylake-Server-noTSX-IBRS", "i3 i4", "free"),
        ("Cascadelake-Server-noTSX", "i4", "free"),
        ("EPYC-Rome", "a1 a2", "free"),
        ("EPYC-Milan", "a2", "free"),
        ("Icelake-Server", "", "none"),
    ],
)
def test_halted_vm_starts_on_exactly_these_nodes(model: str, nodes: str, reach: str) -> None:
    made = labeled(NODES, ZONES)
    made.vm("db", {"domain": {"cpu": {"model": model}}})

    vm = one(report_of(made))

    assert (vm.nodes, vm.reach, vm.instance) == (tuple(nodes.split()), reach, "")


def test_model_of_the_cluster_is_that_of_vms_without_one() -> None:
    made = labeled(NODES, ZONES)
    platform = made.more["platform"]
    configuration = {**platform.configuration, "cpuModel": "Broadwell-noTSX"}
    made.more["platform"] = dataclasses.replace(platform, configuration=configuration)
    made.vm("db")

    vm = one(report_of(made))

    assert (vm.model, vm.nodes) == ("Broadwell-noTSX", ("i2", "i3", "i4"))


def test_model_after_restart_is_that_of_the_template() -> None:
    made = labeled(NODES, ZONES)
    ref = run_vm(made, "db", "i4")
    made.workloads[ref]["spec"]["template"]["spec"]["domain"]["cpu"]["model"] = "Haswell-noTSX"

    vm = one(report_of(made))

    assert (vm.model, vm.next_model) == ("host-model", "Haswell-noTSX")


def test_model_after_restart_is_unknown_with_an_instance_type() -> None:
    made = labeled(NODES, ZONES)
    ref = run_vm(made, "db", "i4")
    made.workloads[ref]["spec"]["instancetype"] = {"name": "u1.small"}

    assert one(report_of(made)).next_model is None


@pytest.mark.parametrize(
    ("gap", "doubt"),
    [
        ("nodes", "node i1 could not be read"),
        ("pods", "its launcher pod does not exist yet or could not be read"),
    ],
)
def test_what_could_not_be_read_makes_the_answer_unknown(gap: str, doubt: str) -> None:
    made = labeled(NODES, ZONES)
    run_vm(made, "db", "i1")

    vm = one(report_of(made, **{gap: (), "unreadable": (Unreadable(gap, "", "list", "no"),)}))

    assert (vm.reach, vm.nodes, str(vm.doubt)) == ("unknown", (), doubt)


@pytest.mark.parametrize(
    ("gap", "doubt"),
    [
        ("nodes", "the nodes could not be read"),
        (
            "virtualmachineinstances",
            "whether it runs is not known: cannot list virtualmachineinstances in all namespaces",
        ),
    ],
)
def test_halted_vm_is_unknown_where_lists_are_missing(gap: str, doubt: str) -> None:
    made = labeled(NODES, ZONES)
    made.vm("db")
    lists = {"nodes": ()} if gap == "nodes" else {}

    vm = one(report_of(made, **lists, unreadable=(Unreadable(gap, "", "list", "no"),)))

    assert (vm.reach, str(vm.doubt)) == ("unknown", doubt)


def test_halted_vm_with_an_instance_type_that_was_not_read_is_unknown() -> None:
    made = labeled(NODES, ZONES)
    ref = made.vm("db")
    made.workloads[ref]["spec"]["instancetype"] = {"name": "u1.small"}

    vm = one(report_of(made))

    assert (vm.reach, str(vm.doubt)) == (
        "unknown",
        "its instance type or preference could not be read",
    )


def test_nodes_on_which_kubevirt_does_not_run_are_left_out() -> None:
    made = labeled(NODES, ZONES)
    relabel(made, "i4", "kubevirt.io/schedulable")
    made.vm("db", {"domain": {"cpu": {"model": "Skylake-Server-noTSX-IBRS"}}})

    assert one(report_of(made)).nodes == ("i3",)


def test_migration_without_a_label_of_the_host_model_asks_for_the_vendor() -> None:
    made = labeled(NODES, ZONES)
    relabel(made, "i4", f"{HOST}Cascadelake-Server-noTSX")
    run_vm(made, "db", "i4")

    vm = one(report_of(made))

    assert set(vm.nodes) == {"i1", "i2", "i3"}
    assert vm.doubtful == vm.nodes


ARM = {f"arm{number}": "Haswell-noTSX" for number in (1, 2)}


@pytest.mark.parametrize("model", ["host-model", "host-passthrough"])
def test_nodes_without_any_label_of_their_cpu_are_doubtful(model: str) -> None:
    """As those of arm64, which KubeVirt gives no label of models, features or a vendor: one CPU may be another."""
    made = labeled(ARM)
    for node in ARM:
        labels = made.nodes[node]["metadata"]["labels"]
        relabel(made, node, *(key for key in labels if "cpu" in key or "host-model" in key))
    run_vm(made, "db", "arm1", model)

    vm = one(report_of(made))

    assert (vm.nodes, vm.doubtful, vm.unproven) == (("arm2",), ("arm2",), True)


@pytest.mark.parametrize(
    ("policy", "doubtful"),
    [("optional", ("i1", "i2")), ("force", ()), ("disable", ()), ("forbid", ())],
)
def test_optional_feature_that_the_guest_got_is_a_doubt_about_nodes_without_it(
    policy: str, doubtful: tuple[str, ...]
) -> None:
    """KubeVirt asks for no label of it, and libvirt does not take it away from a running guest."""
    made = labeled(NODES, ZONES)
    node = "i1" if policy == "forbid" else "i4"
    run_vm(made, "db", node, "Haswell-noTSX", {"name": "avx512f", "policy": policy})

    vm = one(report_of(made))

    assert vm.doubtful == doubtful
    assert not vm.unproven or policy == "optional"


def test_zone_that_is_reached_by_doubtful_nodes_alone_is_not_proven() -> None:
    """Zone a has nodes of the same CPU, zone b older ones, which know its model and cannot run it."""
    made = labeled(
        {"i1": "Broadwell-noTSX", "i2": "Broadwell-noTSX", "i3": "Haswell-noTSX"}, {"i3": "b"}
    )
    run_vm(made, "db", "i1")

    report = report_of(made)
    vm = one(report)

    assert (vm.reach, vm.nodes, vm.doubtful) == ("free", ("i2", "i3"), ("i3",))
    assert vm.unproven
    assert report.counts["unproven"] == 1


@pytest.mark.parametrize(("version", "stays"), [("v1.5.0", True), ("v1.6.0", False)])
def test_old_kubevirt_migrates_no_host_model_off_a_node_without_the_label_of_its_model(
    version: str, stays: bool
) -> None:
    made = labeled({"i1": "Haswell-noTSX", "i2": "Haswell-noTSX"})
    relabel(made, "i1", f"{HOST}Haswell-noTSX")
    run_vm(made, "db", "i1")
    run_vm(made, "moved", "i1", **{f"{MIGRATION}Haswell-noTSX": "true"})
    platform = dataclasses.replace(made.more["platform"], kubevirt=version)

    db, moved = report_of(made, platform=platform).vms

    assert ("node i1 has no label" in str(db.not_migratable)) is stays
    assert moved.not_migratable is None
