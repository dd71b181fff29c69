# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""A snapshot of a cluster as lint sees it."""

from __future__ import annotations

import typing as t
from collections import defaultdict

from ..model.objects import Ref
from ..model.snapshot import MachineInstance, Snapshot
from ..model.topology import Topology
from ..verdicts.declared import Reader
from .scene import Scene, Subject, subject_of


def scene_of(
    snapshot: Snapshot,
    topology: Topology,
    *,
    workloads: t.Collection[Ref] | None = None,
    namespaces: t.Collection[str] | None = None,
) -> Scene:
    """The workloads of a snapshot with their machines; machines of a pool are the pool's."""
    everybody = tuple(_subjects(snapshot))
    chosen = None if workloads is None else frozenset(workloads)
    unread = {gap.resource.partition(".")[0] for gap in snapshot.unreadable}
    return Scene(
        subjects=tuple(
            subject
            for subject in everybody
            if (chosen is None or subject.ref in chosen)
            and (namespaces is None or subject.ref.namespace in namespaces)
        ),
        topology=topology,
        nodes=None if "nodes" in unread else snapshot.nodes,
        pods=None if "pods" in unread else snapshot.pods,
        namespaces=None if "namespaces" in unread else snapshot.namespaces,
        platform=snapshot.platform,
        all_subjects=everybody,
        unreadable=snapshot.unreadable,
    )


def _subjects(snapshot: Snapshot) -> t.Iterator[Subject]:
    reader = Reader()
    machines: dict[str, list[MachineInstance]] = defaultdict(list)
    for vmi in snapshot.machine_instances:
        if vmi.owner is not None and vmi.phase not in ("Succeeded", "Failed"):
            machines[vmi.owner.uid].append(vmi)
    for workload in snapshot.workloads:
        if workload.owner is None or workload.owner.kind != "VirtualMachinePool":
            yield subject_of(workload, reader, tuple(machines.get(workload.uid, ())))
