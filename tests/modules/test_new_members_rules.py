# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The option new_members of the module rules: what a VM that is created later gets, and what a task then writes."""

from __future__ import annotations

import time
import typing as t

import pytest

from ansible_collections.virt.placement.plugins.module_utils.model.kinds import RULES
from ansible_collections.virt.placement.plugins.module_utils.new_members.policy import policy_name
from sandbox import Sandbox, objects
from sandbox.pytest_plugin import MakeNamespace
from tests.conftest import RunModule

from .rules_task import RulesTask, anti_affinity

JSON = t.Any
VM = "VirtualMachine"
POLICY, WARNING = "MutatingAdmissionPolicy", "ValidatingAdmissionPolicy"
APART = {"name": "apart", "workloads": ["web-a", "web-b"], "keep_apart": "zone"}
FAST = {"name": "fast", "workloads": [{"labels": {"tier": "web"}}], "run_on": {"zone": ["zone1"]}}
IN_FORCE = 30.0
"""Seconds in which the API server has a policy that was written, or none that was deleted."""


class PolicyTask(RulesTask):
    """The module with the right to write policies."""

    def __call__(
        self, *listed: dict[str, t.Any], identity: str = "policies-writer", **options: t.Any
    ) -> dict[str, t.Any]:
        return super().__call__(*listed, identity=identity, **options)


@pytest.fixture
def task(six: Sandbox, run_module: RunModule, namespace: MakeNamespace) -> PolicyTask:
    return PolicyTask(six, run_module, namespace(six, "newmembers"))


def machine(name: str, **labels: str) -> JSON:
    return objects.virtual_machine(name, run_strategy="Halted", labels=labels)


def of_set(task: RulesTask, rule_set: str = "default") -> list[str]:
    """The kinds of the policies and bindings of the rule set."""
    name = policy_name(task.namespace, rule_set)
    kinds = (POLICY, f"{POLICY}Binding", WARNING, f"{WARNING}Binding")
    return [
        x
        for x in kinds
        if any(o["metadata"]["name"] == name for o in task.api.list(task.api.path(x)))
    ]


def as_created(task: RulesTask, manifest: JSON) -> JSON:
    """What the API server would make of it."""
    manifest = {**manifest, "metadata": {**manifest["metadata"], "namespace": task.namespace}}
    path = task.api.path(manifest["kind"], task.namespace)
    return task.api.request("POST", path, manifest, query={"dryRun": "All"}).json()


def wait_for_rules(task: RulesTask, manifest: JSON, *names: str) -> None:
    """Until the API server gives a new object exactly these rules."""
    end = time.monotonic() + IN_FORCE
    while True:
        text = as_created(task, manifest)["metadata"].get("annotations", {}).get(RULES, "")
        has = [name for name in ("apart", "fast") if f'/{name}":' in text]
        if has == sorted(names):
            return
        assert time.monotonic() < end, text
        time.sleep(0.1)


def entries(result: JSON, part: str) -> dict[str, list[str]]:
    return {x["code"]: x["objects"] for x in result["outcome"][part]}


def test_vm_that_is_created_later_has_its_rules_and_a_second_task_writes_nothing(
    task: RulesTask,
) -> None:
    task.create(machine("web-a"))
    result = task(APART, FAST, new_members="policy")
    assert "failed" not in result, result["msg"]
    assert [x["kind"] for x in result["writes"]] == [POLICY, f"{POLICY}Binding", VM]
    assert result["new_members"]["covered"] == ["apart", "fast"]
    assert [x["name"] for x in result["new_members"]["expected"]] == ["web-b"]
    # a rollout of what exists: labels that no workload has are an error of its options
    (by_name,) = result["new_members"]["workloads"]
    assert by_name["names"] == ["web-a"]
    assert entries(result, "done")["expected"] == [f"{task.namespace}/web-b"]
    assert [x["kind"] for x in result["new_members"]["manifests"]] == [POLICY, f"{POLICY}Binding"]
    assert of_set(task) == [POLICY, f"{POLICY}Binding"]

    wait_for_rules(task, machine("web-b", tier="web"), "apart", "fast")
    task.create(machine("web-b", tier="web"))
    assert anti_affinity(task.get(VM, "web-b")) == anti_affinity(task.get(VM, "web-a"))
    mark = task.sandbox.audit.mark()
    again = task(APART, FAST, new_members="policy")
    assert not again["changed"]
    assert not task.sandbox.audit.writes(since=mark)
    assert again["new_members"]["expected"] == []
    *by_name, by_labels = again["new_members"]["workloads"]
    assert [x["names"] for x in by_name] == [["web-a"], ["web-b"]]
    assert by_labels["labels"] == {"tier": "web"}
    assert entries(again, "done") == {"unchanged": []}


def test_removed_rules_are_in_no_vm_that_is_created_later(task: PolicyTask) -> None:
    task.create(machine("web-a", tier="web"))
    task(APART, FAST, new_members="policy")
    late = machine("web-b", tier="web")
    wait_for_rules(task, late, "apart", "fast")

    gone = task({"name": "apart"}, state="absent")
    assert [x["kind"] for x in gone["writes"]] == [POLICY, f"{POLICY}Binding", VM]
    assert entries(gone, "done")["policy_rules_removed"] == ["apart"]
    wait_for_rules(task, late, "fast")

    rests = task({"name": "fast", "enabled": False}, new_members="policy")
    assert "failed" not in rests, rests["msg"]
    end = time.monotonic() + IN_FORCE
    while "affinity" in as_created(task, late)["spec"]["template"]["spec"]:
        assert time.monotonic() < end
        time.sleep(0.1)
    wait_for_rules(task, late, "fast")

    pruned = task(prune=True)
    assert entries(pruned, "done")["policy_removed"] == [
        f"{POLICY} {policy_name(task.namespace, 'default')}"
    ]
    assert of_set(task) == []
    wait_for_rules(task, late)
    mark = task.sandbox.audit.mark()
    assert not task(prune=True)["changed"]
    assert not task.sandbox.audit.writes(since=mark)


def test_task_without_the_option_takes_its_rules_out(task: PolicyTask) -> None:
    task.create(machine("web-a", tier="web"))
    task.create(machine("web-b"))
    task(APART, FAST, new_members="policy")
    left = task(FAST)
    assert left["new_members"]["covered"] == ["apart"]
    wait_for_rules(task, machine("web-c", tier="web"))
    assert task(APART)["new_members"]["manifests"] == []
    assert of_set(task) == []


def test_warning_follows_the_policy_and_the_reverse(task: PolicyTask) -> None:
    assert "failed" not in task(FAST, new_members="policy")  # no VM has the label
    assert task(FAST, new_members="warn")["failed"]
    task.create(machine("web-a", tier="web"))
    result = task(FAST, new_members="warn")
    assert "failed" not in result, result["msg"]
    assert of_set(task) == [WARNING, f"{WARNING}Binding"]
    assert not task(FAST, new_members="warn")["changed"]
    task({**FAST, "run_on": {"zone": ["zone2"]}}, new_members="warn")
    other = {"name": "other", "workloads": ["web-a"], "avoid": {"zone": "zone3"}}
    changed = task(FAST, other, new_members="warn")
    assert f"{WARNING}Binding" in [x["kind"] for x in changed["writes"]], changed["msg"]
    task(FAST, new_members="policy")
    assert of_set(task) == [POLICY, f"{POLICY}Binding"]


def test_check_mode_writes_nothing_and_returns_what_is_then_written(task: PolicyTask) -> None:
    mark = task.sandbox.audit.mark()
    planned = task(APART, check=True, diff=True, new_members="policy")
    assert planned["changed"]
    assert not task.sandbox.audit.writes(since=mark)
    written = task(APART, diff=True, new_members="policy")
    for part in ("new_members", "writes", "diff"):
        assert written[part] == planned[part]
    policy, binding = written["diff"]
    apart = f"rule {task.namespace}/default/apart, pod anti-affinity over zone to"
    assert f": + at creation of {VM} web-a" in policy["prepared"]
    assert apart in policy["prepared"]
    assert binding["after"].keys() == {"policyName"}
    path = task.api.path(POLICY, name=policy_name(task.namespace, "default"))
    assert task.api.get(path)["spec"] == planned["new_members"]["manifests"][0]["spec"]


def test_without_the_right_the_manifests_are_returned_and_the_workloads_written(
    task: PolicyTask,
) -> None:
    task.create(machine("web-a"))
    result = task(APART, identity="mover", new_members="policy")
    assert "failed" not in result, result["msg"]
    assert [x["kind"] for x in result["writes"]] == [VM]
    names = entries(result, "skipped")["policy_not_written"]
    assert len(names) == 2
    (following,) = result["outcome"]["next"]
    assert "rbac/policies-writer.yml" in following["text"]
    for manifest in result["new_members"]["manifests"]:  # an administrator applies them
        task.api.create(task.api.path(manifest["kind"]), manifest)
    assert not task(APART, identity="mover", new_members="policy")["changed"]
    wait_for_rules(task, machine("web-b"), "apart")


def test_object_of_others_with_the_name_of_the_policy_stays_as_it_is(task: PolicyTask) -> None:
    task.create(machine("web-a"))
    manifest = task(APART, check=True, new_members="policy")["new_members"]["manifests"][0]
    theirs = {**manifest, "metadata": {"name": manifest["metadata"]["name"]}}
    made = task.api.create(task.api.path(POLICY), theirs)
    mark = task.sandbox.audit.mark()
    result = task(APART, new_members="policy")
    assert result["failed"]
    assert "exists, and is none that this rule set has made" in result["msg"]
    assert not [x for x in task.sandbox.audit.writes(since=mark) if x.code < 400]
    path = task.api.path(POLICY, name=made["metadata"]["name"])
    assert task.api.get(path)["metadata"]["resourceVersion"] == made["metadata"]["resourceVersion"]
    task.api.delete(path)


def test_expected_deployment_starts_no_rollout(task: PolicyTask) -> None:
    cache = {"kind": "Deployment", "names": ["cache"]}
    result = task({**FAST, "workloads": [cache]}, new_members="policy")
    assert "failed" not in result, result["msg"]
    assert result["findings"] == []
    assert [x["name"] for x in result["new_members"]["expected"]] == ["cache"]
    kinds = [x["kind"] for x in result["writes"] if "patch" in x]  # it stands in the manifests
    assert kinds == []


def test_name_that_no_object_can_have_is_not_expected(task: PolicyTask) -> None:
    result = task({**FAST, "workloads": ["Web_B"]}, new_members="policy")
    assert "there is no VirtualMachine 'Web_B'" in result["msg"]
    assert "new_members" not in result["msg"]
    assert of_set(task) == []


def test_missing_workload_is_told_the_option_for_those_that_come_later(task: PolicyTask) -> None:
    result = task({**FAST, "workloads": ["db-1"]})
    assert result["msg"].endswith("or take them out of the rule.")
    both = {**APART, "workloads": ["web-a", {"labels": {"tier": "web"}}]}
    text = task(both, new_members="policy")["msg"]
    assert "created later cannot have the rule: rule apart writes terms" in text


def test_binding_that_is_left_of_a_deleted_policy_is_taken_over(task: PolicyTask) -> None:
    task(FAST, new_members="policy")
    task.api.delete(task.api.path(POLICY, name=policy_name(task.namespace, "default")))
    assert of_set(task) == [f"{POLICY}Binding"]
    again = task(FAST, new_members="policy")
    assert "failed" not in again, again["msg"]
    assert of_set(task) == [POLICY, f"{POLICY}Binding"]
    assert not task(FAST, new_members="policy")["changed"]


def test_manifests_are_those_of_the_set_where_nothing_is_removed(task: PolicyTask) -> None:
    written = task(FAST, new_members="policy")["new_members"]["manifests"]
    result = task({"name": "other"}, state="absent", new_members="policy")
    assert not result["changed"]
    assert result["new_members"]["manifests"] == written


@pytest.mark.parametrize(
    "options",
    [
        {"prune": True},
        {"rules": [{"name": "fast"}], "state": "absent"},
        {"rules": [{"name": "fast", "enabled": False}], "new_members": "policy"},
        {"rules": [FAST]},
        {"state": "reverted"},
    ],
    ids=["prune", "absent", "rests", "none", "undo"],
)
def test_rules_that_a_policy_would_go_on_giving_stay_in_the_workloads(
    task: PolicyTask, options: dict[str, t.Any]
) -> None:
    """Of an identity that may not write the policy. An administrator's step is the way out."""
    task.create(machine("web-a", tier="web"))
    task(FAST, new_members="policy")
    mark = task.sandbox.audit.mark()
    for check in (True, False):
        result = task(identity="mover", check=check, **options)
        assert result["failed"]
        assert [x["type"] for x in result["errors"]] == ["permission"]
        name = f"{POLICY} {policy_name(task.namespace, 'default')}"
        assert f"rule fast would stay in {name}" in result["msg"]
        assert "rbac/policies-writer.yml" in result["msg"]
        assert entries(result, "done") == {"none_written": []}
        assert not result["changed"]
    assert not task.sandbox.audit.writes(since=mark)
    manifests = result["new_members"]["manifests"]
    for manifest in manifests:  # an administrator applies them, or deletes the policy
        path = task.api.path(manifest["kind"], name=manifest["metadata"]["name"])
        made = task.api.get(path)["metadata"]["resourceVersion"]
        manifest["metadata"]["resourceVersion"] = made
        task.api.request("PUT", path, manifest)
    if not manifests:
        name = policy_name(task.namespace, "default")
        assert f"kubectl delete {POLICY.lower()},{POLICY.lower()}binding {name}" in result["msg"]
        for kind in (POLICY, f"{POLICY}Binding"):
            task.api.delete(task.api.path(kind, name=name))
    after = task(identity="mover", **options)
    assert "failed" not in after, after["msg"]
    keeps = options == {"rules": [FAST]}
    assert [x["kind"] for x in after["writes"]] == ([] if keeps else [VM])
    wait_for_rules(task, machine("web-b", tier="web"), *(["fast"] if manifests else []))


def test_undo_names_the_vm_that_the_policy_gave_the_rule(task: PolicyTask) -> None:
    task.create(machine("web-a", tier="web"))
    task(FAST, new_members="policy")
    late = machine("web-b", tier="web")
    wait_for_rules(task, late, "fast")
    task.create(late)
    undone = task(state="reverted")
    assert "failed" not in undone, undone["msg"]
    assert [x["name"] for x in undone["reverted"]] == ["web-a"]
    assert [x["name"] for x in undone["not_reverted"]] == ["web-b"]
    assert entries(undone, "skipped") == {"not_reverted": [f"{task.namespace}/web-b"]}
    (finding,) = [x for x in undone["findings"] if x["name"] == "not_reverted"]
    assert "state absent" in finding["advice"]
    gone = task({"name": "fast"}, state="absent")
    assert [x["name"] for x in gone["writes"]] == ["web-b"]
