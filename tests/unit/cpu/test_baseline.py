# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Common models, odd nodes, what a new node needs, and what the common model costs, on nodes of two vendors."""

from __future__ import annotations

import random

import pytest

from ansible_collections.virt.placement.plugins.module_utils.cpu.models import newest, newest_first
from ansible_collections.virt.placement.plugins.module_utils.cpu.report import (
    CpuReport,
    findings,
)

from .labeled_nodes import (
    FEATURE,
    HOST,
    INTEL,
    MIGRATION,
    MODEL,
    OBSOLETE,
    VENDOR,
    labeled,
    labels_of,
    relabel,
    report_of,
    run_vm,
)

NODES = {
    "i1": "Broadwell-noTSX",
    "i2": "Skylake-Server-noTSX-IBRS",
    "i3": "Cascadelake-Server-noTSX",
    "i4": "Cascadelake-Server-noTSX",
    "a1": "EPYC-Rome",
    "a2": "EPYC-Milan",
}
ZONES = {"i1": "a", "i2": "a", "i3": "b", "i4": "b", "a1": "a", "a2": "b"}


def codes(report: CpuReport) -> set[tuple[str, str]]:
    return {(odd.node, odd.code) for odd in report.odd_nodes}


def test_common_models_of_the_cluster_and_of_each_zone() -> None:
    report = report_of(labeled(NODES, ZONES))

    found = [(x.zone, x.vendor, " ".join(x.nodes), x.model) for x in report.baselines]
    assert found == [
        (None, "AMD", "a1 a2", "EPYC-Rome"),
        (None, "Intel", "i1 i2 i3 i4", "Broadwell-noTSX"),
        ("a", "AMD", "a1", "EPYC-Rome"),
        ("a", "Intel", "i1 i2", "Broadwell-noTSX"),
        ("b", "AMD", "a2", "EPYC-Milan"),
        ("b", "Intel", "i3 i4", "Cascadelake-Server-noTSX"),
    ]
    assert report.baselines[1].models == ("Broadwell-noTSX", "Haswell-noTSX")


def test_one_zone_has_no_baseline_beside_that_of_the_cluster() -> None:
    report = report_of(labeled({"i1": "Haswell-noTSX"}))

    assert [x.zone for x in report.baselines] == [None]


def test_new_node_needs_what_the_vms_on_the_others_select() -> None:
    made = labeled(NODES, ZONES)
    run_vm(made, "db", "i3")
    run_vm(made, "web", "i1", "Haswell-noTSX", {"name": "smx", "policy": "forbid"})
    run_vm(made, "mail", "a1", "EPYC-Rome")

    _amd, intel, *_zones = report_of(made).baselines

    assert intel.must_have == (
        f"{FEATURE}avx512vnni=true",
        f"{FEATURE}x2apic=true",
        f"{MIGRATION}Cascadelake-Server-noTSX=true",
        f"{MODEL}Broadwell-noTSX=true",
        f"{MODEL}Haswell-noTSX=true",
        f"{VENDOR}Intel=true",
        "kubernetes.io/arch=amd64",
        "machine-type.node.kubevirt.io/q35=true",
    )
    assert intel.must_not_have == (f"{FEATURE}smx", OBSOLETE)


def test_new_node_with_these_labels_takes_each_vm_that_runs() -> None:
    """For VMs of all models, wherever they run: each reaches a node that has the labels and none of the others."""
    chance = random.Random(5)
    made = labeled(NODES, ZONES)
    for number in range(12):
        node = chance.choice(list(NODES))
        can_run = sorted(x.removeprefix(MODEL) for x in labels_of(NODES[node]) if MODEL in x)
        run_vm(made, f"vm{number}", node, chance.choice(["host-model", *can_run]))
    first = report_of(made)
    of_cluster = {x.vendor: x for x in first.baselines if x.zone is None}
    for vendor, baseline in of_cluster.items():
        labels = dict(text.split("=") for text in baseline.must_have)
        made.node(f"new-{vendor.lower()}", labels)

    after = report_of(made)

    for vm in after.vms:
        vendor = "amd" if vm.node.startswith("a") else "intel"
        assert f"new-{vendor}" in vm.nodes, vm


def test_older_nodes_are_odd_where_the_others_share_a_newer_model() -> None:
    report = report_of(
        labeled({**NODES, "i0": "Broadwell-noTSX", "i5": "Cascadelake-Server-noTSX"})
    )

    assert {node for node, code in codes(report) if code == "older"} == {"i0", "i1", "a1"}
    (why,) = (x.why for x in report.odd_nodes if x.node == "i1")
    assert why == (
        "without it and 1 node with the same models, the newest model of the others would be"
        " Skylake-Server-noTSX-IBRS; now the newest model of all is Broadwell-noTSX"
    )


def test_nodes_of_the_smaller_vendor_are_odd() -> None:
    report = report_of(labeled(NODES))

    assert {node for node, code in codes(report) if code == "other_vendor"} == {"a1", "a2"}


def test_node_with_the_same_model_and_other_features_is_odd() -> None:
    """As after a change of the firmware or of microcode."""
    made = labeled({f"i{n}": "Broadwell-noTSX" for n in range(3)})
    relabel(made, "i1", f"{FEATURE}adx", **{f"{FEATURE}md-clear": "true"})

    (odd,) = report_of(made).odd_nodes

    assert (odd.node, odd.code) == ("i1", "other_features")
    assert odd.why == (
        "lacks adx and has md-clear, other than 2 other nodes with the same CPU model Broadwell-noTSX"
    )


@pytest.mark.parametrize(
    ("removed", "added", "code"),
    [
        ((f"{HOST}Haswell-noTSX",), {}, "no_host_model"),
        ((f"{MODEL}Haswell-noTSX",), {}, "no_models"),
        ((), {OBSOLETE: "true"}, "obsolete_host_model"),
    ],
)
def test_node_that_lacks_labels_is_odd(
    removed: tuple[str, ...], added: dict[str, str], code: str
) -> None:
    made = labeled({f"i{n}": "Haswell-noTSX" for n in range(3)})
    relabel(made, "i1", *removed, **added)

    assert codes(report_of(made)) == {("i1", code)}


def test_alike_nodes_are_not_odd_and_no_model_is_proposed() -> None:
    made = labeled({f"i{n}": "Haswell-noTSX" for n in range(3)})
    run_vm(made, "db", "i1")

    report = report_of(made)

    assert (report.odd_nodes, report.changes) == ((), ())


def test_common_model_costs_the_features_that_no_model_of_all_nodes_has() -> None:
    made = labeled({name: NODES[name] for name in ("i1", "i3", "i4")})
    for name in ("db", "web"):
        run_vm(made, name, "i3")
    run_vm(made, "pinned", "i4", "Cascadelake-Server-noTSX")
    run_vm(made, "free", "i4", "Haswell-noTSX")

    named, host = report_of(made).changes

    assert (host.current, host.model) == (
        "host-model (Cascadelake-Server-noTSX)",
        "Broadwell-noTSX",
    )
    assert [ref.name for ref in host.vms] == ["db", "web"]
    assert (host.loses, host.may_lose, host.unknown) == (
        ("avx512f", "avx512vnni"),
        ("adx", "avx2", "x2apic"),
        "",
    )
    assert (named.current, named.loses) == ("Cascadelake-Server-noTSX", ())
    assert named.unknown == (
        "node labels do not say which CPU features the model Cascadelake-Server-noTSX has"
    )


@pytest.mark.parametrize("kept_by", ["feature", "label"])
def test_common_model_is_no_gain_where_something_else_keeps_the_vm(kept_by: str) -> None:
    """A feature that the VM requires is required with each model, and so are nodes with the CPU manager."""
    made = labeled({name: NODES[name] for name in ("i1", "i2", "i3")})
    features = [{"name": "avx512vnni"}] if kept_by == "feature" else []
    selected = {"kubevirt.io/cpumanager": "true"} if kept_by == "label" else {}
    relabel(made, "i3", **selected)
    run_vm(made, "db", "i3", "host-model", *features, **selected)

    report = report_of(made)

    assert report.changes == ()
    (finding,) = findings(report)
    assert "CPU model" not in finding.advice


def test_common_model_reaches_the_nodes_that_have_what_else_the_vm_selects() -> None:
    made = labeled({name: NODES[name] for name in ("i1", "i2", "i4")})
    for node in ("i2", "i4"):
        relabel(made, node, **{"kubevirt.io/cpumanager": "true"})
    run_vm(made, "db", "i4", "host-model", **{"kubevirt.io/cpumanager": "true"})

    (change,) = report_of(made).changes

    assert change.reaches == 2


def test_features_that_the_vm_requires_stay_with_the_common_model() -> None:
    made = labeled({name: NODES[name] for name in ("i1", "i3")})
    run_vm(
        made,
        "db",
        "i3",
        "host-model",
        {"name": "adx", "policy": "force"},
        {"name": "avx2", "policy": "disable"},
    )

    (change,) = report_of(made).changes

    assert (change.loses, change.may_lose) == (("avx512f", "avx512vnni"), ("x2apic",))


def test_losses_of_a_vm_that_has_migrated_are_unknown_beyond_what_its_pod_selects() -> None:
    made = labeled({name: NODES[name] for name in ("i1", "i3")})
    selected = {f"{MIGRATION}Cascadelake-Server-noTSX": "true", f"{FEATURE}avx512vnni": "true"}
    run_vm(made, "db", "i3", "host-model", **selected)

    (change,) = report_of(made).changes

    assert (change.loses, change.may_lose) == (("avx512vnni",), ())
    assert change.unknown == (
        "they have migrated, and nothing shows all CPU features of the node on which they started"
    )


def test_models_that_are_not_known_are_listed_and_never_the_best() -> None:
    made = labeled({f"i{n}": "Haswell-noTSX" for n in range(2)})
    for node in ("i0", "i1"):
        relabel(made, node, f"{MODEL}Haswell-noTSX", **{f"{MODEL}NextGeneration": "true"})

    (baseline,) = report_of(made).baselines

    assert (baseline.models, baseline.model) == (("NextGeneration",), "")


def test_models_are_in_the_order_of_their_release() -> None:
    mixed = [
        "Penryn",
        "Haswell",
        "Haswell-noTSX-IBRS",
        "Haswell-noTSX",
        "Skylake-Server-v4",
        "New",
        "EPYC",
    ]

    assert newest_first(mixed, "Intel") == (
        "Skylake-Server-v4",
        "Haswell-noTSX-IBRS",
        "Haswell",
        "Haswell-noTSX",
        "Penryn",
        "EPYC",
        "New",
    )
    assert newest(["Penryn", "EPYC"], "AMD") == "EPYC"
    assert newest(["Penryn"], "AMD") == "Penryn"
    assert newest(INTEL, "Intel") == "Cascadelake-Server-noTSX"
    # libvirt names version 1 of a model from release 10 on: the name that older nodes have comes first
    assert newest(["Westmere-v1", "Westmere"], "Intel") == "Westmere"
    assert newest(["Skylake-Server", "Skylake-Server-v2"], "Intel") == "Skylake-Server-v2"
