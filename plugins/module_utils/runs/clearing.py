# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""After a roll-out that ended well: what is effective now needs no way back.

Pure. A workload keeps its journal as long as one of its instances runs by terms of before, or none
runs at all: then nothing of it is effective yet.
"""

from __future__ import annotations

import typing as t

from ..model.kinds import KINDS
from ..model.names import JOURNAL, RULES
from ..model.objects import Ref
from ..model.pointer import JSON, Pointer
from ..model.snapshot import Workload
from ..model.write import Operation, Write
from ..planning.candidates import Candidate
from ..rules.slots import FIELDS

_ANNOTATIONS = Pointer(("metadata", "annotations"))


def clearing(candidates: t.Iterable[Candidate]) -> tuple[Write, ...]:
    """Take the journal off every workload all of whose instances run by its declared terms."""
    settled: dict[t.Any, tuple[Workload, bool]] = {}
    for found in candidates:
        if found.workload is None or JOURNAL not in found.workload.annotations:
            continue
        ref = found.workload.ref
        _workload, so_far = settled.get(ref, (found.workload, True))
        settled[ref] = found.workload, so_far and bool(found.node) and not found.outdated
    return tuple(_write(workload) for workload, effective in settled.values() if effective)


def journalled(candidates: t.Iterable[Candidate]) -> frozenset[Ref]:
    """The workloads that carry a journal."""
    return frozenset(
        found.workload.ref
        for found in candidates
        if found.workload is not None and JOURNAL in found.workload.annotations
    )


def cleared_again(write: Write, manifest: t.Mapping[str, JSON]) -> Write | None:
    """For a workload that was read again: the journal goes only if it, the rules and the terms are
    those that were seen. New terms leave the text of a journal as it is, and need it."""
    same = all(test.pointer.read(manifest, None) == test.value for test in write.tests)
    return write if same else None


def _write(workload: Workload) -> Write:
    spec = workload.kind.template / "spec"
    seen = (_ANNOTATIONS / JOURNAL, _ANNOTATIONS / RULES, *(spec / name for name in FIELDS))
    return Write(
        target=workload.ref,
        path=KINDS[workload.ref.kind].path(workload.ref.namespace, workload.ref.name),
        uid=workload.uid,
        tests=tuple(Operation("test", at, at.read(workload.manifest, None)) for at in seen),
        operations=(Operation("remove", _ANNOTATIONS / JOURNAL),),
        before={"journal": "kept"},
        after={"journal": "cleared"},
    )
