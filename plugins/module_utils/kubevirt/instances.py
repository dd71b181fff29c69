# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which instances exist, of which workload, in which pod; and which of them are in flight.

A virtual machine instance (VMI) with its launcher pod is one instance, as is a plain pod. An object
that has ended or is being deleted is not an instance: it takes room while it exists, and is not placed. Nor is
a pod that attaches a volume to a VM.
"""

from __future__ import annotations

import typing as t
from collections import defaultdict
from dataclasses import dataclass, replace

from ..kinds.registry import kind_of
from ..kinds.vmi import VMI
from ..model.json_pointer import JSON
from ..model.objects import Pod, Ref
from ..model.snapshot import Instance, Snapshot, Vmi, Workload

HOTPLUG = ("kubevirt.io", "hotplug-disk")
"""Label of a pod that attaches a volume to a running VM."""


def attaches_volume(pod: Pod) -> bool:
    """Whether KubeVirt runs this pod beside a launcher pod, which owns it, to attach a volume. It ends with
    that pod, KubeVirt refuses its eviction, and a migration's target gets one of its own (services/template.go,
    RenderHotplugAttachmentPodTemplate; admitters/pod-eviction-admitter.go, admitHotplugPod)."""
    return pod.labels.get(HOTPLUG[0]) == HOTPLUG[1] and (
        pod.owner is not None and pod.owner.kind == "Pod"
    )


def instances(
    snapshot: Snapshot, namespaces: t.Container[str] | None = None
) -> tuple[Instance, ...]:
    """The running and the waiting instances, of all namespaces (None) or of some.

    VMIs come first, then launcher pods whose VMI is unknown (`workload` is None), then plain pods.
    An instance is in the namespace of its workload.
    """
    launchers, plain_pods = _split(snapshot, namespaces)
    workload_of = _VmiWorkloads(snapshot)
    existing = []
    for vmi in snapshot.vmis:
        pods = launchers.pop(vmi.uid, None)
        if vmi.terminating or vmi.finished:
            continue
        if namespaces is None or vmi.ref.namespace in namespaces:
            pod = active_pod(vmi, pods) if pods else None
            existing.append(Instance(vmi.ref, vmi.uid, workload_of(vmi), pod, vmi))
    for orphans in launchers.values():
        for pod in orphans:
            if pod.owner is not None and not pod.terminating:
                ref = Ref(VMI, pod.namespace, pod.owner.name)
                existing.append(Instance(ref, pod.owner.uid, None, pod))
    controllers = snapshot.controllers
    for pod in plain_pods:
        if not pod.terminating and not attaches_volume(pod):
            existing.append(Instance(pod.ref, pod.uid, pod_workload(pod, controllers), pod))
    return tuple(existing)


def launcher_pods(snapshot: Snapshot) -> dict[str, list[Pod]]:
    """Uid of each VMI to its launcher pods that have not finished, migration targets too."""
    launchers, _plain_pods = _split(snapshot)
    return launchers


def active_pod(vmi: Vmi, pods: t.Sequence[Pod]) -> Pod | None:
    """The launcher pod that the guest runs in, never a migration's target.

    `pods` are the VMI's launcher pods. The active one is the Running pod on `status.nodeName`
    (virt-controller's current pod). It is the only unfinished pod where the VMI has no node yet, or
    where the VMI was read before its pod moved on.
    """
    if len(pods) == 1:
        return None if pods[0].finished else pods[0]
    unfinished = [pod for pod in pods if not pod.finished]
    here = [pod for pod in unfinished if pod.node_name == vmi.node_name]
    if not vmi.node_name or not here:
        return unfinished[0] if len(unfinished) == 1 else None
    running = [pod for pod in here if pod.phase == "Running"]
    active = [pod for pod in running or here if pod.uid in vmi.active_pods]
    return next(iter(active or running or here), None)


def bound_launcher(pods: t.Iterable[Pod]) -> Pod | None:
    """The launcher pod that has a node and stays: a migration's source while its target waits."""
    return next((pod for pod in pods if pod.node_name and not pod.terminating), None)


def vmi_workload(vmi: Vmi, workloads: t.Mapping[Ref, Workload]) -> Ref:
    """The object whose template makes the VMI: the pool of a pooled VirtualMachine, the VMI's
    controller otherwise. A VMI without a controller is its own workload."""
    if vmi.owner is None:
        return vmi.ref
    vm = owner_of(vmi, workloads)
    if vm is not None and vm.pool is not None:
        return Ref(vm.pool.kind, vmi.ref.namespace, vm.pool.name)
    return Ref(vmi.owner.kind, vmi.ref.namespace, vmi.owner.name)


def owner_of(vmi: Vmi, workloads: t.Mapping[Ref, Workload]) -> Workload | None:
    """What makes a VMI and makes it again: its VirtualMachine, also of a pool, or its replica set (KubeVirt,
    watch/pool/pool.go makes VMs, watch/vm/vm.go starts them); None where nothing does, or it was not read."""
    if vmi.owner is None:
        return None
    owner = workloads.get(Ref(vmi.owner.kind, vmi.ref.namespace, vmi.owner.name))
    return owner if owner is not None and owner.runs_vms and not owner.kind.makes_vms else None


def is_of(workloads: t.Container[Ref], workload: Ref | None, instance: Ref) -> bool:
    """Whether an instance of `workload` is one of `workloads`: also where these are VMs of a pool, which have the
    names of their VMIs (watch/vm/vm.go, SetupVMIFromVM)."""
    if workload is None or workload in workloads:
        return workload is not None
    made = kind_of(workload.kind).makes
    return bool(made) and instance._replace(kind=made) in workloads


def pod_workload(pod: Pod, controllers: t.Mapping[str, Ref]) -> Ref:
    """The controller of a pod; the Deployment behind a ReplicaSet. A bare pod is its own
    workload."""
    if pod.owner is None:
        return pod.ref
    if pod.owner.uid in controllers:
        return controllers[pod.owner.uid]
    return Ref(pod.owner.kind, pod.namespace, pod.owner.name)


class _VmiWorkloads:
    """`vmi_workload` for many VMIs: most are owned by a workload that nothing else owns, which
    the owner's uid finds without making a Ref."""

    def __init__(self, snapshot: Snapshot) -> None:
        self._snapshot = snapshot
        self._by_uid = {workload.uid: workload for workload in snapshot.workloads}

    def __call__(self, vmi: Vmi) -> Ref:
        owner = vmi.owner
        if owner is None:
            return vmi.ref
        workload = self._by_uid.get(owner.uid)
        if workload is not None and workload.owner is None:
            ref = workload.ref
            if ref.name == owner.name and ref.kind == owner.kind:
                return ref
        return vmi_workload(vmi, self._snapshot.workloads_by_ref)


def _split(
    snapshot: Snapshot, namespaces: t.Container[str] | None = None
) -> tuple[dict[str, list[Pod]], list[Pod]]:
    """Unfinished pods: launcher pods by the uid of their VMI, and all others."""
    launchers: dict[str, list[Pod]] = defaultdict(list)
    plain_pods = []
    for pod in snapshot.pods:
        if pod.finished or (namespaces is not None and pod.namespace not in namespaces):
            continue
        if uid := pod.vmi_uid:
            launchers[uid].append(pod)
        else:
            plain_pods.append(pod)
    return launchers, plain_pods


@dataclass(frozen=True, slots=True)
class InFlight:
    """`pods` (uids) are leaving; `instances` (uids) migrate to a node that has been found. The
    scheduler counts both until they are gone; no other instance has to move because of them."""

    pods: frozenset[str] = frozenset()
    instances: frozenset[str] = frozenset()


def in_flight(snapshot: Snapshot, namespaces: t.Collection[str] = ()) -> InFlight:
    """Leaving are pods that are being deleted, the pods of VMIs that are being deleted or are gone,
    a migration's source once its target has a node, and what an ended migration has left behind.
    A pod that may terminate for hours is not, unless its VMI lives on: its guest may have moved.

    A guest may run in its migration's target long before its VMI says so: that pod stays.

    The lists of a snapshot are not of one moment: where a VMI runs on another node than its pod,
    the list of pods is the older one. `namespaces` are those whose VMIs were read, so that a
    launcher pod without a VMI is known to be leaving.
    """
    migrating = {(migration.ref.namespace, migration.instance) for migration in snapshot.migrations}
    vmis = snapshot.vmis_by_uid
    pods, doubtful = set(), set()
    for pod in snapshot.pods:
        if pod.terminating:
            pods.add(pod.uid)
        if not pod.vmi_uid:
            continue
        vmi = vmis.get(pod.vmi_uid)
        if vmi is not None:
            if vmi.terminating or (vmi.node_name and pod.node_name != vmi.node_name):
                doubtful.add(pod.vmi_uid)
        elif pod.namespace in namespaces and _is_placed(pod):
            pods.add(pod.uid)
    instances = set()
    launchers = launcher_pods(snapshot) if doubtful else {}
    for uid in doubtful & launchers.keys():
        placed = [pod for pod in launchers[uid] if _is_placed(pod)]
        vmi = vmis[uid]
        left = {pod.uid for pod in placed if _is_left_behind(pod, vmi)}
        elsewhere = {pod.uid for pod in placed if pod.node_name != vmi.node_name} - left
        here = {pod.uid for pod in placed} - elsewhere - left
        pods |= left
        if vmi.terminating:
            pods |= here | elsewhere
        elif here and elsewhere and (vmi.ref.namespace, vmi.ref.name) in migrating:
            instances.add(uid)
            pods |= here
        elif not here and (arrived := {x.uid for x in placed if _is_target(x, vmi)}):
            instances.add(uid)
            pods |= elsewhere - arrived
        else:
            pods |= elsewhere
    staying = _staying_vmis(snapshot)
    pods -= {pod.uid for pod in snapshot.pods if pod.lingers and pod.vmi_uid not in staying}
    return InFlight(frozenset(pods), frozenset(instances))


def _is_left_behind(pod: Pod, vmi: Vmi) -> bool:
    """Whether the VMI's last migration has left the pod, which is Running for some seconds more: the source once the
    guest is handed over, while the migration is not over yet; the target of one that has failed."""
    state = vmi.migration
    if state.get("failed"):
        return pod.name == state.get("targetPod")
    handed_over = state.get("targetNode") == vmi.node_name != ""
    return handed_over and pod.name == state.get("sourcePod")


def _is_target(pod: Pod, vmi: Vmi) -> bool:
    """Whether the pod is the target of the VMI's migration, which is not over: where no other pod is left, the guest
    runs there already, and virt-handler hands it over later, after minutes at worst."""
    state = vmi.migration
    over = state.get("completed") or state.get("failed")
    return pod.name == state.get("targetPod") and not over


def _staying_vmis(snapshot: Snapshot) -> set[str]:
    """The uids of VMIs that are not being deleted."""
    return {vmi.uid for vmi in snapshot.vmis if not vmi.terminating}


def claim_name(volume: t.Mapping[str, JSON]) -> str | None:
    """The PersistentVolumeClaim that a pod mounts for a volume of a VMI or a pod; None if it mounts none. The
    claim of a DataVolume has its name, and the image of an ephemeral volume is on a claim. A hotpluggable
    volume has a pod of its own (services/rendervolumes.go, withVMIVolumes, hotplugVolumes)."""
    return None if is_hotpluggable(volume) else _named_claim(volume) or None


def hotplugged_claims(vmi: Vmi) -> list[str]:
    """The claims that pods beside the launcher pod mount."""
    volumes = vmi.spec.get("volumes") or ()
    return [_named_claim(volume) for volume in volumes if is_hotpluggable(volume)]


def is_hotpluggable(volume: t.Mapping[str, JSON]) -> bool:
    """Whether a volume of a VMI can be attached while the VMI runs (pkg/storage/types/volume.go)."""
    source = volume.get("persistentVolumeClaim") or volume.get("dataVolume")
    return bool(source and source.get("hotpluggable"))


def _named_claim(volume: t.Mapping[str, JSON]) -> str:
    image = volume.get("ephemeral") or {}
    claim = volume.get("persistentVolumeClaim") or image.get("persistentVolumeClaim") or {}
    return str(claim.get("claimName") or (volume.get("dataVolume") or {}).get("name") or "")


def replaced_once_gone(pod: Pod) -> bool:
    """Whether the pod after this one is created only once nothing is left of this one: on a failed node, once
    that is fenced. Other controllers create the next pod as soon as this one terminates.
    Sources: KubeVirt, virt-controller/watch/vmi and /vm (a VMI ends with its last pod); kubernetes
    pkg/controller/statefulset/stateful_set_control.go (the next pod has the same name)."""
    return bool(pod.vmi_uid) or (pod.owner is not None and kind_of(pod.owner.kind).ordinals)


def ends_if_fenced(snapshot: Snapshot) -> tuple[Pod, ...]:
    """The pods of VMs and StatefulSets that terminate, however long, and leave their node if it fails, which is
    then fenced. One stays where its VMI is not being deleted."""
    staying = _staying_vmis(snapshot)
    return tuple(
        pod
        for pod in snapshot.pods
        if pod.terminating and replaced_once_gone(pod) and pod.vmi_uid not in staying
    )


def settled(snapshot: Snapshot, failing: t.Container[str] = ()) -> Snapshot:
    """The snapshot once migrations that have found their nodes have ended and leaving pods are gone
    (`terminating_pods` has them; see `in_flight`). A terminating pod never leaves a node that is not ready
    or is one of `failing`, but some leave `failing` nodes (see `ends_if_fenced`); it also stays
    where its VMI is not being deleted."""
    leaving = in_flight(snapshot)
    not_ready = {node.name for node in snapshot.nodes if not node.ready or node.name in failing}
    staying = _staying_vmis(snapshot)
    fenced = {pod.uid for pod in ends_if_fenced(snapshot) if pod.node_name in failing}

    def ends(pod: Pod) -> bool:
        if not pod.terminating:
            return pod.uid in leaving.pods
        if pod.vmi_uid in staying:
            return False
        return pod.uid in fenced or (pod.uid in leaving.pods and pod.node_name not in not_ready)

    ending = tuple(pod for pod in snapshot.pods if ends(pod))
    if not ending and not leaving.instances:
        return snapshot
    ending_uids = {pod.uid for pod in ending}
    pods = tuple(pod for pod in snapshot.pods if pod.uid not in ending_uids)
    moved = {x.vmi_uid: x for x in pods if x.vmi_uid in leaving.instances and _is_placed(x)}
    arrived = {vmi.ref[1:] for vmi in snapshot.vmis if vmi.uid in moved}
    return replace(
        snapshot,
        pods=pods,
        vmis=tuple(
            replace(vmi, node_name=moved[vmi.uid].node_name, migration={})
            if vmi.uid in moved
            else vmi
            for vmi in snapshot.vmis
        ),
        migrations=tuple(
            migration
            for migration in snapshot.migrations
            if (migration.ref.namespace, migration.instance) not in arrived
        ),
        terminating_pods=(*snapshot.terminating_pods, *ending),
    )


def arrived(snapshot: Snapshot, nodes: t.Mapping[str, str]) -> Snapshot:
    """The snapshot once VMs have migrated, by the uid of their VMI, to these nodes."""
    if not nodes:
        return snapshot
    return replace(
        snapshot,
        pods=tuple(
            replace(pod, node_name=nodes[pod.vmi_uid]) if pod.vmi_uid in nodes else pod
            for pod in snapshot.pods
        ),
        vmis=tuple(
            replace(
                vmi,
                node_name=nodes[vmi.uid],
                active_pods=dict.fromkeys(vmi.active_pods, nodes[vmi.uid]),
            )
            if vmi.uid in nodes
            else vmi
            for vmi in snapshot.vmis
        ),
    )


def _is_placed(pod: Pod) -> bool:
    return bool(pod.node_name) and not pod.finished
