# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""A snapshot with writes applied in memory. What controllers do then: see `forecast/change`."""

from __future__ import annotations

import typing as t
from dataclasses import replace

from .json_pointer import JSON
from .kinds import FORECAST_KINDS
from .objects import Pod, Ref
from .snapshot import Snapshot, Vmi, Workload
from .write import Write, patched


def written(snapshot: Snapshot, writes: t.Sequence[Write]) -> Snapshot:
    """The snapshot with the writes applied in their order, to workloads and to labels of pods and VMIs.

    Raises KeyError for a workload that is not there, ValueError for a write that does not fit its
    object.
    """
    by_target: dict[Ref, list[Write]] = {}
    for write in writes:
        by_target.setdefault(write.target, []).append(write)
    if not by_target:
        return snapshot
    missing = {ref for ref in by_target if ref.kind in FORECAST_KINDS}
    missing -= {workload.ref for workload in snapshot.workloads}
    if missing:
        raise KeyError(f"there is no {', '.join(map(str, sorted(missing)))}")
    return replace(
        snapshot,
        workloads=tuple(
            _patched(workload, by_target.get(workload.ref)) for workload in snapshot.workloads
        ),
        pods=tuple(_relabeled(pod, by_target.get(pod.ref)) for pod in snapshot.pods),
        vmis=tuple(_relabeled(vmi, by_target.get(vmi.ref)) for vmi in snapshot.vmis),
    )


def touched(before: Snapshot, after: Snapshot) -> frozenset[Ref]:
    """The workloads whose templates differ between two snapshots."""
    previous = {workload.ref: workload.manifest for workload in before.workloads}
    return frozenset(
        workload.ref
        for workload in after.workloads
        if workload.manifest is not previous.get(workload.ref)
        and (
            workload.ref not in previous
            or _template(workload) != _template_of(workload, previous[workload.ref])
        )
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


_Labeled = t.TypeVar("_Labeled", Pod, Vmi)


def _relabeled(labeled: _Labeled, writes: t.Sequence[Write] | None) -> _Labeled:
    """A pod or VMI with its labels after the writes; no other field of it is written."""
    if not writes:
        return labeled
    labels: JSON = {"metadata": {"labels": dict(labeled.labels)}}
    for write in writes:
        operations = (x for x in write.operations if x.pointer.parts[:2] == ("metadata", "labels"))
        labels = patched(labels, operations)
    return replace(labeled, labels=labels["metadata"].get("labels") or {})
