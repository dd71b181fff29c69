# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the simulated virt-handler decides, without a cluster."""

from __future__ import annotations

import datetime
import typing as t

import pytest

from sandbox.virt_handler.faults import NO_FAULTS, Faults, parse_faults
from sandbox.virt_handler.step import (
    Action,
    AnnotatePod,
    DeletePod,
    EndPod,
    LeavePod,
    PatchVmi,
    WakeAt,
    step,
)

NOW = datetime.datetime(2026, 3, 1, 12, 0, 0, tzinfo=datetime.timezone.utc)
MIGRATABLE = [
    {
        "type": kind,
        "status": "True",
        "lastProbeTime": None,
        "lastTransitionTime": None,
    }
    for kind in ("LiveMigratable", "StorageLiveMigratable")
]
TARGET_LABEL = "kubevirt.io/migrationTargetNodeName"


def stamp(seconds: float) -> str:
    """The time so many seconds from NOW, in Kubernetes' form."""
    return (NOW + datetime.timedelta(seconds=seconds)).strftime("%Y-%m-%dT%H:%M:%SZ")


def instance(phase: str = "Running", **status: t.Any) -> dict[str, t.Any]:
    return {
        "metadata": {"name": "vm", "namespace": "shop", "uid": "1", "labels": {}},
        "spec": {},
        "status": {"phase": phase, "nodeName": "a", "conditions": MIGRATABLE, **status},
    }


def migrating(**state: t.Any) -> dict[str, t.Any]:
    start = {"migrationUid": "job", "sourceNode": "a", "sourcePod": "pod-a", "targetNode": "b"}
    vmi = instance(migrationState={**start, **state})
    vmi["metadata"]["labels"][TARGET_LABEL] = "b"
    return vmi


def pod(node: str, phase: str = "Running", **metadata: t.Any) -> dict[str, t.Any]:
    return {
        "metadata": {"name": f"pod-{node}", "labels": {}, "annotations": {}, **metadata},
        "spec": {"nodeName": node},
        "status": {"phase": phase, "hostIP": f"10.77.0.{ord(node)}"},
    }


def left(node: str, seconds: float) -> dict[str, t.Any]:
    """A launcher whose guest left it so many seconds ago."""
    made = pod(node)
    ended = {"terminated": {"exitCode": 0, "finishedAt": stamp(-seconds)}}
    made["status"]["containerStatuses"] = [{"name": "compute", "state": ended}]
    return made


def patch_of(actions: list[Action]) -> dict[str, t.Any]:
    """The one patch of the instance among the actions."""
    (found,) = [action.patch for action in actions if isinstance(action, PatchVmi)]
    return found


def test_a_scheduled_instance_starts_with_all_that_virt_controller_needs() -> None:
    status = patch_of(step(instance("Scheduled", conditions=[]), [pod("a")], NO_FAULTS, NOW))[
        "status"
    ]
    assert status["phase"] == "Running"
    assert status["phaseTransitionTimestamps"][-1]["phase"] == "Running"
    assert status["selinuxContext"] == "none"
    assert status["machine"] == {"type": "pc-q35-10.0"}
    assert status["migrationMethod"] == "LiveMigration"
    assert [(c["type"], c["status"]) for c in status["conditions"]] == [
        ("LiveMigratable", "True"),
        ("StorageLiveMigratable", "True"),
    ]
    assert {c["lastProbeTime"] or c["lastTransitionTime"] for c in status["conditions"]} == {None}


@pytest.mark.parametrize(
    ("volume", "disk", "method"),
    [
        ({"containerDisk": {}}, {"disk": {}}, "BlockMigration"),
        ({"cloudInitNoCloud": {}}, {"disk": {}}, "BlockMigration"),
        ({"cloudInitNoCloud": {}}, {"cdrom": {}}, "LiveMigration"),
        ({"cloudInitNoCloud": {}}, {"cdrom": {"readonly": False}}, "BlockMigration"),
        ({"persistentVolumeClaim": {}}, {"disk": {}}, "LiveMigration"),
    ],
)
def test_disks_of_images_are_copied_with_three_ports(
    volume: dict[str, t.Any], disk: dict[str, t.Any], method: str
) -> None:
    vmi = instance("Scheduled", conditions=[])
    vmi["spec"]["domain"] = {"devices": {"disks": [{"name": "root", **disk}]}}
    vmi["spec"]["volumes"] = [{"name": "root", **volume}]
    status = patch_of(step(vmi, [pod("a")], NO_FAULTS, NOW))["status"]
    assert status["migrationMethod"] == method
    going = migrating()
    going["status"]["migrationMethod"] = method
    target = pod("b", labels={"kubevirt.io/migrationJobUID": "job"})
    state = patch_of(step(going, [pod("a"), target], NO_FAULTS, NOW))["status"]["migrationState"]
    assert state["targetNodeAddress"] == "10.77.0.98"
    channels = [0, 49152, 49153] if method == "BlockMigration" else [0, 49152]
    assert sorted(state["targetDirectMigrationNodePorts"].values()) == channels
    assert all(int(port) > 1024 for port in state["targetDirectMigrationNodePorts"])


@pytest.mark.parametrize(
    ("asked", "machine"), [("q35", "pc-q35-10.0"), ("pc-q35-rhel9.6.0", "pc-q35-rhel9.6.0")]
)
def test_running_guest_has_the_version_of_its_machine_type(asked: str, machine: str) -> None:
    vmi = instance("Scheduled", conditions=[])
    vmi["spec"]["domain"] = {"machine": {"type": asked}}
    status = patch_of(step(vmi, [pod("a")], NO_FAULTS, NOW))["status"]
    assert status["machine"] == {"type": machine}


@pytest.mark.parametrize("phase", ["Pending", "Scheduling", "Succeeded", "Failed"])
def test_other_phases_are_virt_controllers(phase: str) -> None:
    assert step(instance(phase), [pod("a")], NO_FAULTS, NOW) == []


def test_a_running_instance_that_is_as_it_should_be_is_left_alone() -> None:
    assert step(instance(), [pod("a")], NO_FAULTS, NOW) == []


def test_conditions_of_others_are_kept_when_migratable_changes() -> None:
    ready = {"type": "Ready", "status": "True"}
    vmi = instance(conditions=[ready, *MIGRATABLE])
    faults = Faults(not_migratable="DisksNotLiveMigratable")
    conditions = patch_of(step(vmi, [pod("a")], faults, NOW))["status"]["conditions"]
    assert conditions[0] == ready
    assert conditions[-1]["status"] == "False"
    assert conditions[-1]["reason"] == "DisksNotLiveMigratable"
    assert len(conditions) == 3


def test_live_migratable_goes_missing() -> None:
    actions = step(instance(), [pod("a")], Faults(live_migratable_missing=True), NOW)
    assert [c["type"] for c in patch_of(actions)["status"]["conditions"]] == [
        "StorageLiveMigratable"
    ]


def migration_to_its_end(
    vmi: dict[str, t.Any], pods: list[dict[str, t.Any]], faults: Faults, now: datetime.datetime
) -> list[str]:
    """Apply each patch to the instance until the migration is over; what was done, in order."""
    done = []
    while not vmi["status"]["migrationState"].get("completed"):
        action, *rest = step(vmi, pods, faults, now)
        assert isinstance(action, PatchVmi), action
        done.append(action.why)
        labels = action.patch.get("metadata", {}).get("labels", {})
        vmi["metadata"]["labels"].update(labels)
        status = dict(action.patch.get("status", {}))
        vmi["status"]["migrationState"].update(status.pop("migrationState", {}))
        vmi["status"].update(status)
        gone = [other.pod for other in rest if isinstance(other, LeavePod)]
        assert gone == ([pods[0]] if "nodeName" in status else [])
        if gone:
            pods[0] = left("a", 0)
    return done


def test_a_migration_shows_each_of_its_stages() -> None:
    vmi = migrating()
    pods = [pod("a"), pod("b", labels={"kubevirt.io/migrationJobUID": "job"})]
    assert migration_to_its_end(vmi, pods, NO_FAULTS, NOW) == [
        "target prepared",
        "migration started",
        "handed over",
        "migration completed",
    ]
    assert vmi["status"]["nodeName"] == "b"
    assert vmi["metadata"]["labels"]["kubevirt.io/nodeName"] == "b"
    assert vmi["metadata"]["labels"][TARGET_LABEL] is None
    assert vmi["status"]["evacuationNodeName"] is None
    assert vmi["status"]["migrationState"]["targetNodeDomainDetected"]
    second = datetime.timedelta(seconds=1)
    assert step(vmi, pods, NO_FAULTS, NOW) == [WakeAt(NOW + second)]
    assert step(vmi, pods, NO_FAULTS, NOW + second) == [EndPod(pods[0])]
    assert step(vmi, pods, Faults(source_pod_seconds=14), NOW) == [WakeAt(NOW + 14 * second)]


def test_late_handover_leaves_the_instance_on_its_source() -> None:
    """The guest runs on the target, its source has ended, and the instance is handed over minutes later."""
    late = Faults(handover_seconds=200)
    source, target = pod("a"), pod("b", labels={"kubevirt.io/migrationJobUID": "job"})
    vmi = migrating(targetNodeAddress="10.77.0.98", startTimestamp=stamp(-2))
    actions = step(vmi, [source, target], late, NOW)
    assert patch_of(actions) == {
        "status": {"migrationState": {"targetNodeDomainReadyTimestamp": stamp(0)}}
    }
    assert actions[1:] == [EndPod(source)]
    vmi["status"]["migrationState"]["targetNodeDomainReadyTimestamp"] = stamp(0)
    pods = [pod("a", "Succeeded"), target]
    end = NOW + datetime.timedelta(seconds=200)
    assert step(vmi, pods, late, NOW) == [WakeAt(end)]
    assert patch_of(step(vmi, pods, late, end))["status"]["nodeName"] == "b"
    again = [EndPod(source), WakeAt(end)]
    assert step(vmi, [source, target], late, NOW) == again, "the first request was lost"


def test_the_target_is_prepared_only_when_virt_controller_has_labelled_it() -> None:
    vmi = migrating()
    del vmi["metadata"]["labels"][TARGET_LABEL]
    assert step(vmi, [pod("a"), pod("b")], NO_FAULTS, NOW) == []


def test_a_migration_takes_its_time() -> None:
    vmi = migrating(targetNodeAddress="127.0.0.1", startTimestamp=stamp(-3))
    faults = Faults(migration_seconds=5)
    assert step(vmi, [pod("a"), pod("b")], faults, NOW) == [
        WakeAt(NOW + datetime.timedelta(seconds=2))
    ]


def test_a_failing_migration_counts_down_and_ends_its_target_pod() -> None:
    vmi = migrating(targetNodeAddress="127.0.0.1", startTimestamp=stamp(0))
    target = pod("b", labels={"kubevirt.io/migrationJobUID": "job"})
    actions = step(vmi, [pod("a"), target], Faults(migration_fails=2), NOW)
    assert actions[1:] == [LeavePod(target)]
    patch = patch_of(actions)
    assert patch["metadata"]["annotations"] == {"sandbox.virt/migration-fails": "1"}
    assert patch["metadata"]["labels"] == {TARGET_LABEL: None}
    state = patch["status"]["migrationState"]
    assert state["failed"] and "completed" not in state and state["failureReason"]

    failed = migrating(**state)
    assert step(failed, [pod("a"), target], Faults(migration_fails=1), NOW) == [LeavePod(target)]


def test_an_abort_ends_the_migration_on_its_source() -> None:
    vmi = migrating(targetNodeAddress="127.0.0.1", startTimestamp=stamp(-1), abortRequested=True)
    begun = patch_of(step(vmi, [pod("a"), pod("b")], Faults(migration_seconds=60), NOW))
    assert begun == {"status": {"migrationState": {"abortStatus": "Aborting"}}}
    vmi["status"]["migrationState"]["abortStatus"] = "Aborting"
    patch = patch_of(step(vmi, [pod("a"), pod("b")], Faults(migration_seconds=60), NOW))
    state = patch["status"]["migrationState"]
    assert state == {
        "failed": True,
        "abortStatus": "Succeeded",
        "failureReason": "Live migration aborted ",
        "endTimestamp": stamp(0),
    }
    assert "nodeName" not in patch["status"]


def test_the_source_pod_ends_though_the_instance_names_one_that_ended_before() -> None:
    vmi = migrating(
        targetNodeAddress="127.0.0.1", startTimestamp=stamp(-1), targetNodeDomainDetected=True
    )
    source = pod("a", name="the-source")
    target = pod("b", labels={"kubevirt.io/migrationJobUID": "job"})
    actions = step(vmi, [pod("a", "Succeeded"), source, target], NO_FAULTS, NOW)
    assert actions[1:] == [LeavePod(source)]


def test_the_source_pod_stays_as_long_as_it_is_asked_to() -> None:
    vmi = migrating(completed=True)
    vmi["status"]["nodeName"] = "b"
    pods = [pod("a"), pod("b")]
    assert step(vmi, pods, Faults(source_pod_stays=True), NOW) == []
    assert step(vmi, pods, NO_FAULTS, NOW) == [LeavePod(pods[0])]


def test_target_pod_on_an_earlier_source_node_is_not_ended() -> None:
    vmi = migrating(completed=True)
    vmi["status"]["nodeName"] = "b"
    next_target = pod("a", name="next", labels={"kubevirt.io/migrationJobUID": "later"})
    assert step(vmi, [pod("a", "Succeeded"), pod("b"), next_target], NO_FAULTS, NOW) == []


def test_a_deleted_instance_ends_with_its_pods() -> None:
    vmi = instance()
    vmi["metadata"]["deletionTimestamp"] = stamp(0)
    live = pod("a")
    first, *rest = step(vmi, [live, pod("b", "Succeeded")], NO_FAULTS, NOW)
    assert isinstance(first, PatchVmi)
    assert first.patch["status"]["phase"] == "Succeeded"
    assert rest == [EndPod(live)]


@pytest.mark.parametrize(("grace", "left"), [(30, 8), (5, 3)])
def test_a_slow_guest_ends_after_its_time_or_its_grace(grace: int, left: int) -> None:
    vmi = instance()
    vmi["metadata"]["deletionTimestamp"] = stamp(-2)
    vmi["spec"]["terminationGracePeriodSeconds"] = grace
    slow = Faults(shutdown_seconds=10)
    marked = pod("a", annotations={"sandbox.virt/shutdown-seconds": "10"})
    assert step(vmi, [marked], slow, NOW) == [WakeAt(NOW + datetime.timedelta(seconds=left))]
    later = NOW + datetime.timedelta(seconds=left)
    assert patch_of(step(vmi, [marked], slow, later))["status"]["phase"] == "Succeeded"


def test_a_deleted_instance_without_a_pod_does_not_wait() -> None:
    vmi = instance()
    vmi["metadata"]["deletionTimestamp"] = stamp(0)
    actions = step(vmi, [], Faults(shutdown_seconds=10), NOW)
    assert patch_of(actions)["status"]["phase"] == "Succeeded"


def test_a_slow_guests_pod_is_marked_and_goes_when_the_guest_has() -> None:
    slow = Faults(shutdown_seconds=10)
    plain = pod("a")
    assert step(instance(), [plain], slow, NOW) == [
        AnnotatePod(plain, {"sandbox.virt/shutdown-seconds": "10"})
    ]
    # A pod's deletionTimestamp is the end of its grace period: this one was deleted 4 seconds ago.
    evicted = pod(
        "a",
        annotations={"sandbox.virt/shutdown-seconds": "10"},
        deletionTimestamp=stamp(41),
        deletionGracePeriodSeconds=45,
    )
    assert step(instance(), [evicted], slow, NOW) == [WakeAt(NOW + datetime.timedelta(seconds=6))]
    actions = step(instance(), [evicted], slow, NOW + datetime.timedelta(seconds=6))
    assert patch_of(actions)["status"]["phase"] == "Succeeded"
    assert actions[-1] == DeletePod(evicted)


def test_pods_outlive_their_instance_no_longer_than_their_time() -> None:
    left = pod(
        "a",
        annotations={"sandbox.virt/shutdown-seconds": "10"},
        deletionTimestamp=stamp(20),
        deletionGracePeriodSeconds=30,
    )
    slow = Faults(shutdown_seconds=10)
    assert step(None, [left], slow, NOW) == [DeletePod(left)]


def test_an_instance_whose_launcher_failed_has_failed() -> None:
    actions = step(instance(), [pod("a", "Failed")], NO_FAULTS, NOW)
    assert patch_of(actions)["status"]["phase"] == "Failed"
    assert step(instance(), [pod("a", "Failed"), pod("a")], NO_FAULTS, NOW) == []


def test_guest_that_is_gone_has_failed_though_its_launcher_runs() -> None:
    actions = step(instance(), [pod("a")], Faults(guest_is_gone=True), NOW)
    assert patch_of(actions)["status"]["phase"] == "Failed"


def test_a_dead_node_does_nothing() -> None:
    deleted = instance()
    deleted["metadata"]["deletionTimestamp"] = stamp(-100)
    for vmi in (instance("Scheduled"), deleted, migrating()):
        assert step(vmi, [pod("a")], NO_FAULTS, NOW, {"a"}) == []
    assert step(migrating(), [pod("a"), pod("b")], NO_FAULTS, NOW, {"b"}) == []


def test_faults_are_read_over_defaults() -> None:
    annotations = {"sandbox.virt/migration-fails": "0", "other": "x"}
    defaults = {"migration-fails": "3", "migration-seconds": "2.5", "source-pod-stays": "true"}
    expected = Faults(migration_fails=0, migration_seconds=2.5, source_pod_stays=True)
    assert parse_faults(annotations, defaults) == expected
    assert parse_faults(None) == NO_FAULTS


def test_every_bad_fault_is_named() -> None:
    annotations = {
        "sandbox.virt/migration-seconds": "-1",
        "sandbox.virt/source-pod-stays": "yes",
        "sandbox.virt/migraton-fails": "1",
    }
    with pytest.raises(ValueError, match="below zero") as error:
        parse_faults(annotations)
    assert "'yes'" in str(error.value)
    assert "'migraton-fails'" in str(error.value)
