# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""How workloads arrive in a namespace with a policy for new members: by kubectl, from pools, from Cluster API, with a
placement of their own, and from a hostile tenant. What the policy gave them is what a run of `rules` leaves alone."""

from __future__ import annotations

import copy
import json
import subprocess
import typing as t

import pytest

from ansible_collections.virt.placement.plugins.module_utils.model.kinds import RULES
from ansible_collections.virt.placement.plugins.module_utils.model.manifests import (
    workload_from_manifest,
)
from ansible_collections.virt.placement.plugins.module_utils.model.objects import Namespace
from ansible_collections.virt.placement.plugins.module_utils.model.placement_manifests import (
    REQUIRED,
)
from ansible_collections.virt.placement.plugins.module_utils.new_members.members import new_members
from ansible_collections.virt.placement.plugins.module_utils.new_members.policy import (
    MOST_BYTES,
    mutating_policy,
)
from ansible_collections.virt.placement.plugins.module_utils.rules.ownership import read_ownership
from sandbox import ApiFailure, Sandbox, binaries, objects
from tests.bench import new_members as bench
from tests.conftest import RunModule
from tests.modules.rules_task import RulesTask
from tests.modules.test_new_members import CLUSTER, PLAIN, ZONE, Ground, policy_of, zones
from tests.parsed import parsed
from tests.unit.rules.builders import snapshot

Object = dict[str, t.Any]
NAMESPACE = "arrivals"
PIN: Object = {"name": "pin", "run_on": {ZONE: "a"}, "workloads": [{"labels": {"app": "x"}}]}
POOL_RULE: Object = {
    "name": "pool",
    "run_on": {ZONE: "a"},
    "workloads": [{"kind": "VirtualMachinePool", "names": ["web"]}],
}


@pytest.fixture(scope="module")
def sandbox() -> t.Iterator[Sandbox]:
    with Sandbox.start(CLUSTER) as started:
        yield started


@pytest.fixture(scope="module")
def ground(sandbox: Sandbox) -> Ground:
    """With the rules PIN and POOL_RULE in force in a namespace."""
    made = Ground(sandbox.api)
    made.namespace(PLAIN)
    policy_of(made, NAMESPACE, PIN, POOL_RULE)
    return made


@pytest.fixture
def rules(ground: Ground, sandbox: Sandbox, run_module: RunModule) -> t.Iterator[RulesTask]:
    """The module; afterwards the namespaces are empty."""
    task = RulesTask(sandbox, run_module, NAMESPACE)
    yield task
    for kind in ("VirtualMachine", "VirtualMachinePool"):
        ground.api.request("DELETE", ground.api.path(kind, task.namespace))


def vm(name: str, **parts: t.Any) -> Object:
    """A VM that the rule PIN chooses by its label."""
    return objects.virtual_machine(name, NAMESPACE, labels={"app": "x"}, **parts)


def kubectl(sandbox: Sandbox, *arguments: str, manifest: Object) -> Object:
    """The object after a command of kubectl."""
    command = [str(binaries.directory() / "kubectl"), "--kubeconfig", str(sandbox.kubeconfig())]
    command += [*arguments, "-o", "json", "-f", "-"]
    answer = subprocess.run(
        command, input=json.dumps(manifest), capture_output=True, text=True, check=False
    )
    assert not answer.returncode, answer.stderr
    return t.cast(Object, json.loads(answer.stdout))


def zones_of(ground: Ground, name: str) -> list[t.Any]:
    return zones(ground.api.get(f"{ground.api.path('VirtualMachine', NAMESPACE)}/{name}"))


def is_written_again(rules: RulesTask, *listed: Object) -> bool:
    """Whether a run of the module `rules` would change something."""
    result = rules(*(listed or (PIN,)), fail_on_findings=[], check=True)
    assert "failed" not in result, result
    return bool(result["changed"])


def test_kubectl_replace_drops_the_rule_until_the_next_run(
    ground: Ground, sandbox: Sandbox, rules: RulesTask
) -> None:
    """A PUT has the whole object, and the policy is for creations alone."""
    assert zones(kubectl(sandbox, "create", manifest=vm("replaced"))) == [["a"]]
    assert not is_written_again(rules)
    assert zones(kubectl(sandbox, "replace", manifest=vm("replaced"))) == []
    assert is_written_again(rules)
    assert rules(PIN, fail_on_findings=[])["changed"]
    assert zones_of(ground, "replaced") == [["a"]]


@pytest.mark.parametrize("how", [(), ("--server-side", "--field-manager=gitops")])
def test_kubectl_apply_keeps_the_rule(
    ground: Ground, sandbox: Sandbox, rules: RulesTask, how: tuple[str, ...]
) -> None:
    """Also where the second manifest has something new."""
    kubectl(sandbox, "apply", *how, manifest=vm("applied"))
    generation = kubectl(sandbox, "apply", *how, manifest=vm("applied"))["metadata"]["generation"]
    assert generation == 1
    changed = kubectl(sandbox, "apply", *how, manifest=vm("applied", memory="2Gi"))
    assert changed["metadata"]["generation"] == 2
    assert zones_of(ground, "applied") == [["a"]]
    assert not is_written_again(rules)


def test_dry_run_of_the_server_shows_the_rule(ground: Ground, sandbox: Sandbox) -> None:
    for command in ("create", "apply"):
        seen = kubectl(sandbox, command, "--dry-run=server", manifest=vm("tried"))
        assert zones(seen) == [["a"]]
    assert ground.api.find(f"{ground.api.path('VirtualMachine', NAMESPACE)}/tried") is None


def test_generated_name(ground: Ground, sandbox: Sandbox, rules: RulesTask) -> None:
    """The name is not known when the policy writes; the annotation is of this VM all the same, and of no clone."""
    manifest = vm("")
    manifest["metadata"] = {"generateName": "runner-", "namespace": NAMESPACE}
    made = kubectl(sandbox, "create", manifest=manifest)
    assert zones(made) == [["a"]]
    ownership = read_ownership(workload_from_manifest("VirtualMachine", made))
    assert ownership.uid == made["metadata"]["uid"]
    assert not is_written_again(rules)
    metadata = {key: made["metadata"][key] for key in ("namespace", "generateName", "annotations")}
    manifest = {**made, "metadata": {**metadata, "name": f"{made['metadata']['name']}-clone"}}
    clone = kubectl(sandbox, "create", manifest=manifest)
    assert clone["metadata"]["annotations"] == made["metadata"]["annotations"]
    assert read_ownership(workload_from_manifest("VirtualMachine", clone)).uid.endswith(":runner-")


@pytest.mark.parametrize("version", ["v1beta1", "v1alpha1"])
def test_pool_gets_the_rule_and_its_vms_are_as_their_template(
    ground: Ground, sandbox: Sandbox, rules: RulesTask, version: str
) -> None:
    """KubeVirt makes a VM of what the template is then (pkg/virt-controller/watch/pool/pool.go), here with the label by
    which another rule chooses VMs."""
    pool = objects.pool("web", NAMESPACE, labels={"app": "x"})
    pool["apiVersion"] = f"pool.kubevirt.io/{version}"
    made = kubectl(sandbox, "create", manifest=pool)
    assert zones(made) == [["a"]]
    template = made["spec"]["virtualMachineTemplate"]
    metadata = {"name": "web-0", "namespace": NAMESPACE, **template["metadata"]}
    metadata["ownerReferences"] = [
        {
            "apiVersion": pool["apiVersion"],
            "kind": "VirtualMachinePool",
            "name": "web",
            "uid": made["metadata"]["uid"],
            "controller": True,
            "blockOwnerDeletion": True,
        }
    ]
    manifest = {"apiVersion": "kubevirt.io/v1", "kind": "VirtualMachine", "metadata": metadata}
    manifest["spec"] = copy.deepcopy(template["spec"])
    seen = ground.api.create(ground.api.path("VirtualMachine", NAMESPACE), manifest)
    assert seen["spec"]["template"] == template["spec"]["template"]
    assert RULES not in seen["metadata"].get("annotations", {})
    assert not is_written_again(rules, POOL_RULE)


def test_vm_of_cluster_api_is_a_member(ground: Ground, sandbox: Sandbox, rules: RulesTask) -> None:
    """cluster-api-provider-kubevirt creates a VM without owners, with these labels on it and its template
    (pkg/kubevirt/utils.go), and later changes labels alone (machine.go, Create)."""
    labels = {
        "kubevirt.io/vm": "prod-md-0-x7k2p",
        "name": "prod-md-0-x7k2p",
        "cluster.x-k8s.io/role": "worker",
        "cluster.x-k8s.io/cluster-name": "prod",
        "capk.cluster.x-k8s.io/kubevirt-machine-name": "prod-md-0-x7k2p",
        "capk.cluster.x-k8s.io/kubevirt-machine-namespace": "clusters",
    }
    namespace = "capk"
    of_cluster = [{"labels": {"cluster.x-k8s.io/cluster-name": "prod"}}]
    spread: Object = {"name": "workers", "keep_apart": ZONE, "workloads": of_cluster}
    policy_of(ground, namespace, spread)
    machine = objects.virtual_machine("prod-md-0-x7k2p", namespace, labels=labels)
    machine["metadata"]["labels"] = labels
    path = f"{ground.api.path('VirtualMachine', namespace)}/prod-md-0-x7k2p"
    created = kubectl(sandbox, "create", manifest=machine)
    created["metadata"]["labels"]["cluster.x-k8s.io/cluster-name"] = "prod"
    seen = ground.api.put(path, created)
    terms = seen["spec"]["template"]["spec"]["affinity"]["podAntiAffinity"][REQUIRED]
    assert [term["topologyKey"] for term in terms] == [ZONE]
    rules.namespace = namespace
    assert not is_written_again(rules, spread)


@pytest.mark.parametrize(
    ("owner", "has_rule"),
    [
        ("pool.kubevirt.io/v1alpha1 VirtualMachinePool", False),
        ("virtualization.example/v1 VirtualMachinePool", True),
        ("infrastructure.cluster.x-k8s.io/v1alpha1 KubevirtMachine", True),
    ],
)
def test_vm_with_an_owner(ground: Ground, owner: str, has_rule: bool) -> None:
    """Only KubeVirt's own pool writes its template into its VMs."""
    version, _space, kind = owner.partition(" ")
    reference = {"apiVersion": version, "kind": kind, "name": "p", "uid": "1", "controller": True}
    owned = vm("owned")
    owned["metadata"]["ownerReferences"] = [reference]
    assert zones(ground.created(NAMESPACE, owned)) == ([["a"]] if has_rule else [])


def test_thousand_names_are_within_the_limits(ground: Ground) -> None:
    """50 rules with 20 VMs each: the API server takes the policy, and it fails for none of them. `make bench` has what
    it costs."""
    members = policy_of(ground, "thousand", *bench.declared_rules())
    policy, _binding = mutating_policy("thousand", "default", members)
    assert len(json.dumps(policy)) < MOST_BYTES / 5
    for name, has_rule in ((bench.vm_name(0), True), (bench.vm_name(-1), True), ("other", False)):
        seen = ground.created("thousand", objects.virtual_machine(name, "thousand"))
        assert (RULES in seen["metadata"].get("annotations", {})) is has_rule


def node_term(number: int) -> Object:
    expressions = [{"key": "zone.example/z", "operator": "NotIn", "values": [f"v{number}"]}]
    return {"matchExpressions": expressions}


def pod_term(number: int) -> Object:
    selector = {"matchLabels": {"app": f"a{number}"}}
    return {"topologyKey": ZONE, "labelSelector": selector}


def required(what: str, terms: list[Object]) -> Object:
    """The placement of a VM with these required terms."""
    content = {"nodeSelectorTerms": terms} if what == "nodeAffinity" else terms
    return {"placement": {"affinity": {what: {REQUIRED: content}}}}


OWN = '{"version":1,"uid":"name:NAME","rules":{'
ODD: t.Mapping[str, tuple[Object, Object]] = {
    "labels": ({"labels": {f"l{number}": "x" * 60 for number in range(2000)}}, {}),
    "annotations": ({"annotations": {"other": "'\"\\\n\t\x01\u2028" * 20_000}}, {}),
    "forged rule": (
        {"annotations": {RULES: f'{OWN}"arrivals/default/pin":{{}}}},"created":[]}}'}},
        {},
    ),
    "forged other set": ({"annotations": {RULES: f'{OWN}"arrivals/o/x":{{"terms":["'}}, {}),
    "forged bomb": ({"annotations": {RULES: OWN + '"terms":[' * 25_000}}, {}),
    "forged empty": ({"annotations": {RULES: ""}}, {}),
    "owners": (
        {
            "ownerReferences": [
                {"apiVersion": "v1", "kind": "Pod", "name": f"p{number}", "uid": f"u{number}"}
                for number in range(1000)
            ]
        },
        {},
    ),
    "node terms": ({}, required("nodeAffinity", [node_term(number) for number in range(1500)])),
    "pod affinity": ({}, required("podAffinity", [pod_term(number) for number in range(1500)])),
    "pod anti-affinity": ({}, required("podAntiAffinity", [pod_term(x) for x in range(1500)])),
    "tolerations": (
        {},
        {
            "placement": {
                "tolerations": [{"key": f"k{x}", "operator": "Exists"} for x in range(4000)]
            }
        },
    ),
    "finalizers": ({"finalizers": [f"example.com/f{number}" for number in range(500)]}, {}),
}
"""Metadata and placement of VMs that a hostile tenant creates."""

DAMAGED = ("forged rule", "forged other set", "forged bomb")
"""Those whose annotation no run of `rules` can read, whatever the policy adds to it."""


@pytest.fixture(scope="module")
def shipped(ground: Ground) -> None:
    """The rule PIN in force in a namespace, by a policy as it ships."""
    ground.namespace("hostile")
    found = new_members(
        parsed([PIN], namespace="hostile"), snapshot(namespaces=(Namespace("hostile"),))
    )
    for manifest in mutating_policy("hostile", "default", found.members):
        ground.write(manifest)
    ground.wait_for_policies()


@pytest.mark.parametrize("what", ODD)
@pytest.mark.usefixtures("shipped")
def test_hostile_tenant_neither_fails_creations_nor_hides_that_the_rule_is_missing(
    ground: Ground, rules: RulesTask, what: str
) -> None:
    """As shipped. The API server takes what it takes without the policy, a rule that was not written is written by the
    next run or reported by it, and the VM of another tenant has its rule."""
    metadata, placement = ODD[what]
    name = what.replace(" ", "-")
    odd = objects.virtual_machine(name, "hostile", labels={"app": "x"}, **placement)
    odd["metadata"] |= json.loads(json.dumps(metadata).replace("NAME", name))
    answer = answer_to(ground, {**odd, "metadata": {**odd["metadata"], "namespace": PLAIN}})
    assert answer_to(ground, odd) == answer
    other = objects.virtual_machine("other", "hostile", labels={"app": "x"})
    assert zones(ground.created("hostile", other)) == [["a"]]
    if answer != "created":
        return
    seen = ground.api.create(ground.api.path("VirtualMachine", "hostile"), odd)
    is_written = ["a"] in zones(seen)
    rules.namespace = "hostile"
    result = rules(PIN, fail_on_findings=[], check=True)
    is_reported = bool(result["changed"]) or f"hostile/{name}" in result.get("msg", "")
    assert is_written or is_reported
    assert is_reported is (what in DAMAGED)


def answer_to(ground: Ground, manifest: Object) -> str:
    """Whether the object is created, or why not."""
    try:
        ground.created(manifest["metadata"]["namespace"], manifest)
    except ApiFailure as failure:
        return f"{failure.status} {failure.reason}"
    return "created"
