# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which workloads and pods of a cluster is a rule about: its members and its targets?"""

from __future__ import annotations

import typing as t
from collections import defaultdict
from dataclasses import dataclass

from ..kubevirt.instances import pod_workload
from ..model.findings import InputError
from ..model.kinds import VMI
from ..model.objects import Labels, Pod, Ref
from ..model.rule import KeepApart, KeepTogether, PodSelector, Rule, Target, WorkloadSelector
from ..model.snapshot import Snapshot, Unreadable, Vmi, Workload
from ..view.selection import WorkloadLookup
from ..view.view import ClusterView


@dataclass(frozen=True)
class Inventory:
    """The tables of a cluster, with what runs of each workload. VMIs and pods are those that have not
    ended."""

    tables: ClusterView
    vmis: t.Mapping[str, tuple[Vmi, ...]]
    """Uid of a workload to the VMIs that it owns."""
    plain_pods: t.Mapping[Ref, tuple[Pod, ...]]
    pods: t.Mapping[str, tuple[Pod, ...]]
    """Namespace to pods."""

    @classmethod
    def of(cls, snapshot: Snapshot) -> Inventory:
        vmis: dict[str, list[Vmi]] = defaultdict(list)
        for vmi in snapshot.vmis:
            if vmi.owner is not None and not vmi.finished:
                vmis[vmi.owner.uid].append(vmi)
        plain: dict[Ref, list[Pod]] = defaultdict(list)
        pods: dict[str, list[Pod]] = defaultdict(list)
        for pod in snapshot.pods:
            if pod.finished:
                continue
            pods[pod.namespace].append(pod)
            if pod.owner is None or pod.owner.kind != VMI:
                plain[pod_workload(pod, snapshot.controllers)].append(pod)
        return cls(ClusterView(snapshot), _frozen(vmis), _frozen(plain), _frozen(pods))

    @property
    def snapshot(self) -> Snapshot:
        return self.tables.snapshot

    @property
    def workloads(self) -> t.Mapping[Ref, Workload]:
        return self.tables.workloads

    @property
    def namespaces(self) -> t.Collection[str]:
        return self.tables.namespaces.keys()

    def vmis_of(self, workload: Workload) -> tuple[Vmi, ...]:
        return self.vmis.get(workload.uid, ())

    def pods_of(self, workload: Workload) -> tuple[Pod, ...]:
        """Every pod of the workload that has not ended, migration targets too."""
        if not workload.kind.virtual_machines:
            return self.plain_pods.get(workload.ref, ())
        return tuple(
            pod
            for vmi in self.vmis_of(workload)
            for pod in self.tables.launcher_pods.get(vmi.uid, ())
        )

    def gap(self, resource: str, namespace: str) -> Unreadable | None:
        """Why a list of the namespace could not be read, if that is so."""
        return self.snapshot.why_unreadable(resource, namespace)


_Key = t.TypeVar("_Key")
_Item = t.TypeVar("_Item")


def _frozen(groups: t.Mapping[_Key, list[_Item]]) -> dict[_Key, tuple[_Item, ...]]:
    return {key: tuple(items) for key, items in groups.items()}


@dataclass(frozen=True)
class Members:
    """Workloads that a reference leads to. `labels` are those that chose them, None if names did."""

    workloads: tuple[Workload, ...]
    labels: Labels | None = None


@dataclass(frozen=True)
class ResolvedTarget:
    """One target of a rule: workloads of one namespace, or pods of one namespace by labels."""

    namespace: str
    members: Members | None = None
    pods: Labels | None = None


@dataclass(frozen=True)
class Resolved:
    rule: Rule
    members: Members
    targets: tuple[ResolvedTarget, ...] = ()


def resolve(rule: Rule, inventory: Inventory, faults: list[InputError]) -> Resolved:
    """The rule with its workloads and targets; what cannot be found is added to `faults`."""
    groups = [
        _members(reference, inventory, f"{rule.where}, workloads[{index}]", faults)
        for index, reference in enumerate(rule.workloads)
    ]
    targets = [
        target
        for where, named in targets_of(rule)
        for target in _resolved_targets(named, inventory, f"{rule.where}, {where}", faults)
    ]
    return Resolved(rule, _union(groups), tuple(targets))


def targets_of(rule: Rule) -> list[tuple[str, Target]]:
    """The targets that the rule type names beside the workloads of the rule, with their options."""
    rule_type = rule.rule_type
    if isinstance(rule_type, KeepApart):
        pods = [target for target in rule_type.targets if isinstance(target, PodSelector)]
        workloads = [target for target in rule_type.targets if target not in pods]
        return [*_numbered("keep_apart.from", workloads), *_numbered("keep_apart.pods", pods)]
    if isinstance(rule_type, KeepTogether) and rule_type.target is not None:
        option = "pods" if isinstance(rule_type.target, PodSelector) else "with"
        return [(f"keep_together.{option}", rule_type.target)]
    return []


def _numbered(option: str, targets: t.Sequence[Target]) -> list[tuple[str, Target]]:
    """The option of each target: with the number in its list if there are several."""
    if len(targets) == 1:
        return [(option, targets[0])]
    return [(f"{option}[{number}]", target) for number, target in enumerate(targets)]


def _resolved_targets(
    target: Target, inventory: Inventory, where: str, faults: list[InputError]
) -> list[ResolvedTarget]:
    if isinstance(target, PodSelector):
        for namespace in target.namespaces:
            WorkloadLookup(inventory.tables, faults).check_namespace(namespace, where)
        return [ResolvedTarget(namespace, pods=target.labels) for namespace in target.namespaces]
    members = _members(target, inventory, where, faults)
    return [ResolvedTarget(target.namespace, members)]


def _members(
    reference: WorkloadSelector, inventory: Inventory, where: str, faults: list[InputError]
) -> Members:
    lookup = WorkloadLookup(inventory.tables, faults)
    available = not lookup.unavailable(reference.kind, reference.namespace)
    if available and not lookup.check_namespace(reference.namespace, where):
        return Members(())
    workloads = (inventory.workloads[ref] for ref in lookup.select(reference, where))
    return Members(tuple(workloads), reference.labels)


def _union(groups: t.Sequence[Members]) -> Members:
    """All members once. The labels are kept where all were chosen by the same ones."""
    workloads = {workload.ref: workload for group in groups for workload in group.workloads}
    first = groups[0].labels if groups else None
    same = all(group.labels == first for group in groups)
    return Members(tuple(workloads.values()), first if same else None)
