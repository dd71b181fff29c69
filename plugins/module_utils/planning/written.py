# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The objects of a snapshot as writes would leave them. What then comes of it is what_if's."""

from __future__ import annotations

import typing as t
from dataclasses import replace

from ..model.kinds import DEPLOYMENT, REPLICA_SET, STATEFUL_SET, VIRTUAL_MACHINE
from ..model.objects import Pod, Ref
from ..model.pointer import JSON
from ..model.snapshot import MachineInstance, Snapshot, Workload
from ..model.write import Write
from .json_patch import patched


def written(snapshot: Snapshot, writes: t.Sequence[Write]) -> Snapshot:
    """Manifests with the writes made, in their order; labels of pods and machines, too.

    Raises KeyError for a workload that is not there, ValueError for a write that does not fit its
    object.
    """
    by_target: dict[Ref, list[Write]] = {}
    for write in writes:
        by_target.setdefault(write.target, []).append(write)
    if not by_target:
        return snapshot
    lost = {ref for ref in by_target if ref.kind in _KINDS_WITH_TEMPLATE}
    lost -= {found.ref for found in snapshot.workloads}
    if lost:
        raise KeyError(f"there is no {', '.join(map(str, sorted(lost)))}")
    return replace(
        snapshot,
        workloads=tuple(_patched(found, by_target.get(found.ref)) for found in snapshot.workloads),
        pods=tuple(_relabelled(pod, by_target.get(pod.ref)) for pod in snapshot.pods),
        machine_instances=tuple(
            _relabelled(vmi, by_target.get(vmi.ref)) for vmi in snapshot.machine_instances
        ),
    )


def touched(before: Snapshot, after: Snapshot) -> frozenset[Ref]:
    """The workloads whose templates differ between two snapshots."""
    was = {found.ref: found.manifest for found in before.workloads}
    return frozenset(
        found.ref
        for found in after.workloads
        if found.manifest is not was.get(found.ref)
        and (found.ref not in was or _template(found) != _template_of(found, was[found.ref]))
    )


def _template(workload: Workload) -> JSON:
    return _template_of(workload, workload.manifest)


def _template_of(workload: Workload, manifest: t.Mapping[str, JSON]) -> JSON:
    return workload.kind.template.read(manifest, None)


def _patched(workload: Workload, writes: t.Sequence[Write] | None) -> Workload:
    for write in writes or ():
        operations = (*write.tests, *write.operations)
        workload = replace(workload, manifest=patched(workload.manifest, operations))
    return workload


_Labelled = t.TypeVar("_Labelled", Pod, MachineInstance)


def _relabelled(found: _Labelled, writes: t.Sequence[Write] | None) -> _Labelled:
    """A pod or machine with the labels that the writes leave it; nothing else of it is written."""
    if not writes:
        return found
    labels: JSON = {"metadata": {"labels": dict(found.labels)}}
    for write in writes:
        kept = (x for x in write.operations if x.pointer.parts[:2] == ("metadata", "labels"))
        labels = patched(labels, kept)
    return replace(found, labels=labels["metadata"].get("labels") or {})


_KINDS_WITH_TEMPLATE = tuple(
    kind.name for kind in (VIRTUAL_MACHINE, DEPLOYMENT, STATEFUL_SET, REPLICA_SET)
)
