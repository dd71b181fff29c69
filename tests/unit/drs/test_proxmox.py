# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""drs_import on HA rules of Proxmox VE, as community.proxmox returns them and as pvesh prints them."""

from __future__ import annotations

import json
import typing as t

from ansible_collections.virt.placement.plugins.modules import drs_import
from tests.conftest import RunModule

RULES: list[dict[str, t.Any]] = [
    {
        "rule": "web-apart",
        "type": "resource-affinity",
        "affinity": "negative",
        "resources": ["vm:100", "vm:101", "ct:200"],
        "disable": False,
        "order": 1,
    },
    {
        "rule": "app-with-db",
        "type": "resource-affinity",
        "affinity": "positive",
        "resources": ["vm:102", "vm:103"],
        "disable": False,
        "order": 2,
    },
    {
        "rule": "licensed",
        "type": "node-affinity",
        "resources": ["vm:103"],
        "nodes": ["pve1", "pve2"],
        "strict": True,
        "disable": False,
        "order": 3,
    },
    {
        "rule": "near-the-lab",
        "type": "node-affinity",
        "resources": ["vm:100"],
        "nodes": ["pve1:2", "pve3:1"],
        "strict": False,
        "disable": False,
        "comment": "since the scanner is there",
        "order": 4,
    },
    {
        "rule": "old-pair",
        "type": "resource-affinity",
        "affinity": "negative",
        "resources": ["vm:100", "vm:103"],
        "disable": True,
        "order": 5,
    },
    {
        "rule": "containers",
        "type": "resource-affinity",
        "affinity": "negative",
        "resources": ["ct:200", "ct:201"],
        "disable": False,
        "order": 6,
    },
]
VMS: list[dict[str, t.Any]] = [
    {"vmid": 100, "name": "web1.home.arpa", "type": "qemu", "node": "pve1"},
    {"vmid": 101, "name": "WEB-2", "type": "qemu", "node": "pve2"},
    {"vmid": 102, "name": "app", "type": "qemu", "node": "pve2"},
    {"vmid": 103, "name": "db", "type": "qemu", "node": "pve3"},
    {"vmid": 200, "name": "proxy", "type": "lxc", "node": "pve3"},
]
HOSTS = {"pve1": "w1", "pve2": "w2", "pve3": "w3"}

IMPORTED: list[dict[str, t.Any]] = [
    {"name": "web-apart", "workloads": ["web1.home.arpa", "web-2"], "keep_apart": "node"},
    {
        "name": "app-with-db",
        "workloads": ["app"],
        "keep_together": {"topology_key": "node", "with": "db"},
    },
    {
        "name": "licensed",
        "workloads": ["db"],
        "run_on": {"drs.placement.virt/licensed": "true"},
    },
    {
        "name": "near-the-lab",
        "workloads": ["web1.home.arpa"],
        "run_on": {"drs.placement.virt/near-the-lab": "true"},
        "preferred": True,
    },
    {
        "name": "old-pair",
        "workloads": ["web1.home.arpa", "db"],
        "keep_apart": "node",
        "enabled": False,
    },
]


def as_pvesh_prints(rule: dict[str, t.Any]) -> dict[str, t.Any]:
    """Lists are text, a flag is 1 or is missing."""
    printed = {
        name: ",".join(value) if isinstance(value, list) else value for name, value in rule.items()
    }
    return {
        name: 1 if value is True else value for name, value in printed.items() if value is not False
    }


def imported(run_module: RunModule, *content: t.Any, **options: t.Any) -> dict[str, t.Any]:
    given = {"namespace": "shop", "host_names": HOSTS, "content": [*content], **options}
    return run_module(drs_import.main, given)


def messages(result: dict[str, t.Any]) -> list[str]:
    assert result["failed"]
    return [error["message"] for error in result["errors"]]


def test_rules_of_proxmox_become_rules_and_labels(run_module: RunModule) -> None:
    result = imported(run_module, {"rules": RULES}, {"proxmox_vms": VMS})

    assert result["namespaces"] == [{"namespace": "shop", "rules": IMPORTED}]
    assert result["node_labels"] == {
        "drs.placement.virt/licensed": {"true": ["w1", "w2"]},
        "drs.placement.virt/near-the-lab": {"true": ["w1", "w3"]},
    }
    assert result.get("warnings", []) == []


def test_what_pvesh_prints_becomes_the_same(run_module: RunModule) -> None:
    rules = json.dumps([as_pvesh_prints(rule) for rule in RULES])
    resources = json.dumps([{"id": f"qemu/{vm['vmid']}", **vm} for vm in VMS])
    result = imported(run_module, rules, resources)

    assert result["namespaces"] == [{"namespace": "shop", "rules": IMPORTED}]


def test_each_rule_is_in_one_column_with_what_is_lost_of_it(run_module: RunModule) -> None:
    report = imported(run_module, {"rules": RULES}, {"proxmox_vms": VMS})["report"]

    rules = {
        column: [part["name"] for part in parts if part["kind"] == "rule"]
        for column, parts in report.items()
    }
    assert rules == {
        "carried_over": ["licensed"],
        "decisions": ["web-apart", "app-with-db", "near-the-lab", "old-pair"],
        "no_counterpart": ["containers"],
    }
    taken = {
        part["name"]: {decision["code"]: decision["taken"] for decision in part["decisions"]}
        for part in report["decisions"]
    }
    lost = "Without counterpart, and left out: "
    assert taken["web-apart"] == {"left_out": f"{lost}The containers ct:200."}
    assert taken["near-the-lab"] == {
        "left_out": f"{lost}The priorities of its nodes, pve1:2, pve3:1."
    }
    assert [*taken["app-with-db"]] == ["leader"]
    assert [*taken["old-pair"]] == ["rests"]
    (containers,) = [x for x in report["no_counterpart"] if x["kind"] == "rule"]
    assert containers["reason"] == (
        "It has 0 VMs, so that it does nothing. Without counterpart: The containers ct:200, ct:201."
    )


def test_vms_without_names_are_named_in_the_table_of_the_user(run_module: RunModule) -> None:
    hosts = {"pve1": "w1", "pve2": "w2"}
    table = {"vm:103": "back/db-1"}
    refused = imported(run_module, {"rules": RULES[2:3]}, host_names=hosts)
    result = imported(run_module, {"rules": RULES[2:3]}, host_names=hosts, vm_names=table)

    (message,) = messages(refused)
    assert "rule 'licensed'" in message and "VM vm:103 has no name in the files" in message
    assert "community.proxmox.proxmox_vm_info" in message
    assert result["namespaces"] == [
        {"namespace": "back", "rules": [{**IMPORTED[2], "workloads": ["db-1"]}]}
    ]


def test_all_faults_of_an_export_are_named_at_once(run_module: RunModule) -> None:
    bad: list[t.Any] = [
        {**RULES[0], "affinity": "both"},
        {**RULES[2], "disable": "no"},
        {**RULES[3], "nodes": 7},
        "web-apart",
    ]
    result = imported(run_module, {"rules": bad}, {"proxmox_vms": VMS})

    named = "\n".join(messages(result))
    assert "rules[0], rule 'web-apart': affinity must be positive or negative" in named
    assert "rules[1], rule 'licensed': disable must be true or false, not 'no'" in named
    assert "rules[2], rule 'near-the-lab': nodes must be a list of names" in named
    assert "rules[3]: must be a map, not 'web-apart'" in named


def test_what_the_api_answers_becomes_the_same(run_module: RunModule) -> None:
    """With the lists below `data`, and flags as text."""
    rules = [
        {key: str(x) if x == 1 and key != "order" else x for key, x in as_pvesh_prints(y).items()}
        for y in RULES
    ]
    result = imported(run_module, {"data": rules}, {"data": VMS})

    assert {x["namespace"]: x["rules"] for x in result["namespaces"]} == {"shop": IMPORTED}


def test_rule_that_proxmox_leaves_out_is_left_out(run_module: RunModule) -> None:
    conflict = "rule shares two or more resources with a positive rule"
    rules = [RULES[0], {**RULES[1], "errors": {"resources": [conflict]}}]
    result = imported(run_module, {"rules": rules}, {"proxmox_vms": VMS}, host_names={})

    (part,) = (x for x in result["report"]["no_counterpart"] if x["kind"] == "rule")
    assert (part["name"], part["reason"]) == (
        "app-with-db",
        f"Proxmox does not apply it: {conflict}.",
    )


def test_cluster_without_rules_and_groups_of_an_older_release(run_module: RunModule) -> None:
    empty = imported(run_module, {"rules": []}, {"proxmox_vms": VMS}, host_names={})
    assert empty["counts"]["rules"] == 0

    groups = [{"group": "a", "nodes": "pve1:1,pve2", "restricted": 1, "type": "group"}]
    (message,) = messages(imported(run_module, {"data": groups}))
    assert "has HA groups of Proxmox VE 8, which are not read" in message


def test_rules_and_names_of_two_clusters_are_errors(run_module: RunModule) -> None:
    """Clusters have the same ids of VMs."""
    rules = [RULES[2], {**RULES[2], "resources": ["vm:100", "101"]}]
    names = [{"proxmox_vms": VMS}, {"proxmox_vms": [{**VMS[0], "name": "other"}]}]
    result = run_module(drs_import.main, {"content": [{"rules": rules}, *names]})

    assert [error["message"] for error in result["errors"]] == [
        "content[2]: vm:100 is 'other' here, and 'web1.home.arpa' before it: give the names of one system, read at one"
        " time",
        "content[0], rules[1], rule 'licensed': occurs twice: the rules are of two clusters, or were edited. Import"
        " one at a time",
        "content[0], rules[1], rule 'licensed': resources has '101', which is not vm:ID or ct:ID",
    ]
