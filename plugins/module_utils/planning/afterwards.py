# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Whether the rules that are written for machines are still obeyed once everybody has a place.

Pure. The scheduler asks only when it places a pod. Whoever leaves or comes later may break what was
obeyed then: one that others must be near, or one that a spread counts.
"""

from __future__ import annotations

import typing as t

from ..model.objects import Ref
from ..model.snapshot import Snapshot
from ..scheduling.index import Index, pod_key
from .changed_machines import ChangedMachines
from .fill import Run
from .not_renewed import looked_at, spread_beside
from .seekers import Sought


class Afterwards:
    """`sought` find places while the machines in `changed` move. `to_obey` are the workloads whose
    machines are to obey their rules in the end."""

    def __init__(
        self,
        after: Snapshot,
        changed: ChangedMachines,
        sought: t.Sequence[Sought],
        to_obey: t.Container[Ref],
    ) -> None:
        self._changed = changed
        self._sought = sought
        self._machines = [x for x in sought if x.vmi is not None and x.workload in to_obey]
        sources = (found.source for found in sought if found.seeker.source is not None)
        self._leaving = [*(pod for pod in sources if pod is not None), *after.ending]

    def may_break(self, index: Index) -> bool:
        """Whether a rule that is written may be broken by who comes or leaves, though all who come
        are placed by the rules."""
        declared = [x.wanted for x in self._changed.candidates]
        declared += [x.seeker.pod for x in self._machines]
        coming = [x.seeker.pod for x in self._sought]
        return looked_at(index, declared, self._leaving) or spread_beside(index, declared, coming)

    def is_well(self, run: Run) -> bool:
        """Whether a course that comes after the planned moves places all, with all rules obeyed."""
        where = {number: node for number, node in run if node}
        found = dict(enumerate(self._sought))
        if any(each.seeker.goal and n not in where for n, each in found.items()):
            return False
        sources = (found[n].seeker.source for n in where)
        return self._changed.obeyed_with(
            [key for key in sources if key is not None],
            [(found[n].seeker.pod, node) for n, node in where.items()],
            [pod_key(x.seeker.pod) for x in self._machines],
        )
