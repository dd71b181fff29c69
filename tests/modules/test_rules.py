# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The module rules against a real control plane: what it writes, and that it writes once."""

from __future__ import annotations

import json
import typing as t

import pytest

from sandbox import Sandbox, objects
from sandbox.pytest_plugin import MakeNamespace
from tests.conftest import RunModule

from .rules_task import RulesTask, anti_affinity

ZONE = "topology.kubernetes.io/zone"
WEB = ("web-a", "web-b", "web-c")
APART = {"name": "web-apart", "workloads": [{"names": list(WEB)}], "keep_apart": {"over": "zone"}}
FAST = {"name": "fast", "workloads": [{"name": "web-a"}], "run_on": {"zone": ["zone1", "zone2"]}}
VM = "VirtualMachine"


@pytest.fixture
def task(six: Sandbox, run_module: RunModule, namespace: MakeNamespace) -> RulesTask:
    return RulesTask(six, run_module, namespace(six, "rules"))


@pytest.fixture
def web(task: RulesTask) -> RulesTask:
    """Three halted machines."""
    for name in WEB:
        task.create(objects.virtual_machine(name, run_strategy="Halted"))
    return task


def test_a_rule_is_written_once_to_each_machine(web: RulesTask) -> None:
    start = web.sandbox.audit.mark()
    result = web(APART)
    assert result["changed"]
    assert result["counts"] == {"workloads": 3, "changed": 3, "unchanged": 0, "failed": 0}
    assert [each["added"] for each in result["workloads"]] == [["web-apart"]] * 3
    assert {each["takes_effect"] for each in result["workloads"]} == {"next_start"}
    for name in WEB:
        assert anti_affinity(web.get(VM, name)) == [
            {
                "labelSelector": {
                    "matchExpressions": [
                        {"key": "vmi.kubevirt.io/id", "operator": "In", "values": list(WEB)}
                    ]
                },
                "topologyKey": ZONE,
                "mismatchLabelKeys": ["kubevirt.io/created-by"],
            }
        ]
    writes = web.sandbox.audit.writes("mover", start)
    assert [(write.verb, write.code) for write in writes] == [("patch", 200)] * 3
    assert all("fieldValidation=Strict" in write.uri for write in writes)

    again = web.sandbox.audit.mark()
    result = web(APART)
    assert (result["changed"], result["writes"], result["workloads"]) == (False, [], [])
    assert result["counts"]["unchanged"] == 3
    assert not web.sandbox.audit.writes(since=again)
