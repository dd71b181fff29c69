# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Drains that cannot end are refused before the cordon and leave no trace: scenarios S10, S11, S15, S18, S22.

Each scenario goes on to its end state: what runs where after the drain, and after the node is back."""

from __future__ import annotations

import contextlib
import re
import typing as t

import pytest

from ansible_collections.virt.placement.plugins.modules import placement_info, rules
from sandbox import Sandbox, drain, objects
from tests.maintenance import Maintenance, maintenance, vms
from tests.shop import HOSTNAME, ZONE, Object
from tests.terms import apart_over_zone

EVERY = ("w1", "w2", "w3", "w4", "w5", "w6")
FAST = "example.com/fast"
RACK = "example.com/rack"


class Refused:
    """What a drain that was refused says, and the proof that it left no trace."""

    def __init__(self, scene: Maintenance, *nodes: str, **options: t.Any) -> None:
        mark = scene.sandbox.audit.mark()
        before = scene.nodes()
        self.result = scene.maintain("drained", *nodes, **options)
        assert self.result.get("failed"), self.result
        assert scene.sandbox.audit.writes(since=mark) == []
        assert not any(scene.cordoned(node) or scene.mark(node) for node in nodes)
        assert scene.nodes() == before
        self.names = sorted({error["object"] for error in self.result["errors"]})
        self.message = self.result["msg"]
        assert {error["type"] for error in self.result["errors"]} == {"finding"}
        assert self.message.endswith("No node was cordoned.")


@pytest.fixture
def scene(six: Sandbox, namespace: t.Any, run_module: t.Any) -> t.Iterator[Maintenance]:
    with maintenance(six, namespace(six, "preflight"), run_module) as made:
        yield made


def cordoned(scene: Maintenance, *nodes: str) -> contextlib.AbstractContextManager[None]:
    return drain.cordoned(scene.sandbox, nodes)


@contextlib.contextmanager
def labelled(scene: Maintenance, key: str, **values: str) -> t.Iterator[None]:
    def write(labels: t.Mapping[str, str | None]) -> None:
        for node, value in labels.items():
            scene.api.patch(f"/api/v1/nodes/{node}", {"metadata": {"labels": {key: value}}})

    write(values)
    try:
        yield
    finally:
        write(dict.fromkeys(values))


def term(key: str, *names: str) -> Object:
    expression = {"key": "vmi.kubevirt.io/id", "operator": "In", "values": list(names)}
    return {"labelSelector": {"matchExpressions": [expression]}, "topologyKey": key}


def required(kind: str, value: Object) -> Object:
    return {"affinity": {kind: {"requiredDuringSchedulingIgnoredDuringExecution": [value]}}}


def start(scene: Maintenance, **nodes: str) -> None:
    """A VM of each name on its node."""
    for name, node in nodes.items():
        with cordoned(scene, *(other for other in EVERY if other != node)):
            scene.start(objects.virtual_machine(name, scene.namespace))
            scene.api.wait(
                lambda vmi: vmi["status"]["phase"] == "Running",
                scene.path("VirtualMachineInstance", name),
            )
        assert scene.nodes()[name] == node


def patch(scene: Maintenance, **specs: Object) -> None:
    """Patch the templates of VMs, and wait until KubeVirt has brought that to the VMIs."""
    for name, spec in specs.items():
        scene.patch_template("VirtualMachine", name, spec)
    scene.api.wait_list(
        scene.path("VirtualMachineInstance"),
        lambda vmis: all(
            x["spec"].get("affinity") == specs[x["metadata"]["name"]]["affinity"] for x in vmis
        ),
        20,
    )


def test_drains_that_are_checked_in_turn_are_checked_each_by_itself(scene: Maintenance) -> None:
    """Nodes of two zones, of which the limits allow one: a VM can leave the one, and none the other."""
    bound = vms(scene, "bound", placement={"nodeSelector": {HOSTNAME: "w1"}})
    scene.start(*bound, nodes=["w1"])
    scene.start(*vms(scene, "free"), nodes=["w3"])
    alone = Refused(scene, "w1")

    checked = scene.check_in_turn([["w1"], ["w3"]])

    assert checked["_refused"] == [[["w1"], alone.message]]
    assert checked["progress"][0] == "1 move planned"
    assert f"would migrate VirtualMachine {scene.namespace}/free from w3" in checked["progress"][1]
    assert not checked["changed"]


def test_s10_two_vms_apart_on_two_nodes(scene: Maintenance) -> None:
    start(scene, d0="w1", d1="w2")
    apart = required("podAntiAffinity", term(HOSTNAME, "d0", "d1"))
    patch(scene, d0=apart, d1=apart)
    with cordoned(scene, *EVERY[3:]):
        with cordoned(scene, "w3"):
            refused = Refused(scene, "w1")
            assert refused.names == ["no_place"]
            assert "1 of 1 instances of node w1 would have no node" in refused.message
        uids = scene.uids()
        result = scene.maintain("drained", "w1")

    assert not result.get("failed"), result.get("msg")
    assert scene.nodes() == {"d0": "w3", "d1": "w2"}
    assert scene.uids() == uids


def test_s10_pair_that_needs_each_other(scene: Maintenance) -> None:
    start(scene, d0="w1", d1="w1")
    patch(
        scene,
        d0=required("podAffinity", term(HOSTNAME, "d1")),
        d1=required("podAffinity", term(HOSTNAME, "d0")),
    )

    assert Refused(scene, "w1").names == ["no_place"]


def test_s11_one_vm_a_zone(scene: Maintenance) -> None:
    names = ("d0", "d1", "d2")
    start(scene, d0="w1", d1="w3", d2="w5")
    patch(scene, **{name: required("podAntiAffinity", term(ZONE, *names)) for name in names})
    assert Refused(scene, "w1").names == ["no_place"]
    patch(scene, **{name: {"affinity": apart_over_zone(names)} for name in names})

    result = scene.maintain("drained", "w1")

    assert not result.get("failed"), result.get("msg")
    placed = {"d0": "w2", "d1": "w3", "d2": "w5"}
    assert scene.nodes() == placed
    assert not scene.maintain("in_service", "w1").get("failed")
    fourth = {"affinity": apart_over_zone((*names, "d3"))}
    scene.api.create(
        scene.path("VirtualMachine"),
        objects.virtual_machine("d3", scene.namespace, placement=fourth),
    )
    scene.api.wait_list(scene.path("Pod"), lambda items: sum(map(unschedulable, items)) == 1, 30)
    assert scene.nodes() == {**placed, "d3": ""}


@pytest.mark.parametrize("policy", ["Ignore", "Honor"])
def test_s15_only_node_of_a_rack(scene: Maintenance, policy: str) -> None:
    racks = {"w1": "r1", "w2": "r1", "w3": "r2", "w4": "r2", "w5": "r3"}
    spread = {
        "topologyKey": RACK,
        "maxSkew": 1,
        "whenUnsatisfiable": "DoNotSchedule",
        "nodeTaintsPolicy": policy,
        "labelSelector": {"matchLabels": {"app": "web"}},
    }
    placement = {"topologySpreadConstraints": [spread]}
    with labelled(scene, RACK, **racks), cordoned(scene, "w6"):
        scene.start(objects.deployment("web", scene.namespace, replicas=3, placement=placement))
        (node,) = [
            p["spec"]["nodeName"] for p in pods(scene) if racks[p["spec"]["nodeName"]] == "r3"
        ]
        assert node == "w5"
        allowed = []
        if policy == "Ignore":
            assert Refused(scene, "w5").names == ["no_place"]
            allowed = ["no_place"]
        result = scene.maintain("drained", "w5", allow_findings=allowed)

        assert not result.get("failed"), result.get("msg")
        expected = [["", "r1", "r2"]]
        if policy == "Honor":
            expected = [["r1", "r1", "r2"], ["r1", "r2", "r2"]]
        assert placed_in(scene, racks) in expected
        assert not scene.maintain("in_service", "w5").get("failed")
        if policy == "Honor":
            assert placed_in(scene, racks) in expected, "nothing moves by itself"
            rolled = scene.roll(allow=["recreate"])
            assert [move["state"] for move in rolled["moves"]] == ["moved"], rolled
        scene.wait_ready(3)
        assert placed_in(scene, racks) == ["r1", "r2", "r3"]


def test_s18_two_in_one_zone_is_a_warning(scene: Maintenance) -> None:
    with labelled(scene, FAST, w1="high", w3="high", w5="high"):
        databases(scene)
        result = scene.maintain("drained", "w1")

        assert not result.get("failed"), result.get("msg")
        shared = [x for x in result["findings"] if x["name"] == "shared_domain"]
        assert shared, result
        finding = shared[0]
        assert "mssql will have 2 in one zone" in finding["why"]
        assert any("shared_domain" in line for line in result["progress"])
        scene.wait_ready(3)
        nodes = sorted(scene.nodes().values())
        assert nodes in (["w3", "w3", "w5"], ["w3", "w5", "w5"])
        assert not scene.maintain("in_service", "w1").get("failed")
        assert sorted(scene.nodes().values()) == nodes, "nothing moves by itself"
        workload = {"kind": "VirtualMachineInstanceReplicaSet", "name": "mssql"}
        apart = {"name": "one-a-zone", "workloads": [workload], "keep_apart": "zone"}
        written = scene.task(rules.main, "mover", namespace=scene.namespace, rules=[apart])
        assert written["changed"], written
        verified = scene.task(placement_info.main, "reader", namespaces=[scene.namespace])
        assert verified["summary"]["violated"] == 2, verified["summary"]


def test_s22_one_would_be_unschedulable(scene: Maintenance) -> None:
    with labelled(scene, FAST, w1="high", w3="high", w5="high"):
        databases(scene)
        selector = {"matchLabels": {"kubevirt.io/domain": "mssql"}}
        apart = {
            "labelSelector": selector,
            "topologyKey": ZONE,
            "mismatchLabelKeys": ["kubevirt.io/created-by"],
        }
        affinity = required("podAntiAffinity", apart)
        scene.patch_template("VirtualMachineInstanceReplicaSet", "mssql", affinity)
        for name in list(scene.instances()):
            scene.api.delete(scene.path("VirtualMachineInstance", name))
        scene.wait_ready(3)
        refused = Refused(scene, "w1", vm_policy="restart")
        assert refused.names == ["no_place"]
        assert "1 of 1 instances of node w1 would have no node" in refused.message

        allowed: Object = {
            "allow_findings": ["no_place"],
            "vm_policy": "restart",
            "move_timeout": 5,
        }
        result = scene.maintain("drained", "w1", **allowed)

        assert not result.get("failed"), result.get("msg")
        assert sorted(scene.nodes().values()) == ["", "w3", "w5"]
        assert not scene.maintain("in_service", "w1").get("failed")
        scene.wait_ready(3)
        assert sorted(scene.nodes().values()) == ["w1", "w3", "w5"]


def test_pods_that_would_be_lost_are_named_together(scene: Maintenance) -> None:
    spec = objects.pod("tool", scene.namespace)
    spec["spec"] |= {"nodeName": "w1", "volumes": [{"name": "data", "emptyDir": {}}]}
    scene.start(spec)
    refused = Refused(scene, "w1")

    assert refused.names == ["bare_pod", "local_data_lost"]
    assert Refused(scene, "w1", allow_findings=["bare_pod"]).names == ["local_data_lost"]
    result = scene.maintain("drained", "w1", allow_findings=["bare_pod", "local_data_lost"])
    assert not result.get("failed"), result.get("msg")
    assert pods(scene) == []


def test_impossible_budget_is_refused_and_a_blocked_one_is_a_warning(scene: Maintenance) -> None:
    with cordoned(scene, *EVERY[1:]):
        scene.start(objects.deployment("web", scene.namespace, replicas=1))
    scene.add_budget("web", {"app": "web"}, maxUnavailable=0)
    refused = Refused(scene, "w1")

    assert refused.names == ["pdb_impossible"]
    assert f"PodDisruptionBudget {scene.namespace}/web" in refused.message
    limits = {
        "apiVersion": "v1",
        "kind": "LimitRange",
        "metadata": {"name": "large", "namespace": scene.namespace},
        "spec": {"limits": [{"type": "Container", "min": {"cpu": "2"}}]},
    }
    scene.api.create(scene.api.collection_of(limits), limits)
    assert Refused(scene, "w1").names == ["pdb_impossible"]
    may_ask = Refused(scene, "w1", kubeconfig=str(scene.sandbox.kubeconfig("admin")))
    assert may_ask.names == ["pdb_impossible", "place_unknown"]
    assert "minimum cpu usage per Container is 2" in may_ask.message
    scene.api.delete(scene.path("PodDisruptionBudget", "web"))
    result = scene.maintain("drained", "w1")
    assert not result.get("failed"), result.get("msg")
    (place,) = [x for x in result["findings"] if x["name"] == "place_unknown"]
    assert f"LimitRange {scene.namespace}/large may change or refuse the next pod" in place["why"]
    assert pods(scene) == [], "the API server refuses what it refuses as a dry run"


def test_vm_that_cannot_be_migrated(scene: Maintenance) -> None:
    faults = {"sandbox.virt/not-migratable": "DisksNotLiveMigratable"}
    machine = objects.virtual_machine("d0", scene.namespace, annotations=faults)
    scene.start(machine, nodes=["w1"])
    refused = Refused(scene, "w1")

    assert refused.names == ["not_migratable"]
    assert "d0 on node w1 cannot leave" in refused.message


def test_unknown_finding_is_refused(scene: Maintenance) -> None:
    result = scene.maintain("drained", "w1", allow_findings=["no_places"])

    assert result["failed"]
    assert "did you mean 'no_place'" in result["msg"]


def databases(scene: Maintenance) -> None:
    """The article's replica set: one on each fast node."""
    replicas = objects.replica_set(
        "mssql", scene.namespace, replicas=3, placement={"nodeSelector": {FAST: "high"}}
    )
    scene.start(replicas)
    assert sorted(scene.nodes().values()) == ["w1", "w3", "w5"]


def pods(scene: Maintenance) -> list[Object]:
    found = scene.api.list(scene.path("Pod"))
    return [pod for pod in found if not pod["metadata"].get("deletionTimestamp")]


def placed_in(scene: Maintenance, racks: t.Mapping[str, str]) -> list[str]:
    """The rack of each pod; empty for one without a node."""
    return sorted(racks.get(pod["spec"].get("nodeName", ""), "") for pod in pods(scene))


def unschedulable(pod: Object) -> bool:
    conditions = pod["status"].get("conditions") or []
    return any(x.get("reason") == "Unschedulable" for x in conditions)


def test_case_63_drain_into_a_namespace_that_became_restricted(scene: Maintenance) -> None:
    """The running pod stays, and the target pod of its migration is refused: asked by a dry run before the cordon,
    where the identity may create pods."""
    start(scene, d0="w1")
    label = "pod-security.kubernetes.io/enforce"
    scene.api.patch(
        f"/api/v1/namespaces/{scene.namespace}", {"metadata": {"labels": {label: "restricted"}}}
    )

    refused = Refused(scene, "w1", kubeconfig=str(scene.sandbox.kubeconfig("admin")))

    assert refused.names == ["place_unknown"]
    assert re.search(
        rf"refuses a dry run of the next pod of VirtualMachine {scene.namespace}/d0 in namespace {scene.namespace}:"
        r' .* violates PodSecurity "restricted:latest": seccompProfile',
        refused.message,
    ), refused.message
    enforces = f"Namespace {scene.namespace} enforces PodSecurity restricted (label {label})"
    assert f"{enforces}: baseline would admit this pod." in refused.message, refused.message

    # The role for maintenance may not create pods: what the label says is a warning.
    (found,) = scene.maintain("drained", "w1", check=True)["findings"]
    assert (found["name"], found["severity"]) == ("place_unknown", "warning")
    assert f"namespace {scene.namespace} enforces PodSecurity restricted:latest" in found["why"]
    assert "baseline would admit this pod." in found["advice"]

    scene.api.patch(
        f"/api/v1/namespaces/{scene.namespace}", {"metadata": {"labels": {label: "baseline"}}}
    )
    assert scene.maintain("drained", "w1")["changed"]
    assert scene.nodes()["d0"] != "w1"
