# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Bad input to the module rules: one message that names every fault, and not a single write."""

from __future__ import annotations

import typing as t

import pytest

from sandbox import Sandbox, objects
from sandbox.pytest_plugin import MakeNamespace
from tests.conftest import RunModule, error_messages

from .rules_task import RulesTask, machine_and_deployment

WHO: dict[str, t.Any] = {"workloads": [{"name": "web"}]}
GOOD: dict[str, t.Any] = {**WHO, "run_on": {"zone": "zone1"}}


@pytest.fixture(scope="module")
def shop(six: Sandbox) -> t.Iterator[str]:
    """A namespace with one machine and one Deployment, which no test here may change."""
    name = "bad-input"
    with machine_and_deployment(six, name):
        yield name


@pytest.fixture
def task(six: Sandbox, run_module: RunModule, shop: str) -> RulesTask:
    return RulesTask(six, run_module, shop)


def _refused(task: RulesTask, *rules: t.Any, **options: t.Any) -> dict[str, t.Any]:
    start = task.sandbox.audit.mark()
    result = task(*rules, **options)
    assert result["failed"]
    assert not result["changed"]
    assert not task.sandbox.audit.writes(since=start)
    return result


def test_findings_of_valid_rules_are_reported_with_the_errors_of_invalid_ones(
    task: RulesTask,
) -> None:
    result = _refused(
        task,
        {"name": "key", **WHO, "keep_apart": {"topology_key": "example.com/rack"}},
        {"name": "form", **WHO, "spread": {"topology_key": "zone", "max_skew": 0}},
        {"name": "nowhere", **WHO, "run_on": {"zone": "zone9"}},
        {"name": "who", "workloads": [{"name": "gone"}], "run_on": {"zone": "zone9"}},
    )
    assert [fault.split(":")[0] for fault in error_messages(result)] == [
        "rules[0] key",
        "rules[1] form, spread.max_skew",
        "rules[2] nowhere",
        "rules[3] who, workloads[0]",
    ]
    assert error_messages(result)[0].startswith(
        "rules[0] key: no_node_has_key (VirtualMachine bad-input/web): "
    )
    assert error_messages(result)[2].startswith(
        "rules[2] nowhere: unsatisfiable (VirtualMachine bad-input/web): "
    )


@pytest.mark.parametrize(
    ("options", "fault"),
    [
        (
            {"namespace": "bad-inputt"},
            "namespace: there is no namespace 'bad-inputt'; did you mean",
        ),
        (
            {"rules": [{"name": "a/b", **GOOD}]},
            "rules[0], name: 'a/b' is not a valid name of a rule",
        ),
        ({"rules": [{"name": 5, **GOOD}]}, "rules[0], name: must be text, not the number 5: quote"),
        ({"rules": {"name": "x"}}, "rules: must be a list of rules"),
        ({"rule_set": "a/b"}, "rule_set: 'a/b' is not a valid name of a rule set"),
        ({"state": "absent", "prune": True}, "prune: goes with state present"),
    ],
)
def test_options_are_checked_too(task: RulesTask, options: dict[str, t.Any], fault: str) -> None:
    result = _refused(task, **options)
    assert fault in result["msg"]
    assert len(error_messages(result)) == 1


def test_invalid_namespace_is_one_error(task: RulesTask) -> None:
    for namespace in ("", "a/b", "bad-inputt"):
        assert len(error_messages(_refused(task, {"name": "a", **GOOD}, namespace=namespace))) == 1


def test_the_misspelt_key_of_the_article_is_refused_with_a_finding(task: RulesTask) -> None:
    beside = {"with": {"kind": "Deployment", "name": "cache"}}
    rule = {**WHO, "name": "beside", "keep_together": {**beside, "topology_key": _HOSTNAME}}
    result = _refused(task, rule)
    assert "rule beside, no_node_has_key (VirtualMachine bad-input/web): No node" in result["msg"]
    assert "kubernetes.io/hostname may be meant" in result["msg"]
    errors = [each["name"] for each in result["findings"] if each["severity"] == "error"]
    assert errors == ["no_node_has_key"]


_HOSTNAME = "topology.kubernetes.io/hostname"


def test_without_rights_the_verb_and_the_resource_are_named(task: RulesTask) -> None:
    result = _refused(task, {"name": "a", **GOOD}, identity="nobody")
    assert "list" in result["msg"]
    assert "virtualmachines" in result["msg"]


@pytest.mark.parametrize("check", [False, True])
def test_every_right_that_is_missing_is_named_before_the_first_write(
    task: RulesTask, check: bool
) -> None:
    cache = {"workloads": [{"kind": "Deployment", "name": "cache"}], "avoid": {"zone": "zone1"}}
    rules = ({"name": "a", **GOOD}, {"name": "b", **cache, "preferred": True})
    result = _refused(task, *rules, identity="reader", workload_rollout="allow", check=check)
    message = (
        "rights: this identity may not patch deployments.apps in namespace bad-input, nor patch"
        " virtualmachines.kubevirt.io in namespace bad-input: grant this identity the ClusterRole"
        " virt-placement-mover (rbac/mover.yml); this identity is virt-placement:reader"
    )
    assert result["errors"] == [{"type": "permission", "message": message, "object": "rights"}]
    assert result["msg"] == message


def _grant(task: RulesTask, *rules: dict[str, t.Any]) -> None:
    """These rights in the namespace of the task to the one who may only read."""
    group = "rbac.authorization.k8s.io"
    user = {"kind": "User", "apiGroup": group, "name": task.sandbox.username("reader")}
    of_role = {"kind": "Role", "apiGroup": group, "name": "some"}
    for kind, body in (
        ("Role", {"rules": list(rules)}),
        ("RoleBinding", {"subjects": [user], "roleRef": of_role}),
    ):
        manifest = {"apiVersion": f"{group}/v1", "kind": kind, "metadata": {"name": "some"}, **body}
        task.create(manifest)


MACHINES = {"apiGroups": ["kubevirt.io"], "resources": ["virtualmachines"], "verbs": ["patch"]}
INSTANCES = {**MACHINES, "resources": ["virtualmachineinstances"]}


def test_a_label_needs_the_right_to_patch_pods_too(
    six: Sandbox, run_module: RunModule, namespace: MakeNamespace
) -> None:
    task = RulesTask(six, run_module, namespace(six, "rules"))
    _grant(task, MACHINES, INSTANCES)
    task.create(objects.virtual_machine("web"))
    task.running("web")
    label = {"name": "group", **WHO, "label": {"group.example/x": "y"}}
    result = _refused(task, label, identity="reader")
    assert [fault.split(":")[1] for fault in error_messages(result)] == [
        f" this identity may not patch pods in namespace {task.namespace}"
    ]
    on_nodes = {"name": "nodes", **WHO, "run_on": {"zone": "zone1"}}
    assert task(on_nodes, identity="reader")["changed"]


def test_a_right_for_the_objects_by_name_is_enough(
    six: Sandbox, run_module: RunModule, namespace: MakeNamespace
) -> None:
    task = RulesTask(six, run_module, namespace(six, "rules"))
    _grant(task, {**MACHINES, "resourceNames": ["web"]})
    for name in ("web", "other"):
        task.create(objects.virtual_machine(name, run_strategy="Halted"))
    both = {"workloads": [{"names": ["web", "other"]}], "run_on": {"zone": "zone1"}}
    assert len(error_messages(_refused(task, {"name": "a", **both}, identity="reader"))) == 1
    assert task({"name": "a", **GOOD}, identity="reader")["changed"]


def test_another_cluster_is_left_alone(task: RulesTask) -> None:
    result = _refused(task, {"name": "a", **GOOD}, cluster_uid="not-this-one")
    assert "cluster_uid says not-this-one: nothing was done" in result["msg"]


def test_vm_rule_without_kubevirt_is_refused(
    plain: Sandbox, run_module: RunModule, namespace: MakeNamespace
) -> None:
    task = RulesTask(plain, run_module, namespace(plain, "rules"))
    result = _refused(task, {"name": "a", **GOOD})
    assert "rules[0] a, workloads[0]: KubeVirt is not installed on this cluster" in result["msg"]
    task.create(objects.deployment("cache", replicas=1))
    rule = {"name": "b", "workloads": [{"kind": "Deployment", "name": "cache"}]}
    written = task({**rule, "keep_apart": {"topology_key": "zone"}}, workload_rollout="allow")
    assert written["counts"]["changed"] == 1
