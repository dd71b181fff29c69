# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The next pod of a VM as the real virt-controller makes it, forecast and then seen: on nodes of two CPU
generations and two vendors."""

from __future__ import annotations

import typing as t

import pytest

from ansible_collections.virt.placement.plugins.module_utils.kubevirt.changed_pods import (
    ChangedPod,
    changed_by_migration,
    changed_by_restart,
)
from ansible_collections.virt.placement.plugins.module_utils.kubevirt.next_pod import (
    doubt_about_new_vm,
    launcher_pod,
    planned_vmi,
)
from ansible_collections.virt.placement.plugins.module_utils.model.manifests import (
    pod_from_manifest,
    vmi_from_manifest,
    workload_from_manifest,
)
from ansible_collections.virt.placement.plugins.module_utils.model.snapshot import Platform
from sandbox import Sandbox, drain, objects
from sandbox.pytest_plugin import MakeNamespace
from tests.conftest import RunModule

from .random_vms import EVEN_PARITY, create_network, on_network
from .test_scenarios import MIGRATION, ZONE, Stage

JSON = t.Any
NODES = ("old1", "old2", "new1", "new2", "amd1", "amd2")


@pytest.fixture
def stage(mixed: Sandbox, run_module: RunModule, namespace: MakeNamespace) -> t.Iterator[Stage]:
    begun = Stage(mixed, run_module, namespace(mixed, "next"))
    yield begun
    begun.end()


def open_nodes(stage: Stage, *names: str) -> None:
    """Cordon all nodes but these."""
    stage.sandbox.restore_nodes()
    for node in NODES:
        if node not in names:
            drain.cordon(stage.sandbox, node)


def start(stage: Stage, node: str, name: str = "db", **more: JSON) -> None:
    open_nodes(stage, node)
    stage.create(objects.virtual_machine(name, **more))
    assert stage.node_of(name) == node


def migrate(stage: Stage, name: str = "db") -> str:
    """The node that a migration takes the VM to; empty where no node takes its target."""
    before = stage.node_of(name)
    stage.create(objects.migration(name, name=f"{name}-{before}"))

    def decided(pods: list[JSON]) -> bool:
        pods = [pod for pod in pods if pod["metadata"]["labels"]["vm.kubevirt.io/name"] == name]
        alive = [pod for pod in pods if pod["status"].get("phase") not in ("Succeeded", "Failed")]
        targets = [pod for pod in alive if pod["spec"].get("nodeName") != before]
        conditions = [c for pod in targets for c in pod["status"].get("conditions") or ()]
        refused = any(c.get("reason") == "Unschedulable" for c in conditions)
        return refused or (len(alive) == 1 and bool(targets) and _runs_on_target(stage, name))

    stage.api.wait_list(stage.path("Pod"), decided, timeout=60)
    after = stage.node_of(name)
    return after if after != before else ""


def _runs_on_target(stage: Stage, name: str) -> bool:
    migrations = stage.api.list(stage.path(MIGRATION))
    return all(each["status"].get("phase") == "Succeeded" for each in migrations)


def forecast_of_drain(stage: Stage, node: str) -> tuple[str, list[str]]:
    found = stage.forecast(unavailable={"nodes": [node]})
    return found["forecast"], [node for move in found["moves"] for node in move["targets"]]


def test_guest_with_its_hosts_cpu_does_not_migrate_to_an_older_cpu(stage: Stage) -> None:
    start(stage, "new1")
    open_nodes(stage, "new1", "old1", "old2", "amd1", "amd2")

    assert forecast_of_drain(stage, "new1") == ("impossible", [])

    assert migrate(stage) == ""


def test_guest_with_its_hosts_cpu_migrates_to_a_newer_cpu_and_back(stage: Stage) -> None:
    start(stage, "old1")
    open_nodes(stage, "old1", "new1", "amd1")

    assert forecast_of_drain(stage, "old1") == ("guaranteed", ["new1"])

    assert migrate(stage) == "new1"
    open_nodes(stage, "old2", "new1", "amd1")
    assert forecast_of_drain(stage, "new1") == ("guaranteed", ["old2"])
    assert migrate(stage) == "old2"


def test_no_guest_migrates_to_another_vendors_cpu(stage: Stage) -> None:
    spec = objects.virtual_machine("x")["spec"]["template"]["spec"]
    domain = {**spec["domain"], "cpu": {"model": "host-passthrough"}}
    start(stage, "new1", placement={"domain": domain})
    open_nodes(stage, "new1", "amd1", "amd2")

    assert forecast_of_drain(stage, "new1") == ("impossible", [])

    assert migrate(stage) == ""


def test_migrated_guest_restarts_on_any_cpu(stage: Stage) -> None:
    start(stage, "old1", placement={"evictionStrategy": "None"})
    open_nodes(stage, "old1", "new1")
    assert migrate(stage) == "new1"
    open_nodes(stage, "new1", "amd1")

    assert forecast_of_drain(stage, "new1") == ("guaranteed", ["amd1"])

    drain.drain(stage.sandbox, "new1")
    assert stage.node_of("db") == "amd1"


ZONE1 = ("amd1", "new1", "old1")


def create_instance_type(stage: Stage, **spec: JSON) -> None:
    made = {
        "apiVersion": "instancetype.kubevirt.io/v1beta1",
        "kind": "VirtualMachineInstancetype",
        "metadata": {"name": "typed", "namespace": stage.namespace},
        "spec": {"cpu": {"guest": 1}, "memory": {"guest": "1Gi"}, **spec},
    }
    path = "/apis/instancetype.kubevirt.io/v1beta1/namespaces/{}/virtualmachineinstancetypes"
    stage.api.create(path.format(stage.namespace), made)


def typed_vm(name: str = "db", **more: JSON) -> JSON:
    """A VM of the instance type `typed`, which gives it CPU and memory."""
    vm = objects.virtual_machine(name, **more)
    vm["spec"]["instancetype"] = {"kind": "VirtualMachineInstancetype", "name": "typed"}
    del vm["spec"]["template"]["spec"]["domain"]["resources"]
    return vm


def rule_of_zone(verb: str, *zones: str) -> JSON:
    return {"name": "zones", "workloads": [{"name": "db"}], verb: {"zone": list(zones)}}


def is_written(stage: Stage, name: str = "db") -> bool:
    vm = stage.api.get(stage.path("VirtualMachine", name))
    return "affinity" in vm["spec"]["template"]["spec"]


@pytest.mark.parametrize("run_strategy", ["Always", "Halted"])
def test_rule_against_node_selector_of_instance_type_is_a_finding(
    stage: Stage, run_strategy: str
) -> None:
    create_instance_type(stage, nodeSelector={ZONE: "zone1"})
    stage.create(typed_vm(run_strategy=run_strategy))
    if run_strategy == "Always":
        assert stage.node_of("db") in ZONE1

    refused = stage.write(rule_of_zone("avoid", "zone1"))

    assert refused["failed"], refused
    (finding,) = [f for f in refused["findings"] if f["name"] == "unsatisfiable"]
    assert f"{ZONE} In (zone1) (the nodeSelector of its instance type" in finding["why"], finding
    assert not is_written(stage)
    written = stage.write(rule_of_zone("run_on", "zone1", "zone2"))
    assert not written.get("failed"), written
    assert is_written(stage)


def test_vm_with_instance_type_moves_where_its_node_selector_lets_it(stage: Stage) -> None:
    create_instance_type(stage, nodeSelector={ZONE: "zone1"})
    open_nodes(stage, "old1")
    stage.create(typed_vm())
    assert stage.node_of("db") == "old1"
    open_nodes(stage, "old1", "old2", "new2")
    rule = {"name": "off", "workloads": [{"name": "db"}], "avoid": {"node": "old1"}}

    found = stage.forecast(namespace=stage.namespace, rules=[rule])

    assert found["forecast"] == "impossible", found
    stage.sandbox.restore_nodes()
    found = stage.forecast(namespace=stage.namespace, rules=[rule])
    (move,) = found["moves"]
    assert (found["forecast"], move["targets"]) == ("guaranteed", ["new1"]), found
    assert stage.write(rule)["changed"]
    assert migrate(stage) == "new1"


GPU: dict[str, JSON] = {"gpus": [{"name": "g1", "deviceName": "example.com/gpu"}]}
AUTO: JSON = {"requests": {}}
DOMAINS: dict[str, JSON] = {
    "requests": {
        "resources": {"requests": {"cpu": "1500m", "memory": "1Gi", "ephemeral-storage": "1G"}}
    },
    "limits": {"resources": {"limits": {"cpu": "3", "memory": "2Gi"}}},
    "no CPU request": {
        "cpu": {"cores": 100},
        "resources": {"requests": {"cpu": "0", "memory": "1Gi"}},
    },
    "guest memory": {
        "memory": {"guest": "3Gi"},
        "resources": AUTO,
        "cpu": {"cores": 2, "threads": 2},
    },
    "overcommitted": {
        "memory": {"guest": "3Gi"},
        "resources": {"requests": {"memory": "1Gi"}, "overcommitGuestOverhead": True},
    },
    "guaranteed": {
        "resources": {
            "limits": {"cpu": "2", "memory": "2Gi"},
            "requests": {"cpu": "2", "memory": "2Gi"},
        }
    },
    "hugepages": {"memory": {"hugepages": {"pageSize": "2Mi"}, "guest": "1Gi"}, "resources": AUTO},
    "hugepages of the request": {
        "memory": {"hugepages": {"pageSize": "1Gi"}},
        "resources": {"requests": {"memory": "2Gi"}},
    },
    "hugepages beside memory": {
        "memory": {"hugepages": {"pageSize": "2Mi"}, "guest": "64Mi"},
        "resources": {"requests": {"memory": "128Mi"}},
    },
    "CPU model": {
        "cpu": {
            "model": "Haswell-noTSX",
            "features": [{"name": "vme"}, {"name": "avx", "policy": "forbid"}],
        }
    },
    "dedicated CPUs": {
        "cpu": {"dedicatedCpuPlacement": True, "isolateEmulatorThread": True, "cores": 2},
        "memory": {"guest": "1Gi"},
        "resources": AUTO,
    },
    "CPUs in pairs, realtime": {
        "cpu": {
            "dedicatedCpuPlacement": True,
            "isolateEmulatorThread": True,
            "cores": 2,
            "numa": {"guestMappingPassthrough": {}},
            "realtime": {},
        },
        "memory": {"guest": "1Gi", "hugepages": {"pageSize": "2Mi"}},
        "resources": AUTO,
    },
    "evmcs": {"features": {"hyperv": {"evmcs": {}}}},
    "SEV": {
        "launchSecurity": {"sev": {}},
        "firmware": {"bootloader": {"efi": {"secureBoot": False}}},
    },
    "GPUs": {"devices": {"gpus": [GPU["gpus"][0], {**GPU["gpus"][0], "name": "g2"}]}},
    "host device": {"devices": {"hostDevices": GPU["gpus"]}},
    "no devices": {
        "devices": {
            "autoattachGraphicsDevice": False,
            "autoattachSerialConsole": False,
            "tpm": {},
            "interfaces": [{"name": "default", "masquerade": {}, "model": "e1000"}],
        }
    },
    "I/O threads": {
        "ioThreadsPolicy": "supplementalPool",
        "ioThreads": {"supplementalPoolThreadCount": 3},
        "resources": {"requests": {"memory": "1Gi"}},
    },
}


def platform_of(stage: Stage) -> Platform:
    sandbox = stage.sandbox
    return Platform(
        kubevirt=f"v{sandbox.versions.kubevirt}", configuration=sandbox.cluster.configuration
    )


@pytest.mark.tour
@pytest.mark.parametrize("name", DOMAINS)
def test_launcher_pod_of_a_halted_vm_is_the_one_that_virt_controller_creates(
    stage: Stage, name: str
) -> None:
    if name == "I/O threads" and not stage.sandbox.versions.has_kubevirt("1.5"):
        pytest.skip("KubeVirt 1.4 has no pool of I/O threads")
    vm = objects.virtual_machine("db", run_strategy="Halted", placement={"tolerations": None})
    domain = vm["spec"]["template"]["spec"]["domain"]
    added = DOMAINS[name]
    devices = {**domain["devices"], **added.get("devices", {})}
    vm["spec"]["template"]["spec"]["domain"] = {**domain, **added, "devices": devices}
    if name.startswith("CPUs in pairs"):
        vm["spec"]["template"]["metadata"]["annotations"] = {EVEN_PARITY: ""}
    if name == "limits":
        del vm["spec"]["template"]["spec"]["volumes"][0]["containerDisk"]
        vm["spec"]["template"]["spec"]["volumes"][0]["emptyDisk"] = {"capacity": "1Gi"}
    stage.create(vm)
    path = stage.path("VirtualMachine", "db")
    workload = workload_from_manifest("VirtualMachine", stage.api.get(path))
    platform = platform_of(stage)

    planned = launcher_pod(planned_vmi(workload, "db"), platform, workload.template)

    assert doubt_about_new_vm(workload, None, platform) is None
    stage.api.patch(path, {"spec": {"runStrategy": "Always"}})
    (pod,) = stage.api.wait_list(stage.path("Pod"), lambda pods: len(pods) == 1, timeout=60)
    created = pod_from_manifest(pod)
    assert planned.requests == created.requests
    assert dict(planned.placement.node_selector) == dict(created.placement.node_selector)
    assert planned.placement.node_terms == created.placement.node_terms
    vmi = vmi_from_manifest(stage.api.get(stage.path("VirtualMachineInstance", "db")))
    assert changed_by_restart(workload, vmi, "next", None, platform) == ChangedPod()


@pytest.mark.parametrize(
    ("domain", "nodes"),
    [
        ({"devices": GPU}, NODES[2:]),
        ({"cpu": {"model": "Haswell-noTSX"}}, NODES[:4]),
        ({"resources": {"requests": {"cpu": "900"}}}, ()),
    ],
    ids=["GPU", "CPU model", "CPUs"],
)
def test_vm_that_a_drain_restarts_has_its_present_template(
    stage: Stage, domain: JSON, nodes: t.Collection[str]
) -> None:
    start(stage, "amd1", placement={"evictionStrategy": "None"})
    path = stage.path("VirtualMachine", "db")
    stage.api.patch(path, {"spec": {"template": {"spec": {"domain": domain}}}})
    stage.sandbox.restore_nodes()

    answer, targets = forecast_of_drain(stage, "amd1")

    drain.drain(stage.sandbox, "amd1", timeout=60)
    assert (answer, bool(targets)) == (("guaranteed", True) if nodes else ("impossible", False))
    assert set(targets) <= set(nodes)
    if nodes:
        assert stage.node_of("db") in nodes
    else:
        assert stage.placed(1) == [""]


@pytest.mark.tour
def test_target_of_a_migration_asks_for_the_cpus_that_were_added_since(stage: Stage) -> None:
    vm = objects.virtual_machine("db")
    domain = vm["spec"]["template"]["spec"]["domain"]
    domain |= {"cpu": {"sockets": 1}, "memory": {"guest": "1Gi"}}
    del domain["resources"]
    stage.create(vm)
    stage.node_of("db")
    (running,) = map(pod_from_manifest, stage.api.list(stage.path("Pod")))
    change = {"cpu": {"sockets": 4}}
    path = stage.path("VirtualMachine", "db")
    stage.api.patch(path, {"spec": {"template": {"spec": {"domain": change}}}})
    path = stage.path("VirtualMachineInstance", "db")
    vmi = vmi_from_manifest(stage.api.wait(lambda found: vmi_from_manifest(found).resized, path))
    platform = platform_of(stage)

    target, why = changed_by_migration(running, vmi, platform)

    assert why == "CPUs or memory of the VMI were changed since its pod was made"
    assert target.requests != running.requests
    stage.create(objects.migration("db", name="db-more"))
    pods = stage.api.wait_list(stage.path("Pod"), lambda pods: len(pods) == 2, timeout=60)
    created = {pod.uid: pod for pod in map(pod_from_manifest, pods)}
    del created[running.uid]
    assert [pod.requests for pod in created.values()] == [target.requests]


@pytest.mark.parametrize(
    "name",
    [
        "hugepages of the request",
        "CPU model",
        "dedicated CPUs",
        "SEV",
        "GPUs",
        "host device",
        "typed",
        "network",
    ],
)
def test_halted_vm_without_a_node_of_its_kind_is_unschedulable_as_forecast(
    stage: Stage, name: str
) -> None:
    vm = objects.virtual_machine("db", run_strategy="Halted")
    if name == "typed":
        create_instance_type(stage, **GPU, nodeSelector={ZONE: "zone1"})
        vm = typed_vm(run_strategy="Halted")
        open_nodes(stage, "old1", "old2", "new2", "amd2")
    elif name == "network":
        create_network(stage)
        on_network(vm["spec"]["template"]["spec"])
        open_nodes(stage, "new1", "amd1")
    else:
        domain = vm["spec"]["template"]["spec"]["domain"]
        devices = {**domain["devices"], **DOMAINS[name].get("devices", {})}
        domain |= {**DOMAINS[name], "devices": devices}
        open_nodes(stage, *(NODES[4:] if name == "CPU model" else NODES[:2]))
    stage.create(vm)
    rule = {"name": "anywhere", "workloads": ["db"], "run_on": {"zone": ["zone1", "zone2"]}}

    found = stage.forecast(namespace=stage.namespace, rules=[rule])

    assert (found["forecast"], found["min_unschedulable"]) == ("impossible", 1), found
    assert stage.write(rule)["changed"]
    stage.api.patch(stage.path("VirtualMachine", "db"), {"spec": {"runStrategy": "Always"}})
    assert stage.placed(1) == [""]
    stage.sandbox.restore_nodes()
    places = {
        "CPU model": NODES[:4],
        "GPUs": NODES[2:4],
        "host device": NODES[2:],
        "typed": ("new1", "amd1"),
        "network": NODES[:2],
    }
    assert stage.node_of("db") in places.get(name, NODES)
