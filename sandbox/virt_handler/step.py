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

from .faults import MIGRATION_FAILS, SHUTDOWN_SECONDS, Faults

Object = t.Mapping[str, t.Any]

TARGET_NODE_LABEL = "kubevirt.io/migrationTargetNodeName"
MIGRATION_JOB_LABEL = "kubevirt.io/migrationJobUID"


@dataclasses.dataclass(frozen=True)
class PatchVmi:
    """Merge ``patch`` into the instance, if it was not written since it was read."""

    why: str
    patch: dict[str, t.Any]


@dataclasses.dataclass(frozen=True)
class EndPod:
    """The launcher has exited: ``phase`` is Succeeded or Failed."""

    pod: Object
    phase: str


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


Action = PatchVmi | EndPod | DeletePod | AnnotatePod | WakeAt


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
    actions = [action for pod in pods for action in _pod_deletion(pod, faults, now)]
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
    ended: list[Action] = [EndPod(pod, "Succeeded") for pod in live]
    return [PatchVmi("guest shut down", {"status": seen.enter("Succeeded")}), *ended]


def _slow_deletion(pod: Object) -> bool:
    metadata = pod["metadata"]
    return bool(metadata.get("deletionTimestamp")) and SHUTDOWN_SECONDS in metadata.get(
        "annotations", {}
    )


def _crash(seen: _Seen, not_ready_nodes: t.Container[str]) -> list[Action]:
    """The launcher failed under a running guest, as after a reboot of the node."""
    if seen.phase != "Running":
        return []
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
        "migrationMethod": "LiveMigration",
        "migrationTransport": "Unix",
        # Without it virt-controller cannot render the target pod of a migration.
        "selinuxContext": "none",
        "machine": {"type": "q35"},
    }
    return [PatchVmi("guest started", {"status": status})]


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
        _condition(kind, value, reason, seen.stamp) for kind, (value, reason) in wanted.items()
    ]


def _condition(kind: str, status: str, reason: str, stamp: str) -> dict[str, str]:
    # virt-controller tests the whole list in its JSON patches: a null time there would never match.
    condition = {
        "type": kind,
        "status": status,
        "lastProbeTime": stamp,
        "lastTransitionTime": stamp,
    }
    if reason:
        condition.update(reason=reason, message=f"cannot migrate VMI: {reason}")
    return condition


def _migration(seen: _Seen, not_ready_nodes: t.Container[str]) -> list[Action]:
    state = seen.status.get("migrationState") or {}
    if seen.phase != "Running" or not state.get("migrationUid"):
        return []
    if state.get("completed"):
        return _after_migration(seen, state)
    if state.get("abortRequested"):
        return _end_migration(
            seen, {"abortStatus": "Succeeded", "failureReason": "migration was aborted"}, {}
        )
    target = state.get("targetNode")
    if not target or target in not_ready_nodes:
        return []
    if not state.get("targetNodeAddress"):
        if seen.vmi["metadata"].get("labels", {}).get(TARGET_NODE_LABEL) != target:
            return []
        ports = {"0": 49152, "1": 49153}
        progress = {"targetNodeAddress": "127.0.0.1", "targetDirectMigrationNodePorts": ports}
        return [_progress("target prepared", progress)]
    if not state.get("startTimestamp"):
        return [_progress("migration started", {"startTimestamp": seen.stamp, "mode": "PreCopy"})]
    due = parse_time(state["startTimestamp"]) + datetime.timedelta(
        seconds=seen.faults.migration_seconds
    )
    if seen.now < due:
        return [WakeAt(due)]
    if seen.faults.migration_fails:
        left = {MIGRATION_FAILS: str(seen.faults.migration_fails - 1)}
        return _end_migration(seen, {"failureReason": "injected by " + MIGRATION_FAILS}, left)
    if not state.get("targetNodeDomainDetected"):
        ready = {"targetNodeDomainDetected": True, "targetNodeDomainReadyTimestamp": seen.stamp}
        return [_progress("target domain is ready", ready)]
    # Together, since the next migration may replace what the instance says about this one. All pods
    # but this migration's, and not by the name that the instance gives: virt-controller takes the
    # youngest pod on the node for the source, by whole seconds, so it may name one that ended.
    job = state["migrationUid"]
    return [_handoff(seen, target), *_leave(seen, lambda pod: _job(pod) != job)]


def _progress(why: str, state: dict[str, t.Any]) -> PatchVmi:
    return PatchVmi(why, {"status": {"migrationState": state}})


def _handoff(seen: _Seen, target: str) -> PatchVmi:
    """The guest now runs on the target: one patch, as no state between old and new node may be
    seen.
    """
    labels = {
        "kubevirt.io/nodeName": target,
        TARGET_NODE_LABEL: None,
        "kubevirt.io/outdatedLauncherImage": None,
    }
    status = {
        "nodeName": target,
        "evacuationNodeName": None,
        "launcherContainerImageVersion": None,
        "migrationState": {"completed": True, "endTimestamp": seen.stamp},
    }
    return PatchVmi("migration completed", {"metadata": {"labels": labels}, "status": status})


def _end_migration(
    seen: _Seen, outcome: dict[str, t.Any], annotations: dict[str, str]
) -> list[Action]:
    metadata: dict[str, t.Any] = {"labels": {TARGET_NODE_LABEL: None}}
    if annotations:
        metadata["annotations"] = annotations
    state = {"failed": True, "completed": True, "endTimestamp": seen.stamp, **outcome}
    patch = {"metadata": metadata, "status": {"migrationState": state}}
    job = seen.status["migrationState"]["migrationUid"]
    return [PatchVmi(outcome["failureReason"], patch), *_fail_target(seen, job)]


def _after_migration(seen: _Seen, state: Object) -> list[Action]:
    if state.get("failed"):
        return _fail_target(seen, state["migrationUid"])
    if state.get("targetNode") != seen.status.get("nodeName"):
        return []
    # By name: the next migration's target pod may already stand on this one's source node.
    return _leave(seen, lambda pod: pod["metadata"]["name"] == state.get("sourcePod"))


def _leave(seen: _Seen, was_source: t.Callable[[Object], bool]) -> list[Action]:
    if seen.faults.source_pod_stays:
        return []
    return [
        EndPod(pod, "Succeeded")
        for pod in seen.pods
        if _phase(pod) == "Running" and was_source(pod)
    ]


def _fail_target(seen: _Seen, job: str) -> list[Action]:
    return [
        EndPod(pod, "Failed") for pod in seen.pods if _phase(pod) == "Running" and _job(pod) == job
    ]


def _job(pod: Object) -> str | None:
    job: str | None = pod["metadata"]["labels"].get(MIGRATION_JOB_LABEL)
    return job


def _phase(pod: Object) -> str:
    return str(pod.get("status", {}).get("phase", ""))


def parse_time(text: str) -> datetime.datetime:
    """An aware time from Kubernetes' RFC 3339 form."""
    return datetime.datetime.fromisoformat(text.replace("Z", "+00:00"))
