# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Who is judged: what runs, waits, ends, and belongs to whom."""

from __future__ import annotations

import copy
import typing as t

from ansible_collections.virt.placement.plugins.module_utils.compliance.instances import (
    InstanceSelection,
    declared_instances,
    movable_instances,
)
from ansible_collections.virt.placement.plugins.module_utils.model.objects import Ref
from ansible_collections.virt.placement.plugins.module_utils.model.verdict import Verdict
from tests.support.cluster import ZONE, Cluster, anti_affinity, apart
from tests.unit.compliance.judged import judge, of, three


def test_pending_is_explained_by_the_engine() -> None:
    cluster = Cluster("ab")
    refs = three(cluster, ["n1", "n2", ""])

    found = judge(cluster.snapshot())

    assert [(p.instance.name, p.workload) for p in found.pending] == [("db3", refs[2])]
    assert found.pending[0].reason == (
        "0/2 nodes are available: 2 node(s) didn't match pod anti-affinity rules"
        " (tier In (db) over zone); blocked by VM shop/db1 and 1 other (rule shop/default/apart)"
    )
    assert of(found, "db3").verdict is Verdict.PENDING
    assert of(found, "db3").node == ""


def test_pending_with_a_place_waits_for_the_scheduler() -> None:
    cluster = Cluster("a")
    cluster.start(cluster.vm("db"), "")

    (pending,) = judge(cluster.snapshot()).pending

    assert pending.reason == "the scheduler has not bound it yet; feasible nodes: n1"


def test_risks_are_no_violations() -> None:
    cluster = Cluster()
    cluster.run("db", "n1")
    cluster.nodes["n1"]["spec"] = {
        "unschedulable": True,
        "taints": [{"key": "broken", "effect": "NoSchedule"}],
    }
    cluster.nodes["n1"]["status"]["conditions"] = []
    cluster.nodes["n1"]["metadata"]["labels"]["kubevirt.io/schedulable"] = "false"
    cluster.nodes["n1"]["status"]["allocatable"]["memory"] = "1Mi"

    found = judge(cluster.snapshot())

    assert of(found, "db").verdict is Verdict.SATISFIED
    assert {risk.kind for risk in found.risks} == {
        "not_ready",
        "cordoned",
        "taint",
        "resources",
        "not_schedulable_for_kubevirt",
    }


def test_anti_affinity_on_a_node_without_the_key_is_a_risk() -> None:
    cluster = Cluster()
    cluster.node("bare")
    cluster.run("db", "bare", anti_affinity(apart(tier="db")), tier="db")

    found = judge(cluster.snapshot())

    assert of(found, "db").verdict is Verdict.SATISFIED
    assert [risk.kind for risk in found.risks] == ["unknown_domain"]


def test_a_node_counts_for_the_first_filter_that_refuses_it() -> None:
    cluster = Cluster("ab")
    cluster.nodes["n1"]["spec"] = {"unschedulable": True}
    cluster.run("other", "n2", app="x")
    ref = cluster.vm("db", anti_affinity(apart(ZONE, app="x")) | {"nodeSelector": {ZONE: "b"}})
    cluster.start(ref)

    (pending,) = judge(cluster.snapshot()).pending

    assert pending.reason == (
        "0/2 nodes are available: 1 node(s) were unschedulable,"
        " 1 node(s) didn't match pod anti-affinity rules (app In (x) over zone); blocked by VM shop/other"
    )


def test_the_control_plane_is_one_number_whatever_else_keeps_a_pod_off_it() -> None:
    cluster = Cluster("aab")
    taint = {"key": "node-role.kubernetes.io/control-plane", "effect": "NoSchedule"}
    for name in ("n1", "n2"):
        cluster.nodes[name]["spec"] = {"taints": [taint]}
    cluster.run("other", "n1", app="x")
    cluster.run("another", "n3", app="x")
    cluster.start(cluster.vm("db", anti_affinity(apart(ZONE, app="x"))))

    (pending,) = judge(cluster.snapshot()).pending

    assert pending.reason == (
        "0/3 nodes are available: 2 node(s) had untolerated taint"
        " {node-role.kubernetes.io/control-plane: },"
        " 1 node(s) didn't match pod anti-affinity rules (app In (x) over zone); blocked by VM shop/another"
    )


def test_replicas_of_a_set_and_pods_of_a_deployment_know_their_workload() -> None:
    cluster = Cluster()
    template = {"metadata": {"labels": {"app": "x"}}, "spec": {}}
    deployment = cluster.workload("Deployment", "web", {"template": template})
    replicas = cluster.workload("VirtualMachineInstanceReplicaSet", "set", {"template": template})
    cluster.start(deployment, "n1", "web-1")
    cluster.start(replicas, "n2", "set-1")
    cluster.bare_pod("alone", "n3")

    found = judge(cluster.snapshot())

    assert {v.instance: v.workload for v in found.instances} == {
        Ref("Pod", "shop", "web-1"): deployment,
        Ref("VirtualMachineInstance", "shop", "set-1"): replicas,
        Ref("Pod", "shop", "alone"): Ref("Pod", "shop", "alone"),
    }


def test_a_vm_of_a_pool_belongs_to_the_pool() -> None:
    cluster = Cluster()
    template: dict[str, t.Any] = {"metadata": {"labels": {}}, "spec": {}}
    pool = cluster.workload(
        "VirtualMachinePool", "pool", {"virtualMachineTemplate": {"spec": {"template": template}}}
    )
    vm = cluster.run("pool-0", "n1")
    cluster.workloads[vm]["metadata"]["ownerReferences"] = [
        {"kind": "VirtualMachinePool", "name": "pool", "uid": "pool", "controller": True}
    ]

    snapshot = cluster.snapshot()
    assert of(judge(snapshot), "pool-0").workload == pool
    assert of(judge(snapshot, workloads=[vm]), "pool-0").workload == pool
    assert judge(snapshot, workloads=[vm._replace(name="pool-1")]).instances == ()
    (movable,) = movable_instances(snapshot, InstanceSelection(workloads=frozenset({vm})))
    assert movable.workload is not None and movable.workload.ref == pool


def test_rule_of_a_pool_needs_a_restart_where_its_vm_has_restart_required() -> None:
    cluster = Cluster()
    vm = cluster.run("pool-0", "n1")
    template = copy.deepcopy(cluster.template(vm))
    template["spec"].update(anti_affinity(apart(tier="db")))
    spec = {"virtualMachineTemplate": {"spec": {"template": template}}, "replicas": 1}
    cluster.workload("VirtualMachinePool", "pool", spec)
    cluster.template(vm)["spec"].update(anti_affinity(apart(tier="db")))
    cluster.workloads[vm]["metadata"]["ownerReferences"] = [
        {"kind": "VirtualMachinePool", "name": "pool", "uid": "pool", "controller": True}
    ]
    assert _effects(cluster) == ["migration"]

    cluster.workloads[vm]["status"] = {
        "conditions": [{"type": "RestartRequired", "status": "True"}]
    }
    assert _effects(cluster) == ["restart"]


def _effects(cluster: Cluster) -> list[str]:
    """What the rules of the VM need, as its verdict and a rollout report it."""
    snapshot = cluster.snapshot()
    verdict = of(judge(snapshot), "pool-0")
    effects = {x.takes_effect for x in verdict.rules}
    return sorted(effects | {x.takes_effect for x in declared_instances(snapshot)})


def test_only_what_was_asked_for_is_judged_and_all_others_count() -> None:
    cluster = Cluster()
    refs = three(cluster, ["n1", "n2", "n5"])

    found = judge(cluster.snapshot(), workloads=[refs[0]], namespaces=["shop"])

    assert [v.instance.name for v in found.instances] == ["db1"]
    assert of(found, "db1").verdict is Verdict.VIOLATED
    assert judge(cluster.snapshot(), workloads=[]).instances == ()
    assert judge(cluster.snapshot(), namespaces=["other"]).instances == ()


def test_terminating_instance_is_not_pending() -> None:
    cluster = Cluster()
    cluster.bare_pod("gone", "n1")["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    cluster.bare_pod("done", "n1")["status"]["phase"] = "Succeeded"

    assert judge(cluster.snapshot()).instances == ()
