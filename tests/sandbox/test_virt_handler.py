# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Virtual machines on the sandbox run, migrate, restart and misbehave as they are told to."""

from __future__ import annotations

import time
import typing as t

import pytest

from sandbox import ApiFailure, Sandbox, objects
from sandbox.control_plane import MANAGED_NODE
from sandbox.virt_handler.step import parse_time

Object = dict[str, t.Any]
FAULT = "sandbox.virt/"
SLOW_WORLD = "/api/v1/namespaces/kubevirt/configmaps"


class Workshop:
    """Virtual machines in one namespace."""

    def __init__(self, sandbox: Sandbox, namespace: str) -> None:
        self.sandbox, self.api, self.namespace = sandbox, sandbox.api, namespace

    def start(self, name: str, *, placement: Object | None = None, **faults: str) -> Object:
        """Start a VM with these faults (underscores for dashes); returns its running instance."""
        annotations = {FAULT + fault.replace("_", "-"): value for fault, value in faults.items()}
        vm = objects.virtual_machine(
            name, self.namespace, annotations=annotations, placement=placement
        )
        self.api.create(self.api.collection_of(vm), vm)
        return self.wait(name, ready)

    def path(self, name: str, kind: str = "VirtualMachineInstance") -> str:
        return self.api.path(kind, self.namespace, name)

    def instance(self, name: str) -> Object:
        return self.api.get(self.path(name))

    def wait(self, name: str, wanted: t.Callable[[Object], object], timeout: float = 20) -> Object:
        return self.api.wait(wanted, self.path(name), timeout)

    def migrate(self, instance: str, name: str) -> None:
        kind = "VirtualMachineInstanceMigration"
        body = objects.migration(instance, self.namespace, name=name)
        self.api.create(self.api.path(kind, self.namespace), body)

    def outcome(self, migration: str) -> str:
        """The final phase of a migration."""
        path = self.path(migration, "VirtualMachineInstanceMigration")
        done = self.api.wait(lambda seen: phase(seen) in ("Succeeded", "Failed"), path)
        return phase(done)

    def pods(self, instance: str) -> list[Object]:
        """Launcher pods of the instances of this name."""
        path = self.api.path("Pod", self.namespace)
        return self.api.list(path, labelSelector=f"vmi.kubevirt.io/id={instance}")

    def wait_pods(self, instance: str, phases: list[str]) -> list[Object]:
        """Wait until the launcher pods have these phases, in any order."""
        path = self.api.path("Pod", self.namespace)
        label = {"vmi.kubevirt.io/id": instance}

        def match(pods: list[Object]) -> bool:
            own = [pod for pod in pods if label.items() <= pod["metadata"]["labels"].items()]
            return sorted(phase(pod) for pod in own) == sorted(phases)

        self.api.wait_list(path, match, 20)
        return self.pods(instance)

    def annotate(self, name: str, **faults: str | None) -> None:
        annotations = {FAULT + fault.replace("_", "-"): value for fault, value in faults.items()}
        self.api.patch(self.path(name), {"metadata": {"annotations": annotations}})


def phase(seen: Object) -> str:
    return str(seen.get("status", {}).get("phase", ""))


def condition(seen: Object, kind: str) -> Object | None:
    conditions = seen.get("status", {}).get("conditions") or []
    return next((entry for entry in conditions if entry["type"] == kind), None)


def ready(seen: Object) -> bool:
    found = condition(seen, "Ready")
    return phase(seen) == "Running" and found is not None and found["status"] == "True"


def new_since(old: Object) -> t.Callable[[Object], bool]:
    return lambda seen: ready(seen) and seen["metadata"]["uid"] != old["metadata"]["uid"]


@pytest.fixture
def workshop(small: Sandbox, namespace: t.Callable[[Sandbox], str]) -> Workshop:
    return Workshop(small, namespace(small))


def test_a_vm_runs_migrates_and_restarts(workshop: Workshop) -> None:
    first = workshop.start("vm")
    workshop.migrate("vm", "go")
    assert workshop.outcome("go") == "Succeeded"
    moved = workshop.instance("vm")
    assert moved["metadata"]["uid"] == first["metadata"]["uid"]
    assert moved["status"]["nodeName"] != first["status"]["nodeName"]
    pods = workshop.wait_pods("vm", ["Succeeded", "Running"])
    assert {phase(pod): pod["spec"]["nodeName"] for pod in pods} == {
        "Succeeded": first["status"]["nodeName"],
        "Running": moved["status"]["nodeName"],
    }

    migration = workshop.api.get(workshop.path("go", "VirtualMachineInstanceMigration"))
    phases = [entry["phase"] for entry in migration["status"]["phaseTransitionTimestamps"]]
    assert phases == [
        "Pending",
        "Scheduling",
        "Scheduled",
        "PreparingTarget",
        "TargetReady",
        "Running",
        "Succeeded",
    ]

    subresource = "/apis/subresources.kubevirt.io/v1/namespaces"
    workshop.api.put(f"{subresource}/{workshop.namespace}/virtualmachines/vm/restart", {})
    workshop.wait("vm", new_since(first))
    workshop.wait_pods("vm", ["Running"])


def test_target_asks_for_the_cpu_and_the_machine_type_of_the_guest(workshop: Workshop) -> None:
    """As on real nodes: with host-model, the default, and a machine type that is an alias."""
    first = workshop.start("vm")
    assert first["status"]["machine"] == {"type": "pc-q35-10.0"}
    assert first["status"]["migrationMethod"] == "BlockMigration"
    times = [condition(first, kind) for kind in ("LiveMigratable", "StorageLiveMigratable")]
    assert {entry["lastTransitionTime"] for entry in times if entry} == {None}
    workshop.migrate("vm", "go")
    assert workshop.outcome("go") == "Succeeded"
    target = next(
        pod
        for pod in workshop.pods("vm")
        if "kubevirt.io/migrationJobUID" in pod["metadata"]["labels"]
    )
    asked = {key for key in target["spec"]["nodeSelector"] if ".node.kubevirt.io/" in key}
    assert asked == {
        "machine-type.node.kubevirt.io/pc-q35-10.0",
        "cpu-model-migration.node.kubevirt.io/Skylake-Server",
        "cpu-feature.node.kubevirt.io/vmx",
        "cpu-vendor.node.kubevirt.io/Intel",
    }
    state = workshop.instance("vm")["status"]["migrationState"]
    assert sorted(state["targetDirectMigrationNodePorts"].values()) == [0, 49152, 49153]
    assert state["targetNodeDomainDetected"]
    assert state["targetNodeAddress"] == target["status"]["hostIP"]


def test_source_pod_is_not_ready_until_its_sidecar_ends(workshop: Workshop) -> None:
    """guest-console-log is an init container that runs on: 3 containers, and 2 for a while after a migration."""
    workshop.start("vm", source_pod_seconds="3")
    (pod,) = workshop.pods("vm")
    assert running_containers(pod) == {"compute", "volumeroot", "guest-console-log"}
    workshop.migrate("vm", "go")
    assert workshop.outcome("go") == "Succeeded"
    path = workshop.api.path_of({"kind": "Pod", **pod})
    lingering = workshop.api.get(path)
    assert phase(lingering) == "Running"
    assert condition(lingering, "Ready")["status"] == "False"  # type: ignore[index]
    assert running_containers(lingering) == {"volumeroot", "guest-console-log"}
    ended = workshop.api.wait(lambda seen: phase(seen) == "Succeeded", path, 20)
    assert running_containers(ended) == set()


def running_containers(pod: Object) -> set[str]:
    status = pod["status"]
    statuses = [*status["containerStatuses"], *status["initContainerStatuses"]]
    return {entry["name"] for entry in statuses if "running" in entry["state"]}


def test_handover_may_be_late(workshop: Workshop) -> None:
    """Seen once in nine on real nodes: the source has ended, and the instance stays there for minutes."""
    first = workshop.start("vm", handover_seconds="3")
    workshop.migrate("vm", "go")
    workshop.wait_pods("vm", ["Succeeded", "Running"])
    late = workshop.wait("vm", lambda seen: not ready(seen))
    assert late["status"]["nodeName"] == first["status"]["nodeName"]
    path = workshop.path("go", "VirtualMachineInstanceMigration")
    assert phase(workshop.api.get(path)) == "Running"
    assert workshop.outcome("go") == "Succeeded"
    assert workshop.wait("vm", ready)["status"]["nodeName"] != first["status"]["nodeName"]


def test_nodes_report_what_kubelet_and_virt_handler_do(small: Sandbox) -> None:
    for node in small.api.list(small.api.path("Node")):
        status = node["status"]
        found = {entry["type"]: entry["status"] for entry in status["conditions"]}
        pressures = ("MemoryPressure", "DiskPressure", "PIDPressure")
        assert found == {**dict.fromkeys(pressures, "False"), "Ready": "True"}
        assert {entry["type"] for entry in status["addresses"]} == {"InternalIP", "Hostname"}
        assert status["daemonEndpoints"]["kubeletEndpoint"]["Port"] == 10250
        assert "kubevirt.io/heartbeat" in node["metadata"]["annotations"]


def test_migrations_there_and_back_end_only_their_own_source_pod(workshop: Workshop) -> None:
    workshop.start("vm")
    for name in ("first", "second", "third"):
        workshop.migrate("vm", name)
        assert workshop.outcome(name) == "Succeeded"
    pods = workshop.wait_pods("vm", ["Succeeded", "Succeeded", "Succeeded", "Running"])
    (live,) = [pod for pod in pods if phase(pod) == "Running"]
    assert live["spec"]["nodeName"] == workshop.instance("vm")["status"]["nodeName"]


def test_not_migratable_is_refused_with_its_reason(workshop: Workshop) -> None:
    seen = workshop.start("vm", not_migratable="DisksNotLiveMigratable")
    found = condition(seen, "LiveMigratable")
    assert found is not None
    assert (found["status"], found["reason"]) == ("False", "DisksNotLiveMigratable")
    with pytest.raises(ApiFailure, match="DisksNotLiveMigratable") as refused:
        workshop.migrate("vm", "go")
    assert refused.value.status == 400

    workshop.annotate("vm", not_migratable=None)
    workshop.wait("vm", lambda vmi: condition(vmi, "LiveMigratable")["status"] == "True")  # type: ignore[index]


def test_live_migratable_missing_is_accepted(workshop: Workshop) -> None:
    seen = workshop.start("vm", live_migratable_missing="true")
    assert condition(seen, "LiveMigratable") is None
    workshop.migrate("vm", "go")
    assert workshop.outcome("go") == "Succeeded"


def test_a_migration_fails_as_often_as_asked(workshop: Workshop) -> None:
    first = workshop.start("vm", migration_fails="2")
    for name in ("first", "second"):
        workshop.migrate("vm", name)
        assert workshop.outcome(name) == "Failed"
        assert workshop.instance("vm")["status"]["nodeName"] == first["status"]["nodeName"]
    state = workshop.instance("vm")["status"]["migrationState"]
    assert state["failed"] and "completed" not in state
    # the launcher of a target that is not needed ends by itself
    workshop.wait_pods("vm", ["Succeeded", "Succeeded", "Running"])
    workshop.migrate("vm", "third")
    assert workshop.outcome("third") == "Succeeded"


def test_a_slow_migration_can_be_aborted(workshop: Workshop) -> None:
    first = workshop.start("vm", migration_seconds="60")
    workshop.migrate("vm", "go")
    path = workshop.path("go", "VirtualMachineInstanceMigration")
    workshop.api.wait(lambda seen: phase(seen) == "Running", path)
    with pytest.raises(ApiFailure, match="in-flight migration"):
        workshop.migrate("vm", "another")
    workshop.api.delete(path)
    workshop.api.wait_gone(path)
    workshop.wait_pods("vm", ["Succeeded", "Running"])
    seen = workshop.instance("vm")
    state = seen["status"]["migrationState"]
    assert (state["failed"], state["abortStatus"]) == (True, "Succeeded")
    assert state["failureReason"] == "Live migration aborted "
    assert "completed" not in state
    assert seen["status"]["nodeName"] == first["status"]["nodeName"]


def test_the_slow_world_is_a_default_for_all(workshop: Workshop) -> None:
    def seconds(migration: str) -> float:
        workshop.migrate("vm", migration)
        assert workshop.outcome(migration) == "Succeeded"
        state = workshop.instance("vm")["status"]["migrationState"]
        return (
            parse_time(state["endTimestamp"]) - parse_time(state["startTimestamp"])
        ).total_seconds()

    workshop.start("vm")
    settings = {"metadata": {"name": "sandbox-virt-handler"}, "data": {"migration-seconds": "3"}}
    workshop.api.create(SLOW_WORLD, settings)
    try:
        assert seconds("slow") >= 3
    finally:
        workshop.api.delete(f"{SLOW_WORLD}/sandbox-virt-handler")
    assert seconds("fast") < 3


def test_the_source_pod_stays_until_it_is_let_go(workshop: Workshop) -> None:
    workshop.start("vm", source_pod_stays="true")
    workshop.migrate("vm", "go")
    assert workshop.outcome("go") == "Succeeded"
    time.sleep(0.5)
    workshop.wait_pods("vm", ["Running", "Running"])
    workshop.annotate("vm", source_pod_stays="false")
    workshop.wait_pods("vm", ["Succeeded", "Running"])


@pytest.mark.parametrize("deleted", ["instance", "pod"])
def test_a_slow_guest_is_given_its_time(workshop: Workshop, deleted: str) -> None:
    first = workshop.start("vm", shutdown_seconds="2")
    (pod,) = workshop.pods("vm")
    path = workshop.api.path_of({"kind": "Pod", **pod})
    started = time.monotonic()
    workshop.api.delete(workshop.path("vm") if deleted == "instance" else path)
    time.sleep(0.5)
    waiting = workshop.api.get(path)
    assert phase(waiting) == "Running"
    assert waiting["metadata"]["deletionTimestamp"]
    assert phase(workshop.instance("vm")) == "Running"
    workshop.api.wait_gone(path)
    assert time.monotonic() - started > 1
    workshop.wait("vm", new_since(first))


def test_a_slow_guest_is_killed_at_the_end_of_its_grace(workshop: Workshop) -> None:
    first = workshop.start(
        "vm", placement={"terminationGracePeriodSeconds": 2}, shutdown_seconds="600"
    )
    workshop.api.delete(workshop.path("vm"))
    workshop.wait("vm", new_since(first))


def test_misspelled_fault_is_reported_and_leaves_the_instance_unchanged(workshop: Workshop) -> None:
    vm = objects.virtual_machine(
        "vm", workshop.namespace, annotations={FAULT + "migraton-fails": "1"}
    )
    workshop.api.create(workshop.api.collection_of(vm), vm)
    workshop.wait("vm", lambda seen: phase(seen) == "Scheduled")
    log = workshop.sandbox.directory / "log" / "virt-handler.log"
    deadline = time.monotonic() + 5
    while f"{workshop.namespace}/vm: unknown fault 'migraton-fails'" not in log.read_text():
        assert time.monotonic() < deadline, log.read_text()
        time.sleep(0.05)
    assert phase(workshop.instance("vm")) == "Scheduled"


@pytest.fixture
def dead_node(workshop: Workshop) -> t.Iterator[str]:
    """A node that dies with VM "vm" on it; it is back after the test."""
    name = workshop.start("vm")["status"]["nodeName"]
    workshop.sandbox.node_down(name)
    yield name
    if (
        MANAGED_NODE
        not in workshop.api.get(workshop.api.path("Node", name=name))["metadata"]["labels"]
    ):
        workshop.sandbox.node_up(name)


def test_a_dead_node_does_nothing_until_it_is_back(workshop: Workshop, dead_node: str) -> None:
    api = workshop.api
    node = api.path("Node", name=dead_node)
    unreachable = "node.kubernetes.io/unreachable"
    api.wait(lambda n: unreachable in {x["key"] for x in n["spec"].get("taints", [])}, node)
    seen = workshop.wait("vm", lambda vmi: not ready(vmi))
    (pod,) = workshop.pods("vm")
    path = api.path_of({"kind": "Pod", **pod})
    api.delete(path)
    lease = api.path("Lease", "kube-node-lease", dead_node)
    renewed = api.get(lease)["spec"]["renewTime"]
    time.sleep(5.5)  # a quarter of the lease's time, at which KWOK renews it, and some
    assert api.get(path)["metadata"]["deletionTimestamp"]
    assert phase(workshop.instance("vm")) == "Running"
    assert api.get(lease)["spec"]["renewTime"] == renewed

    boot = api.get(node)["status"]["nodeInfo"]["bootID"]
    workshop.sandbox.node_up(dead_node)
    api.wait_gone(path)
    assert api.get(node)["status"]["nodeInfo"]["bootID"] == boot
    workshop.wait("vm", new_since(seen))


def test_a_lost_connection_changes_nothing(workshop: Workshop, dead_node: str) -> None:
    seen = workshop.wait("vm", lambda vmi: not ready(vmi))
    workshop.sandbox.node_up(dead_node)
    back = workshop.wait("vm", ready)
    assert back["metadata"]["uid"] == seen["metadata"]["uid"]
    (pod,) = workshop.pods("vm")
    assert phase(pod) == "Running"


def test_a_reboot_ends_what_ran_there(workshop: Workshop, dead_node: str) -> None:
    api, node = workshop.api, workshop.api.path("Node", name=dead_node)
    web = objects.pod("web", workshop.namespace, placement={"nodeName": dead_node})
    seen = workshop.instance("vm")
    boot = api.get(node)["status"]["nodeInfo"]["bootID"]
    api.create(api.collection_of(web), web)
    time.sleep(0.5)
    assert phase(api.get(api.path_of(web))) == "Pending"

    workshop.sandbox.node_up(dead_node, new_boot=True, virt_handler_ready=False)
    back = api.get(node)
    assert back["status"]["nodeInfo"]["bootID"] != boot
    assert back["metadata"]["labels"]["kubevirt.io/schedulable"] == "false"
    workshop.wait("vm", new_since(seen))
    api.wait(lambda pod: phase(pod) == "Running", api.path_of(web))
    api.patch(node, {"metadata": {"labels": {"kubevirt.io/schedulable": "true"}}})


def test_a_reboot_restarts_containers_of_other_pods(workshop: Workshop) -> None:
    api = workshop.api
    web = objects.pod("web", workshop.namespace)
    api.create(api.collection_of(web), web)
    running = api.wait(lambda pod: phase(pod) == "Running", api.path_of(web))
    workshop.sandbox.node_down(running["spec"]["nodeName"])
    workshop.sandbox.node_up(running["spec"]["nodeName"], new_boot=True)
    again = api.get(api.path_of(web))
    assert phase(again) == "Running"
    assert again["status"]["containerStatuses"][0]["restartCount"] == 1
    assert again["metadata"]["uid"] == running["metadata"]["uid"]


def test_node_that_reboots_within_seconds_is_never_not_ready(workshop: Workshop) -> None:
    """virt-handler finds that the guest is gone, and its launcher runs until the kubelet compares."""
    first = workshop.start("vm")
    name = first["status"]["nodeName"]
    node = workshop.api.path("Node", name=name)
    boot = workshop.api.get(node)["status"]["nodeInfo"]["bootID"]
    workshop.sandbox.node_reboot(name)
    workshop.wait("vm", lambda seen: phase(seen) == "Failed")
    assert [phase(pod) for pod in workshop.pods("vm")] == ["Running"]
    after = workshop.api.get(node)
    assert after["status"]["nodeInfo"]["bootID"] != boot
    assert condition(after, "Ready")["status"] == "True"  # type: ignore[index]
    workshop.wait("vm", new_since(first))
    workshop.wait_pods("vm", ["Running"])


def test_only_a_dead_node_can_come_back(small: Sandbox) -> None:
    name = small.api.list(small.api.path("Node"))[0]["metadata"]["name"]
    with pytest.raises(ValueError, match=f"node {name} is not down"):
        small.node_up(name)
