# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The next launcher pod of a VM: at the start of a halted VM, after a restart, and after a migration."""

from __future__ import annotations

import functools
import typing as t
from dataclasses import replace

import pytest

from ansible_collections.virt.placement.plugins.module_utils.kubevirt.changed_pods import (
    as_restarted,
    changed_by_migration,
)
from ansible_collections.virt.placement.plugins.module_utils.kubevirt.launcher import (
    launcher_requests,
)
from ansible_collections.virt.placement.plugins.module_utils.kubevirt.next_pod import (
    doubt_about_new_vm,
    launcher_pod,
    planned_vmi,
    pod_after_restart,
    with_source_cpu,
    without_migration_cpu,
)
from ansible_collections.virt.placement.plugins.module_utils.model.objects import (
    Node,
    NodeTerm,
    Placement,
    Pod,
    Ref,
    Requirement,
)
from ansible_collections.virt.placement.plugins.module_utils.model.snapshot import (
    Platform,
    Vmi,
    Workload,
)
from tests.support import facts

JSON = t.Any
KUBEVIRT = Platform(kubevirt="v1.8.4")


vm = functools.partial(facts.vm, "db", labels={"app": "db"})


@pytest.mark.parametrize(
    ("kubevirt", "has_id"), [("v1.4.0", False), ("v1.6.3", False), ("v1.7.0", True), ("", True)]
)
def test_launcher_pod_has_the_name_of_its_vmi_from_kubevirt_1_7_on(
    kubevirt: str, has_id: bool
) -> None:
    """Launcher pods of virt-controller 1.4.0 have vm.kubevirt.io/name alone."""
    pod = launcher_pod(planned_vmi(vm({}), "db"), Platform(kubevirt=kubevirt), {"spec": {}})
    assert ("vmi.kubevirt.io/id" in pod.labels) is has_id
    assert pod.labels["vm.kubevirt.io/name"] == "db"


def test_launcher_pod_of_a_halted_vm_has_its_labels_volumes_and_node_selector() -> None:
    spec = {
        "domain": {},
        "hostname": "database",
        "nodeSelector": {"disk": "fast"},
        "volumes": [
            {"name": "a", "persistentVolumeClaim": {"claimName": "data"}},
            {"name": "b", "dataVolume": {"name": "log"}},
            {"name": "c", "cloudInitNoCloud": {}},
            {"name": "d", "ephemeral": {"persistentVolumeClaim": {"claimName": "image"}}},
            {"name": "e", "persistentVolumeClaim": {"claimName": "x", "hotpluggable": True}},
            {"name": "f", "dataVolume": {"name": "y", "hotpluggable": True}},
        ],
    }

    pod = launcher_pod(planned_vmi(vm(spec), "db"), KUBEVIRT, {"spec": spec})

    assert pod.labels["vm.kubevirt.io/name"] == "database"
    assert pod.labels["vmi.kubevirt.io/id"] == "db"
    assert pod.labels["app"] == "db"
    assert sorted(pod.claims) == ["data", "image", "log"]
    assert dict(pod.placement.node_selector) == {
        "disk": "fast",
        "kubernetes.io/arch": "amd64",
        "kubevirt.io/schedulable": "true",
        "machine-type.node.kubevirt.io/q35": "true",
    }
    assert (pod.node_name, pod.phase) == ("", "Pending")


def test_hostname_label_of_a_vm_without_hostname_ends_before_the_first_dot() -> None:
    pod = launcher_pod(planned_vmi(vm({}), "db.shop.v2"), KUBEVIRT, {"spec": {}})

    assert pod.labels["vm.kubevirt.io/name"] == "db"


REQUESTS = {"domain": {"resources": {"requests": {"cpu": "1", "memory": "1Gi"}}}}
TYPED: JSON = {"instancetype": {"name": "u1"}}


@pytest.mark.parametrize(
    ("workload", "expanded", "reason"),
    [
        (vm(REQUESTS), None, None),
        (vm({"domain": {"memory": {"guest": "1Gi"}}}), None, None),
        (vm(REQUESTS, **TYPED), None, "its instance type or preference could not be read"),
        (vm({"domain": {}}, **TYPED), {"spec": REQUESTS}, None),
        (
            vm({**REQUESTS, "networks": [{"multus": {"networkName": "br1"}}]}),
            None,
            "its networks may request devices, and NetworkAttachmentDefinition shop/br1 could not be"
            " read",
        ),
    ],
)
def test_next_pod_of_a_halted_vm_is_estimated_if_its_requests_cannot_be_computed(
    workload: Workload, expanded: JSON, reason: str | None
) -> None:
    assert doubt_about_new_vm(workload, expanded, KUBEVIRT) == reason


def test_next_pod_with_changed_block_tracking_is_estimated() -> None:
    status = {"changedBlockTracking": {"state": "Enabled"}}
    workload = vm(REQUESTS)
    workload = replace(workload, manifest={**workload.manifest, "status": status})
    reason = "its changed block tracking has a volume that KubeVirt chooses"
    assert doubt_about_new_vm(workload, None, KUBEVIRT) == reason


def test_vmi_has_node_selector_of_the_instance_type_and_tolerations_of_the_template() -> None:
    expanded = {"domain": {"cpu": {"sockets": 2}}, "nodeSelector": {"disk": "fast"}, "affinity": {}}
    template = {"domain": {}, "tolerations": [{"key": "dedicated"}]}

    vmi = planned_vmi(vm(template, **TYPED), "db", {"spec": expanded})

    assert vmi.spec == {
        "domain": {"cpu": {"sockets": 2}},
        "nodeSelector": {"disk": "fast"},
        "tolerations": [{"key": "dedicated"}],
    }


def node_terms(*keys_of_terms: str) -> tuple[NodeTerm, ...]:
    """A node term for each text, which is a list of keys: one expression for each."""
    return tuple(
        NodeTerm(tuple(Requirement(key, "In", ("true",)) for key in keys.split()))
        for keys in keys_of_terms
    )


@pytest.mark.parametrize(
    ("running", "kept"),
    [
        (["kubevirt.io/schedulable"], ["kubevirt.io/schedulable"]),
        (["kubevirt.io/schedulable disk"], ["kubevirt.io/schedulable"]),
        (["disk"], None),
        (["kubevirt.io/schedulable disk", "disk"], None),
    ],
    ids=[
        "KubeVirt's",
        "KubeVirt's and the template's",
        "the template's",
        "one term without KubeVirt's",
    ],
)
def test_restart_keeps_node_expressions_of_kubevirt_and_drops_those_removed_from_the_template(
    running: list[str], kept: list[str] | None
) -> None:
    pod = Pod("shop", "virt-launcher-db", placement=Placement(node_terms=node_terms(*running)))

    created = pod_after_restart(pod, None, Placement(), {})

    assert created.placement.node_terms == (None if kept is None else node_terms(*kept))


FEATURE, MODEL = "cpu-feature.node.kubevirt.io/", "cpu-model-migration.node.kubevirt.io/"
INTEL = "cpu-vendor.node.kubevirt.io/Intel"
NEWER = Node(
    "new1",
    labels={
        "host-model-cpu.node.kubevirt.io/Cascadelake-Server": "true",
        "host-model-required-features.node.kubevirt.io/avx512": "true",
        "cpu-model.node.kubevirt.io/Haswell": "true",
        f"{FEATURE}vme": "true",
        INTEL: "true",
    },
)
SCHEDULABLE = ("kubevirt.io/schedulable", "true")


def vmi(model: str, *features: str, **domain: JSON) -> Vmi:
    listed = [{"name": name, "policy": "require"} for name in features]
    spec = {"domain": {"cpu": {"model": model, "features": listed}, **domain}}
    return facts.vmi("db", "new1", spec=spec)


def target_selector(instance: Vmi, *running: tuple[str, str], source: Node = NEWER) -> set[str]:
    """The keys in the nodeSelector of a migration's target, without `kubevirt.io/schedulable`."""
    placement = Placement(node_selector=(SCHEDULABLE, *running))
    target = with_source_cpu(placement, instance, source)
    assert dict([SCHEDULABLE]).items() <= dict(target.node_selector).items()
    return {key for key, _value in target.node_selector} - {SCHEDULABLE[0]}


def test_migration_of_host_model_selects_model_and_features_of_source_node() -> None:
    selected = {f"{MODEL}Cascadelake-Server", f"{FEATURE}avx512", INTEL}
    assert target_selector(vmi("host-model")) == selected


def test_second_migration_of_host_model_selects_the_labels_of_the_first() -> None:
    running = (f"{MODEL}Haswell", "true"), (f"{FEATURE}vme", "true"), (INTEL, "true")
    assert target_selector(vmi("host-model"), *running) == {key for key, _value in running}


def test_migration_of_host_model_with_requested_feature_selects_no_model() -> None:
    """KubeVirt takes the feature for that of an earlier migration (prepareNodeSelectorForHostCpuModel)."""
    running = (f"{FEATURE}vme", "true")
    assert target_selector(vmi("host-model", "vme"), running) == {f"{FEATURE}vme", INTEL}


def test_migration_of_named_model_selects_only_the_vendor_of_the_source_node() -> None:
    assert target_selector(vmi("Haswell")) == {INTEL}
    moved_from_amd = ("cpu-vendor.node.kubevirt.io/AMD", "true")
    assert target_selector(vmi("Haswell"), moved_from_amd) == {INTEL}


def test_migration_from_a_node_without_cpu_labels_adds_nothing() -> None:
    placement = Placement(node_selector=(SCHEDULABLE,))
    assert with_source_cpu(placement, vmi("host-model"), Node("plain")) is placement
    assert with_source_cpu(placement, vmi("host-model"), None) is placement


def test_restart_selects_only_the_cpu_of_the_spec() -> None:
    running = (SCHEDULABLE, (f"{MODEL}Haswell", "true"), (f"{FEATURE}vme", "true"), (INTEL, "true"))
    placement = Placement(node_selector=running)

    plain = without_migration_cpu(placement, vmi("host-model"))
    requested = without_migration_cpu(placement, vmi("host-model", "vme"))
    enlightened = without_migration_cpu(
        placement, vmi("host-model", features={"hyperv": {"evmcs": {}}})
    )

    assert plain.node_selector == (SCHEDULABLE,)
    assert requested.node_selector == (SCHEDULABLE, (f"{FEATURE}vme", "true"))
    assert enlightened.node_selector == (SCHEDULABLE, (INTEL, "true"))


@pytest.mark.parametrize(("version", "selected"), [("v1.5.2", False), ("v1.6.0", True)])
def test_migration_selects_the_machine_type_since_kubevirt_1_6(
    version: str, selected: bool
) -> None:
    vmi = Vmi(Ref("VirtualMachineInstance", "shop", "db"), "u", "Running", "n1", {}, {})
    vmi = replace(vmi, machine_type="pc-q35-rhel9.2.0")

    target, why = changed_by_migration(Pod("shop", "db"), vmi, Platform(kubevirt=version))

    key = "machine-type.node.kubevirt.io/pc-q35-rhel9.2.0"
    assert dict(target.placement.node_selector) == ({key: "true"} if selected else {})
    assert why == ""


def test_migration_selects_the_machine_type_of_the_guest_and_restart_that_of_the_spec() -> None:
    prefix = "machine-type.node.kubevirt.io/"
    instance = replace(vmi("Haswell", machine={"type": "q35"}), machine_type="pc-q35-rhel9.6.0")
    running = Placement(node_selector=(SCHEDULABLE, (f"{prefix}q35", "true")))

    target = with_source_cpu(running, instance, None)

    assert target.node_selector == (SCHEDULABLE, (f"{prefix}pc-q35-rhel9.6.0", "true"))
    assert without_migration_cpu(target, instance) == running
    assert with_source_cpu(running, replace(instance, machine_type=""), None) is running


def test_next_pod_has_the_requests_of_the_configuration_of_now() -> None:
    """Requests that no other configuration explains stay: 50m more of CPU, and memory."""
    instance = vmi("host-model", cpu={"cores": 4})
    before, now = (
        Platform(
            kubevirt="v1.8.4", configuration={"developerConfiguration": {"cpuAllocationRatio": x}}
        )
        for x in (10, 3)
    )
    made = launcher_requests(instance.spec, before)
    running = Pod("shop", "db", requests={**made, "memory": 1})
    mutated = replace(running, requests={**running.requests, "cpu": made["cpu"] + 50})

    assert as_restarted(running, instance, before).requests == running.requests
    for following in (
        as_restarted(running, instance, now),
        changed_by_migration(running, instance, now)[0],
    ):
        cpu = launcher_requests(instance.spec, now)["cpu"]
        assert following.requests == {**running.requests, "cpu": cpu}
    assert as_restarted(mutated, instance, now).requests == mutated.requests


@pytest.mark.parametrize(("version", "asks"), [("v1.5.2", False), ("v1.6.0", True)])
def test_release_that_restarts_a_vm_decides_whether_it_asks_for_a_machine_type(
    version: str, asks: bool
) -> None:
    instance = vmi("Haswell", machine={"type": "pc-q35-rhel9.2.0"})

    following = as_restarted(Pod("shop", "db"), instance, Platform(kubevirt=version))

    key = "machine-type.node.kubevirt.io/pc-q35-rhel9.2.0"
    assert dict(following.placement.node_selector) == ({key: "true"} if asks else {})
