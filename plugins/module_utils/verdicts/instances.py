# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Who runs: VirtualMachineInstances with their launcher pods, and plain pods, with their workloads."""

from __future__ import annotations

import typing as t
from collections import defaultdict

from ..model.kinds import MACHINE_INSTANCE
from ..model.objects import Owner, Pod, Ref
from ..model.snapshot import Instance, MachineInstance, Snapshot, Workload

ENDED = ("Succeeded", "Failed")


def instances(snapshot: Snapshot) -> tuple[Instance, ...]:
    """Every running or waiting copy in the snapshot. What has ended or is being deleted is none:
    it counts for others as long as it stands, and it is nothing to be placed."""
    launchers, others = _split(snapshot.pods)
    workloads = {workload.ref: workload for workload in snapshot.workloads}
    found = [
        Instance(vmi.ref, vmi.uid, machine_workload(vmi, workloads), active_pod(vmi, pods), vmi)
        for vmi in snapshot.machine_instances
        for pods in (launchers.pop(vmi.uid, ()),)
        if vmi.phase not in ENDED and not vmi.terminating
    ]
    found += [
        Instance(Ref(MACHINE_INSTANCE, pod.namespace, pod.owner.name), pod.owner.uid, None, pod)
        for pods in launchers.values()
        for pod in pods
        if pod.owner is not None and _stays(pod)
    ]
    found += [
        Instance(pod.ref, pod.uid, pod_workload(pod, snapshot.controllers), pod)
        for pod in others
        if _stays(pod)
    ]
    return tuple(found)


def launcher_pods(snapshot: Snapshot) -> dict[str, list[Pod]]:
    """Uid of each VirtualMachineInstance to its launcher pods that have not ended."""
    launchers, _others = _split(snapshot.pods)
    return launchers


def active_pod(vmi: MachineInstance, pods: t.Sequence[Pod]) -> Pod | None:
    """The launcher pod that the machine runs in, never a migration's target.

    It is the Running pod on `status.nodeName` (KubeVirt: virt-controller's notion of the current
    pod). Before the machine runs, and where its list is older than that of the pods and the pod on
    that node has ended since, its one pod that has not ended.
    """
    alive = [pod for pod in pods if not pod.finished]
    here = [pod for pod in alive if pod.node_name == vmi.node_name]
    if not vmi.node_name or not here:
        return alive[0] if len(alive) == 1 else None
    running = [pod for pod in here if pod.phase == "Running"]
    known = [pod for pod in running or here if pod.uid in vmi.active_pods]
    return next(iter(known or running or here), None)


def bound_launcher(pods: t.Iterable[Pod]) -> Pod | None:
    """The launcher pod that has a node and stays: a migration's source while its target waits."""
    return next((pod for pod in pods if pod.node_name and not pod.terminating), None)


def machine_workload(vmi: MachineInstance, workloads: t.Mapping[Ref, Workload]) -> Ref:
    """The object whose template makes the machine: for a VirtualMachine in a pool the pool; a
    machine that nothing made is its own."""
    if vmi.owner is None:
        return vmi.ref
    ref = Ref(vmi.owner.kind, vmi.ref.namespace, vmi.owner.name)
    machine = workloads.get(ref)
    if machine is not None and machine.owner is not None and _is_pool(machine.owner):
        return Ref(machine.owner.kind, vmi.ref.namespace, machine.owner.name)
    return ref


def pod_workload(pod: Pod, controllers: t.Mapping[str, Ref]) -> Ref:
    """The controller of a pod; the Deployment behind a ReplicaSet; a bare pod is its own."""
    if pod.owner is None:
        return pod.ref
    if pod.owner.uid in controllers:
        return controllers[pod.owner.uid]
    return Ref(pod.owner.kind, pod.namespace, pod.owner.name)


def _split(pods: t.Iterable[Pod]) -> tuple[dict[str, list[Pod]], list[Pod]]:
    launchers: dict[str, list[Pod]] = defaultdict(list)
    others = []
    for pod in pods:
        if pod.finished:
            continue
        if pod.owner is not None and pod.owner.kind == MACHINE_INSTANCE:
            launchers[pod.owner.uid].append(pod)
        else:
            others.append(pod)
    return launchers, others


def _stays(pod: Pod) -> bool:
    return not pod.finished and not pod.terminating


def _is_pool(owner: Owner) -> bool:
    return owner.kind == "VirtualMachinePool"
