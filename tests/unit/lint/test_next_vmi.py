# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Lint knows of a VM's next pod what a forecast knows: node labels that KubeVirt adds, and instance types."""

from __future__ import annotations

import typing as t

import pytest

from ansible_collections.virt.placement.plugins.module_utils.kubevirt.instance_types import (
    InstanceType,
)
from ansible_collections.virt.placement.plugins.module_utils.kubevirt.labels import SCHEDULABLE
from ansible_collections.virt.placement.plugins.module_utils.kubevirt.next_pod import (
    launcher_pod,
    planned_vmi,
)
from ansible_collections.virt.placement.plugins.module_utils.lint.lint_input import lint_input_of
from ansible_collections.virt.placement.plugins.module_utils.model.findings import Finding
from ansible_collections.virt.placement.plugins.module_utils.model.objects import Ref
from ansible_collections.virt.placement.plugins.module_utils.model.snapshot import Snapshot
from ansible_collections.virt.placement.plugins.module_utils.model.topology import Topology
from ansible_collections.virt.placement.plugins.module_utils.repository.documents import Document
from ansible_collections.virt.placement.plugins.module_utils.repository.manifests import (
    in_namespace,
    read_manifests,
)
from ansible_collections.virt.placement.plugins.module_utils.repository.offline import (
    lint_manifests,
)
from tests.support.cluster import Cluster, expression, node_affinity
from tests.support.manifests import manifest, workload

JSON = t.Any
ARCH = "kubernetes.io/arch"
ON_ARM = node_affinity({"matchExpressions": [expression(ARCH, "In", "arm64")]})
CPU_MODEL = "cpu-model.node.kubevirt.io/"


SHOP = {"namespace": "shop"}


def vm(name: str, template: JSON, **spec: JSON) -> JSON:
    template = {"domain": {"devices": {}, "memory": {"guest": "1Gi"}}, **template}
    spec = {"runStrategy": "Halted", **spec}
    return workload("VirtualMachine", name, {"app": name}, template, metadata=SHOP, **spec)


def two_architectures() -> Cluster:
    """n1 to n3 are of amd64 with the model Haswell, n4 is of arm64."""
    cluster = Cluster("aab")
    for node in cluster.nodes.values():
        node["metadata"]["labels"][f"{CPU_MODEL}Haswell"] = "true"
    cluster.node("n4", {ARCH: "arm64", "machine-type.node.kubevirt.io/virt": "true"})
    return cluster


def online(*manifests: JSON, types: t.Iterable[InstanceType] = ()) -> dict[str, Finding]:
    snapshot = two_architectures().snapshot()
    return by_name(lint_manifests(manifests, cluster=snapshot, instance_types=types))


def by_name(findings: t.Iterable[Finding]) -> dict[str, Finding]:
    listed = list(findings)
    assert len({x.name for x in listed}) == len(listed), listed
    return {finding.name: finding for finding in listed}


def test_field_70_node_affinity_to_another_architecture_on_the_cluster() -> None:
    (finding,) = online(vm("edge-2", ON_ARM)).values()

    assert (finding.name, finding.severity) == ("unsatisfiable", "error")
    assert finding.objects == (Ref("VirtualMachine", "shop", "edge-2"),)
    assert finding.why == (
        "None of its pods can ever run: its node terms ask for kubernetes.io/arch In (amd64) (which KubeVirt adds for"
        " its guest) and kubernetes.io/arch In (arm64) (its own node affinity)."
    )
    assert finding.advice.startswith("Set the field architecture of its template")


def test_field_70_node_selector_of_another_architecture_on_the_cluster() -> None:
    (finding,) = online(vm("edge-1", {"nodeSelector": {ARCH: "arm64"}})).values()

    assert (finding.name, finding.severity) == ("architecture_mismatch", "warning")
    assert finding.why == (
        "Its nodeSelector has kubernetes.io/arch=arm64, and its guest has the architecture amd64 by the default of the"
        " cluster. KubeVirt keeps the selector, so that a guest of amd64 starts on a node of arm64."
    )


@pytest.mark.parametrize("template", [ON_ARM, {"nodeSelector": {ARCH: "arm64"}}, {}])
def test_field_70_vm_that_names_its_architecture_is_right(template: JSON) -> None:
    assert online(vm("edge-3", {**template, "architecture": "arm64"})) == {}
    assert by_name(lint_manifests([vm("edge-3", {**template, "architecture": "arm64"})])) == {}


@pytest.mark.parametrize("template", [ON_ARM, {"nodeSelector": {ARCH: "arm64"}}])
def test_field_70_without_a_cluster_its_default_is_not_known(template: JSON) -> None:
    (finding,) = lint_manifests([vm("edge", template)])

    assert (finding.name, finding.severity) == ("architecture_mismatch", "warning")
    assert "names no architecture" in finding.why


def test_field_70_architecture_in_the_manifest_needs_no_cluster() -> None:
    (finding,) = lint_manifests([vm("edge", {**ON_ARM, "architecture": "amd64"})])
    assert (finding.name, finding.severity) == ("unsatisfiable", "error")


def test_cpu_model_that_no_node_has() -> None:
    cpu = {"domain": {"cpu": {"model": "Skylake"}}}
    (finding,) = online(vm("db", cpu)).values()
    assert finding.why == (
        "None of its pods can ever run: no node satisfies kubernetes.io/arch In (amd64) and"
        " cpu-model.node.kubevirt.io/Skylake In (true)."
    )
    assert online(vm("db", {"domain": {"cpu": {"model": "Haswell"}}})) == {}


@pytest.mark.parametrize("domain", ["text", {"cpu": "text"}, {"cpu": {"features": ["x"]}}, None])
def test_spec_that_only_virt_api_refuses_is_linted(domain: JSON) -> None:
    (finding,) = online(
        vm("db", {"domain": domain, "nodeSelector": {"kubernetes.io/x": "a"}})
    ).values()
    assert finding.name == "no_node_has_key"


def instance_type(**spec: JSON) -> JSON:
    sizes = {"cpu": {"guest": 2}, "memory": {"guest": "4Gi"}}
    return manifest("VirtualMachineClusterInstancetype", "u1", spec={**sizes, **spec})


def preference(**spec: JSON) -> JSON:
    return manifest("VirtualMachinePreference", "linux", metadata=SHOP, spec=spec)


TYPED: JSON = {"instancetype": {"name": "u1"}}
PREFERRED: JSON = {"preference": {"kind": "VirtualMachinePreference", "name": "linux"}}


def in_files(*manifests: JSON) -> dict[str, Finding]:
    """As from a folder, with the cluster."""
    documents = [Document(f"{n}.yml", x, in_folder=True) for n, x in enumerate(manifests)]
    read = read_manifests(documents)
    assert (read.faults, read.findings, read.passed_over) == ((), (), ())
    return online(*in_namespace(read.manifests, "shop"))


def test_node_selector_of_an_instance_type_in_the_folder() -> None:
    selector = {"topology.kubernetes.io/zone": "nowhere"}
    found = in_files(vm("db", {}, **TYPED), instance_type(nodeSelector=selector))

    assert set(found) == {"unsatisfiable", "no_node_has_value"}
    assert found["unsatisfiable"].objects == (Ref("VirtualMachine", "shop", "db"),)
    assert "topology.kubernetes.io/zone In (nowhere)" in found["unsatisfiable"].why
    assert in_files(vm("db", {}, **TYPED), instance_type(nodeSelector={SCHEDULABLE: "true"})) == {}


def test_node_selector_of_an_instance_type_of_the_cluster() -> None:
    spec = instance_type(nodeSelector={"topology.kubernetes.io/zone": "nowhere"})["spec"]
    found = online(vm("db", {}, **TYPED), types=[InstanceType("u1", spec=spec)])

    assert set(found) == {"unsatisfiable", "no_node_has_value"}
    assert online(vm("db", {}, **TYPED), types=[InstanceType("u1", "shop", spec)]) == {}


def test_field_that_the_vm_and_its_instance_type_have_is_refused() -> None:
    own = {"nodeSelector": {SCHEDULABLE: "true"}, "schedulerName": "batch"}
    found = in_files(vm("db", own, **TYPED), instance_type(**own))

    assert set(found) == {"invalid_placement", "other_scheduler"}
    assert found["invalid_placement"].why == (
        "virt-api refuses it: spec.template.spec.nodeSelector and spec.template.spec.schedulerName conflict with its"
        " instance type u1, which has the same."
    )


def test_scheduler_of_an_instance_type() -> None:
    (finding,) = in_files(vm("db", {}, **TYPED), instance_type(schedulerName="batch")).values()
    assert (finding.name, finding.severity) == ("other_scheduler", "info")
    assert finding.why.startswith("The scheduler batch of its instance type places its pods.")


def test_architecture_of_a_preference() -> None:
    of_arm = preference(preferredArchitecture="arm64")
    assert in_files(vm("edge", ON_ARM, **PREFERRED), of_arm) == {}
    assert set(in_files(vm("edge", {**ON_ARM, "architecture": "amd64"}, **PREFERRED), of_arm)) == {
        "unsatisfiable"
    }


def test_preference_that_is_not_known_may_name_the_architecture() -> None:
    assert set(in_files(vm("edge", ON_ARM, **PREFERRED))) == {"architecture_mismatch"}


@pytest.mark.parametrize("spec", [{"nodeSelector": {"a": "b"}}, {"cpu": {}, "memory": {}}])
def test_part_of_an_instance_type_in_a_folder_is_a_patch(spec: JSON) -> None:
    part = {**instance_type(), "spec": spec}
    read = read_manifests([Document("part.yml", part, in_folder=True)])
    assert [x.reason for x in read.passed_over] == ["patch"]
    (fault,) = read_manifests([Document("part.yml", part)]).faults
    assert "cannot be read as a VirtualMachineClusterInstancetype" in str(fault)


CPU: JSON = {"cpu": {"model": "Haswell", "features": [{"name": "vmx", "policy": "forbid"}]}}


@pytest.mark.parametrize(
    "template",
    [{}, {"nodeSelector": {ARCH: "arm64"}}, {"architecture": "arm64"}, {"domain": CPU}, ON_ARM],
)
def test_placement_is_that_of_a_forecast(template: JSON) -> None:
    cluster = two_architectures()
    manifest = vm("db", template)
    cluster.workload("VirtualMachine", "db", manifest["spec"])
    snapshot: Snapshot = cluster.snapshot()
    lint_input = lint_input_of(snapshot, Topology.of())
    (workload,) = snapshot.workloads
    vmi = planned_vmi(workload, "db")
    made = launcher_pod(vmi, snapshot.platform, workload.template).placement

    rendered = lint_input.scheduled(lint_input.subjects[0])

    asked = dict(made.node_selector)
    assert asked.pop(SCHEDULABLE) == "true"
    assert dict(rendered.node_selector) == asked
    carried = [
        [x for x in term.expressions if x.key.startswith(ARCH)] for term in made.node_terms or ()
    ]
    terms = [list(term.expressions) for term in rendered.node_terms or ()]
    assert [x for x in terms if x] == [x for x in carried if x]


@pytest.mark.parametrize(
    ("gates", "errors"),
    [
        (["a", "b"], ""),
        (["a", "b", "a"], 'spec.schedulingGates[2] Duplicate value: "a"'),
        (["a/b/c"], "spec.schedulingGates[0] a qualified name"),
        ([None], "spec.schedulingGates[0] must have a name"),
    ],
)
def test_scheduling_gate_that_the_api_server_refuses(gates: list[str], errors: str) -> None:
    spec = {"containers": [], "schedulingGates": [{"name": name} for name in gates]}
    pod = manifest("Pod", "web", spec=spec)
    found = by_name(lint_manifests([pod]))

    assert set(found) == ({"invalid_placement"} if errors else set())
    if errors:
        assert errors in found["invalid_placement"].why
        assert found["invalid_placement"].severity == "error"
