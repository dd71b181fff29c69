# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a running pod has that its template does not explain lowers the answer about the next one."""

from __future__ import annotations

import typing as t

import pytest

from ansible_collections.virt.placement.plugins.module_utils.forecast.change import what_if
from ansible_collections.virt.placement.plugins.module_utils.forecast.doubts import doubts_of_change
from ansible_collections.virt.placement.plugins.module_utils.forecast.drill import drill
from ansible_collections.virt.placement.plugins.module_utils.forecast.eviction import NodeEvent
from ansible_collections.virt.placement.plugins.module_utils.forecast.forecast import forecast
from ansible_collections.virt.placement.plugins.module_utils.forecast.scaling import Scale
from tests.support.cluster import (
    HOST,
    ZONE,
    Cluster,
    cluster,
    deployment,
    expression,
    machine,
    node_affinity,
    replica_set,
)

JSON = t.Any


def answers(made: Cluster, event: NodeEvent = "drain") -> list[tuple[str, tuple[str, ...]]]:
    """Of the forecast and of the drill of the loss of n1, with their codes."""
    change = what_if(made.snapshot(), lost_nodes=["n1"], event=event)
    found = forecast(change, doubts=doubts_of_change(change))
    drills = drill(made.snapshot(), [HOST], event=event).drills
    (drilled,) = (x for x in drills if x.domain == "n1")
    return [(x.answer.value, x.codes) for x in (found, drilled)]


def test_node_selector_that_the_template_does_not_have_may_come_again() -> None:
    """Admission adds it: a RuntimeClass, PodNodeSelector, the node selector of an OpenShift project, a webhook."""
    made = cluster("abb")
    deployment(made, "web", ["n1"], {})
    (pod,) = made.pods.values()
    assert answers(made) == [("guaranteed", ("worst_case",))] * 2

    pod["spec"]["nodeSelector"] = {ZONE: "a"}

    assert answers(made) == [("possible", ("admission_differs",))] * 2


def test_toleration_that_the_template_does_not_have_may_come_again() -> None:
    made = cluster("ab")
    deployment(made, "web", ["n1"], {})
    made.nodes["n2"]["spec"] = {"taints": [{"key": "gpu", "value": "", "effect": "NoSchedule"}]}
    (pod,) = made.pods.values()
    assert answers(made) == [("impossible", ("no_node",))] * 2

    pod["spec"]["tolerations"] = [{"key": "gpu", "operator": "Exists"}]

    assert answers(made) == [("unknown", ("admission_differs",))] * 2


def test_proof_stays_a_proof_where_admission_may_add_a_node_selector() -> None:
    """Number 16 of issue 41: a node selector closes nodes, and opens none."""
    made = cluster("ab")
    deployment(made, "web", ["n1"], {})
    made.nodes["n2"]["spec"] = {"taints": [{"key": "gpu", "value": "", "effect": "NoSchedule"}]}
    (pod,) = made.pods.values()
    pod["spec"]["nodeSelector"] = {ZONE: "a"}
    assert answers(made) == [("impossible", ("no_node",))] * 2


def test_vm_that_was_moved_by_hand_to_one_node_is_forecast_as_before() -> None:
    """Number 16 of issue 41. The migration had addedNodeSelector, as that of vMotion has, which only its target has."""
    made = cluster("abb")
    machine(made, "db", "n1")
    (pod,) = made.pods.values()
    before = answers(made, "failure")
    assert before == [("guaranteed", ("worst_case",))] * 2
    pod["spec"]["nodeSelector"] = {HOST: "n1", **pod["spec"].get("nodeSelector", {})}
    assert answers(made, "failure") == [("possible", ("admission_differs",))] * 2

    pod["metadata"]["labels"]["kubevirt.io/migrationJobUID"] = "m1"

    assert answers(made, "failure") == before


def test_vm_that_tolerates_the_taints_of_a_failed_node_may_be_placed_there_again() -> None:
    made = cluster("ab")
    machine(made, "db", "n1", {"tolerations": [{"operator": "Exists"}]})
    assert answers(made, "failure") == [("possible", ("tolerates_failure",))] * 2


@pytest.mark.parametrize("migrates", [True, False])
def test_what_kubevirt_adds_and_what_is_declared_is_known(migrates: bool) -> None:
    made = cluster("ab", migrates=migrates)
    machine(made, "db", "n1", {"nodeSelector": {"disk": "ssd"}})
    for node in made.nodes.values():
        node["metadata"]["labels"]["disk"] = "ssd"
    (pod,) = made.pods.values()
    pod["spec"]["nodeSelector"] = {"disk": "ssd", "kubevirt.io/schedulable": "true"}
    pod["spec"]["tolerations"] = [
        {"key": "node.kubernetes.io/not-ready", "operator": "Exists", "effect": "NoExecute"}
    ]
    for node in made.nodes.values():
        node["metadata"]["labels"]["kubevirt.io/schedulable"] = "true"

    assert [answer for answer, _codes in answers(made)] == ["guaranteed"] * 2


def test_pod_of_another_revision_of_its_stateful_set_may_be_followed_by_another() -> None:
    """With updateStrategy OnDelete, or below a partition, the next pod may be made from another template (kubernetes
    pkg/controller/statefulset, newVersionedStatefulSetPod)."""
    made = cluster("ab")
    ref = deployment(made, "web", ["n1"], {})
    workload = made.workloads.pop(ref)
    ref = made.workload("StatefulSet", "web", workload["spec"])
    (pod,) = made.pods.values()
    uid = made.workloads[ref]["metadata"]["uid"]
    pod["metadata"]["ownerReferences"][0] |= {"kind": "StatefulSet", "name": "web", "uid": uid}
    pod["metadata"]["labels"]["controller-revision-hash"] = "web-1"
    made.workloads[ref]["status"] = {"updateRevision": "web-1"}
    assert [answer for answer, _codes in answers(made)] == ["guaranteed"] * 2

    made.workloads[ref]["status"] = {"updateRevision": "web-2"}

    assert answers(made) == [("possible", ("next_pod_estimated",))] * 2


@pytest.mark.parametrize("kind", ["cinder", "azureDisk", "vsphereVolume", "rbd"])
def test_volume_in_the_pod_that_counts_for_a_limit_of_its_node_is_not_modeled(kind: str) -> None:
    made = cluster("ab")
    deployment(made, "web", ["n1"], {})
    (pod,) = made.pods.values()
    pod["spec"]["volumes"] = [{"name": "data", kind: {}}]

    assert answers(made) == [("possible", ("unmodeled_field",))] * 2


def test_paused_replica_set_of_vms_creates_no_instance() -> None:
    made = cluster("ab", migrates=False)
    ref = replica_set(made, "web", ["n1"], {})
    made.workloads[ref]["spec"]["paused"] = True
    scale = [Scale(ref, 2)]

    change = what_if(made.snapshot(), lost_nodes=["n1"])
    lost = forecast(change, doubts=doubts_of_change(change))
    drilled = drill(made.snapshot(), [HOST], event="failure").drills[0]
    change = what_if(made.snapshot(), scale=scale)
    scaled = forecast(change, doubts=doubts_of_change(change, scale))

    assert [finding.name for finding in lost.findings] == ["not_recreated"]
    assert [ref.name for ref in drilled.not_recreated] == ["web-0"]
    assert (scaled.answer.value, "paused" in scaled.codes) == ("possible", True)


@pytest.mark.parametrize("zones", [("a", "b"), ("a", "a")])
def test_vmi_of_a_replica_set_migrates_with_the_placement_that_it_was_made_with(
    zones: tuple[str, str],
) -> None:
    """A changed template of a replica set never reaches its VMIs (KubeVirt, watch/replicaset/replicaset.go)."""
    made = cluster("".join(zones))
    in_zone_a = node_affinity({"matchExpressions": [expression(ZONE, "In", "a")]})
    ref = replica_set(made, "web", ["n1"], in_zone_a)
    made.template(ref)["spec"]["affinity"] = {}

    assert answers(made)[0][0] == ("impossible" if zones == ("a", "b") else "guaranteed")


def test_drain_during_a_rollout_of_a_deployment_is_no_certainty() -> None:
    """The pod after one of the old ReplicaSet may be of either template (kubernetes pkg/controller/deployment)."""
    made = cluster("ab")
    ref = deployment(made, "web", ["n1"], {})
    made.workloads[ref]["status"] = {"replicas": 2, "updatedReplicas": 2}
    assert [answer for answer, _codes in answers(made)] == ["guaranteed"] * 2

    made.workloads[ref]["status"] = {"replicas": 2, "updatedReplicas": 1}

    assert answers(made) == [("possible", ("next_pod_estimated",))] * 2


ASKS_FOR_MORE = {"containers": [{"name": "a", "resources": {"requests": {"memory": "900Gi"}}}]}


@pytest.mark.parametrize(
    ("status", "spec", "doubt"),
    [
        ({}, {}, ""),
        ({"replicas": 2, "updatedReplicas": 1}, {}, "rolls out, and 1 of its 2 pods are"),
        ({}, ASKS_FOR_MORE, "requests less memory than its template"),
    ],
)
def test_new_pods_are_not_taken_for_running_ones_of_another_template(
    status: JSON, spec: JSON, doubt: str
) -> None:
    made = cluster("ab")
    ref = deployment(made, "web", ["n1"], {})
    made.workloads[ref]["status"] = status
    made.workloads[ref]["spec"]["template"]["spec"] = spec
    scale = (Scale(ref, 2),)
    change = what_if(made.snapshot(), scale=scale)
    found = forecast(change, doubts=doubts_of_change(change, scale))

    assert found.answer.value == ("possible" if doubt else "guaranteed"), found.reasons
    assert any(doubt in str(reason) for reason in found.reasons) or not doubt


@pytest.mark.parametrize(("guest", "answer"), [("1Gi", "guaranteed"), ("900Gi", "impossible")])
def test_new_instance_of_a_replica_set_has_the_memory_of_its_template(
    guest: str, answer: str
) -> None:
    """KubeVirt changes no running instance of a replica set (pkg/virt-controller/watch/replicaset/replicaset.go)."""
    made = cluster("ab")
    ref = replica_set(made, "web", ["n1"], {"domain": {"memory": {"guest": "1Gi"}}})
    template = made.workloads[ref]["spec"]["template"]["spec"]
    template["domain"] = {"memory": {"guest": guest}}
    scale = (Scale(ref, 2),)
    change = what_if(made.snapshot(), scale=scale)
    found = forecast(change, doubts=doubts_of_change(change, scale))

    assert found.answer.value == answer, found.reasons


def test_vm_that_may_stay_off_is_no_estimate_of_its_next_pod() -> None:
    made = cluster("ab")
    ref = machine(made, "db", "n1", {"evictionStrategy": "None"})
    made.workloads[ref]["spec"]["runStrategy"] = "RerunOnFailure"
    assert answers(made) == [("possible", ("may_stay_off",))] * 2
    assert [answer for answer, _codes in answers(made, "failure")] == ["guaranteed"] * 2


def test_what_makes_a_drill_impossible_stands_before_what_is_not_certain() -> None:
    made = cluster("ab")
    spec = {"evictionStrategy": "None"}
    ref = machine(made, "first", "n1", spec)
    made.workloads[ref]["spec"]["runStrategy"] = "RerunOnFailure"
    machine(made, "second", "n1", {"evictionStrategy": "LiveMigrate"})
    (vmi,) = (x for x in made.machines.values() if x["metadata"]["name"] == "second")
    vmi["status"]["conditions"] = [{"type": "LiveMigratable", "status": "False", "message": "no"}]
    change = what_if(made.snapshot(), lost_nodes=["n1"])
    (drilled,) = (
        x for x in drill(made.snapshot(), [HOST], event="drain").drills if x.domain == "n1"
    )
    for found in (forecast(change, doubts=doubts_of_change(change)), drilled):
        assert found.answer.value == "impossible", found
        assert "second" in found.reasons[0], found.reasons
        assert "may stay off" not in found.reasons[0]
    assert any("may stay off" in x for x in drilled.reasons[1:])
