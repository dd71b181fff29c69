# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which selected Deployments and StatefulSets replace their pods by themselves, and how far is each?

A run waits for them: until they have ended, it is not known where the pods of a changed template run. A Deployment
whose progress deadline has passed is named instead. Pure.

Sources: kubernetes pkg/controller/deployment/progress.go (syncRolloutStatus), pkg/controller/statefulset/
stateful_set_control.go (completeRollingUpdate).
"""

from __future__ import annotations

import typing as t
from dataclasses import dataclass, replace

from ..kubevirt.instances import pod_workload
from ..kubevirt.moving import why_stuck
from ..model.kinds import DEPLOYMENT, RULES, STATEFUL_SET, partition_of
from ..model.objects import Ref
from ..model.snapshot import Snapshot, Workload
from ..planning.movable_instances import InstanceSelection
from ..rules.change import rolls_itself

ROLLED = (DEPLOYMENT.name, STATEFUL_SET.name)
"""The kinds whose status says how far they are."""

_COMPLETE = "NewReplicaSetAvailable"
"""Reason of the condition Progressing of a Deployment from the end of a rollout to the beginning of the next one."""


@dataclass(frozen=True, slots=True)
class OwnRollout:
    """A workload rollout that has not ended: `replaced` of the `wanted` pods are of the present template, so many `old`
    ones are still there, and so many of the wanted ones are not available. Not `seen`: its controller has not seen the
    latest change, so that these are the numbers from before. `stuck`: why it does not go on; empty where it does.
    `pending`: a pod of it that has no node, in kube-scheduler's words; empty where each has one."""

    ref: Ref
    wanted: int
    replaced: int
    old: int
    unavailable: int
    seen: bool
    stuck: str = ""
    pending: str = ""

    @property
    def goes_on(self) -> bool:
        return not (self.seen and self.stuck)

    @property
    def progress(self) -> str:
        """How far it is."""
        text = f"{self.replaced} of {self.wanted}"
        if self.replaced < self.wanted:
            return text
        if self.old:
            left = "1 old one is" if self.old == 1 else f"{self.old} old ones are"
            return f"{text}, and {left} still there"
        return f"{text}, and {self.unavailable} {'is' if self.unavailable == 1 else 'are'} not available yet"

    def __str__(self) -> str:
        if not self.seen:
            return f"the controller of {self.ref} has not seen the latest change yet"
        return f"{self.ref} replaces its pods: {self.progress}"


def own_rollouts_of(snapshot: Snapshot, selection: InstanceSelection) -> tuple[OwnRollout, ...]:
    """Those of the selected workloads that have not ended: of workloads that are named, and in namespaces of those
    with rules."""
    named = selection.workloads
    found = (
        _own_rollout(workload, snapshot)
        for workload in snapshot.workloads
        if workload.ref in named
        or (
            not named
            and workload.ref.namespace in selection.namespaces
            and RULES in workload.annotations
        )
    )
    return tuple(rollout for rollout in found if rollout is not None)


def why_waiting(rollouts: t.Iterable[OwnRollout]) -> str:
    """The first one that goes on; empty where there is none."""
    return next((str(rollout) for rollout in rollouts if rollout.goes_on), "")


def unfinished(rollouts: t.Iterable[OwnRollout]) -> list[str]:
    """Each one that goes on, with what may keep it."""
    return [
        f"{rollout} ({rollout.pending})" if rollout.pending else str(rollout)
        for rollout in rollouts
        if rollout.goes_on
    ]


def warnings(rollouts: t.Iterable[OwnRollout]) -> list[str]:
    """A line about each one that does not go on."""
    return [
        f"{rollout.ref} does not go on replacing its pods: {rollout.progress}. {rollout.stuck.rstrip('.')}. "
        + (rollout.pending or "Look at its pods that are not available")
        for rollout in rollouts
        if not rollout.goes_on
    ]


def _own_rollout(workload: Workload, snapshot: Snapshot) -> OwnRollout | None:
    """None where it has ended, or where the workload replaces nothing: it is paused, its partition or OnDelete keeps
    its pods, or it has none."""
    if workload.ref.kind not in ROLLED or not rolls_itself(workload):
        return None
    if workload.manifest["metadata"].get("deletionTimestamp"):
        return None
    status = workload.manifest.get("status") or {}
    wanted = (workload.replicas or 0) - partition_of(workload.manifest.get("spec") or {})
    updated, replicas = int(status.get("updatedReplicas", 0)), int(status.get("replicas", 0))
    rollout = OwnRollout(
        workload.ref,
        wanted,
        replaced=min(updated, wanted),
        old=max(0, replicas - updated),
        unavailable=max(0, wanted - int(status.get("availableReplicas", 0))),
        seen=workload.seen,
        stuck=why_stuck(workload),
    )
    if rollout.seen and _has_ended(workload, rollout):
        return None
    return replace(rollout, pending=_pending(workload, snapshot))


def _pending(workload: Workload, snapshot: Snapshot) -> str:
    """The first of its pods without a node, with the reason."""
    return next(
        (
            f"{pod.ref} is Pending: {pod.unscheduled}"
            for pod in snapshot.pods
            if pod.unscheduled and pod_workload(pod, snapshot.controllers) == workload.ref
        ),
        "",
    )


def _has_ended(workload: Workload, rollout: OwnRollout) -> bool:
    status = workload.manifest.get("status") or {}
    all_replaced = rollout.replaced >= rollout.wanted
    if workload.ref.kind == STATEFUL_SET.name:
        kept = partition_of(workload.manifest.get("spec") or {})
        same = status.get("currentRevision") == status.get("updateRevision")
        return all_replaced if kept else same
    one_template = rollout.replaced > 0 and not rollout.old
    progress = workload.condition("Progressing")
    if progress is not None and progress.get("reason") == _COMPLETE:
        # Pods that lack since then are no part of a rollout, also where a quota refuses the only one.
        refused = workload.condition("ReplicaFailure") is not None
        return one_template or (refused and not rollout.old)
    measured = progress is not None or rollout.stuck
    return one_template and all_replaced and not (measured and rollout.unavailable)
