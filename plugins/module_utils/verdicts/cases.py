# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Each placed instance with what it runs with and what its workload declares: what is judged."""

from __future__ import annotations

import contextlib
import typing as t
from dataclasses import dataclass, replace

from ..model.objects import Pod, Ref
from ..model.snapshot import Instance, Snapshot, Workload
from ..scheduling.index import Index, pod_key
from .declared import Declared, Reader
from .effective import Comparison, Gap
from .instances import instances, launcher_pods
from .successor import restarted
from .terms import selecting_keys


@dataclass(frozen=True, slots=True)
class Case:
    """`pod` is the running pod. `as_declared` is the pod that would stand in its place if what is
    declared were in effect; it is `pod` itself where that is so already."""

    instance: Instance
    pod: Pod
    as_declared: Pod
    workload: Workload | None = None
    declared: Declared | None = None
    gap: Gap | None = None

    @property
    def key(self) -> str:
        return pod_key(self.pod)

    @property
    def node(self) -> str:
        return self.pod.node_name


@dataclass(frozen=True)
class Cases:
    """`placed` run on a node. `waiting` do not: unbound pods, machines without a pod. `targets`
    are pods that a live migration makes beside the one that the machine runs in, and those that it
    has left behind."""

    placed: tuple[Case, ...]
    waiting: tuple[Instance, ...]
    targets: tuple[tuple[Instance, Pod], ...]
    reader: Reader


def cases_of(snapshot: Snapshot) -> Cases:
    """All instances of a snapshot."""
    reader = Reader()
    workloads = {workload.ref: workload for workload in snapshot.workloads}
    nodes = {node.name for node in snapshot.nodes}
    found = instances(snapshot)
    declared = [reader.declared(workload) for workload in snapshot.workloads]
    placements = {id(pod.placement): pod.placement for pod in snapshot.pods}
    placements.update((id(each.placement), each.placement) for each in declared)
    comparison = Comparison(reader, selecting_keys(placements.values()))
    placed, waiting = [], []
    for instance in found:
        pod = instance.pod
        if pod is None or pod.node_name not in nodes:
            waiting.append(instance)
            continue
        workload = workloads.get(instance.workload) if instance.workload is not None else None
        placed.append(_case(instance, pod, workload, comparison, reader))
    return Cases(tuple(placed), tuple(waiting), _targets(snapshot, found), reader)


def _case(
    instance: Instance,
    pod: Pod,
    workload: Workload | None,
    comparison: Comparison,
    reader: Reader,
) -> Case:
    if workload is None:
        return Case(instance, pod, pod)
    declared = reader.declared(workload)
    gap = comparison.gap(declared, pod, instance.vmi, workload)
    if gap is None:
        return Case(instance, pod, pod, workload, declared)
    next_pod = restarted(pod, declared.placement, declared.labels)
    stands = replace(next_pod, name=pod.name, uid=pod.uid, node_name=pod.node_name)
    return Case(instance, pod, stands, workload, declared, gap)


def _targets(snapshot: Snapshot, found: t.Iterable[Instance]) -> tuple[tuple[Instance, Pod], ...]:
    launchers = launcher_pods(snapshot)
    return tuple(
        (instance, pod)
        for instance in found
        if instance.vmi is not None and len(launchers.get(instance.uid, ())) > 1
        for pod in launchers[instance.uid]
        if instance.pod is not None and pod is not instance.pod
    )


@contextlib.contextmanager
def declared_world(index: Index, cases: Cases) -> t.Iterator[None]:
    """While it lasts, every instance stands where it runs as its workload declares it, and what
    migrations make and leave behind is not there: a machine does not compete with itself, and it
    breaks nobody's rule where it runs no more."""
    swapped = [case for case in cases.placed if case.as_declared is not case.pod]
    away = [pod for _instance, pod in cases.targets if pod_key(pod) in index]
    for pod in away:
        index.take_out(pod_key(pod))
    for case in swapped:
        index.take_out(case.key)
        index.place(case.as_declared, case.node)
    try:
        yield
    finally:
        for case in swapped:
            index.take_out(case.key)
            index.place(case.pod, case.node)
        for pod in away:
            index.place(pod, pod.node_name)


def by_pod(cases: t.Iterable[Case]) -> dict[Ref, Case]:
    """Cases by the reference of their pod."""
    return {case.pod.ref: case for case in cases}
