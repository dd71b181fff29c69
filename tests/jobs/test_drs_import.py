# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""From an export of DRS rules to satisfied rules, as docs/from-vsphere.md says; and back."""

from __future__ import annotations

import json
import typing as t
from pathlib import Path

import pytest
import yaml

from ansible_collections.virt.placement.plugins.modules import (
    node_labels,
    placement_info,
    rules,
    rules_info,
)
from demos.stage import Stage
from sandbox import Sandbox, objects
from sandbox.pytest_plugin import MakeNamespace
from tests.conftest import RunModule
from tests.shop import Shop

DO_NOT_MOVE = "placement.virt/do-not-move"
LICENSED = "drs.placement.virt/licensed-hosts"


@pytest.fixture
def shop(six: Sandbox, namespace: MakeNamespace, run_module: RunModule) -> Shop:
    return Shop(six, namespace(six, "drs"), run_module)


def rule(name: str, kind: str, *vms: str, **more: t.Any) -> dict[str, t.Any]:
    common = {"rule_name": name, "rule_type": kind, "rule_enabled": True, "rule_mandatory": False}
    return {**common, "rule_vms": vms, **more}


EXPORT = {
    "drs_rule_info": {
        "Production": [
            rule("web apart", "vm_vm_rule", "WEB_1", "WEB_2", rule_affinity=False),
            rule("app with database", "vm_vm_rule", "DB (old)", "App", rule_affinity=True),
            rule("web apart from app", "vm_vm_rule", "WEB_1", "App", rule_enabled=False)
            | {"rule_affinity": False},
            rule("database licenses", "vm_host_rule", "DB (old)", rule_mandatory=True)
            | {
                "rule_vm_group_name": "databases",
                "rule_affine_host_group_name": "licensed hosts",
                "rule_affine_hosts": ["esx3", "esx4"],
            },
        ]
    }
}
OVERRIDES = {"overrides": {"VirtualMachine:vm-2": {"name": "WEB_2", "drs": {"enabled": False}}}}


@pytest.mark.sweep
def test_export_becomes_satisfied_rules_and_leaves_nothing(shop: Shop, tmp_path: Path) -> None:
    stage = Stage(shop.sandbox, shop.namespace, quiet=True)
    machines = [
        objects.virtual_machine(name, shop.namespace)
        for name in ("web-1", "web-2", "app", "db-x7qz")
    ]
    machines[3]["metadata"]["annotations"] = {"openshift.io/display-name": "DB (old)"}
    shop.start(*machines, nodes=["w1"])
    for name, content in (("rules", EXPORT), ("overrides", OVERRIDES)):
        (tmp_path / f"{name}.json").write_text(json.dumps(content))

    imported = stage.play(
        "drs_import",
        {
            "placement_drs_import_files": [
                str(tmp_path / "rules.json"),
                str(tmp_path / "overrides.json"),
            ],
            "placement_drs_import_folder": str(tmp_path / "imported"),
            "placement_drs_import_namespaces": [shop.namespace],
            "placement_drs_import_host_names": {"esx3": "w3", "esx4": "w4"},
        },
        identity="reader",
    )

    assert imported.rc == 0, imported.stdout
    assert "It is disabled in the export" in (tmp_path / "imported" / "report.txt").read_text()
    variables = loaded(tmp_path, f"rules-{shop.namespace}")
    labels = loaded(tmp_path, "node_labels")["placement_topology_per_value"]
    labeled = shop.done(node_labels.main, "labeler", per_value=labels)
    assert labeled["changed"]
    mark = shop.sandbox.audit.mark()
    planned = stage.play("apply", variables, identity="mover", check=True)
    assert planned.rc == 0, planned.stdout
    assert shop.sandbox.audit.writes(since=mark) == []

    applied = stage.play("apply", variables, identity="mover")

    assert applied.rc == 0, applied.stdout
    nodes = shop.nodes()
    assert nodes["web-1"] != nodes["web-2"]
    assert nodes["app"] == nodes["db-x7qz"]
    assert nodes["app"] in ("w3", "w4")
    label(shop, loaded(tmp_path, "vm_labels"), "true")
    assert [vm["metadata"]["name"] for vm in vms(shop) if kept(vm)] == ["web-2"]
    assert violated(shop) == set()

    node = nodes["db-x7qz"]
    shop.done(node_labels.main, "labeler", nodes=[node], remove=[LICENSED], force=True)
    assert violated(shop) == {"database-licenses"}

    everywhere = {"namespace": shop.namespace, "rule_set": "drs", "rules": [], "prune": True}
    shop.done(rules.main, "mover", **everywhere)
    shop.done(node_labels.main, "labeler", nodes=["w3", "w4"], remove=[LICENSED], force=True)
    label(shop, loaded(tmp_path, "vm_labels"), None)
    left = shop.done(rules_info.main, "reader", namespaces=[shop.namespace])
    assert left["rules"] == []
    for vm in vms(shop):
        assert "affinity" not in vm["spec"]["template"]["spec"]
        assert not kept(vm)


def exported(*given: dict[str, t.Any]) -> str:
    return json.dumps({"drs_rule_info": {"Production": given}})


ONE = rule("one", "vm_vm_rule", "a", "b", rule_affinity=True)
OF_HOSTS = rule("licensed", "vm_host_rule", "a", rule_mandatory=True) | {
    "rule_vm_group_name": "databases",
    "rule_affine_host_group_name": "licensed hosts",
    "rule_affine_hosts": ["esx3", "esx4"],
}
BAD_EXPORTS: dict[str, tuple[str, dict[str, t.Any], str]] = {
    "csv": (
        "Cluster;Name;Enabled\nProduction;web;True\n",
        {},
        "is CSV without the columns of rules",
    ),
    "text": (
        "Rule: web\n  Type: ClusterAntiAffinityRuleSpec\n",
        {},
        "is the output of govc cluster.rule",
    ),
    "cut off": ('{"drs_rule_info":\n {"Production": [', {}, "line 2"),
    "cycle": (
        exported(ONE, rule("two", "vm_vm_rule", "b", "a", rule_affinity=True)),
        {},
        "rule 'two': its VMs b and a are kept together already by 'one': a cycle of affinity",
    ),
    "contradiction": (
        exported(ONE, rule("two", "vm_vm_rule", "b", "a", rule_affinity=False)),
        {},
        "rule 'two': keeps b and a apart, which affinity rules keep together",
    ),
    "a circle of rules that keep together, and one apart": (
        exported(
            ONE,
            rule("two", "vm_vm_rule", "b", "c", rule_affinity=True),
            rule("three", "vm_vm_rule", "c", "a", rule_affinity=True),
            rule("four", "vm_vm_rule", "a", "c", rule_affinity=False),
        ),
        {},
        "rule 'four': keeps a and c apart, which affinity rules keep together",
    ),
    "another cluster": (
        exported(ONE),
        {"cluster": "Staging"},
        "'Staging' is not in the export, which has Production",
    ),
    "a VM twice in vCenter": (
        exported(rule("one", "vm_vm_rule", "a", "a", "b", rule_affinity=True)),
        {},
        "rule 'one': VM 'a' occurs twice",
    ),
    "two VMs of one name on the cluster": (
        exported(ONE),
        {"read_cluster": True},
        "rule 'one': VM 'a' exists twice on the cluster by their name, NAMESPACE/a and OTHER/a",
    ),
    "hosts without a table": (
        exported(OF_HOSTS),
        {"read_cluster": True, "missing_vms": "leave_out"},
        "rule 'licensed': host group 'licensed hosts': it is not known which nodes its hosts esx3, esx4 are",
    ),
}


@pytest.mark.parametrize(("text", "options", "fault"), BAD_EXPORTS.values(), ids=BAD_EXPORTS)
def test_bad_export_fails_the_job_before_a_file_is_written(
    shop: Shop,
    namespace: MakeNamespace,
    tmp_path: Path,
    text: str,
    options: dict[str, t.Any],
    fault: str,
) -> None:
    (tmp_path / "export").write_text(text)
    stage = Stage(shop.sandbox, shop.namespace, quiet=True)
    if options.get("read_cluster"):
        other = namespace(shop.sandbox, "drs-other")
        for name in (shop.namespace, other):
            halted = objects.virtual_machine("a", name, run_strategy="Halted")
            shop.api.create(shop.api.path("VirtualMachine", name), halted)
        first, second = sorted((shop.namespace, other))
        fault = fault.replace("NAMESPACE", first).replace("OTHER", second)
        read = [shop.namespace] if "missing_vms" in options else [first, second]
        options = {**options, "namespaces": read}
    mark = shop.sandbox.audit.mark()

    played = stage.play(
        "drs_import",
        {
            f"placement_drs_import_{name}": value
            for name, value in {
                "files": [str(tmp_path / "export")],
                "folder": str(tmp_path / "imported"),
                "read_cluster": False,
                **options,
            }.items()
        },
        identity="reader",
    )

    assert played.rc != 0
    assert fault in played.stdout, played.stdout
    assert "DRS import: FAILED" in played.stdout
    assert "written to" not in played.stdout
    assert not (tmp_path / "imported").exists()
    assert shop.sandbox.audit.writes(since=mark) == []


def vms(shop: Shop) -> list[dict[str, t.Any]]:
    return shop.api.list(shop.path("VirtualMachine"))


def label(shop: Shop, manifests: dict[str, t.Any], value: str | None) -> None:
    """As kubectl label does it for the objects of a file."""
    for item in manifests["items"]:
        assert list(item["metadata"]["labels"]) == [DO_NOT_MOVE]
        path = shop.path(item["kind"], item["metadata"]["name"])
        shop.api.patch(path, {"metadata": {"labels": {DO_NOT_MOVE: value}}})


def loaded(folder: Path, name: str) -> dict[str, t.Any]:
    text = (folder / "imported" / f"{name}.yml").read_text()
    return t.cast("dict[str, t.Any]", yaml.safe_load(text))


def kept(vm: dict[str, t.Any]) -> bool:
    return DO_NOT_MOVE in (vm["metadata"].get("labels") or {})


def violated(shop: Shop) -> set[str]:
    """The rules that placement_info reports as violated."""
    found = shop.done(placement_info.main, "reader", namespaces=[shop.namespace])
    return {
        rule["rule"].rpartition("/")[2]
        for instance in found["instances"]
        for rule in instance["rules"]
        if rule["verdict"] == "violated"
    }
