# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which selected Deployments, StatefulSets and pools replace their pods or VMIs by themselves, and how far is each?

A run waits for them: until they have ended, it is not known where the pods of a changed template run. One that makes no
progress is named instead: a Deployment whose progress deadline has passed, and a StatefulSet or pool, which has none,
after the time of a move. The status of a pool does not tell how far it is: its VMs do. Pure.

Sources: kubernetes pkg/controller/deployment/progress.go (syncRolloutStatus), pkg/controller/statefulset/
stateful_set_control.go (completeRollingUpdate); KubeVirt pkg/virt-controller/watch/pool/pool.go (proactiveUpdate).
"""

from __future__ import annotations

import itertools
import typing as t
from dataclasses import dataclass, replace

from ..compliance.instances import InstanceReader, InstanceSelection
from ..kinds.registry import KINDS, kind_of
from ..kubevirt.instances import pod_workload
from ..kubevirt.labels import POOL_REVISION, vm_spec
from ..kubevirt.moving import lagging_fields, missed_deadline, rolls_itself
from ..kubevirt.pools import (
    PoolMember,
    changed_by_others,
    lacks_template,
    members_of,
    why_not_brought,
)
from ..model.kinds import RULES
from ..model.objects import Pod, Ref
from ..model.obstacle import NO_NODE, WORKLOAD_ROLLOUT_STOPPED, Obstacle
from ..model.plan import Method
from ..model.snapshot import Instance, Snapshot, Vmi, Workload

ROLLED = tuple(kind.name for kind in KINDS.values() if kind.workload_rollout)
"""The kinds that a run waits for."""

_COMPLETE = "NewReplicaSetAvailable"
"""Reason of the condition Progressing of a Deployment from the end of a rollout to the beginning of the next one."""


@dataclass(frozen=True, slots=True)
class OwnRollout:
    """A workload rollout that has not ended: `replaced` of the `wanted` pods, or VMs of a pool, are of the present
    template, so many `old` ones are still there, and so many of the wanted ones are not available. Not `seen`: its
    controller has not seen the latest change, so that these are the numbers from before. `generation`: that of the
    change. `stuck`: why it does not go on. `pending`: why a pod of it has no node, or a pod or VM is not created, as
    far as that is known."""

    ref: Ref
    wanted: int
    replaced: int
    old: int
    unavailable: int
    seen: bool
    generation: int = 0
    stuck: Obstacle | None = None
    pending: Obstacle | None = None

    @property
    def goes_on(self) -> bool:
        return self.stuck is None

    @property
    def noun(self) -> str:
        """What it replaces."""
        return "VM" if kind_of(self.ref.kind).makes_vms else "pod"

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
        does = "restarts" if self.noun == "VM" else "replaces"
        return f"{self.ref} {does} its {self.noun}s: {self.progress}"


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


Progress: t.TypeAlias = dict[str, list[float]]
"""By workload and generation: the most instances that were replaced and available, and since when in the run."""


def with_deadline(
    rollouts: t.Iterable[OwnRollout], progress: Progress, clock: float, seconds: float
) -> tuple[OwnRollout, ...]:
    """The rollouts, of which those are stuck that have not brought one more instance to the present template for so
    many seconds. `progress` keeps what was seen of them. The controller of a Deployment has a deadline of its own."""
    return tuple(
        rollout
        if kind_of(rollout.ref.kind).deadline
        else replace(rollout, stuck=_why_late(rollout, progress, clock, seconds))
        for rollout in rollouts
    )


def _why_late(
    rollout: OwnRollout, progress: Progress, clock: float, seconds: float
) -> Obstacle | None:
    key, done = f"{rollout.ref} {rollout.generation}", float(rollout.replaced - rollout.unavailable)
    best, since = progress.setdefault(key, [done, clock])
    if done > best:
        progress[key] = [done, clock]
    elif clock - since >= seconds:
        text = f"No other {rollout.noun} has become available with its present template"
        return Obstacle(WORKLOAD_ROLLOUT_STOPPED, f"{text} for {seconds:.0f} s (move_timeout)")
    return None


class StuckRollouts:
    """The rollouts that do not go on, as an aspect: what waits for one of them is not moved."""

    def __init__(
        self, rollouts: t.Iterable[OwnRollout], snapshot: Snapshot, *, apply_pending_changes: bool
    ) -> None:
        self._stuck = {
            x.ref: x.stuck
            for x in rollouts
            if x.stuck is not None and not kind_of(x.ref.kind).deadline
        }
        self._instances = snapshot.derived(InstanceReader)
        self._apply_pending_changes = apply_pending_changes

    def obstacle(self, instance: Instance, _method: Method) -> Obstacle | None:
        if instance.workload not in self._stuck or instance.pod is None:
            return None
        movable = self._instances.read(instance, instance.pod)
        waits = movable.move_options(apply_pending_changes=self._apply_pending_changes).temporary
        text = f"the rollout of its workload is stuck: {self._stuck[instance.workload]}"
        return Obstacle(WORKLOAD_ROLLOUT_STOPPED, text) if waits else None


def why_waiting(rollouts: t.Iterable[OwnRollout]) -> Obstacle | None:
    """The first one that goes on."""
    going_on = (str(rollout) for rollout in rollouts if rollout.goes_on)
    return next((Obstacle("in_progress", text, temporary=True) for text in going_on), None)


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
        f"{rollout.ref} does not go on replacing its {rollout.noun}s: {rollout.progress}."
        f" {rollout.stuck.text.rstrip('.')}. "
        + str(rollout.pending or f"Look at its {rollout.noun}s that are not available")
        for rollout in rollouts
        if rollout.stuck is not None
    ]


def _own_rollout(workload: Workload, snapshot: Snapshot) -> OwnRollout | None:
    """None where it has ended, or where the workload replaces nothing: it is paused, its partition or OnDelete keeps
    its pods, or it has none."""
    if workload.is_deleted or not rolls_itself(workload):
        return None
    if workload.kind.makes_vms:
        return _of_pool(workload, snapshot)
    status = workload.status
    wanted = (workload.replicas or 0) - workload.kind.partition(workload.spec)
    updated, replicas = int(status.get("updatedReplicas", 0)), int(status.get("replicas", 0))
    rollout = OwnRollout(
        workload.ref,
        wanted,
        replaced=min(updated, wanted),
        old=max(0, replicas - updated),
        unavailable=max(0, wanted - int(status.get("availableReplicas", 0))),
        seen=workload.seen,
        generation=_generation(workload),
        stuck=missed_deadline(workload) if workload.seen else None,
    )
    if rollout.seen and _has_ended(workload, rollout):
        return None
    pods = (
        x  # the workload of a pod costs more than whether it waits
        for x in snapshot.pods
        if x.unscheduled and pod_workload(x, snapshot.controllers) == workload.ref
    )
    return replace(rollout, pending=_why_incomplete([workload], pods))


def _generation(workload: Workload) -> int:
    return int(workload.manifest["metadata"].get("generation") or 0)


def _why_incomplete(
    workloads: t.Iterable[Workload], pods: t.Iterable[Pod], vmis: t.Iterable[Vmi] = ()
) -> Obstacle | None:
    """Why a rollout lacks instances: the first of its pods without a node, VMIs without a pod, and workloads that the
    API server refuses a pod or VMI, in the words of kube-scheduler, KubeVirt or the controller."""
    unscheduled = (
        Obstacle(NO_NODE, f"{x.ref} is Pending: {x.unscheduled}", True)
        for x in pods
        if x.unscheduled
    )
    unsynchronized = (
        Obstacle("refused", f"{x.ref}: {x.unsynchronized}", True) for x in vmis if x.unsynchronized
    )
    refusals = ((x.ref, x.refusal) for x in workloads)
    refused = (replace(why, text=f"{ref}: {why}") for ref, why in refusals if why is not None)
    return next(itertools.chain(unscheduled, unsynchronized, refused), None)


def _has_ended(workload: Workload, rollout: OwnRollout) -> bool:
    status = workload.status
    all_replaced = rollout.replaced >= rollout.wanted
    if workload.kind.ordinals:
        same = status.get("currentRevision") == status.get("updateRevision")
        return all_replaced if workload.kind.partition(workload.spec) else same
    one_template = rollout.replaced > 0 and not rollout.old
    progress = workload.condition("Progressing")
    if progress is not None and progress.get("reason") == _COMPLETE:
        # Pods that lack since then are no part of a rollout, also where a quota refuses the only one.
        return one_template or (workload.refusal is not None and not rollout.old)
    measured = progress is not None or rollout.stuck is not None
    return one_template and all_replaced and not (measured and rollout.unavailable)


def _of_pool(pool: Workload, snapshot: Snapshot) -> OwnRollout | None:
    """Of the VMs that its update strategy is about and that run or are to run: the controller writes the template into
    each VM, ends each VMI of another revision, and the VM starts again."""
    all_members = members_of(pool, snapshot)
    vms = [member.vm for member in all_members]
    members = [
        member
        for member in all_members
        if why_not_brought(pool, member.vm) is None and _is_to_run(pool, member)
    ]
    seen = not any(
        lacks_template(pool, x.vm) and not changed_by_others(pool, x.vm, vms) for x in members
    )
    keeps_revisions = snapshot.platform.kubevirt_release < _REVISIONS_WRITTEN_SINCE
    replaced = [_is_replaced(x, keeps_revisions=keeps_revisions) for x in members]
    available = [
        vmi is not None and vmi.phase == "Running" and (vmi.ready or vmi.lost_ready)
        for vmi in (member.vmi for member in members)
    ]
    left = [x for x, *done in zip(members, replaced, available, strict=True) if not all(done)]
    if seen and not left:
        return None
    vmis = [x.vmi for x in left if x.vmi is not None and not x.vmi.terminating]
    uids = {vmi.uid for vmi in vmis}
    pods = (x for x in snapshot.pods if x.owner is not None and x.owner.uid in uids)
    return OwnRollout(
        pool.ref,
        wanted=len(members),
        replaced=sum(replaced),
        old=0,
        unavailable=sum(new and not there for new, there in zip(replaced, available, strict=True)),
        seen=seen,
        generation=_generation(pool),
        pending=_why_incomplete([*(x.vm for x in left if x.vmi is None), pool], pods, vmis),
    )


_REVISIONS_WRITTEN_SINCE = (1, 6)
"""First known KubeVirt whose pool controller brings a new revision to a VMI of an equal template. That of 1.4 tests for
the labels that it writes, so its patch is always refused."""


def _is_to_run(pool: Workload, member: PoolMember) -> bool:
    """Whether a VM runs, or is started without a user. With run strategies but Always a VM whose VMI was deleted is not
    started again (KubeVirt 1.8, watch/vm/vm.go, syncRunStrategy); the template of a pool may have another one."""
    vm, vmi = member.vm, member.vmi
    if vm.is_deleted:
        return False
    if vmi is not None and not vmi.terminating:
        return True
    requests = vm.status.get("stateChangeRequests") or ()
    if vm.run_strategy == "Always" or any(x.get("action") == "Start" for x in requests):
        return True
    wanted = vm_spec(pool)
    always = wanted.get("runStrategy") == "Always" or wanted.get("running") is True
    return always and lacks_template(pool, vm)


def _is_replaced(member: PoolMember, *, keeps_revisions: bool) -> bool:
    """Whether a VM has a VMI that the controller of its pool does not end."""
    vm, vmi = member.vm, member.vmi
    if vmi is None or vmi.terminating:
        return False
    if not member.outdated:
        return True
    labels = {k: v for k, v in vm.template_labels.items() if k != POOL_REVISION}
    return keeps_revisions and not lagging_fields(vm, vmi) and labels.items() <= vmi.labels.items()
