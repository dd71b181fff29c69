# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The instances of some namespaces that have a pod, with their workloads.

Pure. The same answers as verdicts.instances; what is plain (one pod, on the machine's node, of a
machine that is in no pool) is seen at once, so that tens of thousands cost little.
"""

from __future__ import annotations

import typing as t

from ..model.objects import Pod, Ref
from ..model.snapshot import Instance, MachineInstance, Snapshot, Workload
from ..verdicts.instances import ENDED, VMI, active_pod, machine_workload, pod_workload

Found = tuple["MachineInstance | None", Ref, "Workload | None", Pod]
"""The machine (None: a plain pod), what makes it, that object where it could be read, and the pod
that it runs in."""


class Running:
    """`namespaces`: an instance and its workload are in the same one."""

    def __init__(self, snapshot: Snapshot, namespaces: frozenset[str]) -> None:
        self._snapshot = snapshot
        self._namespaces = namespaces
        self._by_uid = {found.uid: found for found in snapshot.workloads}
        self._by_ref: dict[Ref, Workload] | None = None
        self._launcher: dict[str, Pod] = {}
        self._more: dict[str, list[Pod]] = {}
        self._others: list[Pod] = []
        for pod in snapshot.pods:
            if pod.namespace in namespaces and pod.phase not in ENDED:
                owner = pod.owner
                if owner is None or owner.kind != VMI:
                    self._others.append(pod)
                elif self._launcher.setdefault(owner.uid, pod) is not pod:
                    self._more.setdefault(owner.uid, []).append(pod)

    def found(self) -> t.Iterator[Found]:
        """What `instance` makes an Instance of, where one is needed."""
        for vmi in self._snapshot.machine_instances:
            if vmi.phase in ENDED or vmi.terminating or vmi.ref.namespace not in self._namespaces:
                continue
            pod = self._pod(vmi)
            if pod is not None:
                ref, workload = self._workload(vmi)
                yield vmi, ref, workload, pod
        for pod in self._others:
            if not pod.terminating:
                ref = pod_workload(pod, self._snapshot.controllers)
                yield None, ref, self._refs().get(ref), pod

    def _pod(self, vmi: MachineInstance) -> Pod | None:
        pod = self._launcher.get(vmi.uid)
        if pod is None:
            return None
        if pod.node_name and pod.node_name == vmi.node_name and vmi.uid not in self._more:
            return pod
        return active_pod(vmi, [pod, *self._more.get(vmi.uid, ())])

    def _workload(self, vmi: MachineInstance) -> tuple[Ref, Workload | None]:
        owner = vmi.owner
        found = self._by_uid.get(owner.uid) if owner is not None else None
        if found is not None and owner is not None and found.owner is None:
            ref = found.ref
            if ref.name == owner.name and ref.kind == owner.kind:
                return ref, found
        ref = machine_workload(vmi, self._refs())
        return ref, self._refs().get(ref)

    def _refs(self) -> dict[Ref, Workload]:
        if self._by_ref is None:
            self._by_ref = {found.ref: found for found in self._snapshot.workloads}
        return self._by_ref


def instance(vmi: MachineInstance | None, workload: Ref, pod: Pod) -> Instance:
    """The instance that was found."""
    if vmi is None:
        return Instance(pod.ref, pod.uid, workload, pod)
    return Instance(vmi.ref, vmi.uid, workload, pod, vmi)
