# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""placement_info against a real control plane: it says what the scheduler would."""

from __future__ import annotations

import typing as t

import pytest

from ansible_collections.virt.placement.plugins.modules import placement_info
from sandbox import Sandbox, drain, node_faults, objects
from sandbox.pytest_plugin import MakeNamespace
from tests.conftest import RunModule, error_messages

from .rules_task import RulesTask

ELSEWHERE = ["w3", "w4", "w5", "w6"]
"""The nodes that are not in zone1."""
NAMES = ["db1", "db2", "db3"]
APART = {"name": "apart", "workloads": [{"names": NAMES}], "keep_apart": {"topology_key": "zone"}}
RULE = "default/apart"
VM = "VirtualMachine"
HOST = "kubernetes.io/hostname"
REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"


class Judge:
    """The module as the identity that only reads; every run must write nothing."""

    def __init__(self, sandbox: Sandbox, run_module: RunModule, namespace: str) -> None:
        self.sandbox = sandbox
        self.namespace = namespace
        self._run = run_module

    def __call__(self, identity: str = "reader", **options: t.Any) -> dict[str, t.Any]:
        start = self.sandbox.audit.mark()
        params = {"kubeconfig": str(self.sandbox.kubeconfig(identity)), **options}
        if not {"namespaces", "workloads"} & set(options):
            params["namespaces"] = [self.namespace]
        result = self._run(placement_info.main, params)
        assert self.sandbox.audit.writes(identity, since=start) == []
        return result


@pytest.fixture
def task(six: Sandbox, run_module: RunModule, namespace: MakeNamespace) -> RulesTask:
    return RulesTask(six, run_module, namespace(six, "judge"))


@pytest.fixture
def judge(six: Sandbox, run_module: RunModule, task: RulesTask) -> Judge:
    return Judge(six, run_module, task.namespace)


@pytest.fixture
def in_one_zone(six: Sandbox, task: RulesTask) -> t.Iterator[dict[str, t.Any]]:
    """db1 to db3, all in zone1: the other nodes were cordoned while they started."""
    for node in ELSEWHERE:
        drain.cordon(six, node)
    for name in NAMES:
        task.create(objects.virtual_machine(name))
    started = task.running(*NAMES)
    six.restore_nodes()
    yield started
    six.restore_nodes()


def by_name(result: dict[str, t.Any]) -> dict[str, dict[str, t.Any]]:
    return {each["instance"]["name"]: each for each in result["instances"]}


def rule_of(instance: dict[str, t.Any], rule: str) -> dict[str, t.Any]:
    (found,) = [each for each in instance["rules"] if each["rule"] == rule]
    return t.cast("dict[str, t.Any]", found)


def test_without_rules_everything_is_satisfied(judge: Judge, in_one_zone: t.Any) -> None:
    result = judge(details="all")

    assert not result["changed"]
    assert result["summary"]["instances"] == result["summary"]["satisfied"] == 3
    assert result["instances"][0]["domains"]["zone"] == "zone1"
    assert result["instances"][0]["workload"]["kind"] == VM
    assert (result["pending"], result["risks"], result["findings"]) == ([], [], [])
    assert result["cluster"]["uid"]


@pytest.mark.tour
def test_a_rule_that_was_just_written_is_broken_before_anything_moved(
    judge: Judge, task: RulesTask, in_one_zone: t.Any
) -> None:
    task(APART)

    result = judge()

    rule = f"{task.namespace}/{RULE}"
    assert result["summary"]["violated"] == result["summary"]["misplaced"] == 3
    assert result["summary"]["violated_rules"] == [
        {"rule": rule, "affected": 3, "moves_needed": 2, "moves_counted": True}
    ]
    db1 = by_name(result)["db1"]
    assert not rule_of(db1, rule)["enforced"]
    assert rule_of(db1, rule)["better_nodes"] == ELSEWHERE
    assert f"violated: VirtualMachineInstance {task.namespace}/db1 on" in result["table"]
    assert f"violated rule {rule}: 2 moves would repair it" in result["table"]


@pytest.mark.tour
def test_the_scheduler_does_as_forecast_and_the_verdict_follows(
    judge: Judge, task: RulesTask, in_one_zone: t.Any
) -> None:
    task(APART)
    rule = f"{task.namespace}/{RULE}"
    wait_until_declared(task, "db1")
    open_to = by_name(judge())["db1"]["feasible_if_migrated"]
    # Nothing is in effect yet, so the others do not keep db1 away; its own term does.
    assert open_to == ELSEWHERE

    node = task.migrate("db1")["status"]["nodeName"]

    assert node in open_to
    result = judge(details="all")
    assert by_name(result)["db1"]["verdict"] == "satisfied"
    assert rule_of(by_name(result)["db1"], rule)["enforced"]
    assert result["summary"]["violated_rules"] == [
        {"rule": rule, "affected": 2, "moves_needed": 1, "moves_counted": True}
    ]

    wait_until_declared(task, "db2")
    task.migrate("db2")
    result = judge(details="all")
    assert result["summary"]["violated"] == 0
    assert by_name(result)["db3"]["verdict"] == "not_enforced"
    lucky = rule_of(by_name(result)["db3"], rule)
    assert (lucky["if_enforced"], lucky["enforced"]) == ("satisfied", False)
    assert lucky["takes_effect"] == "migration"
    assert lucky["reason"].startswith("placed correctly, rule not enforced yet: ")
    assert lucky["reason"].endswith("; enforced from the next migration")
    assert f"not_enforced: VirtualMachine {task.namespace}/db3" in result["table"]


def test_a_plain_term_over_zone_has_no_target_and_the_real_migration_has_none_either(
    judge: Judge, six: Sandbox, task: RulesTask
) -> None:
    term = {
        "labelSelector": {"matchLabels": {"tier": "db"}},
        "topologyKey": "topology.kubernetes.io/zone",
    }
    required = {"requiredDuringSchedulingIgnoredDuringExecution": [term]}
    placement = {"affinity": {"podAntiAffinity": required}}
    for name in NAMES:
        task.create(objects.virtual_machine(name, labels={"tier": "db"}, placement=placement))
    task.running(*NAMES)

    result = judge(details="all")

    assert result["summary"]["satisfied"] == 3
    assert all(each["feasible_if_migrated"] == [] for each in result["instances"])
    assert all(len(each["feasible_if_restarted"]) == 2 for each in result["instances"])
    assert [f["name"] for f in result["findings"]] == ["blocks_live_migration"]
    (warning,) = result["warnings"]
    assert "blocks_live_migration" in str(warning)

    task.create(objects.migration("db1"))
    target = wait_for_unbound_pod(task)
    pending = judge()["pending"]
    assert [each["instance"]["name"] for each in pending] == ["db1"]
    assert (
        "node(s) didn't match pod anti-affinity rules (tier In (db) over zone)"
        in pending[0]["reason"]
    )
    assert target


def test_foreign_node_term_bypasses_a_rule_and_the_scheduler_places_the_vm_there(
    judge: Judge, six: Sandbox, task: RulesTask
) -> None:
    made = task.create(objects.virtual_machine("db1"))
    task({"name": "in-zone1", "workloads": [{"name": "db1"}], "run_on": {"zone": "zone1"}})
    vmi = task.running("db1")["db1"]
    terms = f"/spec/template/spec/affinity/nodeAffinity/{REQUIRED}/nodeSelectorTerms/-"
    foreign = {"matchExpressions": [{"key": HOST, "operator": "In", "values": ELSEWHERE}]}
    task.patch(VM, "db1", [{"op": "add", "path": terms, "value": foreign}])

    result = judge()

    rule = rule_of(by_name(result)["db1"], f"{task.namespace}/default/in-zone1")
    assert rule["verdict"] == "violated"
    assert "nodeSelectorTerms[1] lacks the rule's expression" in rule["reason"]
    (found,) = [each for each in result["findings"] if each["name"] == "bypassed_by_node_term"]
    assert (found["severity"], found["rule"]) == ("error", "in-zone1")
    assert found["objects"] == [f"{VM} {task.namespace}/db1"]

    # What the verdict claims: the next launcher pod may run outside the rule's zone.
    for node in ("w1", "w2"):
        drain.cordon(six, node)
    path = task.api.path("VirtualMachineInstance", task.namespace, "db1")
    task.api.delete(path)
    task.api.wait(
        lambda each: (
            each["metadata"]["uid"] != vmi["metadata"]["uid"]
            and each["status"].get("phase") == "Running"
        ),
        path,
        timeout=60,
    )
    six.restore_nodes()
    db1 = by_name(judge())["db1"]
    assert db1["node"] in ELSEWHERE
    assert (db1["verdict"], db1["misplaced"]) == ("violated", True)
    assert made["metadata"]["uid"] == task.get(VM, "db1")["metadata"]["uid"]


def test_a_clone_carries_the_terms_and_owns_none(judge: Judge, task: RulesTask) -> None:
    task.create(objects.virtual_machine("db1", run_strategy="Halted"))
    task({"name": "in-zone1", "workloads": [{"name": "db1"}], "run_on": {"zone": "zone1"}})
    original = task.get(VM, "db1")
    copied = objects.virtual_machine("db2", run_strategy="Halted")
    copied["metadata"]["annotations"] = {
        key: value
        for key, value in original["metadata"]["annotations"].items()
        if key.startswith("placement.virt/")
    }
    copied["spec"]["template"] = original["spec"]["template"]
    task.create(copied)

    findings = judge()["findings"]

    assert [(f["name"], f["objects"]) for f in findings] == [
        ("copied_annotation", [f"{VM} {task.namespace}/db2"])
    ]


def test_spread_on_a_running_vm_is_enforced_from_its_next_restart(
    judge: Judge, task: RulesTask
) -> None:
    task.create(objects.virtual_machine("db1"))
    task.running("db1")
    task({"name": "even", "workloads": [{"name": "db1"}], "spread": {"topology_key": "zone"}})

    result = judge()

    rule = rule_of(by_name(result)["db1"], f"{task.namespace}/default/even")
    assert (rule["verdict"], rule["takes_effect"]) == ("not_enforced", "restart")
    assert rule["reason"].endswith("; enforced from the next restart")
    assert "restart_required" in {found["name"] for found in result["findings"]}


def test_an_unmet_preference_names_the_nodes_that_meet_it(judge: Judge, task: RulesTask) -> None:
    far = {"nodeSelector": {"topology.kubernetes.io/zone": "zone1"}}
    task.create(objects.virtual_machine("db1", placement=far))
    task.running("db1")
    wish = {"workloads": [{"name": "db1"}], "run_on": {"zone": "zone2"}, "preferred": True}
    task({"name": "rather-zone2", **wish})

    result = judge()

    rule = rule_of(by_name(result)["db1"], f"{task.namespace}/default/rather-zone2")
    assert (rule["if_enforced"], rule["verdict"]) == ("preference_not_met", "not_enforced")
    assert rule["better_nodes"] == []  # none is open: the node selector keeps it in zone1
    assert result["summary"]["violated"] == 0


def test_the_node_affinity_of_a_volume_is_a_node_rule(
    judge: Judge, six: Sandbox, task: RulesTask
) -> None:
    label = {"example.com/disk": "here"}
    node = six.api.path("Node", name="w3")
    six.api.patch(node, {"metadata": {"labels": label}})
    for manifest in volume_and_claim(task.namespace):
        kind, name = manifest["kind"], manifest["metadata"].get("namespace", "")
        six.api.create(six.api.path(kind, name), manifest)
    try:
        machine = objects.virtual_machine("db1")
        spec = machine["spec"]["template"]["spec"]
        spec["domain"]["devices"]["disks"].append({"name": "data", "disk": {"bus": "virtio"}})
        spec["volumes"].append({"name": "data", "persistentVolumeClaim": {"claimName": "data"}})
        task.create(machine)
        assert task.running("db1")["db1"]["status"]["nodeName"] == "w3"
        judged = by_name(judge(details="all"))["db1"]
        assert (judged["verdict"], judged["feasible_if_restarted"]) == ("satisfied", ["w3"])

        six.api.patch(node, {"metadata": {"labels": dict.fromkeys(label)}})

        result = judge()
        judged = by_name(result)["db1"]
        assert (judged["verdict"], judged["feasible_if_restarted"]) == ("violated", [])
        assert result["summary"]["misplaced"] == 1
    finally:
        six.api.patch(node, {"metadata": {"labels": dict.fromkeys(label)}})
        six.api.delete(six.api.path("PersistentVolume", name="judged"))


def test_rolling_update_waits_for_a_claim_of_one_pod(
    judge: Judge, six: Sandbox, task: RulesTask
) -> None:
    """kube-scheduler refuses the new pod, and the Deployment never stops the old one."""
    volume, claim = volume_and_claim(task.namespace, "exclusive")
    for manifest in (volume, claim):
        manifest["spec"]["accessModes"] = ["ReadWriteOncePod"]
    del volume["spec"]["nodeAffinity"]
    volume["spec"] = {**volume["spec"], "hostPath": {"path": "/data"}}
    del volume["spec"]["local"]
    six.api.create(six.api.path("PersistentVolume"), volume)
    six.api.create(six.api.path("PersistentVolumeClaim", task.namespace), claim)
    pods = task.api.path("Pod", task.namespace)
    try:
        web = objects.deployment("web", replicas=1)
        spec = web["spec"]["template"]["spec"]
        spec["volumes"] = [{"name": "data", "persistentVolumeClaim": {"claimName": "data"}}]
        task.create(web)
        task.api.wait_list(pods, lambda found: [x["status"]["phase"] for x in found] == ["Running"])
        (found,) = [x for x in judge()["findings"] if x["name"] == "volume_blocks_rollout"]

        change = {"spec": {"template": {"metadata": {"annotations": {"changed": "true"}}}}}
        task.api.patch(task.api.path("Deployment", task.namespace, "web"), change)
        name = wait_for_unbound_pod(task)
        new = task.get("Pod", name)
    finally:
        six.api.delete(six.api.path("PersistentVolume", name="exclusive"))

    assert found["severity"] == "error"
    assert "is ReadWriteOncePod, so the new pod of a rollout stays Pending" in found["why"]
    (condition,) = [x for x in new["status"]["conditions"] if x["type"] == "PodScheduled"]
    assert "ReadWriteOncePod access mode already in-use by another pod" in condition["message"]


def volume_and_claim(namespace: str, name: str = "judged") -> list[dict[str, t.Any]]:
    expression = {"key": "example.com/disk", "operator": "In", "values": ["here"]}
    term = {"nodeSelectorTerms": [{"matchExpressions": [expression]}]}
    shared = {"accessModes": ["ReadWriteOnce"], "storageClassName": ""}
    size = {"storage": "1Gi"}
    volume = {
        **shared,
        "capacity": size,
        "local": {"path": "/data"},
        "claimRef": {"namespace": namespace, "name": "data"},
        "nodeAffinity": {"required": term},
    }
    claim = {**shared, "resources": {"requests": size}, "volumeName": name}
    return [
        {
            "apiVersion": "v1",
            "kind": "PersistentVolume",
            "metadata": {"name": name},
            "spec": volume,
        },
        {
            "apiVersion": "v1",
            "kind": "PersistentVolumeClaim",
            "metadata": {"namespace": namespace, "name": "data"},
            "spec": claim,
        },
    ]


def test_pending_is_explained(judge: Judge, task: RulesTask) -> None:
    task.create(
        objects.virtual_machine("lost", placement={"nodeSelector": {"example.com/disk": "ssd"}})
    )
    wait_for_unbound_pod(task)

    result = judge()

    assert result["summary"]["pending"] == 1
    (pending,) = result["pending"]
    assert pending["workload"] == {"kind": VM, "namespace": task.namespace, "name": "lost"}
    assert pending["reason"] == (
        "0/6 nodes are available: 6 node(s) didn't match Pod's node affinity/selector (example.com/disk=ssd)"
    )
    assert by_name(result)["lost"]["verdict"] == "pending"
    assert "no_node_has_key" in {found["name"] for found in result["findings"]}


def test_field_16_zone_that_is_tainted_counts_for_a_spread(
    judge: Judge, six: Sandbox, task: RulesTask
) -> None:
    """kube-scheduler places as many as the finding says."""
    taint = {"key": "example.com/dedicated", "effect": "NoSchedule"}
    constraint = {
        "maxSkew": 1,
        "topologyKey": "topology.kubernetes.io/zone",
        "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": {"matchLabels": {"app": "ticker"}},
    }
    for node in ("w1", "w2"):
        six.api.patch(six.api.path("Node", name=node), {"spec": {"taints": [taint]}})
    try:
        placement = {"topologySpreadConstraints": [constraint]}
        task.create(objects.deployment("ticker", replicas=6, placement=placement))
        pods = task.api.wait_list(task.api.path("Pod", task.namespace), _are_settled)
        result = judge()
    finally:
        six.restore_nodes()

    assert sum(map(_is_bound, pods)) == 2
    (found,) = [x for x in result["findings"] if x["name"] == "spread_counts_unusable_domain"]
    assert found["severity"] == "error"
    assert "zone zone1 counts" in found["why"]
    assert "so 2 of 6 pods" in found["why"]
    assert "nodeTaintsPolicy: Honor" in found["advice"]


def _are_settled(pods: list[dict[str, t.Any]]) -> bool:
    return len(pods) == 6 and all(pod["status"].get("conditions") for pod in pods)


def test_replica_sets_deployments_and_pods(judge: Judge, task: RulesTask) -> None:
    task.create(objects.replica_set("set", replicas=1))
    task.create(objects.deployment("web", replicas=2))
    task.create(objects.pod("alone"))
    task.api.wait_list(
        task.api.path("Pod", task.namespace),
        lambda pods: len(pods) == 4 and all(p["status"]["phase"] == "Running" for p in pods),
    )

    result = judge(details="all")

    workloads = sorted(each["workload"]["kind"] for each in result["instances"])
    assert workloads == ["Deployment", "Deployment", "Pod", "VirtualMachineInstanceReplicaSet"]
    asked = judge(workloads=[{"kind": "Pod", "namespace": task.namespace, "name": "alone"}])
    assert asked["summary"]["instances"] == 1
    asked = judge(
        namespaces=[task.namespace],
        workloads=[{"kind": "Deployment", "labels": {"app": "web"}}],
    )
    assert asked["summary"]["instances"] == 2


def test_cordoned_node_is_a_risk_and_no_violation(
    judge: Judge, six: Sandbox, task: RulesTask
) -> None:
    task.create(objects.virtual_machine("db1"))
    node = task.running("db1")["db1"]["status"]["nodeName"]
    drain.cordon(six, node)
    try:
        # Its taint is a risk, too, and comes a moment later.
        six.api.wait(lambda seen: seen["spec"].get("taints"), six.api.path("Node", name=node))
        result = judge()
        assert result["summary"]["satisfied"] == result["summary"]["instances"] == 1
        assert {(each["kind"], each["node"]) for each in result["risks"]} >= {("cordoned", node)}
        assert f"{node} (cordoned)" in result["table"]
        counted = judge(details="summary")
        assert counted["summary"]["risks"] == len(result["risks"])
        assert (counted["risks"], counted["instances"]) == ([], [])
    finally:
        six.restore_nodes()


def test_removed_constraint_differs_from_a_rule_that_is_not_enforced_yet(
    judge: Judge, task: RulesTask
) -> None:
    task.create(objects.virtual_machine("db1"))
    task.create(objects.virtual_machine("db2"))
    task.running("db1", "db2")
    task({**APART, "workloads": ["db1", "db2"], "keep_apart": "zone", "preferred": True})
    task.patch(VM, "db1", [{"op": "remove", "path": "/spec/template/spec/affinity"}])

    result = judge()

    assert result["summary"]["constraint_removed"] == 1
    assert by_name(result)["db1"]["constraint_removed"]
    assert by_name(result)["db1"]["verdict"] == "not_enforced"
    assert not by_name(result)["db2"]["constraint_removed"], "it waits for its migration"


def test_instance_on_a_node_that_is_not_ready_is_down(
    judge: Judge, six: Sandbox, task: RulesTask
) -> None:
    task.create(objects.virtual_machine("db1"))
    node = task.running("db1")["db1"]["status"]["nodeName"]
    node_faults.node_down(six.api, node)
    try:
        result = judge()
    finally:
        node_faults.node_up(six.api, node)

    assert result["summary"]["down"] == result["summary"]["satisfied"] == 1
    assert by_name(result)["db1"]["down"], "it is listed although no rule is violated"


def test_an_empty_question_is_about_nothing(judge: Judge, in_one_zone: t.Any) -> None:
    assert judge(workloads=[])["summary"]["instances"] == 0
    assert judge(namespaces=[])["summary"]["instances"] == 0


def test_missing_workload_is_reported_with_the_nearest_name(
    judge: Judge, in_one_zone: t.Any
) -> None:
    result = judge(workloads=[{"namespace": judge.namespace, "names": ["db1", "bd2"]}])
    assert error_messages(result) == [
        f"workloads[0]: there is no VirtualMachine 'bd2' in namespace '{judge.namespace}'; did you"
        " mean 'db2' or 'db1' or 'db3'?"
    ] or error_messages(result)[0].startswith("workloads[0]: there is no VirtualMachine 'bd2'")
    result = judge(namespaces=[judge.namespace, "nowhere"])
    assert [fault.split(";")[0] for fault in error_messages(result)] == [
        "namespaces: there is no namespace 'nowhere'"
    ]
    result = judge(
        workloads=[{"namespace": judge.namespace, "kind": "Deployment", "labels": {"a": "b"}}]
    )
    assert error_messages(result) == [
        f"workloads[0]: no Deployment in namespace '{judge.namespace}' has a=b"
    ]


def test_bad_references_are_all_named_at_once(judge: Judge) -> None:
    result = judge(
        workloads=[{"name": "db1"}, {"namespace": "shop"}, {"namespace": "shop", "name": ""}]
    )
    assert [fault.split(":")[0] for fault in error_messages(result)] == [
        "workloads[0], namespace",
        "workloads[1]",
        "workloads[2], name",
    ]


def test_without_rights_nothing_is_reported_as_fine(judge: Judge, in_one_zone: t.Any) -> None:
    result = judge(identity="nobody", namespaces=[judge.namespace])

    assert not result.get("failed")
    assert result["summary"]["unknown"] >= 1
    assert result["summary"]["satisfied"] == 0
    assert {"pods", "nodes", "virtualmachineinstances"} <= {
        each["resource"] for each in result["permission_gaps"]
    }
    assert any("list pods in " in str(warning) for warning in result["warnings"])


def test_another_cluster_is_refused(judge: Judge) -> None:
    result = judge(cluster_uid="another")
    assert result["failed"]
    assert "another" in result["msg"]


def test_a_cluster_without_kubevirt(plain: Sandbox, run_module: RunModule) -> None:
    plain.api.apply(objects.deployment("web", replicas=2))
    pods = plain.api.path("Pod", "default")
    plain.api.wait_list(pods, lambda found: len(found) == 2 and all(map(_is_bound, found)))
    judge = Judge(plain, run_module, "default")

    assert judge()["summary"]["satisfied"] == 2
    result = judge(workloads=[{"namespace": "default", "name": "db"}])
    assert error_messages(result) == [
        "workloads[0]: KubeVirt is not installed on this cluster, so it has no VirtualMachine"
    ]


def _is_bound(pod: dict[str, t.Any]) -> bool:
    return bool(pod["spec"].get("nodeName"))


def wait_until_declared(task: RulesTask, name: str) -> None:
    """KubeVirt has brought the template's affinity to the VMI."""
    task.api.wait(
        lambda vmi: "podAntiAffinity" in (vmi["spec"].get("affinity") or {}),
        task.api.path("VirtualMachineInstance", task.namespace, name),
    )


def wait_for_unbound_pod(task: RulesTask) -> str:
    found = task.api.wait_list(
        task.api.path("Pod", task.namespace),
        lambda pods: any(not _is_bound(pod) and pod["status"].get("conditions") for pod in pods),
    )
    return str(next(pod["metadata"]["name"] for pod in found if not _is_bound(pod)))
