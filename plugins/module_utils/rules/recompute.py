# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""A write once more, for an object that has changed since the snapshot."""

from __future__ import annotations

import typing as t

from ..model.finding import Fault, Refused
from ..model.objects import Labels, Ref
from ..model.pointer import JSON
from ..model.rule import Rule
from ..model.snapshot import Workload
from ..model.write import Write
from .change import Change
from .claims import Wanted
from .conflicts import is_refused
from .labels import labels_of
from .merge import merge


class Recompute:
    """Calling it gives the write for a freshly read manifest, None where nothing is left to do.

    What is wanted stays as it was planned; what stands there, and who owns it, is read anew.
    Raises Refused where the terms cannot stand beside what is there now, UnreadableAnnotation
    where our annotation has been damaged.
    """

    def __init__(
        self, wanted: t.Mapping[Ref, Wanted], changes: t.Iterable[Change], rules: t.Sequence[Rule]
    ) -> None:
        self._wanted = wanted
        self._relabels = {each.target: each for change in changes for each in change.relabels}
        self._rules = rules

    def __call__(self, write: Write, manifest: JSON) -> Write | None:
        if write.target in self._relabels:
            return self._relabelled(write, labels_of(manifest))
        workload = Workload(write.target, manifest["metadata"]["uid"], manifest)
        merged = merge(workload, self._wanted[write.target])
        faults = [
            Fault(f"{write.target}, rule {finding.rule}", f"{finding.name}: {finding.why}")
            for finding in merged.findings
            if is_refused(finding, self._rules)
        ]
        if faults:
            raise Refused(faults)
        return merged.write

    def _relabelled(self, write: Write, labels: Labels) -> Write | None:
        relabel = self._relabels[write.target]
        conflicts = relabel.conflicts(labels)
        if conflicts:
            raise Refused(
                [
                    Fault(str(write.target), f"has the label {key}={seen}, and not {wanted}")
                    for key, seen, wanted in conflicts
                ]
            )
        return relabel.again(write, labels)
