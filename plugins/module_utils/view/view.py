# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What follows from one reading of a cluster: its instances, their pods and VMIs, and the index of the scheduler."""

from __future__ import annotations

import typing as t
from collections import defaultdict

from ..kubevirt.instances import InFlight, in_flight, instances, launcher_pods, pod_workload
from ..model.objects import Labels, Pod, Ref
from ..model.snapshot import Instance, Snapshot, Vmi, Workload

if t.TYPE_CHECKING:
    from ..scheduler.index import Index

_Value = t.TypeVar("_Value")


def view_of(snapshot: Snapshot) -> ClusterView:
    """The view of a snapshot. It costs nothing: what it knows is kept with the snapshot."""
    return ClusterView(snapshot)


class _Kept(t.Generic[_Value]):
    """A property of a view that is computed once for its snapshot, and kept with that."""

    def __init__(self, read: t.Callable[[ClusterView], _Value]) -> None:
        self._make: t.Callable[[Snapshot], _Value] = lambda snapshot: read(view_of(snapshot))

    def __get__(self, view: ClusterView, _class: type[ClusterView]) -> _Value:
        return view.snapshot.derived(self._make)


class ClusterView:
    """A snapshot with what follows from it, computed when it is first asked for: `view_of` makes the view."""

    def __init__(self, snapshot: Snapshot) -> None:
        self.snapshot = snapshot

    @_Kept
    def labels_by_name(self) -> t.Mapping[tuple[str, str], t.Mapping[str, Labels]]:
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

    @_Kept
    def launcher_pods(self) -> t.Mapping[str, t.Sequence[Pod]]:
        """Uid of each VMI to its launcher pods that have not finished, migration targets too."""
        return launcher_pods(self.snapshot)

    @_Kept
    def plain_pods(self) -> t.Mapping[Ref, t.Sequence[Pod]]:
        """Workloads to their pods that have not finished and are not of VMIs."""
        plain: dict[Ref, list[Pod]] = defaultdict(list)
        for pod in self.snapshot.pods:
            if not pod.finished and not pod.vmi_uid:
                plain[pod_workload(pod, self.snapshot.controllers)].append(pod)
        return dict(plain)

    @_Kept
    def pods_by_namespace(self) -> t.Mapping[str, t.Sequence[Pod]]:
        """Namespaces to their pods that have not finished."""
        pods: dict[str, list[Pod]] = defaultdict(list)
        for pod in self.snapshot.pods:
            if not pod.finished:
                pods[pod.namespace].append(pod)
        return dict(pods)

    @_Kept
    def vmis_by_owner(self) -> t.Mapping[str, t.Sequence[Vmi]]:
        """Uids of workloads to their VMIs that have not finished; those of a pool's VMs are also its own."""
        vmis: dict[str, list[Vmi]] = defaultdict(list)
        pools = {vm.uid: vm.owner.uid for vm in self.snapshot.workloads if vm.owner is not None}
        for vmi in self.snapshot.vmis:
            if vmi.owner is not None and not vmi.finished:
                vmis[vmi.owner.uid].append(vmi)
                if vmi.owner.uid in pools:
                    vmis[pools[vmi.owner.uid]].append(vmi)
        return dict(vmis)

    @_Kept
    def instances(self) -> tuple[Instance, ...]:
        """The running and the waiting instances (see `kubevirt/instances`)."""
        return instances(self.snapshot)

    @_Kept
    def instances_by_workload(self) -> t.Mapping[Ref, t.Sequence[Instance]]:
        """The instances of each workload that has any; those of unknown workloads are left out."""
        instances_by_workload: dict[Ref, list[Instance]] = defaultdict(list)
        for instance in self.instances:
            if instance.workload is not None:
                instances_by_workload[instance.workload].append(instance)
        return dict(instances_by_workload)

    @_Kept
    def instances_by_pod(self) -> t.Mapping[Ref, Instance]:
        """The instance of each pod. The target pod of a migration has no instance yet."""
        return {x.pod.ref: x for x in self.instances if x.pod is not None}

    @_Kept
    def in_flight(self) -> InFlight:
        """Pods that are leaving, and instances that are migrating."""
        return in_flight(self.snapshot)

    def vmis_of(self, workload: Workload) -> t.Sequence[Vmi]:
        """The VMIs of a workload that have not finished."""
        return self.vmis_by_owner.get(workload.uid, ())

    def pods_of(self, workload: Workload) -> t.Sequence[Pod]:
        """The pods of a workload that have not finished, migration targets too."""
        if not workload.runs_vms:
            return self.plain_pods.get(workload.ref, ())
        launchers = self.launcher_pods
        return [pod for vmi in self.vmis_of(workload) for pod in launchers.get(vmi.uid, ())]

    def instances_of(self, workload: Ref) -> t.Sequence[Instance]:
        return self.instances_by_workload.get(workload, ())

    def workload_of(self, instance: Instance) -> Workload | None:
        """The workload of an instance, None if there is none or it could not be read."""
        return (
            self.snapshot.workloads_by_ref.get(instance.workload)
            if instance.workload is not None
            else None
        )

    def new_index(self, pods: t.Iterable[Pod] | None = None) -> Index:
        """The scheduler's index, in its default configuration, of the pods as they run, or of other pods on the nodes.
        It belongs to its caller, which may place and remove pods. Imported where pods are placed: what writes rules
        starts without the scheduler."""
        from ..scheduler.index import Index

        return Index(
            self.snapshot.nodes,
            self.snapshot.pods if pods is None else pods,
            self.snapshot.namespaces,
            claim_terms=self.snapshot.claim_terms,
            claim_states=self.snapshot.claim_states,
            attach_limits=self.snapshot.attach_limits,
            drivers=self.snapshot.drivers,
        )
