# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Why a pod has no node, as kube-scheduler words it."""

from __future__ import annotations

import typing as t
from dataclasses import replace

import pytest

from ansible_collections.virt.placement.plugins.module_utils.flows.placement_info import summary
from ansible_collections.virt.placement.plugins.module_utils.model.obstacle import Obstacle
from tests.support.cluster import Cluster, Object
from tests.unit.compliance.judged import judge


def waiting(cluster: Cluster, spec: Object) -> str:
    cluster.bare_pod("big", "", spec)
    (pending,) = judge(cluster.snapshot()).pending
    return pending.reason


def test_each_resource_that_is_short_counts_by_itself() -> None:
    cluster = Cluster("ab")
    cluster.nodes["n1"]["status"]["allocatable"]["cpu"] = "64"
    requests = {"resources": {"requests": {"cpu": "32", "memory": "128Gi"}}}

    reason = waiting(cluster, {"containers": [{"name": "c", **requests}]})

    assert reason == (
        "0/2 nodes are available: 2 Insufficient memory, 1 Insufficient cpu; node n1 lacks 64.0 GiB memory"
    )


def test_pod_with_scheduling_gates_waits_for_no_node() -> None:
    gated = {"schedulingGates": [{"name": "example.com/quota"}]}
    assert (
        waiting(Cluster("ab"), gated) == "scheduling is blocked due to non-empty scheduling gates"
    )


NOT_FOUND = 'persistentvolumeclaim "wiki-data" not found'


def refused(cluster: Cluster, message: str) -> str:
    """The reason of a pod with the condition PodScheduled."""
    pod = cluster.bare_pod("big", "")
    condition = {"type": "PodScheduled", "status": "False", "message": message}
    pod["status"]["conditions"] = [condition]
    (pending,) = judge(cluster.snapshot()).pending
    return pending.reason


@pytest.mark.parametrize(
    "tail",
    ["", ". preemption: 0/2 nodes are available: 2 Preemption is not helpful for scheduling."],
)
def test_field_42_reason_of_the_scheduler_is_never_contradicted_by_feasible_nodes(
    tail: str,
) -> None:
    reason = refused(Cluster("ab"), f"0/2 nodes are available: {NOT_FOUND}{tail}")
    assert reason == f"the scheduler refused it: 0/2 nodes are available: {NOT_FOUND}"


def test_field_42_reason_that_no_filter_knows_is_that_of_the_scheduler() -> None:
    cluster = Cluster("a")
    cluster.nodes["n1"]["spec"]["unschedulable"] = True
    assert refused(cluster, f"0/1 nodes are available: {NOT_FOUND}.").endswith(f"{NOT_FOUND}.")
    ours = "0/1 nodes are available: 1 node(s) were unschedulable"
    assert refused(cluster, f"{ours}. preemption: 0/1 nodes are available: 1 x.") == ours


def test_field_42_vm_without_a_pod_says_why_its_vmi_does_not_go_on() -> None:
    cluster = Cluster("a")
    cluster.start(cluster.vm("archive"), "")
    cluster.pods.clear()
    message = "PVC shop/archive-root does not exist, waiting for it to appear"
    cluster.machines["archive"]["status"]["conditions"] = [
        {
            "type": "Synchronized",
            "status": "False",
            "reason": "FailedPvcNotFound",
            "message": message,
        }
    ]
    (pending,) = judge(cluster.snapshot()).pending
    assert pending.reason == f"it has no pod yet: FailedPvcNotFound: {message}"


REFUSAL = (
    'pods "unsealer-5c" is forbidden: violates PodSecurity "restricted:latest": seccompProfile'
)


@pytest.mark.parametrize(
    ("there", "missing"), [(0, "; 1 of 1 do not exist"), (1, "")], ids=["lacking", "surge"]
)
def test_case_90_workload_whose_pods_are_refused_is_named_as_a_vm_is(
    there: int, missing: str
) -> None:
    cluster = Cluster("ab")
    template = {"metadata": {"labels": {"app": "unsealer"}}, "spec": {"containers": []}}
    ref = cluster.workload("Deployment", "unsealer", {"template": template, "replicas": 1})
    condition = {"type": "ReplicaFailure", "status": "True", "reason": "FailedCreate"}
    status = {"replicas": there, "conditions": [{**condition, "message": REFUSAL}]}
    cluster.workloads[ref]["status"] = status

    verdicts = judge(cluster.snapshot())

    (pending,), (verdict,) = verdicts.pending, verdicts.instances
    reason = f"the API server refuses its pods{missing}: {REFUSAL}"
    assert (pending.instance, pending.workload, pending.reason) == (ref, ref, reason)
    assert (verdict.instance, str(verdict.verdict), verdict.node) == (ref, "pending", "")
    assert [rule.reason for rule in verdict.rules] == [reason]
    assert summary(verdicts)["pending"] == 1
    assert judge(cluster.snapshot(), namespaces=["other"]).instances == ()

    condition["status"] = "False"
    cluster.workloads[ref]["status"] = {"conditions": [condition]}
    assert judge(cluster.snapshot()).pending == ()


@pytest.mark.parametrize(
    ("kind", "spec", "status"),
    [
        ("StatefulSet", {"replicas": 3}, {"replicas": 1}),
        ("DaemonSet", {}, {"desiredNumberScheduled": 3, "currentNumberScheduled": 1}),
    ],
)
def test_workload_of_which_only_an_event_says_the_refusal_is_named(
    kind: str, spec: t.Any, status: t.Any
) -> None:
    cluster = Cluster("ab")
    template = {"metadata": {"labels": {"app": "db"}}, "spec": {"containers": []}}
    ref = cluster.workload(kind, "db", {"template": template, **spec})
    cluster.workloads[ref]["status"] = status
    snapshot = cluster.snapshot()
    assert judge(snapshot).pending == ()
    (workload,) = snapshot.workloads
    refused = replace(workload, refused_by_event=Obstacle("refused", REFUSAL, True))

    (pending,) = judge(replace(snapshot, workloads=(refused,))).pending

    assert pending.reason == f"the API server refuses its pods; 2 of 3 do not exist: {REFUSAL}"


@pytest.mark.parametrize(
    ("spec", "status", "named"),
    [
        ({"runStrategy": "Always"}, {}, True),
        ({"running": True}, {"created": False}, True),
        ({"runStrategy": "Always"}, {"created": True}, False),  # such as of a hotplugged volume
        ({"runStrategy": "Halted"}, {}, False),
    ],
)
def test_vm_whose_vmi_is_refused_is_named(spec: t.Any, status: t.Any, named: bool) -> None:
    cluster = Cluster("ab")
    ref = cluster.vm("quay")
    message = "Failure while starting VMI: exceeded quota: no-vms"
    failure = {"type": "Failure", "status": "True", "reason": "FailedCreate", "message": message}
    manifest = cluster.workloads[ref]
    manifest["spec"] = {**manifest["spec"], **spec}
    manifest["status"] = {**status, "conditions": [failure]}

    pending = judge(cluster.snapshot()).pending

    assert [x.reason for x in pending] == [f"KubeVirt does not start it: {message}"] * named
    assert [x.instance for x in pending] == [ref] * named
