# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which instances have a pod: as they run, as their workloads declare them, and by which methods they may move.

Judge, planner, rollout, drain and forecast read the same instances, which are made once for a snapshot. Of most
instances they need only that what is declared is enforced. All else about an instance is read when it is first
asked for.
"""

from __future__ import annotations

import contextlib
import typing as t
from dataclasses import dataclass, replace
from functools import cached_property

from ..kubevirt.changed_pods import as_restarted, changed_by_migration, with_staged_model
from ..kubevirt.instances import is_of, owner_of
from ..kubevirt.moving import (
    MIGRATION,
    MoveOptions,
    Ways,
    can_migrate,
    move_options,
    takes_effect,
)
from ..kubevirt.next_pod import migration_target_pod, pod_as_declared, without_migration_cpu
from ..kubevirt.pools import changed_by_others
from ..model.gc import collector_paused
from ..model.objects import Pod, Ref
from ..model.obstacle import Obstacle
from ..model.plan import Method
from ..model.snapshot import Instance, Snapshot, Workload
from ..scheduler.framework import pod_key
from ..scheduler.node_affinity import allows_only
from ..view.view import ClusterView, view_of
from .declared import Declared, DeclaredReader
from .drift import Drift, DriftComparison, TemplateMatcher

if t.TYPE_CHECKING:
    from ..scheduler.index import Index


class DeclaredInstance:
    """An instance in its pod, with what its workload declares. `workload` is None for one that no controller recreates,
    and for one whose workload could not be read."""

    def __init__(
        self, instance: Instance, pod: Pod, workload: Workload | None, reader: InstanceReader
    ) -> None:
        self.instance = instance
        self.pod = pod
        self.workload = workload
        self.uid = instance.uid
        self.key = pod_key(pod)
        self.node = pod.node_name
        self._reader = reader
        self._move_options: dict[bool, MoveOptions] = {}
        if workload is None or reader.templates.matches(workload.template, pod):
            self.declared_pod = pod

    @cached_property
    def declared_pod(self) -> Pod:
        """The running pod (name, uid, node) as its controller would make it now; the very `pod` where that is how it
        runs. It lacks what only admission or a migration has added to the running pod."""
        declared = self.declared
        if declared is None:
            return self.pod
        return pod_as_declared(self.pod, self.instance.vmi, declared.placement, declared.labels)

    @property
    def judged_pod(self) -> Pod:
        """The pod by which the place of the instance is judged: the running one with all that was added to it, unless
        something that is declared is not enforced."""
        return self.pod if self.drift is None else self.declared_pod

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
        return self.effect(labels, stays=self.pinned)

    def effect(self, labels: t.Collection[str], *, stays: bool) -> str:
        """What has to happen before the pod has the terms that are declared, and these labels of the template. `stays`:
        no live migration has a target."""
        vmi, platform = self.instance.vmi, self._reader.platform
        return takes_effect(self.workload, vmi, platform, labels=labels, pinned=stays, vm=self.vm)

    @cached_property
    def pinned(self) -> bool:
        """Whether what its workload requires of nodes allows only the one that it runs on."""
        return (
            self.declared is not None
            and self.instance.vmi is not None
            and allows_only(self.declared.placement, self.node, self._reader.nodes.values())
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

    def move_options(self, *, apply_pending_changes: bool = False) -> MoveOptions:
        """The methods by which it can be moved; also those that would apply more than its placement, where that is
        allowed."""
        options = self._move_options.get(apply_pending_changes)
        if options is None:
            options = self._move_options[apply_pending_changes] = move_options(
                self.workload,
                self.ways,
                apply_pending_changes=apply_pending_changes,
                vm_changed=self._vm_changed,
            )
        return options

    @property
    def _vm_changed(self) -> bool:
        """Whether it lacks the template of its pool, since something else has changed its VirtualMachine."""
        pool, vm = self.workload, self.vm
        if pool is None or vm is None or not pool.kind.makes_vms:
            return False
        return changed_by_others(pool, vm, self._reader.vms_of_pools.get(pool.uid, ()))

    @cached_property
    def ways(self) -> Ways:
        """Its ways to leave its node."""
        vmi, reader = self.instance.vmi, self._reader
        owner = self.workload if vmi is None else owner_of(vmi, reader.workloads)
        return Ways(owner, vmi, self.pod, reader.nodes.get(self.node), reader.platform)

    @property
    def vm(self) -> Workload | None:
        """The VirtualMachine that restarts it: its workload, or one of that pool. None where none does."""
        return self.ways.owner if self.ways.stop is None else None

    @cached_property
    def can_migrate(self) -> bool:
        """Method.MIGRATE is among the methods; it costs less to ask than all of them."""
        return can_migrate(self.workload, self.ways)

    @cached_property
    def migration_target(self) -> Pod | None:
        """The pod of a live migration, None where there cannot be one."""
        vmi = self.instance.vmi
        if vmi is None or self.declared is None or not self.can_migrate:
            return None
        source = self._reader.nodes.get(self.node)
        target = migration_target_pod(self.pod, vmi, self.declared.placement, source)
        return changed_by_migration(target, vmi, self._reader.platform)[0]

    def next_pod(self, method: Method) -> Pod:
        """The pod that the scheduler would have to place for this move."""
        if method is Method.MIGRATE and self.migration_target is not None:
            return self.migration_target
        return self._replacement

    @cached_property
    def _replacement(self) -> Pod:
        pod, vmi = self.declared_pod, self.instance.vmi
        platform = self._reader.platform
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


def movable_instances(
    snapshot: Snapshot, wanted: InstanceSelection
) -> tuple[DeclaredInstance, ...]:
    """The selected instances that have a pod. Those with an unreadable workload are left out."""
    chosen = declared_instances(snapshot, wanted)
    return tuple(
        x for x in chosen if x.workload is not None or x.instance.workload == x.instance.ref
    )


def declared_instances(
    snapshot: Snapshot, wanted: InstanceSelection | None = None
) -> tuple[DeclaredInstance, ...]:
    """The instances that have a pod, with a node or without: all (None), or those of a selection."""
    reader = snapshot.derived(InstanceReader)
    with collector_paused():
        return tuple(
            reader.read(x, x.pod)
            for x in view_of(snapshot).instances
            if x.pod is not None and (wanted is None or x in wanted)
        )


class InstanceReader:
    """Makes the instances of one snapshot, each once. It does not refer to the snapshot (see `Snapshot.derived`)."""

    def __init__(self, snapshot: Snapshot) -> None:
        self.platform = snapshot.platform
        self.nodes = snapshot.nodes_by_name
        self.workloads = snapshot.workloads_by_ref
        self.declared = snapshot.derived(DeclaredReader)
        self.comparison = snapshot.derived(DriftComparison)
        self.templates = TemplateMatcher(snapshot.platform)
        self._instances: dict[tuple[str, str], DeclaredInstance] = {}

    def read(self, instance: Instance, pod: Pod) -> DeclaredInstance:
        """An instance in its pod."""
        key = instance.uid, pod_key(pod)
        known = self._instances.get(key)
        if known is None:
            workload = self.workloads.get(instance.workload) if instance.workload else None
            known = self._instances[key] = DeclaredInstance(instance, pod, workload, self)
        return known

    @cached_property
    def vms_of_pools(self) -> t.Mapping[str, t.Sequence[Workload]]:
        """The VMs of each pool, by the uid of the pool."""
        vms: dict[str, list[Workload]] = {}
        for vm in self.workloads.values():
            if vm.pool is not None:
                vms.setdefault(vm.pool.uid, []).append(vm)
        return vms


@dataclass(frozen=True)
class JudgedInstances:
    """`placed` run on a node. `waiting` do not: unbound pods, VMIs without a pod. `targets` are pods
    that a live migration makes beside the one that the guest runs in, or has left behind."""

    placed: tuple[DeclaredInstance, ...]
    waiting: tuple[Instance, ...]
    targets: tuple[tuple[Instance, Pod], ...]

    @classmethod
    def of(cls, view: ClusterView) -> JudgedInstances:
        """All instances of a cluster."""
        nodes, launchers = view.snapshot.nodes_by_name, view.launcher_pods
        return cls(
            tuple(x for x in declared_instances(view.snapshot) if x.node in nodes),
            tuple(x for x in view.instances if x.pod is None or x.pod.node_name not in nodes),
            tuple(
                (instance, pod)
                for instance in view.instances
                if instance.vmi is not None and len(launchers.get(instance.uid, ())) > 1
                for pod in launchers[instance.uid]
                if instance.pod is not None and pod is not instance.pod
            ),
        )


@contextlib.contextmanager
def declared_cluster(index: Index, instances: JudgedInstances) -> t.Iterator[None]:
    """While it lasts, every instance is on its node as its workload declares it. Pods that
    migrations make and leave behind are not there: an instance does not compete with itself, and
    violates nothing where it no longer runs."""
    with contextlib.ExitStack() as reverts:
        for _instance, pod in instances.targets:
            if pod_key(pod) in index:
                node = index.node_of(pod_key(pod))
                reverts.callback(index.place, index.remove(pod_key(pod)), node)
        for instance in instances.placed:
            if instance.judged_pod is not instance.pod:
                reverts.callback(index.place, index.remove(instance.key), instance.node)
                index.place(instance.judged_pod, instance.node)
                reverts.callback(index.remove, instance.key)
        yield
