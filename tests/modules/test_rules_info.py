# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""rules_info against a real control plane; exclude_namespaces of it and of placement_info."""

from __future__ import annotations

import typing as t

import pytest

from ansible_collections.virt.placement.plugins.modules import placement_info, rules_info
from sandbox import Sandbox, objects
from sandbox.pytest_plugin import MakeNamespace
from tests.conftest import RunModule, error_messages

from .rules_task import RulesTask

PIN = {"name": "pin", "workloads": ["db1", "db2"], "run_on": {"zone": "zone1"}}
SPREAD = {"name": "even", "workloads": [{"labels": {"tier": "web"}}], "spread": "zone"}
HALTED = {"instances": 0, "enforced": 0, "violated": 0, "complete": True}


@pytest.fixture
def task(six: Sandbox, run_module: RunModule, namespace: MakeNamespace) -> RulesTask:
    return RulesTask(six, run_module, namespace(six, "listed"))


class ListRules:
    """The module as the identity that only reads; every run must write nothing."""

    def __init__(self, sandbox: Sandbox, run_module: RunModule) -> None:
        self._sandbox = sandbox
        self._run = run_module

    def __call__(self, **options: t.Any) -> dict[str, t.Any]:
        start = self._sandbox.audit.mark()
        params = {"kubeconfig": str(self._sandbox.kubeconfig("reader")), **options}
        result = self._run(rules_info.main, params)
        assert self._sandbox.audit.writes("reader", since=start) == []
        return result


@pytest.fixture
def list_rules(six: Sandbox, run_module: RunModule) -> ListRules:
    return ListRules(six, run_module)


def names_of(result: dict[str, t.Any]) -> list[str]:
    return [f"{rule['rule_set']}/{rule['name']}" for rule in result["rules"]]


def test_a_rule_is_listed_before_and_after_it_is_enforced(
    task: RulesTask, list_rules: ListRules
) -> None:
    for name in ("db1", "db2"):
        task.create(objects.virtual_machine(name))
    task.running("db1", "db2")
    assert list_rules(namespaces=[task.namespace])["rules"] == []
    task({"name": "fast", "workloads": ["db1"], "avoid": {"zone": "zone9"}})
    task(SPREAD | {"workloads": ["db2"]}, rule_set="web")

    result = list_rules(namespaces=[task.namespace], declarations=True)

    assert not result["changed"]
    assert names_of(result) == ["default/fast", "web/even"]
    (fast, even) = result["rules"]
    assert fast["declaration"] == {
        "name": "fast",
        "workloads": ["db1"],
        "avoid": {"zone": "zone9"},
    }
    assert not task(even["declaration"], rule_set="web")["changed"]
    assert (fast["namespace"], fast["enforced"], fast["violated"]) == (task.namespace, False, False)
    assert (fast["type"], fast["preferred"]) == ("avoid", False)
    assert fast["terms"] == ["node affinity topology.kubernetes.io/zone NotIn (zone9)"]
    assert fast["workloads"] == [
        {
            "kind": "VirtualMachine",
            "namespace": task.namespace,
            "name": "db1",
            "complete": True,
            "resting": False,
            "since": fast["since"],
            "instances": 1,
            "enforced": 0,
            "violated": 0,
        }
    ]
    assert result["table"].splitlines()[1].split() == [
        *(f"{task.namespace}/default/fast", "avoid"),
        *("enforced", "by", "0", "of", "1", fast["since"][:10], "db1"),
    ]
    assert (result["permission_gaps"], result["cluster"]["uid"] is None) == ([], False)

    enforced = task.get("VirtualMachine", "db1")["spec"]["template"]
    rests = {"name": "fast", "workloads": ["db1"], "avoid": {"zone": "zone9"}, "enabled": False}
    assert task(rests, check=True)["changed"]
    assert (task(rests)["changed"], task(rests)["changed"]) == (True, False)
    assert "affinity" not in task.get("VirtualMachine", "db1")["spec"]["template"]["spec"]
    (fast, _even) = list_rules(namespaces=[task.namespace])["rules"]
    assert (fast["resting"], fast["type"], fast["terms"]) == (True, "avoid", [])
    assert (fast["enforced"], fast["violated"]) == (False, False)
    task({**rests, "enabled": True})
    assert task.get("VirtualMachine", "db1")["spec"]["template"] == enforced

    task.create(objects.virtual_machine("db3", run_strategy="Halted"))
    task({"name": "later", "workloads": ["db3"], "run_on": {"zone": "zone2"}}, rule_set="halted")
    only = list_rules(workloads=[{"namespace": task.namespace, "name": "db3"}])
    assert list_rules(namespaces=[task.namespace], workloads="db3")["rules"] == only["rules"]
    (later,) = only["rules"]
    assert (later["enforced"], later["violated"]) == (True, False)
    assert HALTED.items() <= later["workloads"][0].items()


def test_namespaces_can_be_excluded(
    six: Sandbox,
    run_module: RunModule,
    namespace: MakeNamespace,
    task: RulesTask,
    list_rules: ListRules,
) -> None:
    other = RulesTask(six, run_module, namespace(six, "other"))
    for place in (task, other):
        place.create(objects.deployment("web", replicas=1, labels={"tier": "web"}))
        deployment = {"kind": "Deployment", "name": "web"}
        place(SPREAD | {"workloads": [deployment]}, workload_rollout="allow")

    def namespaces(**options: t.Any) -> set[str]:
        return {rule["namespace"] for rule in list_rules(**options)["rules"]}

    assert {task.namespace, other.namespace} <= namespaces()
    assert namespaces(exclude_namespaces=[other.namespace]) == namespaces() - {other.namespace}
    both = [task.namespace, other.namespace]
    params = {"kubeconfig": str(six.kubeconfig("reader")), "exclude_namespaces": [other.namespace]}
    result = run_module(placement_info.main, {**params, "details": "all"})
    found = {instance["instance"]["namespace"] for instance in result["instances"]}
    assert found & set(both) <= {task.namespace}

    wrong = list_rules(exclude_namespaces=["no-such"], namespaces=both)
    assert error_messages(wrong) == ["exclude_namespaces: there is no namespace 'no-such'"]
    wrong = list_rules(exclude_namespaces=[other.namespace], namespaces=both)
    assert error_messages(wrong) == [
        f"exclude_namespaces: {other.namespace!r} is also in namespaces"
    ]
    wrong = list_rules(exclude_namespaces=[other.namespace], workloads=[])
    assert error_messages(wrong) == ["exclude_namespaces: cannot be combined with workloads"]
