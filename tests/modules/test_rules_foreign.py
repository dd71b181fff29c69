# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What others wrote, and other kinds of workloads: nothing of theirs is lost, and no roll-out is
started that nobody asked for."""

from __future__ import annotations

import contextlib
import copy
import typing as t

import pytest

from sandbox import Sandbox, objects
from sandbox.pytest_plugin import MakeNamespace
from tests.conftest import RunModule
from tests.shop import HOSTNAME

from .rules_task import RulesTask, anti_affinity

VM = "VirtualMachine"
VMIRS = "VirtualMachineInstanceReplicaSet"
REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"
ZONE = "topology.kubernetes.io/zone"
HARVESTER = {"key": "network.harvesterhci.io/mgmt", "operator": "In", "values": ["true"]}
ARCH = {"key": "kubernetes.io/arch", "operator": "In", "values": ["amd64"]}
THEIRS = {
    "labelSelector": {"matchLabels": {"app": "other"}},
    "topologyKey": "kubernetes.io/hostname",
}
RULES: tuple[dict[str, t.Any], ...] = (
    {"name": "zones", "run_on": {"zone": ["zone1", "zone2"]}},
    {"name": "apart", "keep_apart": {"topology_key": "zone"}},
    {"name": "hosts", "keep_apart": {"topology_key": "node"}, "preferred": True, "weight": 5},
    {"name": "not-three", "avoid": {"zone": "zone3"}, "preferred": True},
    {"name": "even", "spread": {"topology_key": "zone"}, "preferred": True},
    {"name": "own", "terms": {"tolerations": [{"key": "a.example/b", "operator": "Exists"}]}},
)
FOREIGN: dict[str, t.Any] = {
    "nothing": {},
    "empty affinity": {"affinity": {}},
    "a console's empty lists": {
        "affinity": {
            "nodeAffinity": {PREFERRED: []},
            "podAffinity": {REQUIRED: [], PREFERRED: []},
            "podAntiAffinity": {REQUIRED: []},
        },
        "tolerations": [],
        "topologySpreadConstraints": [],
    },
    "terms of others": {
        "affinity": {
            "nodeAffinity": {
                REQUIRED: {
                    "nodeSelectorTerms": [
                        {"matchExpressions": [HARVESTER, ARCH]},
                        {"matchExpressions": [ARCH]},
                        {
                            "matchFields": [
                                {"key": "metadata.name", "operator": "NotIn", "values": ["w9"]}
                            ]
                        },
                    ]
                }
            },
            "podAntiAffinity": {
                REQUIRED: [THEIRS],
                PREFERRED: [{"weight": 1, "podAffinityTerm": THEIRS}],
            },
        },
        "nodeSelector": {"kubernetes.io/arch": "amd64"},
        "tolerations": [{"key": "x", "operator": "Exists"}],
    },
}


@pytest.fixture
def task(six: Sandbox, run_module: RunModule, namespace: MakeNamespace) -> RulesTask:
    return RulesTask(six, run_module, namespace(six, "rules"))


def _rules(kind: str, name: str) -> list[dict[str, t.Any]]:
    return [{**rule, "workloads": [{"kind": kind, "name": name}]} for rule in RULES]


@pytest.mark.parametrize("foreign", FOREIGN)
@pytest.mark.parametrize("kind", [VM, VMIRS, "Deployment"])
def test_foreign_terms_are_kept_and_restored_by_a_removal(
    task: RulesTask, kind: str, foreign: str
) -> None:
    placement = copy.deepcopy(FOREIGN[foreign])
    make = {
        VM: lambda: objects.virtual_machine("a", placement=placement, run_strategy="Halted"),
        VMIRS: lambda: objects.replica_set("a", placement=placement, replicas=0),
        "Deployment": lambda: objects.deployment("a", placement=placement, replicas=0),
    }
    task.create(make[kind]())
    before = task.placement(kind, "a")
    result = task(*_rules(kind, "a"))
    assert sorted(result["workloads"][0]["added"]) == sorted(rule["name"] for rule in RULES)
    spec = task.get(kind, "a")["spec"]["template"]["spec"]
    terms = spec["affinity"]["nodeAffinity"][REQUIRED]["nodeSelectorTerms"]
    zones = {"key": ZONE, "operator": "In", "values": ["zone1", "zone2"]}
    assert all(term["matchExpressions"][-1] == zones for term in terms)
    if foreign == "terms of others":
        theirs = placement["affinity"]["nodeAffinity"][REQUIRED]["nodeSelectorTerms"]
        assert [{**t, "matchExpressions": t["matchExpressions"][:-1]} for t in terms] == [
            {**t, "matchExpressions": t.get("matchExpressions", [])} for t in theirs
        ]
        assert anti_affinity(task.get(kind, "a"))[0] == THEIRS
        assert spec["tolerations"][0] == placement["tolerations"][0]
    again = task(*_rules(kind, "a"))
    assert (again["changed"], again["writes"]) == (False, [])
    for rule in RULES:
        task({"name": rule["name"]}, state="absent")
    assert task.placement(kind, "a") == before


def test_node_term_added_by_hand_gets_the_expression_and_stays(task: RulesTask) -> None:
    task.create(objects.replica_set("a", replicas=0))
    rule = _rules(VMIRS, "a")[0]
    task(rule)
    path = f"/spec/template/spec/affinity/nodeAffinity/{REQUIRED}/nodeSelectorTerms/-"
    task.patch(VMIRS, "a", [{"op": "add", "path": path, "value": {"matchExpressions": [ARCH]}}])
    healed = task(rule)
    assert healed["workloads"][0]["updated"] == ["zones"]
    spec = task.get(VMIRS, "a")["spec"]["template"]["spec"]
    terms = spec["affinity"]["nodeAffinity"][REQUIRED]["nodeSelectorTerms"]
    assert [[e["key"] for e in term["matchExpressions"]] for term in terms] == [
        [ZONE],
        ["kubernetes.io/arch", ZONE],
    ]
    assert not task(rule)["changed"]
    task(prune=True)
    spec = task.get(VMIRS, "a")["spec"]["template"]["spec"]
    terms = spec["affinity"]["nodeAffinity"][REQUIRED]["nodeSelectorTerms"]
    assert terms == [{"matchExpressions": [ARCH]}]


def test_an_empty_node_term_is_never_given_an_expression(task: RulesTask) -> None:
    required: dict[str, t.Any] = {REQUIRED: {"nodeSelectorTerms": [{}]}}
    placement = {"affinity": {"nodeAffinity": required}}
    task.create(objects.replica_set("a", replicas=0, placement=placement))
    start = task.sandbox.audit.mark()
    refused = task(_rules(VMIRS, "a")[0])
    assert refused["failed"]
    assert "empty_node_term" in refused["msg"]
    assert not task.sandbox.audit.writes(since=start)
    assert task(_rules(VMIRS, "a")[1])["counts"]["changed"] == 1
    spec = task.get(VMIRS, "a")["spec"]["template"]["spec"]
    assert spec["affinity"]["nodeAffinity"] == required
    allowed = {**_rules(VMIRS, "a")[0], "allow_findings": "empty_node_term"}
    task(allowed)
    spec = task.get(VMIRS, "a")["spec"]["template"]["spec"]
    assert spec["affinity"]["nodeAffinity"] == required
    assert not task(allowed)["changed"]


def test_deployment_is_written_only_with_workload_rollout_allow(task: RulesTask) -> None:
    task.create(objects.deployment("cache", replicas=2))
    rule = {
        "name": "apart",
        "workloads": [{"kind": "Deployment", "name": "cache"}],
        "keep_apart": {"topology_key": "zone"},
    }
    start = task.sandbox.audit.mark()
    refused = task(rule)
    assert refused["failed"]
    assert "starts_workload_rollout" in refused["msg"]
    assert [(each["name"], each["patch"]) for each in refused["workloads"]] == [("cache", [])]
    assert not task.sandbox.audit.writes(since=start)
    made = task(rule, workload_rollout="allow")
    assert [each["takes_effect"] for each in made["workloads"]] == ["workload_rollout"]
    assert anti_affinity(task.get("Deployment", "cache"))[0]["matchLabelKeys"] == [
        "pod-template-hash"
    ]
    assert not task(rule)["changed"], "nothing to write, nothing to refuse"


def test_a_replica_set_takes_effect_by_recreation(task: RulesTask) -> None:
    task.create(objects.replica_set("db", replicas=1))
    path = task.api.path("VirtualMachineInstance", task.namespace)
    task.api.wait_list(path, lambda vmis: any(v["status"]["phase"] == "Running" for v in vmis), 60)
    result = task(_rules(VMIRS, "db")[1])
    assert [each["takes_effect"] for each in result["workloads"]] == ["recreate"]
    assert anti_affinity(task.get(VMIRS, "db"))[0]["labelSelector"] == {
        "matchExpressions": [{"key": "kubevirt.io/domain", "operator": "In", "values": ["db"]}]
    }


def test_rules_of_a_field_manager_of_gitops_are_removed_in_git(task: RulesTask) -> None:
    """Argo CD with tracking by label leaves nothing but its field manager that is its own."""
    machine = objects.virtual_machine("a", task.namespace, run_strategy="Halted")
    machine["metadata"]["labels"] = {"app.kubernetes.io/instance": "shop"}
    task.api.request(
        "PATCH",
        task.api.path(VM, task.namespace, "a"),
        {"apiVersion": "kubevirt.io/v1", "kind": VM, **machine},
        query={"fieldManager": "argocd-controller", "force": "true"},
        content_type="application/apply-patch+yaml",
    ).raise_for_status()
    rule = _rules(VM, "a")[0]

    refused = task(rule)
    task({**rule, "allow_findings": ["externally_managed"]})
    absent = task({"name": rule["name"]}, state="absent")

    assert "is managed by Argo CD (field manager argocd-controller)" in refused["msg"]
    assert absent["failed"]
    assert "Remove the constraints of the rule from the source of the object" in absent["msg"]
    assert "changes /spec/template/spec/affinity" in absent["msg"]
    assert [each["op"] for each in absent["workloads"][0]["patch"]] == ["remove"]


@pytest.mark.parametrize(
    ("metadata", "manager"),
    [
        ({"annotations": {"argocd.argoproj.io/tracking-id": "app:x"}}, "Argo CD"),
        ({"labels": {"kustomize.toolkit.fluxcd.io/name": "app"}}, "Flux"),
        ({"annotations": {"meta.helm.sh/release-name": "app"}}, "Helm"),
    ],
)
def test_externally_managed_workload_is_refused_with_the_patch_to_commit(
    task: RulesTask, metadata: dict[str, t.Any], manager: str
) -> None:
    machine = objects.virtual_machine("a", run_strategy="Halted")
    machine["metadata"].update(metadata)
    task.create(machine)
    rule = _rules(VM, "a")[1]
    start = task.sandbox.audit.mark()
    refused = task(rule)
    assert refused["failed"]
    assert f"managed by {manager}" in refused["msg"]
    assert not task.sandbox.audit.writes(since=start)
    patch = refused["workloads"][0]["patch"]
    assert [(each["op"], each["path"]) for each in patch] == [
        ("add", "/spec/template/spec/affinity")
    ]
    task.patch(VM, "a", patch)
    settled = task(rule, adopt=True)
    assert not settled["changed"], "the terms are there, and the annotation is theirs to manage"
    other = {**_rules(VM, "a")[4], "allow_findings": ["externally_managed"]}
    assert task(other)["counts"]["changed"] == 1


POLICIES = "/apis/admissionregistration.k8s.io/v1/mutatingadmissionpolic"


@contextlib.contextmanager
def without_node_affinity(task: RulesTask) -> t.Iterator[None]:
    """VMs lose their node affinity at each write, as Harvester's webhook takes terms of matchFields out."""
    path = "/spec/template/spec/affinity/nodeAffinity"
    has = "has(object.spec.template.spec.affinity) && has(object.spec.template.spec.affinity.nodeAffinity)"
    vms = {
        "apiGroups": ["kubevirt.io"],
        "apiVersions": ["*"],
        "operations": ["CREATE", "UPDATE"],
        "resources": ["virtualmachines"],
    }
    patch = f'[JSONPatch{{op: "remove", path: "{path}"}}]'
    spec = {
        "matchConstraints": {"resourceRules": [vms]},
        "matchConditions": [{"name": "has", "expression": has}],
        "reinvocationPolicy": "Never",
        "failurePolicy": "Fail",
        "mutations": [{"patchType": "JSONPatch", "jsonPatch": {"expression": patch}}],
    }
    here = {"matchLabels": {"kubernetes.io/metadata.name": task.namespace}}
    binding = {"policyName": task.namespace, "matchResources": {"namespaceSelector": here}}
    version = {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "metadata": {"name": task.namespace},
    }
    parts = (("ies", "", spec), ("ybindings", "Binding", binding))
    for suffix, kind, content in parts:
        made = {**version, "kind": f"MutatingAdmissionPolicy{kind}", "spec": content}
        task.api.create(f"{POLICIES}{suffix}", made)
    try:
        # the API server shows nowhere that it has read a policy
        task.api.wait(lambda _policy: _loses_node_affinity(task), f"{POLICIES}ies/{task.namespace}")
        yield
    finally:
        for suffix, _kind, _content in reversed(parts):
            task.api.delete(f"{POLICIES}{suffix}/{task.namespace}")


def _loses_node_affinity(task: RulesTask) -> bool:
    """Whether a VM would lose its node affinity if it were created now."""
    term = {"matchExpressions": [{"key": HOSTNAME, "operator": "Exists"}]}
    affinity = {"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": [term]}}}
    trial = objects.virtual_machine("trial", task.namespace, placement={"affinity": affinity})
    made = task.api.create(f"{task.api.path(VM, task.namespace)}?dryRun=All", trial)
    return "nodeAffinity" not in made["spec"]["template"]["spec"]["affinity"]


def test_term_that_admission_takes_out_again_is_refused_from_the_second_run_on(
    task: RulesTask,
) -> None:
    task.create(objects.virtual_machine("a", run_strategy="Halted"))
    rule = {**_rules(VM, "a")[0], "allow_findings": ["changed_by_webhook"]}
    with without_node_affinity(task):
        first = task(rule)
        mark = task.sandbox.audit.mark()
        second = task(rule)
        checked = task(rule, check=True)
        writes = task.sandbox.audit.writes(since=mark)
    for result in (first, second, checked):
        assert result["failed"]
        assert [x["name"] for x in result["findings"]] == ["changed_by_webhook"]
        assert "topology.kubernetes.io/zone" in result["findings"][0]["why"]
    assert (first["changed"], second["changed"]) == (True, False)
    assert writes == []


def test_term_is_not_written_where_the_label_that_it_selects_by_is_refused(task: RulesTask) -> None:
    """The shipped policy does not allow the mover this label key."""
    for name in ("leader", "follower"):
        task.create(objects.virtual_machine(name, run_strategy="Halted"))
    label = {"other.example/app": "fedora"}
    near = {"topology_key": "node", "pods": {"labels": label}}
    mark = task.sandbox.audit.mark()
    rules = (
        {"name": "leader", "workloads": [{"name": "leader"}], "label": label},
        {"name": "pair", "workloads": [{"name": "follower"}], "keep_together": near},
    )
    foretold, result = task(*rules, check=True), task(*rules)
    assert foretold["failed"] and foretold["msg"] == result["msg"], "check mode asks the server"
    assert result["failed"]
    assert task.sandbox.audit.writes(since=mark) == []
    assert "(workloadLabelKeys in rbac/policies.yml)" in result["msg"], "to its end"
    assert "follower was not written, since VirtualMachine" in result["msg"]
    assert "does not get the label other.example/app=fedora of rule leader" in result["msg"]
