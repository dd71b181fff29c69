# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What does a workload look like with more or fewer instances, and which of them come or go?"""

from __future__ import annotations

import typing as t
from dataclasses import dataclass, replace

from ..kubevirt.changed_pods import ChangedPod, as_configured, changed_by_restart
from ..kubevirt.labels import needs_expansion
from ..kubevirt.next_pod import (
    NEXT,
    controlled_pod,
    launcher_pod,
    planned_vmi,
    with_data_volumes,
)
from ..kubevirt.ordinals import ordinal_of, replica_of, wanted_ordinals
from ..kubevirt.pools import members_of
from ..model.json_pointer import JSON
from ..model.objects import Pod, Ref
from ..model.snapshot import Instance, Snapshot, Vmi, Workload
from ..scheduler.framework import pod_key
from ..view.view import view_of
from .eviction import Evictions, next_uid
from .simulation import Reason


@dataclass(frozen=True, slots=True)
class Scale:
    """`workload` is to have so many instances. Its kind is one of SCALABLE_KINDS."""

    workload: Ref
    replicas: int


Replaced = dict[str, tuple[t.Optional[Pod], Reason]]  # noqa: UP045
"""Key of a planned pod to the pod that it replaces, and why; `surge` for any rollout."""


def scaled(snapshot: Snapshot, scale: Scale, replaced: Replaced) -> Snapshot:
    """The snapshot with so many instances of the workload; new ones have no node yet. A pod that a rollout creates
    beside the one that it replaces is none more, and is not created if that one ends."""
    old = snapshot.workloads_by_ref[scale.workload]
    beside: dict[str, Pod] = {}
    if not old.rollout_room.stops_first:
        beside = {key: pod for key, (pod, reason) in replaced.items() if pod and reason == "surge"}
    running, new = list[Instance](), list[Instance]()
    for instance in view_of(snapshot).instances_of(scale.workload):
        is_new = instance.pod is not None and pod_key(instance.pod) in beside
        (new if is_new else running).append(instance)
    spec = {**old.spec, "replicas": scale.replicas}
    workload = replace(old, manifest={**old.manifest, "spec": spec})
    workloads = tuple(workload if other is old else other for other in snapshot.workloads)
    changed = replace(snapshot, workloads=workloads)
    if workload.kind.ordinals:
        wanted = wanted_ordinals(workload)
        ordinals = {
            ordinal_of(instance.ref.name, workload.ref.name): instance for instance in running
        }
        changed = _without(
            changed, [x for number, x in ordinals.items() if number not in wanted], beside
        )
        missing = [number for number in wanted if number not in ordinals]
        return _with_more(changed, workload, [*new, *running], missing)
    surplus = len(running) - scale.replicas
    if surplus < 0 and workload.kind.makes_vms:
        # The controller of a pool counts VMs that are to have no instance (KubeVirt, watch/pool/pool.go, calcDiff).
        members = members_of(workload, snapshot)
        halted = sum(x.vmi is None and x.vm.run_strategy == "Halted" for x in members)
        surplus = min(0, surplus + halted)
    if surplus > 0:
        # A controller removes waiting instances before running ones (Kubernetes, ActivePods). Among equals
        # it is free: here the last by name go first.
        by_name = sorted(running, key=lambda instance: instance.ref.name, reverse=True)
        return _without(changed, sorted(by_name, key=lambda x: bool(x.node_name))[:surplus], beside)
    return _with_more(changed, workload, [*new, *running], range(-surplus))


def expanded_template(snapshot: Snapshot, workload: Workload) -> t.Mapping[str, JSON] | None:
    """A workload's template with its instance type and preference: as it was read, or as a running VMI
    shows it. None where nothing is added or known."""
    if not needs_expansion(workload):
        return None
    vmis = (x.vmi for x in view_of(snapshot).instances_of(workload.ref) if x.vmi is not None)
    running = next(({**workload.template, "spec": vmi.spec} for vmi in vmis), None)
    return snapshot.expanded.get(workload.ref) or running


def of_changed_template(
    snapshot: Snapshot, workload: Workload, expanded: t.Mapping[str, JSON] | None
) -> ChangedPod:
    """How the next pod of a replica set or pool of VMs differs from one that runs: a change of the template reaches
    new instances alone."""
    vmis = (x.vmi for x in view_of(snapshot).instances_of(workload.ref) if x.vmi and x.pod)
    vmi = next(vmis, None)
    if vmi is None:
        return ChangedPod()
    return changed_by_restart(workload, vmi, next_uid(vmi.uid), expanded, snapshot.platform)


def _without(
    snapshot: Snapshot, removed: t.Sequence[Instance], beside: t.Mapping[str, Pod]
) -> Snapshot:
    """The snapshot once these instances have ended, without the pods that a rollout creates beside them."""
    if not removed:
        return snapshot
    uids = {instance.uid for instance in removed}
    pods = {x.pod.number: x.pod for x in removed if x.pod is not None}
    ended = [pod for pod in pods.values() if pod.node_name]
    return replace(
        snapshot,
        pods=tuple(x for x in snapshot.pods if beside.get(pod_key(x), x).number not in pods),
        vmis=tuple(vmi for vmi in snapshot.vmis if vmi.uid not in uids),
        terminating_pods=(*snapshot.terminating_pods, *ended),
    )


def _with_more(
    snapshot: Snapshot, workload: Workload, running: t.Sequence[Instance], numbers: t.Sequence[int]
) -> Snapshot:
    """The snapshot with an instance for each number, of a StatefulSet with that ordinal. They are like the first of
    `running`: of its revision, too."""
    if not numbers:
        return snapshot
    pods: list[Pod] = []
    vmis: list[Vmi] = []
    controllers: dict[str, Ref] = {}
    model = next((instance.pod for instance in running if instance.pod is not None), None)
    evictions = Evictions(snapshot)
    expanded = expanded_template(snapshot, workload) if workload.runs_vms else None
    before = of_changed_template(snapshot, workload, expanded)
    for number in numbers:
        name = f"{workload.ref.name}{NEXT}-{number}"
        if workload.runs_vms:
            vmi = planned_vmi(workload, name, expanded)
            vmis.append(vmi)
            pod = launcher_pod(vmi, snapshot.platform, expanded or workload.template)
            pod = with_data_volumes(pod, workload)
            name = pod.name
            if model is not None and before.pod is None:
                pod = replace(pod, requests=model.requests, forbidden=model.forbidden)
                pod = as_configured(pod, vmi, snapshot.platform)
        elif model is not None:
            pod = evictions.recreated(model, workload, name)
        else:
            owner = f"{workload.uid}{NEXT}"
            controllers[owner] = workload.ref
            pod = controlled_pod(workload, name, owner)
            created = snapshot.dry_runs.get(workload.uid)
            if isinstance(created, Pod):
                pod = replace(
                    pod,
                    requests=created.requests,
                    limits=created.limits,
                    unset=created.unset,
                    gated=created.gated,
                )
        if workload.kind.ordinals:
            pod = replica_of(workload, pod, number, model)
            name = pod.name
        pods.append(evictions.named(pod, name))
    return replace(
        snapshot,
        pods=(*snapshot.pods, *pods),
        vmis=(*snapshot.vmis, *vmis),
        controllers={**snapshot.controllers, **controllers},
    )
