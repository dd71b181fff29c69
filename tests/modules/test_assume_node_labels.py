# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Modules in check mode before the labels are written: assume_node_labels."""

from __future__ import annotations

import types
import typing as t

import pytest

from ansible_collections.virt.placement.plugins.modules import (
    drill_info,
    forecast_info,
    lint_info,
    rules,
)
from sandbox import Sandbox, objects
from sandbox.pytest_plugin import MakeNamespace
from tests.conftest import RunModule

RACK = "example.com/rack"
RACKS = {"w1": {RACK: "r1"}, "w2": {RACK: "r2"}}


class Modules:
    """Modules run on one namespace, in which a VM is halted. No run may write."""

    def __init__(self, sandbox: Sandbox, run_module: RunModule, namespace: str) -> None:
        self.sandbox = sandbox
        self.namespace = namespace
        self._run = run_module
        vm = objects.virtual_machine("db", namespace, run_strategy="Halted")
        sandbox.api.create(sandbox.api.path("VirtualMachine", namespace), vm)

    def run(self, module: types.ModuleType, **options: t.Any) -> dict[str, t.Any]:
        start = self.sandbox.audit.mark()
        identity = "mover" if module is rules else "reader"
        kubeconfig = str(self.sandbox.kubeconfig(identity))
        result = self._run(module.main, {"kubeconfig": kubeconfig, **options}, check=True)
        assert self.sandbox.audit.writes(since=start) == []
        return result

    def rule(self, module: types.ModuleType, **options: t.Any) -> dict[str, t.Any]:
        rule = {"name": "on-rack", "workloads": ["db"], "run_on": {RACK: "r1"}}
        return self.run(module, namespace=self.namespace, rules=[rule], **options)


@pytest.fixture
def modules(six: Sandbox, run_module: RunModule, namespace: MakeNamespace) -> Modules:
    return Modules(six, run_module, namespace(six, "assume"))


def names(result: dict[str, t.Any]) -> set[str]:
    return {finding["name"] for finding in result["findings"]}


def test_rules_in_check_mode_pass_with_the_labels_that_are_planned(modules: Modules) -> None:
    now, then = modules.rule(rules), modules.rule(rules, assume_node_labels=RACKS)

    assert now["failed"] and "no_node_has_key" in names(now)
    assert not then.get("failed"), then
    assert then["changed"] and "no_node_has_key" not in names(then)


def test_forecast_is_about_the_cluster_with_the_labels(modules: Modules) -> None:
    now, then = modules.rule(forecast_info), modules.rule(forecast_info, assume_node_labels=RACKS)
    only_r2 = modules.rule(forecast_info, assume_node_labels={"w2": RACKS["w2"]})

    assert now["blocking_findings"] == ["no_node_has_key"]
    assert (then["forecast"], then["blocking_findings"]) == ("guaranteed", [])
    assert only_r2["forecast"] == "impossible"


def test_drill_tries_the_domains_of_a_planned_key(modules: Modules) -> None:
    result = modules.run(drill_info, domains_of=[RACK], assume_node_labels=RACKS)

    assert result["counts"]["domains"] == 2


def test_lint_online_finds_no_missing_key_with_the_labels(modules: Modules) -> None:
    now = modules.rule(lint_info, online=True)
    then = modules.rule(lint_info, online=True, assume_node_labels=RACKS)

    assert "no_node_has_key" in names(now)
    assert "no_node_has_key" not in names(then)


def test_unknown_node_is_named_together_with_other_errors(modules: Modules) -> None:
    for module in (rules, forecast_info):
        result = modules.rule(module, assume_node_labels={"w11": {RACK: "r1"}})
        assert "assume_node_labels: there is no node 'w11'" in result["msg"], module
    offline = modules.rule(lint_info, assume_node_labels=RACKS)
    assert "assume_node_labels: needs online" in offline["msg"]
