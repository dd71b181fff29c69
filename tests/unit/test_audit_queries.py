# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Automation Platform learns from the results which nodes and VMs a task changed."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import typing as t
from pathlib import Path

import pytest
import yaml

from dev.codes import return_text

CHECKOUT = Path(__file__).resolve().parents[2]
QUERIES = yaml.safe_load((CHECKOUT / "extensions" / "audit" / "event_query.yml").read_text())
MODULES = sorted(path.stem for path in (CHECKOUT / "plugins" / "modules").glob("*.py"))
NO_CLUSTER = ("drs_import", "report")
READ_ONLY = [name for name in MODULES if name.endswith("_info") or name in NO_CLUSTER]
UID = "9c1f3b8e"
VM = {"kind": "VirtualMachine", "namespace": "shop", "name": "web-1", "instance": "web-1"}
POD = {"kind": "Deployment", "namespace": "shop", "name": "app", "instance": "app-1"}
RESULTS: dict[str, dict[str, t.Any]] = {
    "node_labels": {"nodes": [{"name": "w1"}]},
    "node_maintenance": {"nodes": [{"name": "w1"}], "moves": [VM, POD]},
    "rollout": {"moves": [VM, POD]},
    "job": {
        "ansible_stats": {
            "data": {
                "placement_job": {
                    "prod": {
                        "maintenance": {
                            "nodes": {"w1": "serviced", "w2": "not_begun"},
                            "moves": {"migrated": [VM, POD], "not_migrated": [VM]},
                        }
                    }
                }
            }
        }
    },
    "rules": {"workloads": [{**VM, "changed": True}, {**VM, "name": "db", "changed": False}]},
}
NODE = {"cluster_uid": UID, "kind": "Node", "name": "w1"}
MACHINE = {"cluster_uid": UID, "kind": "VirtualMachine", "namespace": "shop", "name": "web-1"}
CHANGED = {
    "node_labels": [NODE],
    "node_maintenance": [NODE, MACHINE],
    "rollout": [MACHINE],
    "rules": [MACHINE],
    "job": [
        {"inventory_host": "prod", "kind": "Node", "name": "w1"},
        {"inventory_host": "prod", **{x: VM[x] for x in ("kind", "namespace", "name")}},
    ],
}


def test_each_module_that_writes_has_a_query() -> None:
    assert sorted(QUERIES) == [f"virt.placement.{x}" for x in MODULES if x not in READ_ONLY]


@pytest.mark.parametrize("name", sorted(set(RESULTS) - {"job"}))
def test_query_reads_what_the_module_returns(name: str) -> None:
    returned = yaml.safe_load(return_text(CHECKOUT / "plugins" / "modules" / f"{name}.py"))
    query = QUERIES[f"virt.placement.{name}"]["query"]
    for listed in re.findall(r"\.(\w+)\[\]", query):
        (entry,) = RESULTS[name][listed][:1]
        assert set(entry) - {"instance"} <= {*returned[listed]["contains"], "instance"}
    assert "uid" in returned["cluster"]["contains"]


@pytest.mark.skipif(not shutil.which("jq"), reason="the program jq is not installed")
@pytest.mark.parametrize("name", RESULTS)
def test_query_names_what_was_changed(name: str) -> None:
    query = QUERIES[f"virt.placement.{name}"]["query"]

    def ask(result: dict[str, t.Any]) -> list[dict[str, t.Any]]:
        command = ["jq", "-c", query]
        done = subprocess.run(
            command, input=json.dumps(result), capture_output=True, text=True, check=True
        )
        return [json.loads(line) for line in done.stdout.splitlines()]

    found = ask({"cluster": {"uid": UID}, **RESULTS[name]})

    assert [x["canonical_facts"] for x in found] == CHANGED[name]
    assert all(x["name"] and x["facts"] for x in found)
    assert ask({"failed": True, "msg": "no cluster"}) == []
