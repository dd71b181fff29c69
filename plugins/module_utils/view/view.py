# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""One reading of a cluster: its objects by reference, uid and name, and the scheduler's index of it."""

from __future__ import annotations

import typing as t
from collections import defaultdict
from functools import cached_property

from ..kubevirt.instances import InFlight, in_flight, instances, launcher_pods, pod_workload
from ..model.kinds import VMI
from ..model.objects import Labels, Namespace, Node, Pod, Ref
from ..model.snapshot import Instance, Snapshot, Vmi, Workload
from ..scheduler.index import Index


class ClusterView:
    """A snapshot with its tables and its index, each built when it is first used. The index has the scheduler's
    default configuration."""

    def __init__(self, snapshot: Snapshot) -> None:
        self.snapshot = snapshot

    @cached_property
    def nodes(self) -> dict[str, Node]:
        """Nodes by name."""
        return {node.name: node for node in self.snapshot.nodes}

    @cached_property
    def namespaces(self) -> dict[str, Namespace]:
        """Namespaces by name."""
        return {namespace.name: namespace for namespace in self.snapshot.namespaces}

    @cached_property
    def workloads(self) -> dict[Ref, Workload]:
        return {workload.ref: workload for workload in self.snapshot.workloads}

    @cached_property
    def labels_by_name(self) -> dict[tuple[str, str], dict[str, Labels]]:
        """(kind, namespace) to the names of its workloads with the labels of their templates; of bare
        pods with their own."""
        names: dict[tuple[str, str], dict[str, Labels]] = defaultdict(dict)
        for workload in self.snapshot.workloads:
            ref = workload.ref
            names[ref.kind, ref.namespace][ref.name] = workload.template_labels
        for pod in self.snapshot.pods:
            if pod.owner is None and not pod.finished:
                names["Pod", pod.namespace][pod.name] = pod.labels
        return dict(names)

    @cached_property
    def pods(self) -> dict[str, Pod]:
        """Pods by uid."""
        return {pod.uid: pod for pod in self.snapshot.pods}

    @cached_property
    def vmis(self) -> dict[str, Vmi]:
        """Virtual machine instances by uid, also those that have ended."""
        return {vmi.uid: vmi for vmi in self.snapshot.vmis}

    @cached_property
    def launcher_pods(self) -> dict[str, list[Pod]]:
        """Uid of each VMI to its launcher pods that have not finished, migration targets too."""
        return launcher_pods(self.snapshot)

    @cached_property
    def plain_pods(self) -> dict[Ref, list[Pod]]:
        """Workloads to their pods that have not finished and are not of VMIs."""
        plain: dict[Ref, list[Pod]] = defaultdict(list)
        for pod in self.snapshot.pods:
            if not pod.finished and (pod.owner is None or pod.owner.kind != VMI):
                plain[pod_workload(pod, self.snapshot.controllers)].append(pod)
        return dict(plain)

    @cached_property
    def pods_by_namespace(self) -> dict[str, list[Pod]]:
        """Namespaces to their pods that have not finished."""
        pods: dict[str, list[Pod]] = defaultdict(list)
        for pod in self.snapshot.pods:
            if not pod.finished:
                pods[pod.namespace].append(pod)
        return dict(pods)

    @cached_property
    def vmis_by_owner(self) -> dict[str, list[Vmi]]:
        """Uids of workloads to their VMIs that have not finished; those of a pool's VMs are also its own."""
        vmis: dict[str, list[Vmi]] = defaultdict(list)
        pools = {vm.uid: vm.owner.uid for vm in self.snapshot.workloads if vm.owner is not None}
        for vmi in self.snapshot.vmis:
            if vmi.owner is not None and not vmi.finished:
                vmis[vmi.owner.uid].append(vmi)
                if vmi.owner.uid in pools:
                    vmis[pools[vmi.owner.uid]].append(vmi)
        return dict(vmis)

    @cached_property
    def instances(self) -> tuple[Instance, ...]:
        """The running and the waiting instances (see `kubevirt/instances`)."""
        return instances(self.snapshot)

    @cached_property
    def instances_by_workload(self) -> dict[Ref, list[Instance]]:
        """The instances of each workload that has any; those of unknown workloads are left out."""
        instances_by_workload: dict[Ref, list[Instance]] = defaultdict(list)
        for instance in self.instances:
            if instance.workload is not None:
                instances_by_workload[instance.workload].append(instance)
        return dict(instances_by_workload)

    @cached_property
    def instances_by_pod(self) -> dict[Ref, Instance]:
        """The instance of each pod. The target pod of a migration has no instance yet."""
        return {x.pod.ref: x for x in self.instances if x.pod is not None}

    @cached_property
    def in_flight(self) -> InFlight:
        """Pods that are leaving, and instances that are migrating."""
        return in_flight(self.snapshot)

    def vmis_of(self, workload: Workload) -> t.Sequence[Vmi]:
        """The VMIs of a workload that have not finished."""
        return self.vmis_by_owner.get(workload.uid, ())

    def pods_of(self, workload: Workload) -> t.Sequence[Pod]:
        """The pods of a workload that have not finished, migration targets too."""
        if not workload.kind.virtual_machines:
            return self.plain_pods.get(workload.ref, ())
        launchers = self.launcher_pods
        return [pod for vmi in self.vmis_of(workload) for pod in launchers.get(vmi.uid, ())]

    def instances_of(self, workload: Ref) -> t.Sequence[Instance]:
        return self.instances_by_workload.get(workload, ())

    def workload_of(self, instance: Instance) -> Workload | None:
        """The workload of an instance, None if there is none or it could not be read."""
        return self.workloads.get(instance.workload) if instance.workload is not None else None

    @cached_property
    def index(self) -> Index:
        """The scheduler's index of the pods as they run."""
        return self.index_with(self.snapshot.pods)

    def index_with(self, pods: t.Iterable[Pod]) -> Index:
        """A new index of this cluster with other pods."""
        return Index(
            self.snapshot.nodes,
            pods,
            self.snapshot.namespaces,
            claim_terms=self.snapshot.claim_terms,
            claim_states=self.snapshot.claim_states,
            attach_limits=self.snapshot.attach_limits,
            drivers=self.snapshot.drivers,
        )
