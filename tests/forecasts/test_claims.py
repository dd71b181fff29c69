# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Claims of pods that start: forecast, then seen with the real scheduler and the real controllers."""

from __future__ import annotations

import typing as t

import pytest

from sandbox import Sandbox, objects
from sandbox.pytest_plugin import MakeNamespace
from tests.conftest import RunModule
from tests.volumes import bound_claim, delete_volumes

from .test_scenarios import HOST, ZONE, Stage

JSON = t.Any
CLASSES = "/apis/storage.k8s.io/v1/storageclasses"


@pytest.fixture
def stage(small: Sandbox, run_module: RunModule, namespace: MakeNamespace) -> t.Iterator[Stage]:
    """Three nodes in three zones."""
    begun = Stage(small, run_module, namespace(small, "claims"))
    yield begun
    delete_volumes(begun)
    begun.end()


def mounting(claim: str) -> JSON:
    return {"volumes": [{"name": "d", "persistentVolumeClaim": {"claimName": claim}}]}


def logs(replicas: int, storage_class: str = "by-hand") -> JSON:
    """A StatefulSet with a claim for each replica, spread over the zones."""
    constraint = {
        "topologyKey": ZONE,
        "maxSkew": 1,
        "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": {"matchLabels": {"app": "log"}},
    }
    placement = {"topologySpreadConstraints": [constraint]}
    made = objects.stateful_set("log", replicas=replicas, placement=placement)
    claim = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
    spec = {**claim, "storageClassName": storage_class}
    made["spec"]["volumeClaimTemplates"] = [{"metadata": {"name": "data"}, "spec": spec}]
    return made


def scale(stage: Stage, kind: str, name: str, replicas: int) -> JSON:
    """The forecast of a scale, which is then made."""
    wanted = {"kind": kind, "name": name, "replicas": replicas}
    found = stage.forecast(namespace=stage.namespace, scale=[wanted])
    stage.api.patch(stage.path(kind, name), {"spec": {"replicas": replicas}})
    return found


def messages(stage: Stage) -> list[str]:
    """Why the scheduler refuses pods, in its words."""
    conditions = [
        condition
        for pod in stage.api.list(stage.path("Pod"))
        for condition in pod["status"].get("conditions") or ()
    ]
    return [
        str(x["message"])
        for x in conditions
        if (x["type"], x["status"]) == ("PodScheduled", "False")
    ]


@pytest.mark.parametrize("zone", ["zone1", "zone3"])
def test_field_29_scale_up_onto_an_old_claim(stage: Stage, zone: str) -> None:
    for number, its_zone in enumerate(("zone1", "zone2", zone)):
        bound_claim(stage, f"data-log-{number}", its_zone)
    stage.create(logs(2))
    assert stage.placed(2) == ["w1", "w2"]

    found = scale(stage, "StatefulSet", "log", 3)

    if zone == "zone3":
        assert found["forecast"] == "guaranteed", found
        assert stage.placed(3) == ["w1", "w2", "w3"]
    else:
        assert found["forecast"] == "impossible", found
        assert stage.placed(3) == ["", "w1", "w2"]
        (pending,), (message,) = found["pending"], messages(stage)
        for text in (
            "2 node(s) didn't match PersistentVolume's node affinity",
            "1 node(s) didn't match pod topology spread constraints",
        ):
            assert text in message
            assert text in pending["reason"]


def test_field_42_claim_that_does_not_exist(stage: Stage) -> None:
    stage.create(objects.deployment("wiki", replicas=0, placement=mounting("wiki-data")))

    found = scale(stage, "Deployment", "wiki", 1)

    assert (found["forecast"], found["min_unschedulable"]) == ("impossible", 1), found
    assert stage.placed(1) == [""]
    expected = 'persistentvolumeclaim "wiki-data" not found'
    assert expected in messages(stage)[0]
    assert expected in found["reasons"][0]
    (pending,) = stage.verdicts()["pending"]
    assert expected in pending["reason"]
    assert "feasible" not in pending["reason"]


def test_field_42_class_that_does_not_exist(stage: Stage) -> None:
    stage.create(logs(0, "no-such-class"))

    found = scale(stage, "StatefulSet", "log", 1)

    assert found["forecast"] == "impossible", found
    assert stage.placed(1) == [""]
    expected = "pod has unbound immediate PersistentVolumeClaims"
    assert expected in messages(stage)[0]
    assert expected in found["reasons"][0]
    assert "data-log-0: StorageClass no-such-class does not exist" in found["reasons"][0]
    (pending,) = stage.verdicts()["pending"]
    assert expected in pending["reason"]


def test_field_42_halted_vm_whose_disk_claim_does_not_exist(stage: Stage) -> None:
    vm = objects.virtual_machine("archive", run_strategy="Halted")
    spec = vm["spec"]["template"]["spec"]
    spec["domain"]["devices"]["disks"].append({"name": "data", "disk": {"bus": "virtio"}})
    claim = {"persistentVolumeClaim": {"claimName": "archive-root"}}
    spec["volumes"].append({"name": "data", **claim})
    stage.create(vm)
    rule = {"name": "here", "workloads": ["archive"], "run_on": {HOST: ["w1"]}}

    found = stage.forecast(namespace=stage.namespace, rules=[rule])

    assert found["forecast"] == "impossible", found
    assert 'persistentvolumeclaim "archive-root" not found' in found["reasons"][0]
    path = stage.path("VirtualMachine", "archive")
    stage.api.patch(path, {"spec": {"runStrategy": "Always"}})
    stage.api.wait(lambda x: x["status"].get("printableStatus") == "ErrorPvcNotFound", path)
    (pending,) = stage.verdicts()["pending"]
    assert "archive-root" in pending["reason"], pending


def test_claim_for_one_pod_is_used_by_one(stage: Stage) -> None:
    bound_claim(stage, "data", "zone1", "ReadWriteOncePod")
    stage.create(objects.deployment("wiki", replicas=1, placement=mounting("data")))
    assert stage.placed(1) == ["w1"]

    found = scale(stage, "Deployment", "wiki", 2)

    assert (found["forecast"], found["min_unschedulable"]) == ("impossible", 1), found
    assert stage.placed(2) == ["", "w1"]
    expected = (
        "PersistentVolumeClaim with ReadWriteOncePod access mode already in-use by another pod"
    )
    assert expected in messages(stage)[0]
    assert expected in found["pending"][0]["reason"]


def test_claim_whose_class_waits_for_a_node_is_possible(stage: Stage) -> None:
    made = {
        "metadata": {"name": stage.namespace},
        "provisioner": "csi.example.com",
        "volumeBindingMode": "WaitForFirstConsumer",
        "allowedTopologies": [
            {"matchLabelExpressions": [{"key": ZONE, "values": ["zone2"]}]},
        ],
    }
    stage.api.create(CLASSES, made)
    try:
        stage.create(logs(0, stage.namespace))

        found = scale(stage, "StatefulSet", "log", 1)

        assert found["forecast"] == "possible", found
        assert "makes its volume once a node is chosen" in found["reasons"][0]
        selected = "volume.kubernetes.io/selected-node"
        claim = stage.api.wait(
            lambda x: selected in (x["metadata"].get("annotations") or {}),
            stage.path("PersistentVolumeClaim", "data-log-0"),
        )
        assert claim["metadata"]["annotations"][selected] == "w2"
    finally:
        stage.api.delete(f"{CLASSES}/{stage.namespace}")


def test_node_that_may_attach_no_more_volumes_takes_no_pod(stage: Stage) -> None:
    driver, csi_nodes = "ebs.csi.aws.com", "/apis/storage.k8s.io/v1/csinodes"
    nodes = ("w1", "w2", "w3")
    for node in nodes:
        limited = {"name": driver, "nodeID": node, "topologyKeys": [], "allocatable": {"count": 1}}
        stage.api.create(csi_nodes, {"metadata": {"name": node}, "spec": {"drivers": [limited]}})
    try:
        for number, zone in enumerate(("zone1", "zone2", "zone3", "zone1")):
            handle = f"{stage.namespace}-{number}"
            source: JSON = {"csi": {"driver": driver, "volumeHandle": handle}}
            bound_claim(stage, f"data-log-{number}", zone, "ReadWriteOnce", source)
        stage.create(logs(2))
        assert stage.placed(2) == ["w1", "w2"]

        fits = stage.forecast(
            namespace=stage.namespace,
            scale=[{"kind": "StatefulSet", "name": "log", "replicas": 3}],
        )
        found = scale(stage, "StatefulSet", "log", 4)

        assert (fits["forecast"], found["forecast"]) == ("guaranteed", "impossible"), found
        assert stage.placed(4) == ["", "w1", "w2", "w3"]
        text = "3 node(s) exceed max volume count"
        assert text in messages(stage)[0]
        assert text in found["pending"][0]["reason"]
    finally:
        for node in nodes:
            stage.api.delete(f"{csi_nodes}/{node}")
