# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What virt-handler would do next for one instance: a pure decision from what is seen.

One call gives the next actions only. The caller applies them and calls again with what the API server
then shows, so that virt-controller sees every stage of a migration, as it does with KubeVirt's own
virt-handler (``pkg/virt-handler/vm.go``, ``migration-source.go``, ``migration-target.go``).
"""

from __future__ import annotations

import dataclasses
import datetime
import typing as t
import zlib

from .faults import MIGRATION_FAILS, SHUTDOWN_SECONDS, Faults

Object = t.Mapping[str, t.Any]

TARGET_NODE_LABEL = "kubevirt.io/migrationTargetNodeName"
MIGRATION_JOB_LABEL = "kubevirt.io/migrationJobUID"
COMPUTE = "compute"
"""The container in which the guest runs."""

ABORTED = "Live migration aborted "
"""With the blank (pkg/virt-launcher/virtwrap/live-migration-source.go)."""

MACHINE_TYPES = {"": "pc-q35-10.0", "q35": "pc-q35-10.0"}
"""What QEMU makes of an alias: libvirt gives a running guest the version."""


@dataclasses.dataclass(frozen=True)
class PatchVmi:
    """Merge ``patch`` into the instance, if it was not written since it was read."""

    why: str
    patch: dict[str, t.Any]


@dataclasses.dataclass(frozen=True)
class LeavePod:
    """The guest has left the launcher: container compute has ended, and the others go on."""

    pod: Object


@dataclasses.dataclass(frozen=True)
class EndPod:
    """The last container of the launcher has ended: the pod has succeeded."""

    pod: Object


@dataclasses.dataclass(frozen=True)
class DeletePod:
    """The last act of the kubelet for a deleted pod: take the object away."""

    pod: Object


@dataclasses.dataclass(frozen=True)
class AnnotatePod:
    """Tell KWOK to leave the pod's deletion to us."""

    pod: Object
    annotations: dict[str, str]


@dataclasses.dataclass(frozen=True)
class WakeAt:
    """Nothing to do before ``time``."""

    time: datetime.datetime


Action = PatchVmi | LeavePod | EndPod | DeletePod | AnnotatePod | WakeAt


def step(
    vmi: Object | None,
    pods: t.Sequence[Object],
    faults: Faults,
    now: datetime.datetime,
    not_ready_nodes: t.Container[str] = frozenset(),
) -> list[Action]:
    """Next actions for ``vmi`` (None when it is gone) and its launcher ``pods``.

    ``now`` is an aware time. ``not_ready_nodes`` do nothing: neither for the instance that runs there, nor as the
    target of its migration, nor for their pods.
    """
    pods = [
        pod
        for pod in pods
        if pod["spec"].get("nodeName") and pod["spec"]["nodeName"] not in not_ready_nodes
    ]
    actions = [
        action
        for pod in pods
        for action in (*_pod_deletion(pod, faults, now), *_last_containers(pod, faults, now))
    ]
    if vmi is None or vmi.get("status", {}).get("nodeName") in not_ready_nodes:
        return actions
    seen = _Seen(vmi, vmi.get("status", {}), pods, faults, now)
    for stage in (_end_of_guest, _crash, _start, _migration, _migratable):
        found = stage(seen, not_ready_nodes)
        if found:
            return found + actions
    return actions


@dataclasses.dataclass(frozen=True)
class _Seen:
    vmi: Object
    status: Object
    pods: t.Sequence[Object]
    faults: Faults
    now: datetime.datetime

    @property
    def phase(self) -> str:
        return str(self.status.get("phase", ""))

    @property
    def stamp(self) -> str:
        return self.now.strftime("%Y-%m-%dT%H:%M:%SZ")

    def enter(self, phase: str) -> dict[str, t.Any]:
        """Status fields of an instance that enters ``phase``."""
        transitions = list(self.status.get("phaseTransitionTimestamps") or [])
        entry = {"phase": phase, "phaseTransitionTimestamp": self.stamp}
        return {"phase": phase, "phaseTransitionTimestamps": [*transitions, entry]}


def _pod_deletion(pod: Object, faults: Faults, now: datetime.datetime) -> list[Action]:
    metadata = pod["metadata"]
    marked = SHUTDOWN_SECONDS in metadata.get("annotations", {})
    if not metadata.get("deletionTimestamp"):
        if faults.shutdown_seconds and not marked:
            return [AnnotatePod(pod, {SHUTDOWN_SECONDS: f"{faults.shutdown_seconds:g}"})]
        return []
    if not marked:
        return []  # KWOK's part
    due = _pod_gone_at(pod, faults)
    if _phase(pod) in ("Succeeded", "Failed") or now >= due:
        return [DeletePod(pod)]
    return [WakeAt(due)]


def _pod_gone_at(pod: Object, faults: Faults) -> datetime.datetime:
    # deletionTimestamp of a pod is the end of its grace period, not the moment of the request.
    grace = float(pod["metadata"].get("deletionGracePeriodSeconds") or 0)
    requested = parse_time(pod["metadata"]["deletionTimestamp"]) - datetime.timedelta(seconds=grace)
    return requested + datetime.timedelta(seconds=min(grace, faults.shutdown_seconds))


def _last_containers(pod: Object, faults: Faults, now: datetime.datetime) -> list[Action]:
    """A launcher that its guest has left: the kubelet ends its sidecar guest-console-log some seconds later."""
    left = left_at(pod)
    if left is None or _phase(pod) != "Running":
        return []
    due = left + datetime.timedelta(seconds=faults.source_pod_seconds)
    return [EndPod(pod)] if now >= due else [WakeAt(due)]


def left_at(pod: Object) -> datetime.datetime | None:
    """When container compute ended; None while it runs."""
    for container in pod.get("status", {}).get("containerStatuses") or ():
        ended = container.get("state", {}).get("terminated")
        if container["name"] == COMPUTE and ended:
            return parse_time(ended["finishedAt"])
    return None


def _end_of_guest(seen: _Seen, not_ready_nodes: t.Container[str]) -> list[Action]:
    """The instance, or the pod that it runs in, was deleted: the guest shuts down."""
    if seen.phase not in ("Scheduled", "Running"):
        return []
    live = [pod for pod in seen.pods if _phase(pod) == "Running"]
    deleted = seen.vmi["metadata"].get("deletionTimestamp")
    if deleted:
        grace = float(seen.vmi["spec"].get("terminationGracePeriodSeconds", 30))
        wait = min(grace, seen.faults.shutdown_seconds) if live else 0.0
        due = parse_time(deleted) + datetime.timedelta(seconds=wait)
    else:
        own = [pod for pod in live if pod["spec"]["nodeName"] == seen.status.get("nodeName")]
        if not own or not all(_slow_deletion(pod) for pod in own):
            return []
        due = max(_pod_gone_at(pod, seen.faults) for pod in own)
    if seen.now < due:
        return [WakeAt(due)] if deleted else []
    ended: list[Action] = [EndPod(pod) for pod in live]
    return [PatchVmi("guest shut down", {"status": seen.enter("Succeeded")}), *ended]


def _slow_deletion(pod: Object) -> bool:
    metadata = pod["metadata"]
    return bool(metadata.get("deletionTimestamp")) and SHUTDOWN_SECONDS in metadata.get(
        "annotations", {}
    )


def _crash(seen: _Seen, not_ready_nodes: t.Container[str]) -> list[Action]:
    """The guest is gone, as virt-handler finds after a quick reboot of the node, or the launcher failed under it."""
    if seen.phase != "Running":
        return []
    if seen.faults.guest_is_gone:
        return [PatchVmi("guest is gone", {"status": seen.enter("Failed")})]
    own = [
        _phase(pod) for pod in seen.pods if pod["spec"]["nodeName"] == seen.status.get("nodeName")
    ]
    if "Failed" in own and not {"Running", "Pending"} & set(own):
        return [PatchVmi("launcher failed", {"status": seen.enter("Failed")})]
    return []


def _start(seen: _Seen, not_ready_nodes: t.Container[str]) -> list[Action]:
    if seen.phase != "Scheduled":
        return []
    status = {
        **seen.enter("Running"),
        "conditions": _with_migratable(seen),
        "migrationMethod": "BlockMigration" if _has_local_disks(seen.vmi) else "LiveMigration",
        "migrationTransport": "Unix",
        # Without it virt-controller cannot render the target pod of a migration.
        "selinuxContext": "none",
        "machine": {"type": MACHINE_TYPES.get(_machine_type(seen.vmi), _machine_type(seen.vmi))},
    }
    return [PatchVmi("guest started", {"status": status})]


def _machine_type(vmi: Object) -> str:
    return str((vmi["spec"].get("domain", {}).get("machine") or {}).get("type") or "")


def _has_local_disks(vmi: Object) -> bool:
    """Whether a migration copies disks, too: those of images and of configuration, but for read-only ones
    (pkg/virt-handler/vm.go, checkVolumesForMigration)."""
    devices = vmi["spec"].get("domain", {}).get("devices", {})
    remote = {entry["name"] for entry in devices.get("filesystems") or ()}
    for disk in devices.get("disks") or ():
        if disk.get("cdrom", {}).get("readonly", "cdrom" in disk):
            remote.add(disk["name"])
    sources = {"persistentVolumeClaim", "dataVolume", "hostDisk"}
    volumes = vmi["spec"].get("volumes") or ()
    return any(volume["name"] not in remote and not sources & volume.keys() for volume in volumes)


def _migratable(seen: _Seen, not_ready_nodes: t.Container[str]) -> list[Action]:
    if seen.phase != "Running":
        return []
    conditions = _with_migratable(seen)
    if conditions == (seen.status.get("conditions") or []):
        return []
    return [PatchVmi("migratable changed", {"status": {"conditions": conditions}})]


def _with_migratable(seen: _Seen) -> list[Object]:
    """The instance's conditions with the LiveMigratable pair that its faults ask for."""
    wanted: dict[str, tuple[str, str]] = {
        "LiveMigratable": ("True", ""),
        "StorageLiveMigratable": ("True", ""),
    }
    if seen.faults.live_migratable_missing:
        del wanted["LiveMigratable"]
    elif seen.faults.not_migratable:
        wanted["LiveMigratable"] = ("False", seen.faults.not_migratable)
    conditions = []
    for condition in seen.status.get("conditions") or []:
        kind = condition["type"]
        if kind not in ("LiveMigratable", "StorageLiveMigratable"):
            conditions.append(condition)
        elif kind in wanted and wanted[kind] == (condition["status"], condition.get("reason", "")):
            conditions.append(condition)
            del wanted[kind]
    return conditions + [
        _condition(kind, value, reason) for kind, (value, reason) in wanted.items()
    ]


def _condition(kind: str, status: str, reason: str) -> dict[str, str | None]:
    # virt-controller tests the whole list in its JSON patches: null times have to be there as null.
    condition: dict[str, str | None] = {
        "type": kind,
        "status": status,
        "lastProbeTime": None,
        "lastTransitionTime": None,
    }
    if reason:
        condition.update(reason=reason, message=f"cannot migrate VMI: {reason}")
    return condition


def _migration(seen: _Seen, not_ready_nodes: t.Container[str]) -> list[Action]:
    state = seen.status.get("migrationState") or {}
    if seen.phase != "Running" or not state.get("migrationUid"):
        return []
    if state.get("failed"):
        return [*map(LeavePod, _leaving(seen, lambda pod: _job(pod) == state["migrationUid"]))]
    if state.get("completed"):
        return _after_migration(seen, state)
    if state.get("abortRequested") and not state.get("abortStatus"):
        return [_progress("migration is being aborted", {"abortStatus": "Aborting"})]
    if state.get("abortRequested"):
        return _end_migration(seen, {"abortStatus": "Succeeded", "failureReason": ABORTED}, {})
    target = state.get("targetNode")
    if not target or target in not_ready_nodes:
        return []
    if not state.get("targetNodeAddress"):
        return _prepare_target(seen, state, target)
    if not state.get("startTimestamp"):
        # libvirt defines the guest on the target before it copies memory
        started = {"startTimestamp": seen.stamp, "mode": "PreCopy"}
        return [_progress("migration started", {**started, "targetNodeDomainDetected": True})]
    if state.get("endTimestamp"):
        labels = {"labels": {TARGET_NODE_LABEL: None}}
        done = {"status": {"migrationState": {"completed": True}}}
        return [PatchVmi("migration completed", {"metadata": labels, **done})]
    return _copy(seen, state, target)


def _prepare_target(seen: _Seen, state: Object, target: str) -> list[Action]:
    """The target listens, with a port for each channel (pkg/virt-handler/migration-proxy)."""
    if seen.vmi["metadata"].get("labels", {}).get(TARGET_NODE_LABEL) != target:
        return []
    job = state["migrationUid"]
    for pod in seen.pods:
        ready = _ready_since(pod) if _job(pod) == job else None
        if ready is not None:
            due = ready + datetime.timedelta(seconds=seen.faults.prepare_seconds)
            if seen.now < due:
                return [WakeAt(due)]
    channels = (
        [0, 49152, 49153] if seen.status.get("migrationMethod") == "BlockMigration" else [0, 49152]
    )
    # a port of the node for each channel of the launcher
    first = 32768 + zlib.crc32(job.encode()) % 20000
    ports = {str(first + index): channel for index, channel in enumerate(channels)}
    address = next((_address(pod) for pod in seen.pods if _job(pod) == job), "127.0.0.1")
    progress = {"targetNodeAddress": address, "targetDirectMigrationNodePorts": ports}
    return [_progress("target prepared", progress)]


def _copy(seen: _Seen, state: Object, target: str) -> list[Action]:
    due = parse_time(state["startTimestamp"]) + datetime.timedelta(
        seconds=seen.faults.migration_seconds
    )
    if seen.now < due:
        return [WakeAt(due)]
    if seen.faults.migration_fails:
        left = {MIGRATION_FAILS: str(seen.faults.migration_fails - 1)}
        return _end_migration(seen, {"failureReason": "injected by " + MIGRATION_FAILS}, left)
    # All pods but this migration's, and not by the name that the instance gives: virt-controller takes
    # the youngest pod on the node for the source, by whole seconds, so it may name one that ended.
    job = state["migrationUid"]
    source = _leaving(seen, lambda pod: _job(pod) != job)
    if not seen.faults.handover_seconds:
        # Together, since the next migration may replace what the instance says about this one.
        return [_handoff(seen, target), *map(LeavePod, source)]
    arrived = state.get("targetNodeDomainReadyTimestamp")
    if not arrived:
        ready = {"targetNodeDomainReadyTimestamp": seen.stamp}
        return [_progress("guest arrived, handover is late", ready), *map(EndPod, source)]
    late = parse_time(arrived) + datetime.timedelta(seconds=seen.faults.handover_seconds)
    # again, where the first request was lost
    return [*map(EndPod, source), WakeAt(late) if seen.now < late else _handoff(seen, target)]


def _progress(why: str, state: dict[str, t.Any]) -> PatchVmi:
    return PatchVmi(why, {"status": {"migrationState": state}})


def _handoff(seen: _Seen, target: str) -> PatchVmi:
    """The guest now runs on the target, which takes the instance over: one patch, as no state between old
    and new node may be seen (pkg/virt-handler/migration-target.go, ackMigrationCompletion).
    """
    labels = {"kubevirt.io/nodeName": target, "kubevirt.io/outdatedLauncherImage": None}
    arrived = seen.status["migrationState"].get("targetNodeDomainReadyTimestamp") or seen.stamp
    status = {
        "nodeName": target,
        "evacuationNodeName": None,
        "launcherContainerImageVersion": None,
        "migrationState": {
            "targetNodeDomainReadyTimestamp": arrived,
            "endTimestamp": seen.stamp,
        },
    }
    return PatchVmi("handed over", {"metadata": {"labels": labels}, "status": status})


def _end_migration(
    seen: _Seen, outcome: dict[str, t.Any], annotations: dict[str, str]
) -> list[Action]:
    """The migration has failed. Nothing says `completed` (migration-source.go, setMigrationProgressStatus), and the
    target's launcher ends by itself (migration-target.go, finalCleanup)."""
    metadata: dict[str, t.Any] = {"labels": {TARGET_NODE_LABEL: None}}
    if annotations:
        metadata["annotations"] = annotations
    state = {"failed": True, "endTimestamp": seen.stamp, **outcome}
    patch = {"metadata": metadata, "status": {"migrationState": state}}
    job = seen.status["migrationState"]["migrationUid"]
    target = _leaving(seen, lambda pod: _job(pod) == job)
    return [PatchVmi(outcome["failureReason"], patch), *map(LeavePod, target)]


def _after_migration(seen: _Seen, state: Object) -> list[Action]:
    if state.get("targetNode") != seen.status.get("nodeName"):
        return []
    # By name: the next migration's target pod may already stand on this one's source node.
    source = state.get("sourcePod")
    return [*map(LeavePod, _leaving(seen, lambda pod: pod["metadata"]["name"] == source))]


def _leaving(seen: _Seen, leaves: t.Callable[[Object], bool]) -> list[Object]:
    """Launchers whose guest has gone, though compute still runs there."""
    if seen.faults.source_pod_stays:
        return []
    return [
        pod
        for pod in seen.pods
        if _phase(pod) == "Running" and left_at(pod) is None and leaves(pod)
    ]


def _job(pod: Object) -> str | None:
    job: str | None = pod["metadata"]["labels"].get(MIGRATION_JOB_LABEL)
    return job


def _ready_since(pod: Object) -> datetime.datetime | None:
    for condition in pod.get("status", {}).get("conditions") or ():
        if condition["type"] == "Ready" and condition["status"] == "True":
            return parse_time(condition["lastTransitionTime"])
    return None


def _address(pod: Object) -> str:
    return str(pod.get("status", {}).get("hostIP") or "127.0.0.1")


def _phase(pod: Object) -> str:
    return str(pod.get("status", {}).get("phase", ""))


def parse_time(text: str) -> datetime.datetime:
    """An aware time from Kubernetes' RFC 3339 form."""
    return datetime.datetime.fromisoformat(text.replace("Z", "+00:00"))
