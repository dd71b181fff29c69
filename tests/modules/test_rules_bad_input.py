# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Bad input to the module rules: one message that names every fault, and not a single write."""

from __future__ import annotations

import typing as t

import pytest

from sandbox import Sandbox, objects
from sandbox.pytest_plugin import MakeNamespace
from tests.conftest import RunModule

from .rules_task import RulesTask

WHO: dict[str, t.Any] = {"workloads": [{"name": "web"}]}
GOOD: dict[str, t.Any] = {**WHO, "run_on": {"zone": "zone1"}}


@pytest.fixture(scope="module")
def shop(six: Sandbox) -> t.Iterator[str]:
    """A namespace with one machine and one Deployment, which no test here may change."""
    name = "bad-input"
    six.api.create(six.api.path("Namespace"), {"metadata": {"name": name}})
    machine = objects.virtual_machine("web", name, run_strategy="Halted")
    cache = objects.deployment("cache", name, replicas=0)
    for manifest in (machine, cache):
        six.api.create(six.api.path(manifest["kind"], name), manifest)
    yield name
    six.api.delete(six.api.path("Namespace", name=name))


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


@pytest.mark.parametrize(
    ("rule", "fault"),
    [
        pytest.param(
            {"workloads": [{"name": "wep"}], "run_on": {"zone": "a"}},
            "workloads[0]: there is no VirtualMachine 'wep' in namespace 'bad-input'; did you mean"
            " 'web'?",
            id="unknown workload",
        ),
        pytest.param(
            {"workloads": [{"name": "cache"}], "run_on": {"zone": "a"}},
            "workloads[0]: there is no VirtualMachine 'cache' in namespace 'bad-input'; there is a"
            " Deployment of that name, say so with kind",
            id="wrong kind",
        ),
        pytest.param(
            {"workloads": [{"name": "web", "namespace": "elsewhere"}], "run_on": {"zone": "a"}},
            "workloads[0].namespace: a rule is about workloads of its own namespace, bad-input:"
            " write the ones in elsewhere in a task of theirs, or as target of from or with",
            id="foreign namespace",
        ),
        pytest.param(
            {**WHO, "keep_apart": {"over": "zone", "from": {"name": "x", "namespace": "no"}}},
            "keep_apart.from: there is no namespace 'no'",
            id="unknown namespace of a target",
        ),
        pytest.param(
            {**WHO, "run_on": {"zone": "a"}, "spread": {"over": "zone"}},
            "has 2 verbs (run_on, spread): make one rule of each",
            id="two verbs",
        ),
        pytest.param(
            WHO,
            "says nothing: give it one of run_on, avoid, keep_apart, keep_together, spread, terms,"
            " or a label",
            id="neither verb nor label",
        ),
        pytest.param(
            {"run_on": {"zone": "a"}},
            "workloads: is missing: say whom the rule is about; an empty list is nobody",
            id="no workloads",
        ),
        pytest.param(
            {**GOOD, "preferred": True, "weight": 101},
            "weight: must be a whole number from 1 to 100, not 101",
            id="weight out of range",
        ),
        pytest.param(
            {**GOOD, "weight": 10},
            "weight: goes only with preferred: a required rule has no weight",
            id="weight without preferred",
        ),
        pytest.param(
            {**WHO, "spread": {"over": "zone"}, "preferred": True, "weight": 5},
            "weight: does not go with spread: the scheduler knows no weight there",
            id="weight of a spread",
        ),
        pytest.param(
            {**WHO, "label": {"no good": "x"}},
            "label: 'no good' is no label key",
            id="label key",
        ),
        pytest.param(
            {**WHO, "label": {"tier": "a b"}},
            "label.tier: 'a b' is no label value",
            id="label value",
        ),
        pytest.param(
            {**WHO, "label": {"kubevirt.io/created-by": "x"}},
            "label: 'kubevirt.io/created-by' is a label of KubeVirt and Kubernetes",
            id="label of KubeVirt",
        ),
        pytest.param(
            {**GOOD, "allow_findings": ["never_meet"]},
            "allow_findings: 'never_meet' is no finding; did you mean 'never_met'",
            id="unknown finding",
        ),
        pytest.param(
            {"workloads": {"name": "web"}, "run_on": {"zone": "zone1"}},
            "workloads: must be a list of maps with name, names or labels, not a map",
            id="workloads are no list",
        ),
        pytest.param(
            {**WHO, "label": {"a": "1", "b": "2"}},
            "label: takes one key with its value, not 2",
            id="two labels",
        ),
        pytest.param(
            {**WHO, "keep_apart": {"over": "zon"}},
            "keep_apart.over: topology key 'zon' is not declared: add it to topology_keys or write"
            " the full label key with its prefix; did you mean zone?",
            id="undeclared bare key",
        ),
        pytest.param(
            {"workloads": [{"labels": {}}], "run_on": {"zone": "a"}},
            "workloads[0].labels: is empty: an empty selector would match everything, so name a"
            " label",
            id="empty selector",
        ),
        pytest.param({**WHO, "run_on": {}}, "run_on: is empty", id="nothing to run on"),
        pytest.param(
            {**WHO, "run_on": {"zone": []}}, "run_on.zone: is an empty list", id="no value"
        ),
        pytest.param({**WHO, "run_on": {"zone": ""}}, "run_on.zone: must not be empty", id="empty"),
        pytest.param(
            {**WHO, "run_on": {"zone": True}},
            "run_on.zone: must be text, not the boolean true: quote it",
            id="boolean for text",
        ),
        pytest.param(
            {**WHO, "run_on": {"zone": 1.5}},
            "run_on.zone: must be text, not the number 1.5: quote it",
            id="float for text",
        ),
        pytest.param(
            {"workloads": [{"kind": "Pod", "name": "x"}], "run_on": {"zone": "a"}},
            "workloads[0].kind: a Pod has no template to put a rule in",
            id="kind without template",
        ),
        pytest.param(
            {"workloads": [{"kind": "DaemonSet", "name": "x"}], "run_on": {"zone": "a"}},
            "workloads[0].kind: rules cannot be put on a DaemonSet, it is only read",
            id="kind that is only read",
        ),
        pytest.param(
            {"workloads": [{"kind": "StatefulSet", "name": "x"}], "run_on": {"zone": "a"}},
            "workloads[0].kind: StatefulSet is not supported yet",
            id="kind to come",
        ),
        pytest.param(
            {"workloads": [{"kind": "VirtualMachin", "name": "x"}], "run_on": {"zone": "a"}},
            "workloads[0].kind: 'VirtualMachin' is no kind of workload: use one of VirtualMachine,"
            " VirtualMachineInstanceReplicaSet, Deployment; did you mean 'VirtualMachine' or",
            id="misspelt kind",
        ),
        pytest.param(
            {"workloads": [{"name": "a", "labels": {"x": "y"}}], "run_on": {"zone": "a"}},
            "workloads[0]: must name workloads by one of name, names or labels, and has name and"
            " labels",
            id="two ways to name",
        ),
        pytest.param(
            {**WHO, "keep_apart": {"ovr": "zone"}},
            "keep_apart: unknown option 'ovr'; did you mean 'over'?",
            id="unknown suboption",
        ),
        pytest.param(
            {**WHO, "keep_togehter": {"over": "zone"}},
            "unknown option 'keep_togehter'; did you mean 'keep_together'",
            id="unknown option",
        ),
        pytest.param(
            {**WHO, "spread": {"over": "zone", "max_skew": 0}},
            "spread.max_skew: must be a whole number of at least 1, not 0",
            id="max_skew",
        ),
        pytest.param(
            {**WHO, "keep_together": {"over": "zone", "with": {"name": "a"}, "leader": {}}},
            "keep_together: takes one of with, leader and pods, not with and leader",
            id="two targets",
        ),
        pytest.param(
            {**WHO, "terms": {"affinity": {"podAffinty": {}}}},
            "terms.affinity: unknown option 'podAffinty'; did you mean 'podAffinity'",
            id="unknown field of a term",
        ),
        pytest.param(
            {**WHO, "terms": {"tolerations": [{"operator": "exists"}]}},
            "terms.tolerations[0].operator: supported values:",
            id="term that the API refuses",
        ),
        pytest.param({**WHO, "terms": {}}, "terms: says nothing", id="no terms"),
        pytest.param(
            {**GOOD, "preferred": "perhaps"},
            "preferred: must be true or false, not 'perhaps'",
            id="no boolean",
        ),
    ],
)
def test_a_fault_is_named_with_its_rule_and_index(
    task: RulesTask, rule: dict[str, t.Any], fault: str
) -> None:
    result = _refused(task, {"name": "good", **GOOD}, {"name": "bad", **rule})
    found = [each for each in result["faults"] if fault in each]
    assert found, result["faults"]
    assert found[0].startswith("rules[1] bad")


def test_all_faults_of_all_rules_are_in_one_message(task: RulesTask) -> None:
    result = _refused(
        task,
        {"name": "a", **GOOD},
        {"name": "a", "workloads": [{"name": "nobody"}], "run_on": {"zne": "x"}},
        {"workloads": [{"names": ["web", "wob"]}], "spread": {"over": "zone"}},
        {"name": "late", "workloads": [{"name": "gone"}], "label": {"k": "v"}},
        "text",
    )
    assert result["msg"].startswith("7 errors:\n- ")
    for part in (
        "rules[1] a: has the same name as rules[0]",
        "rules[1] a, run_on.zne: topology key 'zne' is not declared",
        "rules[2]: needs a name",
        "rules[3] late, workloads[0]: there is no VirtualMachine 'gone'",
        "rules[4]: must be a map of name, workloads,",
    ):
        assert part in result["msg"], part


def test_what_the_cluster_says_against_sound_rules_is_told_with_the_faults_of_others(
    task: RulesTask,
) -> None:
    result = _refused(
        task,
        {"name": "key", **WHO, "keep_apart": {"over": "example.com/rack"}},
        {"name": "form", **WHO, "spread": {"over": "zone", "max_skew": 0}},
        {"name": "nowhere", **WHO, "run_on": {"zone": "zone9"}},
        {"name": "who", "workloads": [{"name": "gone"}], "run_on": {"zone": "zone9"}},
    )
    assert [fault.split(":")[0] for fault in result["faults"]] == [
        "rules[0] key",
        "rules[1] form, spread.max_skew",
        "rules[2] nowhere",
        "rules[3] who, workloads[0]",
    ]
    assert result["faults"][0].startswith(
        "rules[0] key: key_on_no_node (VirtualMachine bad-input/web): "
    )
    assert result["faults"][2].startswith(
        "rules[2] nowhere: never_met (VirtualMachine bad-input/web): "
    )


@pytest.mark.parametrize(
    ("options", "fault"),
    [
        (
            {"namespace": "bad-inputt"},
            "namespace: there is no namespace 'bad-inputt'; did you mean",
        ),
        ({"namespace": ""}, "namespace: must be a name without a slash, not ''"),
        ({"rules": [{"name": "a/b", **GOOD}]}, "rules[0], name: 'a/b' is no name of a rule"),
        ({"rules": [{"name": 5, **GOOD}]}, "rules[0], name: must be text, not the number 5: quote"),
        ({"rules": "just words"}, "the YAML or JSON text of one, not 'just words'"),
        ({"rules": "[{"}, "rules: is text that is no YAML"),
        ({"rules": {"name": "x"}}, "rules: must be a list of rules"),
        ({"set": "a/b"}, "set: must be a name without a slash"),
        ({"self_rolling": "held"}, "self_rolling: held is not supported yet"),
        ({"state": "absent", "prune": True}, "prune: goes with state present"),
    ],
)
def test_options_are_checked_too(task: RulesTask, options: dict[str, t.Any], fault: str) -> None:
    result = _refused(task, **options)
    assert fault in result["msg"]
    assert len(result["faults"]) == 1


def test_a_namespace_that_is_none_is_one_fault_whatever_the_rules_say(task: RulesTask) -> None:
    for namespace in ("", "a/b", "bad-inputt"):
        assert len(_refused(task, {"name": "a", **GOOD}, namespace=namespace)["faults"]) == 1


def test_the_misspelt_key_of_the_article_is_refused_with_a_finding(task: RulesTask) -> None:
    beside = {"with": {"kind": "Deployment", "name": "cache"}}
    rule = {**WHO, "name": "beside", "keep_together": {**beside, "over": _HOSTNAME}}
    result = _refused(task, rule)
    assert "rule beside, key_on_no_node (VirtualMachine bad-input/web): No node" in result["msg"]
    assert "did you mean 'kubernetes.io/hostname'" in result["msg"]
    errors = [each["name"] for each in result["findings"] if each["severity"] == "error"]
    assert errors == ["key_on_no_node"]


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
    result = _refused(task, *rules, identity="reader", self_rolling="now", check=check)
    grant = "grant this identity the ClusterRole virt-placement-mover (rbac/mover.yml)"
    assert result["faults"] == [
        f"rights: this identity may not patch {what} in namespace bad-input: {grant}"
        for what in ("deployments.apps", "virtualmachines.kubevirt.io")
    ]
    assert result["msg"].startswith("2 errors:\n- rights: ")


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
    assert [fault.split(":")[1] for fault in result["faults"]] == [
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
    assert len(_refused(task, {"name": "a", **both}, identity="reader")["faults"]) == 1
    assert task({"name": "a", **GOOD}, identity="reader")["changed"]


def test_another_cluster_is_left_alone(task: RulesTask) -> None:
    result = _refused(task, {"name": "a", **GOOD}, cluster_uid="not-this-one")
    assert "cluster_uid says not-this-one: nothing was done" in result["msg"]


def test_without_kubevirt_there_are_no_machines(
    plain: Sandbox, run_module: RunModule, namespace: MakeNamespace
) -> None:
    task = RulesTask(plain, run_module, namespace(plain, "rules"))
    result = _refused(task, {"name": "a", **GOOD})
    assert "rules[0] a, workloads[0]: KubeVirt is not installed on this cluster" in result["msg"]
    task.create(objects.deployment("cache", replicas=1))
    rule = {"name": "b", "workloads": [{"kind": "Deployment", "name": "cache"}]}
    written = task({**rule, "keep_apart": {"over": "zone"}}, self_rolling="now")
    assert written["counts"]["changed"] == 1
