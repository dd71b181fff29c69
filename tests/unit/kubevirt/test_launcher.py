# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What virt-controller puts into a launcher pod. tests/forecasts/test_next_pods.py compares more with the
real one."""

from __future__ import annotations

import typing as t

import pytest

from ansible_collections.virt.placement.plugins.module_utils.kubevirt.launcher import (
    compute_requests,
    doubt_about_launcher,
    launcher_containers,
    launcher_node_expressions,
    launcher_node_selector,
    launcher_requests,
    memory_overhead,
)
from ansible_collections.virt.placement.plugins.module_utils.model.quantity import parse_quantity
from ansible_collections.virt.placement.plugins.module_utils.model.snapshot import Platform

JSON = t.Any
KUBEVIRT = Platform(kubevirt="v1.8.4")
MACHINE = "machine-type.node.kubevirt.io/q35"
MIB = 1024**2 * 10**9
GIB = 1024 * MIB
BASE = 228 + 8 + 32
"""MiB of overhead for one CPU and a graphics device, without the page table."""


def spec(requests: JSON = None, **domain: JSON) -> JSON:
    return {"domain": {"resources": {"requests": requests or {}}, **domain}}


def test_overhead_has_a_page_table_for_requested_memory_only() -> None:
    assert memory_overhead(spec({"memory": "1Gi"}), KUBEVIRT) == (BASE + 2) * MIB
    assert memory_overhead(spec(memory={"guest": "1Gi"}), KUBEVIRT) == BASE * MIB


@pytest.mark.parametrize(
    ("domain", "mebibytes"),
    [
        ({"cpu": {"cores": 2, "sockets": 3}}, 5 * 8),
        ({"devices": {"gpus": [{"deviceName": "a/b"}]}}, 1024),
        ({"devices": {"tpm": {}}}, 53),
        ({"launchSecurity": {"sev": {}}}, 256),
        ({"cpu": {"dedicatedCpuPlacement": True}}, 100),
        ({"devices": {"autoattachGraphicsDevice": False}}, -32),
        ({"devices": {"interfaces": [{"name": "default", "passtBinding": {}}]}}, 250),
    ],
)
def test_overhead_of_devices(domain: JSON, mebibytes: int) -> None:
    assert memory_overhead(spec(**domain), KUBEVIRT) == (BASE + mebibytes) * MIB


@pytest.mark.parametrize(
    ("version", "domain", "mebibytes"),
    [
        ("v1.8.4", {}, BASE),
        ("v1.7.0", {}, BASE),
        ("v1.6.0", {}, BASE + 2),
        ("v1.5.0", {}, BASE + 2 - 16),
        ("v1.4.0", {}, BASE + 2 - 26),
        ("v1.6.0", {"resources": {"requests": {"memory": "2Gi"}}}, BASE + 4),
        ("v1.4.0", {"cpu": {"dedicatedCpuPlacement": True}}, BASE + 2 - 26 + 100),
        ("", {}, BASE),
    ],
)
def test_overhead_of_each_release(version: str, domain: JSON, mebibytes: int) -> None:
    """As the real virt-controllers 1.4.0 and 1.6.0 have it, and the sources of the others."""
    guest = spec(**{"memory": {"guest": "1Gi"}, **domain})
    assert memory_overhead(guest, Platform(kubevirt=version)) == mebibytes * MIB


def test_overhead_of_whole_cpus_is_not_multiplied_before_1_6() -> None:
    ratio = {"additionalGuestMemoryOverheadRatio": "2.0"}
    dedicated = spec(cpu={"dedicatedCpuPlacement": True})
    old, new = (
        memory_overhead(dedicated, Platform(kubevirt=version, configuration=ratio))
        for version in ("v1.5.0", "v1.6.0")
    )
    assert round((new - old) / MIB) == 2 * 16 + 100


def test_overhead_of_probes_grows_with_their_number() -> None:
    one = {**spec(), "livenessProbe": {"exec": {}}}
    two = {**one, "readinessProbe": {"exec": {}}}
    overheads = [memory_overhead(probed, KUBEVIRT) for probed in (one, two)]
    assert overheads == [(BASE + 110) * MIB, (BASE + 120) * MIB]


def test_overhead_is_multiplied_as_configured() -> None:
    twice = Platform(kubevirt="v1.8.4", configuration={"additionalGuestMemoryOverheadRatio": "2.0"})
    overhead = memory_overhead(spec(), twice)
    assert 2 * BASE * MIB <= overhead < 2 * BASE * MIB + 1000 * 10**9


def test_cpu_request_follows_the_allocation_ratio_of_the_cluster() -> None:
    ratio = {"developerConfiguration": {"cpuAllocationRatio": 4}}
    platform = Platform(kubevirt="v1.8.4", configuration=ratio)
    assert compute_requests(spec(cpu={"cores": 2}), platform)["cpu"] == 5 * 10**8
    assert compute_requests(spec({"cpu": "3"}), platform)["cpu"] == 3 * 10**9


@pytest.mark.parametrize(("configured", "expected"), [("200m", 2 * 10**8), ("100m", 4 * 10**8)])
def test_cpu_request_that_the_cluster_configures_is_used_unless_it_is_the_default(
    configured: str, expected: int
) -> None:
    platform = Platform(kubevirt="v1.8.4", configuration={"cpuRequest": configured})
    assert compute_requests(spec(cpu={"cores": 4}), platform)["cpu"] == expected


@pytest.mark.parametrize(("limits", "expected"), [({}, 0), ({"cpu": "3"}, 3 * 10**9)])
def test_cpu_request_of_zero_is_one_unless_there_is_a_limit(limits: JSON, expected: int) -> None:
    resources = {"requests": {"cpu": "0"}, "limits": limits}
    vmi_spec = {"domain": {"cpu": {"cores": 8}, "resources": resources}}
    assert compute_requests(vmi_spec, KUBEVIRT)["cpu"] == expected


@pytest.mark.parametrize(
    ("dedicated", "expected"), [(False, (10**6, 10**6)), (True, (10**7, 40 * 10**6))]
)
def test_container_disk_requests_more_beside_dedicated_cpus(
    dedicated: bool, expected: tuple[int, int]
) -> None:
    vmi_spec = {
        **spec(cpu={"dedicatedCpuPlacement": dedicated}),
        "volumes": [{"containerDisk": {}}],
    }
    _compute, disk = launcher_containers(vmi_spec, KUBEVIRT)["containers"]
    requests = {name: parse_quantity(x) for name, x in disk["resources"]["requests"].items()}
    assert (requests["cpu"], requests["memory"] // 10**9) == expected


@pytest.mark.parametrize(
    ("devices", "of_cluster", "logs"),
    [
        ({}, {}, True),
        ({}, {"disableSerialConsoleLog": {}}, False),
        ({"logSerialConsole": False}, {}, False),
        ({"logSerialConsole": True}, {"disableSerialConsoleLog": {}}, True),
        ({"logSerialConsole": True, "autoattachSerialConsole": False}, {}, False),
    ],
)
def test_vm_decides_before_the_cluster_whether_its_console_is_logged(
    devices: JSON, of_cluster: JSON, logs: bool
) -> None:
    platform = Platform(kubevirt="v1.8.4", configuration={"virtualMachineOptions": of_cluster})
    initial = launcher_containers(spec(devices=devices), platform)["initContainers"]
    assert any(each.get("restartPolicy") == "Always" for each in initial) is logs


def test_page_size_that_is_no_quantity_is_requested_as_it_stands() -> None:
    domain = {"memory": {"hugepages": {"pageSize": "x"}}}
    assert launcher_requests({"domain": domain}, Platform())["hugepages-x"] == 0


def test_devices_of_one_name_are_requested_together() -> None:
    devices = {"gpus": [{"deviceName": "a/b"}] * 2, "hostDevices": [{"deviceName": "a/c"}]}
    requests = compute_requests(spec(devices=devices), KUBEVIRT)
    assert (requests["a/b"], requests["a/c"]) == (2 * 10**9, 10**9)


def test_emulated_vms_need_no_kvm() -> None:
    emulated = {"developerConfiguration": {"useEmulation": True}}
    requests = compute_requests(spec(), Platform(kubevirt="v1.8.4", configuration=emulated))
    assert {name for name in requests if "/" in name} == {"devices.kubevirt.io/tun"}


def test_memory_overcommit_of_the_cluster_lowers_the_request() -> None:
    overcommit = {"developerConfiguration": {"memoryOvercommit": 200}}
    platform = Platform(kubevirt="v1.8.4", configuration=overcommit)
    requests = compute_requests(spec(memory={"guest": "1Gi"}), platform)
    assert requests["memory"] == GIB // 2 + BASE * MIB


def test_default_model_of_the_cluster_is_a_node_label() -> None:
    platform = Platform(kubevirt="v1.8.4", configuration={"cpuModel": "Haswell"})
    assert launcher_node_selector(spec(), platform)["cpu-model.node.kubevirt.io/Haswell"] == "true"
    assert launcher_node_expressions(spec(), platform) == []
    ((key, operator),) = launcher_node_expressions(spec(), KUBEVIRT)
    assert (key, operator) == ("node-labeller.kubevirt.io/obsolete-host-model", "DoesNotExist")


@pytest.mark.parametrize(
    ("version", "labels"),
    [
        ("v1.4.0", {"cpumanager"}),
        ("v1.7.0", {"cpumanager", MACHINE}),
        ("v1.8.4", {"kubevirt.io/cpumanager", MACHINE}),
        ("", {"kubevirt.io/cpumanager", MACHINE}),
    ],
)
def test_vm_needs_the_node_labels_of_the_release(version: str, labels: set[str]) -> None:
    domain = {"cpu": {"dedicatedCpuPlacement": True, "realtime": {}}, "launchSecurity": {"sev": {}}}
    selector = launcher_node_selector(spec(**domain), Platform(kubevirt=version))
    always = {"kubevirt.io/schedulable", "kubernetes.io/arch", "kubevirt.io/realtime"}
    assert set(selector) == {*always, "kubevirt.io/sev", *labels}
    empty = {key for key, value in selector.items() if not value}
    special = {"kubevirt.io/realtime", "kubevirt.io/sev"}
    assert empty == (special if version == "v1.4.0" else set())


@pytest.mark.parametrize(("version", "beside"), [("v1.5.0", 2), ("v1.6.0", 1)])
def test_console_is_logged_by_a_plain_container_before_1_6(version: str, beside: int) -> None:
    made = launcher_containers(spec(), Platform(kubevirt=version))
    assert (len(made["containers"]), len(made["initContainers"])) == (beside, 2 - beside)


@pytest.mark.parametrize(("version", "cpus"), [("v1.5.0", 1), ("v1.6.0", 4)])
def test_threads_of_the_pool_have_cpus_from_1_6(version: str, cpus: int) -> None:
    pool = {"ioThreads": {"supplementalPoolThreadCount": 3}, "cpu": {"dedicatedCpuPlacement": True}}
    requests = compute_requests(spec(**pool), Platform(kubevirt=version))
    assert requests["cpu"] == cpus * 10**9


@pytest.mark.parametrize(("version", "known"), [("v1.5.0", False), ("v1.6.0", True)])
def test_pool_of_threads_beside_whole_cpus_is_not_modeled_before_1_6(
    version: str, known: bool
) -> None:
    """In 1.5 its threads alone are the CPU limit, and with an isolated emulator they are added to the CPUs."""
    pool = spec(
        ioThreadsPolicy="supplementalPool",
        ioThreads={"supplementalPoolThreadCount": 3},
        cpu={"dedicatedCpuPlacement": True, "isolateEmulatorThread": True},
    )
    assert (doubt_about_launcher(pool, {}, Platform(kubevirt=version)) is None) is known


@pytest.mark.parametrize(
    ("more", "reason"),
    [
        ({}, None),
        ({"networks": [{"pod": {}}]}, None),
        ({"priorityClassName": "high"}, "it has a priority class"),
        ({"schedulerName": "other"}, "it is placed by other"),
        ({"resourceClaims": [{"name": "gpu"}]}, "it has devices by resource claims"),
        (
            spec(devices={"tpm": {"persistent": True}}),
            "its state is on a volume that KubeVirt chooses",
        ),
        (
            spec(cpu={"features": [{"name": "invtsc", "policy": "require"}]}),
            "KubeVirt chooses its TSC frequency",
        ),
    ],
)
def test_requests_that_are_not_modeled_are_named(more: JSON, reason: str | None) -> None:
    assert doubt_about_launcher({**spec(), **more}, {}, KUBEVIRT) == reason


def test_pod_of_an_unknown_release_is_not_modeled() -> None:
    unknown = "the release of KubeVirt is not known"
    assert doubt_about_launcher(spec(), {}, Platform(kubevirt="")) == unknown
    assert doubt_about_launcher(spec(), {}, Platform(kubevirt="devel")) == unknown


EVEN_PARITY = "alpha.kubevirt.io/EmulatorThreadCompleteToEvenParity"
ISOLATED = {"dedicatedCpuPlacement": True, "isolateEmulatorThread": True}


@pytest.mark.parametrize(
    ("cores", "annotations", "cpus"),
    [(4, (), 5), (4, (EVEN_PARITY,), 6), (5, (EVEN_PARITY,), 6), (5, (), 6)],
)
def test_emulator_thread_completes_cpus_to_pairs(
    cores: int, annotations: tuple[str, ...], cpus: int
) -> None:
    isolated = spec(cpu={**ISOLATED, "cores": cores})
    assert compute_requests(isolated, KUBEVIRT, annotations)["cpu"] == cpus * 10**9


def test_cpus_that_the_kubevirt_object_may_complete_to_pairs_are_not_modeled() -> None:
    gates = {"developerConfiguration": {"featureGates": ["AlignCPUs"]}}
    platform = Platform(kubevirt="v1.8.4", configuration=gates)
    isolated = spec(cpu=ISOLATED)
    assert doubt_about_launcher(isolated, {}, platform) == "KubeVirt may complete its CPUs to pairs"
    assert doubt_about_launcher(isolated, {EVEN_PARITY: ""}, platform) is None


def test_other_hypervisor_than_kvm_is_not_modeled() -> None:
    configuration = {
        "hypervisors": [{"name": "hyperv-direct"}],
        "developerConfiguration": {"featureGates": ["ConfigurableHypervisor"]},
    }
    platform = Platform(kubevirt="v1.8.4", configuration=configuration)
    assert (
        doubt_about_launcher(spec(), {}, platform) == "the cluster has another hypervisor than KVM"
    )


def test_hooks_are_not_modeled() -> None:
    annotations = {"hooks.kubevirt.io/hookSidecars": "[]"}
    assert doubt_about_launcher(spec(), annotations, KUBEVIRT) == "hooks run beside it"


def test_limit_of_ephemeral_storage_is_no_request() -> None:
    own = {"domain": {"resources": {"limits": {"ephemeral-storage": "2Gi"}}}}
    assert compute_requests(own, KUBEVIRT)["ephemeral-storage"] == parse_quantity("50M")


def test_configured_cpu_request_is_the_number_of_cpus_of_a_guest_without_a_topology() -> None:
    cluster = Platform(kubevirt="v1.8.4", configuration={"cpuRequest": "2500m"})
    assert memory_overhead(spec(), cluster) == (BASE + 2 * 8) * MIB
    assert memory_overhead(spec(cpu={"cores": 1}), cluster) == BASE * MIB
    dedicated = spec(cpu={"dedicatedCpuPlacement": True})
    assert memory_overhead(dedicated, cluster) == (BASE + 100) * MIB


def test_default_model_of_the_cluster_is_not_for_arm64() -> None:
    cluster = Platform(kubevirt="v1.8.4", configuration={"cpuModel": "Haswell"})
    selector = launcher_node_selector({**spec(), "architecture": "arm64"}, cluster)
    assert "cpu-model.node.kubevirt.io/Haswell" not in selector
