# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What placement_info and rules_info see of the policies of rule sets, and of VMs that are created under them."""

from __future__ import annotations

import copy
import typing as t

import pytest

from ansible_collections.virt.placement.plugins.module_utils.model.admission_policy import (
    MUTATING,
    POLICY_API,
    POLICY_LISTS,
)
from ansible_collections.virt.placement.plugins.module_utils.model.kinds import RULES
from ansible_collections.virt.placement.plugins.module_utils.model.objects import Namespace
from ansible_collections.virt.placement.plugins.module_utils.new_members.members import new_members
from ansible_collections.virt.placement.plugins.module_utils.new_members.policy import (
    mutating_policy,
    warning_policy,
)
from ansible_collections.virt.placement.plugins.module_utils.new_members.stored import rules_text
from ansible_collections.virt.placement.plugins.modules import placement_info, rules_info
from sandbox import Sandbox, objects
from sandbox.pytest_plugin import MakeNamespace
from tests.conftest import RunModule
from tests.modules.rules_task import RulesTask
from tests.parsed import parsed
from tests.unit.rules import builders

Object = dict[str, t.Any]
VM = "VirtualMachine"
ZONE = "topology.kubernetes.io/zone"
RULE = {"name": "one", "run_on": {ZONE: "zone1"}, "workloads": [{"labels": {"app": "x"}}]}
OF_POLICIES = ("new_members_not_covered", "policy_of_no_rule", "policy_refused", "policy_stale")
MAKERS = {"policy": mutating_policy, "warn": warning_policy}


class Seen:
    """A namespace with a rule for VMs with the label app, and its policies."""

    def __init__(self, task: RulesTask, run_module: RunModule) -> None:
        self.task = task
        self.namespace = task.namespace
        self._run = run_module
        self.written: list[str] = []

    def vm(self, name: str, **metadata: t.Any) -> Object:
        manifest = objects.virtual_machine(
            name, self.namespace, labels={"app": "x"}, run_strategy="Halted"
        )
        manifest["metadata"] |= metadata
        return manifest

    def manifests(
        self, how: str = "policy", rule: Object | None = None, more: t.Sequence[Object] = ()
    ) -> list[Object]:
        rules = parsed([rule or RULE, *more], namespace=self.namespace, rule_set="default")
        snapshot = builders.snapshot(namespaces=(Namespace(self.namespace),))
        policy, binding = MAKERS[how](
            self.namespace, "default", new_members(rules, snapshot).members
        )
        policy = copy.deepcopy(policy)
        policy["metadata"]["annotations"][RULES] = rules_text(rules)
        return [policy, binding]

    def path(self, manifest: Object) -> str:
        plural = POLICY_LISTS[manifest["kind"]]
        return f"/apis/{POLICY_API}/{plural}/{manifest['metadata']['name']}"

    def write(self, *manifests: Object) -> None:
        for manifest in manifests:
            path = self.path(manifest)
            self.task.api.delete(path)
            self.task.api.create(path.rpartition("/")[0], manifest)
            self.written.append(path)
        if manifests[0]["kind"] == MUTATING:
            self.task.api.wait(lambda _policy: self._gives_rules(), self.written[0])

    def _gives_rules(self) -> bool:
        path = f"{self.task.api.path(VM, self.namespace)}?dryRun=All"
        made = self.task.api.create(path, self.vm("trial"))
        return RULES in (made["metadata"].get("annotations") or {})

    def findings(self) -> dict[str, Object]:
        """The findings about policies and copies, by name."""
        names = (*OF_POLICIES, "copied_annotation", "rule_not_on_new_member")
        return {x["name"]: x for x in self.verify()["findings"] if x["name"] in names}

    def verify(self) -> Object:
        return self._module(placement_info.main, details="all")

    def rules(self, **options: t.Any) -> list[Object]:
        listed: list[Object] = self._module(rules_info.main, **options)["rules"]
        return listed

    def covered(self) -> str:
        """How both modules say that new members get the rule."""
        (rule,) = self.rules()
        (verified,) = self.verify()["new_members"]
        assert verified["rule"] == f"{self.namespace}/default/one"
        assert verified["new_members"] == rule["new_members"]
        return str(rule["new_members"])

    def _module(self, main: t.Callable[[], None], **options: t.Any) -> Object:
        kubeconfig = str(self.task.sandbox.kubeconfig("reader"))
        return self._run(
            main, {"kubeconfig": kubeconfig, "namespaces": [self.namespace], **options}
        )

    def remove(self) -> None:
        for path in self.written:
            self.task.api.delete(path)


@pytest.fixture
def seen(six: Sandbox, run_module: RunModule, namespace: MakeNamespace) -> t.Iterator[Seen]:
    task = RulesTask(six, run_module, namespace(six, "seen"))
    made = Seen(task, run_module)
    task.create(made.vm("a"))
    assert "failed" not in task(RULE)
    yield made
    made.remove()


def test_rules_without_a_policy_are_said_once_and_with_one_never(seen: Seen) -> None:
    seen.task.create(seen.vm("b"))
    seen.task(RULE)
    assert seen.findings().keys() == {"new_members_not_covered"}
    assert seen.covered() == "none"
    for how in ("warn", "policy"):
        seen.write(*seen.manifests(how))
        assert seen.findings() == {}, how
        assert seen.covered() == how


def test_rule_that_only_the_policy_has_is_listed_until_a_vm_has_it(seen: Seen) -> None:
    """Issue 46: names that are expected before an import were in no list of rules."""
    named = {"name": "two", "run_on": RULE["run_on"], "workloads": ["import-1", "import-2"]}
    seen.write(*seen.manifests(more=[named]))

    one, two = seen.rules(declarations=True)

    assert (one["name"], [x["name"] for x in one["workloads"]]) == ("one", ["a"])
    assert (two["name"], two["type"], two["new_members"]) == ("two", "run_on", "policy")
    assert (two["workloads"], two["enforced"], two["since"]) == ([], False, None)
    assert two["declaration"]["workloads"] == named["workloads"]
    verified = [
        (x["rule"].rpartition("/")[2], x["new_members"]) for x in seen.verify()["new_members"]
    ]
    assert verified == [("one", "policy"), ("two", "policy")]
    again = seen.task(RULE, two["declaration"], new_members="policy")
    assert (again.get("failed"), again["changed"]) == (None, False)
    seen.task.create(seen.vm("import-1"))
    (_one, two) = seen.rules()
    assert [x["name"] for x in two["workloads"]] == ["import-1"]


def test_policy_that_an_administrator_stopped_or_changed_is_found(seen: Seen) -> None:
    policy, binding = seen.manifests()
    seen.write(policy, binding)
    seen.task.api.delete(seen.path(binding))
    assert "has no binding" in seen.findings()["policy_refused"]["why"]
    assert seen.covered() == "none"
    limited = copy.deepcopy(binding)
    limited["spec"]["matchResources"] = {"objectSelector": {"matchLabels": {"env": "prod"}}}
    seen.task.api.create(seen.path(binding).rpartition("/")[0], limited)
    assert "for a part of the workloads" in seen.findings()["policy_refused"]["why"]
    seen.task.api.delete(seen.path(binding))
    seen.task.api.create(seen.path(binding).rpartition("/")[0], binding)
    changed = {"spec": {"matchConditions": [{"name": "never", "expression": "false"}]}}
    seen.task.api.patch(seen.path(policy), changed, type="merge")
    assert "another client changed its spec" in seen.findings()["policy_stale"]["why"]
    assert seen.covered() == "unknown"


def test_policy_with_other_rules_than_its_workloads_is_found(seen: Seen) -> None:
    seen.write(*seen.manifests(rule={**RULE, "run_on": {ZONE: "zone2"}}))
    assert seen.findings().keys() == {"policy_stale"}


def test_policy_whose_rules_were_removed_is_found(seen: Seen) -> None:
    assert "failed" not in seen.task({"name": "one"}, state="absent")
    seen.write(*seen.manifests())
    (name,) = seen.findings()["policy_of_no_rule"]["objects"]
    assert name == f"{MUTATING} {seen.manifests()[0]['metadata']['name']}"


def test_vm_that_a_rule_of_the_policy_names_and_that_lacks_it_is_found(seen: Seen) -> None:
    """Issue 46: created before its policy was in force, and after a replace, with labels of no rule."""
    named = {"name": "two", "run_on": RULE["run_on"], "workloads": ["late", "later"]}
    early = seen.vm("late")
    early["spec"]["template"]["metadata"]["labels"]["app"] = "other"
    seen.task.create(early)
    seen.write(*seen.manifests(more=[named]))
    found = seen.findings()
    assert found.keys() == {"rule_not_on_new_member"}
    missing = found["rule_not_on_new_member"]
    assert (missing["objects"], missing["rule"]) == ([f"{VM} {seen.namespace}/late"], "two")
    assert "failed" not in seen.task(RULE, named, new_members="policy")
    assert seen.findings() == {}
    written = seen.task.get(VM, "late")
    replaced = {**early, "metadata": {**early["metadata"], "uid": written["metadata"]["uid"]}}
    replaced["metadata"]["resourceVersion"] = written["metadata"]["resourceVersion"]
    seen.task.api.put(seen.task.api.path(VM, seen.namespace, "late"), replaced)
    assert seen.findings().keys() == {"rule_not_on_new_member"}


def test_clone_and_restored_vm_are_copies_and_others_have_their_rule(seen: Seen) -> None:
    """A clone has the annotation of its source, and a VM that was restored its own, of another uid."""
    seen.write(*seen.manifests())
    source = seen.task.get(VM, "a")
    copied = {"annotations": {RULES: source["metadata"]["annotations"][RULES]}}
    template = source["spec"]["template"]
    for name in ("clone", "new"):
        manifest = seen.vm(name, **(copied if name == "clone" else {}))
        if name == "clone":
            manifest["spec"]["template"] = copy.deepcopy(template)
        seen.task.create(manifest)
    seen.task.api.delete(seen.task.api.path(VM, seen.namespace, "a"))
    restored = seen.vm("a", **copied)
    restored["spec"]["template"] = copy.deepcopy(template)
    seen.task.api.wait_gone(seen.task.api.path(VM, seen.namespace, "a"))
    seen.task.create(restored)
    found = seen.findings()
    assert found.keys() == {"copied_annotation"}
    assert found["copied_annotation"]["objects"] == [
        f"{VM} {seen.namespace}/a",
        f"{VM} {seen.namespace}/clone",
    ]
    made = seen.task.get(VM, "new")
    assert '"uid":"name:new"' in made["metadata"]["annotations"][RULES]


def test_vm_of_argo_cd_has_a_finding_once_a_task_has_changed_its_rule(seen: Seen) -> None:
    """Nothing reverts what a policy wrote at the creation. docs/new-members.md says how a later change reaches it."""
    seen.write(*seen.manifests())
    path = seen.task.api.path(VM, seen.namespace, "argo")
    manifest = seen.vm("argo", annotations={"argocd.argoproj.io/tracking-id": "shop:VM/argo"})
    apply = {"fieldManager": "argocd-controller", "force": "true"}

    def sync() -> set[str]:
        kind = "application/apply-patch+yaml"
        seen.task.api.request("PATCH", path, manifest, query=apply, content_type=kind)
        of_vm = f"{VM} {seen.namespace}/argo"
        return {x["name"] for x in seen.verify()["findings"] if of_vm in x["objects"]}

    assert not {"externally_managed", "rule_not_on_new_member"} & sync()
    changed = {**RULE, "run_on": {ZONE: "zone2"}}
    refused = seen.task(changed, new_members="policy")
    assert [x["name"] for x in refused["findings"]] == ["externally_managed"]
    allowed = {**changed, "allow_findings": ["externally_managed"]}
    assert "failed" not in seen.task(allowed, new_members="policy")
    assert "externally_managed" in sync()
    assert "zone2" in str(seen.task.get(VM, "argo")["spec"]["template"])
