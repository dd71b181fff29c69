# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Next pods of VMs after a change of KubeVirt's configuration or release: forecast, and then as the real
virt-controller makes them."""

from __future__ import annotations

import contextlib
import time
import typing as t

import pytest

from sandbox import drain, objects

from .test_next_pods import forecast_of_drain, migrate, open_nodes, stage, start
from .test_scenarios import ZONE, Stage

__all__ = ["stage"]

JSON = t.Any


@contextlib.contextmanager
def configured(stage: Stage, **developer: JSON) -> t.Iterator[None]:
    """With this `developerConfiguration` of KubeVirt beside what the cluster has."""
    _configure(stage, developer)
    try:
        yield
    finally:
        _configure(stage, dict.fromkeys(developer))


def _configure(stage: Stage, developer: JSON) -> None:
    path = f"{stage.api.path('KubeVirt', 'kubevirt')}/kubevirt"
    stage.api.patch(path, {"spec": {"configuration": {"developerConfiguration": developer}}})
    time.sleep(2)  # virt-controller shows nowhere that it has read its configuration


def sized(cores: int, memory: str, **more: JSON) -> JSON:
    """The placement of a VM with so many CPUs and so much memory, of which KubeVirt computes the requests."""
    domain = objects.virtual_machine("x")["spec"]["template"]["spec"]["domain"]
    del domain["resources"]
    return {"domain": {**domain, "cpu": {"cores": cores}, "memory": {"guest": memory}}, **more}


def test_node_selector_of_the_cluster_is_part_of_every_next_pod(stage: Stage) -> None:
    with configured(stage, nodeSelectors={ZONE: "zone1"}):
        start(stage, "old1")
        open_nodes(stage, "old1", "old2", "new2")

        assert forecast_of_drain(stage, "old1") == ("impossible", [])

        assert migrate(stage) == ""
        rule = {"name": "zones", "workloads": [{"name": "db"}], "avoid": {"zone": "zone1"}}
        assert "unsatisfiable" in [f["name"] for f in stage.write(rule)["findings"]]


@pytest.mark.parametrize("strategy", ["LiveMigrate", "None"])
def test_node_selector_of_the_cluster_is_part_of_the_next_pod_of_a_vm_that_runs(
    stage: Stage, strategy: str
) -> None:
    placement = {"evictionStrategy": strategy, "tolerations": None}
    start(stage, "old1", labels={"app": "db"}, placement=placement)
    with configured(stage, nodeSelectors={ZONE: "zone1"}):
        open_nodes(stage, "old1", "old2", "new2")

        assert forecast_of_drain(stage, "old1") == ("impossible", [])

        assert leave(stage, "old1", strategy) == ""


def leave(stage: Stage, node: str, strategy: str) -> str:
    """The node that the VM gets when its own is drained; empty where no node takes its next pod."""
    if strategy == "LiveMigrate":
        return migrate(stage)
    drain.drain(stage.sandbox, node, timeout=60)
    path = stage.path("VirtualMachineInstance", "db")
    vmi = stage.api.wait(lambda vmi: _is_placed(vmi) or _is_refused(vmi), path, timeout=60)
    return str(vmi["status"].get("nodeName", ""))


def _is_placed(vmi: JSON) -> bool:
    return bool(vmi["status"].get("nodeName")) and "deletionTimestamp" not in vmi["metadata"]


def _is_refused(vmi: JSON) -> bool:
    conditions = vmi["status"].get("conditions") or ()
    return any(x.get("reason") == "Unschedulable" for x in conditions)


@pytest.mark.parametrize("strategy", ["LiveMigrate", "None"])
@pytest.mark.parametrize(
    ("setting", "value", "fits"),
    [
        ("cpuAllocationRatio", 1, False),
        ("cpuAllocationRatio", 20, True),
        ("memoryOvercommit", 50, False),
        ("memoryOvercommit", 200, True),
    ],
)
def test_next_pod_requests_what_the_configuration_of_now_gives_it(
    stage: Stage, strategy: str, setting: str, value: int, fits: bool
) -> None:
    """Two pods of this size are too large for a node: each has 20 of 32 CPUs and 40 of 64 GiB."""
    placement = sized(200, "40Gi", evictionStrategy=strategy)
    if fits:
        size = (200, "1Gi") if setting == "cpuAllocationRatio" else (1, "40Gi")
        placement = sized(*size, evictionStrategy=strategy)
        start(stage, "new1", name="other", placement=placement)
    start(stage, "old1", placement=placement)
    open_nodes(stage, "old1", "new1")
    before = ("impossible", []) if fits else ("guaranteed", ["new1"])
    assert forecast_of_drain(stage, "old1") == before

    with configured(stage, **{setting: value}):
        answer, targets = forecast_of_drain(stage, "old1")

        node = leave(stage, "old1", strategy)
    assert (answer, targets) == (("guaranteed", [node]) if fits else ("impossible", []))
    assert bool(node) == fits


@pytest.mark.parametrize("strategy", ["LiveMigrate", "None"])
def test_next_pod_asks_for_the_machine_type_though_its_pod_does_not(
    stage: Stage, strategy: str
) -> None:
    """As pods do that KubeVirt before 1.6 has made."""
    with without_machine_type(stage):
        start(stage, "old1", placement={"evictionStrategy": strategy})
    (pod,) = stage.api.list(stage.path("Pod"))
    assert MACHINE_TYPE not in pod["spec"]["nodeSelector"]
    open_nodes(stage, "old1", "old2")
    # a running guest has the version of its type
    labels = {MACHINE_TYPE: None, "machine-type.node.kubevirt.io/pc-q35-10.0": None}
    stage.api.patch("/api/v1/nodes/old2", {"metadata": {"labels": labels}})

    assert forecast_of_drain(stage, "old1") == ("impossible", [])

    assert leave(stage, "old1", strategy) == ""


MACHINE_TYPE = "machine-type.node.kubevirt.io/q35"
POLICIES = "/apis/admissionregistration.k8s.io/v1/mutatingadmissionpolic"


@contextlib.contextmanager
def without_machine_type(stage: Stage) -> t.Iterator[None]:
    """Pods of the namespace are created without the machine type in their nodeSelector."""
    name = f"{stage.namespace}-machine-type"
    key = MACHINE_TYPE.replace("/", "~1")
    patch = f'[JSONPatch{{op: "remove", path: "/spec/nodeSelector/{key}"}}]'
    pods = {
        "apiGroups": [""],
        "apiVersions": ["v1"],
        "operations": ["CREATE"],
        "resources": ["pods"],
    }
    spec: JSON = {
        "matchConstraints": {"resourceRules": [pods]},
        "reinvocationPolicy": "Never",
        "failurePolicy": "Fail",
        "mutations": [{"patchType": "JSONPatch", "jsonPatch": {"expression": patch}}],
    }
    here = {"matchLabels": {"kubernetes.io/metadata.name": stage.namespace}}
    binding = {"policyName": name, "matchResources": {"namespaceSelector": here}}
    version = {"apiVersion": "admissionregistration.k8s.io/v1", "metadata": {"name": name}}
    for suffix, kind, content in (("ies", "", spec), ("ybindings", "Binding", binding)):
        policy = {**version, "kind": f"MutatingAdmissionPolicy{kind}", "spec": content}
        stage.api.create(f"{POLICIES}{suffix}", policy)
    time.sleep(3)  # the API server shows nowhere that it has read a policy
    try:
        yield
    finally:
        for suffix in ("ybindings", "ies"):
            stage.api.delete(f"{POLICIES}{suffix}/{name}")
        time.sleep(3)
