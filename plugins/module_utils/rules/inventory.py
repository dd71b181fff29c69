# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""A snapshot, indexed by what resolving rules asks it: workloads, what runs of them, their pods."""

from __future__ import annotations

import typing as t
from collections import defaultdict
from dataclasses import dataclass

from ..model.kinds import KINDS
from ..model.objects import Pod, Ref
from ..model.snapshot import MachineInstance, Snapshot, Unreadable, Workload

CREATED_BY = "kubevirt.io/created-by"
"""Label of a launcher pod: the uid of its VMI (KubeVirt pkg/virt-controller/services/template.go)."""


@dataclass(frozen=True)
class Inventory:
    """Machines and pods are those that have not ended; pods are by the uid of their VMI, or by
    the Deployment that made them."""

    snapshot: Snapshot
    workloads: t.Mapping[Ref, Workload]
    machines: t.Mapping[str, tuple[MachineInstance, ...]]
    """Uid of a workload to the VMIs that it owns."""
    launchers: t.Mapping[str, tuple[Pod, ...]]
    plain_pods: t.Mapping[Ref, tuple[Pod, ...]]
    pods: t.Mapping[str, tuple[Pod, ...]]
    """Namespace to pods."""
    namespaces: frozenset[str]

    @classmethod
    def of(cls, snapshot: Snapshot) -> Inventory:
        machines: dict[str, list[MachineInstance]] = defaultdict(list)
        for vmi in snapshot.machine_instances:
            if vmi.owner is not None and vmi.phase not in ("Succeeded", "Failed"):
                machines[vmi.owner.uid].append(vmi)
        launchers: dict[str, list[Pod]] = defaultdict(list)
        plain: dict[Ref, list[Pod]] = defaultdict(list)
        pods: dict[str, list[Pod]] = defaultdict(list)
        for pod in snapshot.pods:
            if pod.finished:
                continue
            pods[pod.namespace].append(pod)
            if CREATED_BY in pod.labels:
                launchers[pod.labels[CREATED_BY]].append(pod)
            elif pod.owner is not None and pod.owner.uid in snapshot.controllers:
                plain[snapshot.controllers[pod.owner.uid]].append(pod)
        return cls(
            snapshot,
            {workload.ref: workload for workload in snapshot.workloads},
            _frozen(machines),
            _frozen(launchers),
            _frozen(plain),
            _frozen(pods),
            frozenset(namespace.name for namespace in snapshot.namespaces),
        )

    def machines_of(self, workload: Workload) -> tuple[MachineInstance, ...]:
        return self.machines.get(workload.uid, ())

    def pods_of(self, workload: Workload) -> tuple[Pod, ...]:
        """Every pod of the workload that has not ended, migration targets too."""
        if not workload.kind.virtual_machines:
            return self.plain_pods.get(workload.ref, ())
        return tuple(
            pod for vmi in self.machines_of(workload) for pod in self.launchers.get(vmi.uid, ())
        )

    def gap(self, resource: str, namespace: str) -> Unreadable | None:
        """Why a list of the namespace could not be read, if that is so."""
        return self.snapshot.gap(resource, namespace)

    def gaps(self, resources: t.Iterable[str], namespace: str) -> tuple[Unreadable, ...]:
        found = (self.gap(resource, namespace) for resource in resources)
        return tuple(gap for gap in found if gap is not None)

    def named(self, kind: str, namespace: str) -> tuple[str, ...]:
        """Names of the workloads of a kind in a namespace."""
        return tuple(
            ref.name for ref in self.workloads if (ref.kind, ref.namespace) == (kind, namespace)
        )


def plural(kind: str) -> str:
    return KINDS[kind].plural


_Key = t.TypeVar("_Key")
_Item = t.TypeVar("_Item")


def _frozen(groups: t.Mapping[_Key, list[_Item]]) -> dict[_Key, tuple[_Item, ...]]:
    return {key: tuple(items) for key, items in groups.items()}
