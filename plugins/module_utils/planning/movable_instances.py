# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which instances could be moved: as they run, as their workloads declare them, and by which methods.

Of most instances a plan needs only that what is declared is enforced. All else about an instance is
read when it is first asked for.
"""

from __future__ import annotations

import typing as t
from dataclasses import dataclass, replace
from functools import cached_property

from ..compliance.declared import Declared, DeclaredReader
from ..compliance.drift import Drift, DriftComparison
from ..kubevirt.changed_pods import as_restarted, changed_by_migration, with_staged_model
from ..kubevirt.instances import instances, is_of
from ..kubevirt.moving import (
    MIGRATION,
    MoveOptions,
    can_migrate,
    move_options,
    takes_effect,
    why_no_target,
)
from ..kubevirt.next_pod import migration_target_pod, pod_as_declared, without_migration_cpu
from ..kubevirt.pools import changed_by_others, vm_of
from ..model.gc import collector_paused
from ..model.kinds import DO_NOT_MOVE, POOL, VIRTUAL_MACHINE
from ..model.objects import Pod, Ref
from ..model.obstacle import Obstacle
from ..model.plan import Method
from ..model.snapshot import Instance, Snapshot, Workload
from ..scheduler.node_affinity import allows_only


class MovableInstance:
    """An instance that runs in `pod`. `workload` is None for one that no controller recreates."""

    def __init__(
        self, instance: Instance, pod: Pod, workload: Workload | None, reader: MovableReader
    ) -> None:
        self.instance = instance
        self.pod = pod
        self.workload = workload
        self.vm = reader.vm_of(instance, workload)
        """The VirtualMachine that restarts it: its workload, or one of that pool. None where none does."""
        self.uid = instance.uid
        self.node = pod.node_name
        self._reader = reader
        if workload is None or reader.comparison.templates.matches(workload.template, pod):
            self.declared_pod = pod

    @cached_property
    def declared_pod(self) -> Pod:
        """The running pod (name, uid, node) as the workload declares it; the very `pod` where that
        is how it runs."""
        return (
            pod_as_declared(
                self.pod, self.instance.vmi, self.declared.placement, self.declared.labels
            )
            if self.declared is not None
            else self.pod
        )

    @cached_property
    def declared(self) -> Declared | None:
        """What the workload declares, with the rules that own it; None without a workload."""
        return None if self.workload is None else self._reader.declared.declared(self.workload)

    @cached_property
    def drift(self) -> Drift | None:
        """What differs between the constraints that the pod was scheduled with and those that its
        workload declares; None where nothing does."""
        if self.workload is None or self.declared_pod is self.pod:
            return None
        return self._reader.comparison.drift(self.workload, self.pod, self.instance.vmi)

    @cached_property
    def takes_effect(self) -> str:
        """What has to happen before the pod runs as declared: a word of kubevirt.moving."""
        labels = self.drift.labels if self.drift is not None else ()
        platform, pinned = self._reader.snapshot.platform, self.pinned
        return takes_effect(
            self.workload,
            self.instance.vmi,
            platform,
            labels=labels,
            pinned=pinned,
            vm=self.vm,
        )

    @cached_property
    def pinned(self) -> bool:
        """Whether what its workload requires of nodes allows only the one that it runs on."""
        if self.declared is None or self.instance.vmi is None:
            return False
        return allows_only(
            self.declared.placement, self.node, self._reader.snapshot.nodes_by_name.values()
        )

    @cached_property
    def why_not_by_migration(self) -> Obstacle | None:
        """Why a migration leaves it with less than is declared: the target has the labels of the VMI."""
        labels = self.drift.labels if self.drift is not None else ()
        if not labels or self.takes_effect == MIGRATION:
            return None
        named = ", ".join(labels)
        text = f"it needs {self.takes_effect}: label {named} of its template is not on the VMI"
        return Obstacle("needs_restart", text)

    def enforcing(self, methods: tuple[Method, ...]) -> tuple[Method, ...]:
        """Those of `methods` after which it runs as declared; where there is none, a migration that enforces
        everything but labels."""
        if self.why_not_by_migration is None or self.drift is None:
            return methods
        partly = self.drift.missing or self.drift.stale
        return tuple(x for x in methods if x is not Method.MIGRATE) or (methods if partly else ())

    @cached_property
    def move_options(self) -> MoveOptions:
        """The methods by which it can be moved."""
        reader = self._reader
        options = move_options(
            self.workload,
            self.instance,
            reader.snapshot.platform,
            apply_pending_changes=reader.apply_pending_changes,
            vm=self.vm,
            vm_changed=self._vm_changed,
        )
        obstacle = self.why_no_target
        if obstacle is None or Method.MIGRATE not in options.methods:
            return options
        methods = tuple(method for method in options.methods if method is not Method.MIGRATE)
        if options.refusal is not None and not methods:
            obstacle = replace(obstacle, text=f"{obstacle}; {options.refusal}")
        return replace(options, methods=methods, obstacle=obstacle)

    @property
    def _vm_changed(self) -> bool:
        """Whether it lacks the template of its pool, since something else has changed its VirtualMachine."""
        pool, vm = self.workload, self.vm
        if pool is None or vm is None or pool.ref.kind != POOL.name:
            return False
        return changed_by_others(pool, vm, self._reader.vms_of_pools.get(pool.uid, ()))

    @cached_property
    def why_no_target(self) -> Obstacle | None:
        """Why KubeVirt makes no target pod for a migration of it."""
        vmi, source = self.instance.vmi, self._reader.snapshot.nodes_by_name.get(self.node)
        if vmi is None:
            return None
        return why_no_target(self.pod, vmi, source, self._reader.snapshot.platform)

    @cached_property
    def can_migrate(self) -> bool:
        """Method.MIGRATE is among the methods; it costs less to ask than all of them."""
        platform = self._reader.snapshot.platform
        return self.why_no_target is None and can_migrate(
            self.workload, self.instance.vmi, platform, self.vm
        )

    @cached_property
    def migration_target(self) -> Pod | None:
        """The pod of a live migration, None where there cannot be one."""
        vmi = self.instance.vmi
        if vmi is None or self.declared is None or not self.can_migrate:
            return None
        source = self._reader.snapshot.nodes_by_name.get(self.node)
        target = migration_target_pod(self.pod, vmi, self.declared.placement, source)
        return changed_by_migration(target, vmi, self._reader.snapshot.platform)[0]

    def next_pod(self, method: Method) -> Pod:
        """The pod that the scheduler would have to place for this move."""
        if method is Method.MIGRATE and self.migration_target is not None:
            return self.migration_target
        return self._replacement

    @cached_property
    def _replacement(self) -> Pod:
        pod, vmi = self.declared_pod, self.instance.vmi
        platform = self._reader.snapshot.platform
        placement = without_migration_cpu(pod.placement, vmi)
        if vmi is not None:
            placement = with_staged_model(placement, self.vm, vmi, platform)
        pod = replace(pod, node_name="", uid="", name=f"{pod.name}-next", placement=placement)
        return pod if vmi is None else as_restarted(pod, vmi, platform)


@dataclass(frozen=True, slots=True)
class InstanceSelection:
    """Which instances a plan is about: those of `workloads`, or all in `namespaces`."""

    namespaces: frozenset[str] = frozenset()
    workloads: frozenset[Ref] = frozenset()

    @property
    def all_namespaces(self) -> frozenset[str]:
        """The namespaces that these instances are in."""
        return self.namespaces | {ref.namespace for ref in self.workloads}

    def __contains__(self, instance: Instance) -> bool:
        if instance.workload is None:
            return instance.ref.namespace in self.namespaces
        if not self.workloads:
            return instance.workload.namespace in self.namespaces
        return is_of(self.workloads, instance.workload, instance.ref)


def kept_in_place(
    snapshot: Snapshot, candidates: t.Iterable[MovableInstance]
) -> dict[str, Obstacle]:
    """The instances that no rollout moves, by uid, with the reason."""
    not_ready = snapshot.not_ready_nodes
    reasons = {}
    for movable in candidates:
        if (kept := why_kept(movable.instance, snapshot.workloads_by_ref)) is not None:
            reasons[movable.uid] = replace(kept, text=f"{kept}: remove the label")
        elif movable.node in not_ready:
            reasons[movable.uid] = node_not_ready(movable.node)
    return reasons


def why_kept(instance: Instance, workloads: t.Mapping[Ref, Workload]) -> Obstacle | None:
    """The label that keeps an instance where it is: of its workload, of its VM where that is one of a pool, or of the
    VMI or pod itself."""
    pod, vmi, nouns = instance.pod, instance.vmi, dict[Ref, str]()
    if instance.workload is not None:
        nouns[instance.workload] = "its workload"
    if vmi is not None and vmi.owner is not None:
        nouns.setdefault(Ref(vmi.owner.kind, vmi.ref.namespace, vmi.owner.name), "its VM")
    labelled = [(noun, workloads[ref].labels) for ref, noun in nouns.items() if ref in workloads]
    if vmi is not None:
        labelled.append(("its VMI", vmi.labels))
    elif pod is not None:
        labelled.append(("the pod", pod.labels))
    for noun, labels in labelled:
        if labels.get(DO_NOT_MOVE, "false") != "false":
            return Obstacle("do_not_move", f"{noun} has the label {DO_NOT_MOVE}")
    return None


def node_not_ready(node: str) -> Obstacle:
    text = f"its node {node} is NotReady: wait until the node is Ready, or fence it"
    return Obstacle("node_not_ready", text)


def movable_instances(
    snapshot: Snapshot, wanted: InstanceSelection, *, apply_pending_changes: bool = False
) -> tuple[MovableInstance, ...]:
    """The selected instances that have a pod. Those with an unreadable workload are left out."""
    with collector_paused():
        reader = MovableReader(snapshot, apply_pending_changes)
        movable = []
        for instance in instances(snapshot, wanted.all_namespaces):
            ref, pod = instance.workload, instance.pod
            if ref is None or pod is None or (wanted.workloads and instance not in wanted):
                continue
            workload = snapshot.workloads_by_ref.get(ref)
            if workload is not None or ref == instance.ref:
                movable.append(MovableInstance(instance, pod, workload, reader))
        return tuple(movable)


class MovableReader:
    """What the movable instances of one snapshot are read with."""

    def __init__(self, snapshot: Snapshot, apply_pending_changes: bool) -> None:
        self.snapshot = snapshot
        self.apply_pending_changes = apply_pending_changes
        self.declared = snapshot.derived(DeclaredReader)
        self.comparison = snapshot.derived(DriftComparison)

    @cached_property
    def vms_of_pools(self) -> t.Mapping[str, t.Sequence[Workload]]:
        """The VMs of each pool, by the uid of the pool."""
        vms: dict[str, list[Workload]] = {}
        for vm in self.snapshot.workloads:
            if vm.owner is not None and vm.owner.kind == POOL.name:
                vms.setdefault(vm.owner.uid, []).append(vm)
        return vms

    def vm_of(self, instance: Instance, workload: Workload | None) -> Workload | None:
        """The VirtualMachine of an instance of `workload`."""
        if workload is None or instance.vmi is None or workload.ref.kind != POOL.name:
            has_vm = workload is not None and workload.ref.kind == VIRTUAL_MACHINE.name
            return workload if has_vm else None
        return vm_of(instance.vmi, self.snapshot.workloads_by_ref)
