# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Each placed instance with what it runs with and what its workload declares: what is judged."""

from __future__ import annotations

import contextlib
import typing as t
from dataclasses import dataclass

from ..kubevirt.next_pod import pod_as_declared
from ..model.objects import Pod, Ref
from ..model.snapshot import Instance, Workload
from ..scheduler.framework import pod_key
from ..scheduler.index import Index
from ..view.view import ClusterView
from .declared import Declared, DeclaredReader
from .drift import Drift, DriftComparison


@dataclass(frozen=True, slots=True)
class EvaluatedInstance:
    """`pod` is the running pod. `declared_pod` is the pod that would be in its place if what is
    declared were enforced; it is `pod` itself where that is so."""

    instance: Instance
    pod: Pod
    declared_pod: Pod
    workload: Workload | None = None
    declared: Declared | None = None
    drift: Drift | None = None

    @property
    def key(self) -> str:
        return pod_key(self.pod)

    @property
    def node(self) -> str:
        return self.pod.node_name


@dataclass(frozen=True)
class EvaluatedInstances:
    """`placed` run on a node. `waiting` do not: unbound pods, VMIs without a pod. `targets` are pods
    that a live migration makes beside the one that the guest runs in, or has left behind."""

    placed: tuple[EvaluatedInstance, ...]
    waiting: tuple[Instance, ...]
    targets: tuple[tuple[Instance, Pod], ...]
    reader: DeclaredReader


def evaluated_instances(view: ClusterView) -> EvaluatedInstances:
    """All instances of a cluster."""
    reader = DeclaredReader(view.snapshot)
    comparison = DriftComparison(view.snapshot, reader)
    placed, waiting = [], []
    for instance in view.instances:
        pod = instance.pod
        if pod is None or pod.node_name not in view.nodes:
            waiting.append(instance)
        else:
            workload = view.workload_of(instance)
            placed.append(_evaluated(instance, pod, workload, comparison, reader))
    return EvaluatedInstances(tuple(placed), tuple(waiting), _targets(view), reader)


def _evaluated(
    instance: Instance,
    pod: Pod,
    workload: Workload | None,
    comparison: DriftComparison,
    reader: DeclaredReader,
) -> EvaluatedInstance:
    if workload is None:
        return EvaluatedInstance(instance, pod, pod)
    declared = reader.declared(workload)
    drift = comparison.drift(workload, pod, instance.vmi)
    if drift is None:
        return EvaluatedInstance(instance, pod, pod, workload, declared)
    declared_pod = pod_as_declared(pod, instance.vmi, declared.placement, declared.labels)
    return EvaluatedInstance(instance, pod, declared_pod, workload, declared, drift)


def _targets(view: ClusterView) -> tuple[tuple[Instance, Pod], ...]:
    launchers = view.launcher_pods
    return tuple(
        (instance, pod)
        for instance in view.instances
        if instance.vmi is not None and len(launchers.get(instance.uid, ())) > 1
        for pod in launchers[instance.uid]
        if instance.pod is not None and pod is not instance.pod
    )


@contextlib.contextmanager
def declared_cluster(index: Index, instances: EvaluatedInstances) -> t.Iterator[None]:
    """While it lasts, every instance is on its node as its workload declares it. Pods that
    migrations make and leave behind are not there: an instance does not compete with itself, and
    violates nothing where it no longer runs."""
    with contextlib.ExitStack() as reverts:
        for _instance, pod in instances.targets:
            if pod_key(pod) in index:
                node = index.node_of(pod_key(pod))
                reverts.callback(index.place, index.remove(pod_key(pod)), node)
        for instance in instances.placed:
            if instance.declared_pod is not instance.pod:
                reverts.callback(index.place, index.remove(instance.key), instance.node)
                index.place(instance.declared_pod, instance.node)
                reverts.callback(index.remove, instance.key)
        yield


def by_pod(instances: t.Iterable[EvaluatedInstance]) -> dict[Ref, EvaluatedInstance]:
    """Instances by the reference of their pod."""
    return {instance.pod.ref: instance for instance in instances}
