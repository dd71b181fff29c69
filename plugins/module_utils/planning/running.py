# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The instances of some namespaces that have a pod, with their workloads.

Pure. The same answers as verdicts.instances; what is plain (one pod, on the machine's node, of a
machine that is in no pool) is seen at once, so that tens of thousands cost little.
"""

from __future__ import annotations

import typing as t

from ..model.kinds import MACHINE_INSTANCE
from ..model.objects import Pod, Ref
from ..model.snapshot import Instance, MachineInstance, Snapshot, Workload
from ..verdicts.instances import ENDED, active_pod, machine_workload, pod_workload

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
                if owner is None or owner.kind != MACHINE_INSTANCE:
                    self._others.append(pod)
                elif self._launcher.setdefault(owner.uid, pod) is not pod:
                    self._more.setdefault(owner.uid, []).append(pod)

    def found(self) -> t.Iterator[Found]:
        """What `instance` makes an Instance of, where one is needed."""
        namespaces, launcher, more = self._namespaces, self._launcher, self._more
        for vmi in self._snapshot.machine_instances:
            if vmi.terminating or vmi.phase in ENDED or vmi.ref.namespace not in namespaces:
                continue
            uid = vmi.uid
            pod = launcher.get(uid)
            if pod is None:
                continue
            if not pod.node_name or pod.node_name != vmi.node_name or uid in more:
                pod = active_pod(vmi, [pod, *more.get(uid, ())])
            if pod is not None:
                workload = self._plain(vmi)
                if workload is not None:
                    yield vmi, workload.ref, workload, pod
                else:
                    ref = machine_workload(vmi, self._refs())
                    yield vmi, ref, self._refs().get(ref), pod
        for pod in self._others:
            if not pod.terminating:
                ref = pod_workload(pod, self._snapshot.controllers)
                yield None, ref, self._refs().get(ref), pod

    def _plain(self, vmi: MachineInstance) -> Workload | None:
        """The owner of a machine, where that is its workload, too."""
        owner = vmi.owner
        if owner is None:
            return None
        found = self._by_uid.get(owner.uid)
        if found is None or found.owner is not None:
            return None
        ref = found.ref
        return found if ref.name == owner.name and ref.kind == owner.kind else None

    def _refs(self) -> dict[Ref, Workload]:
        if self._by_ref is None:
            self._by_ref = {found.ref: found for found in self._snapshot.workloads}
        return self._by_ref


def instance(vmi: MachineInstance | None, workload: Ref, pod: Pod) -> Instance:
    """The instance that was found."""
    if vmi is None:
        return Instance(pod.ref, pod.uid, workload, pod)
    return Instance(vmi.ref, vmi.uid, workload, pod, vmi)
