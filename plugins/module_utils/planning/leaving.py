# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Placed pods that go one by one, while others look for places: those whose going matters.

Pure. A drain evicts pod by pod, and what comes after one is placed while the next one still stands.
A pod that stands closes nodes to others, so that it may as well be gone at once: whoever finds a
place before finds it after, too. But for two filters: a spread constraint counts it, and affinity to
it opens nodes. Who is looked at by one of these stands until its turn has come.
"""

from __future__ import annotations

import typing as t
from dataclasses import dataclass, replace

from ..model.kinds import MACHINE_INSTANCE
from ..model.objects import Pod
from ..scheduling.candidate import Candidate
from ..scheduling.index import Index, pod_key
from ..scheduling.matching import Match
from ..scheduling.spread import SpreadCount


@dataclass(frozen=True, slots=True, eq=False)
class Leaver:
    """`forms` is what stands of a pod on its node, one after the other: a spread constraint does not
    count what is terminating, affinity does. None is nothing.

    `seeker` is the number of the one that comes after it. That one is made when the pod terminates,
    or, if `late`, when it has its last form. `lingers`: it is there from the start instead, as the
    target of a live migration, and the pod goes when it has a place.
    """

    key: str
    node: str
    forms: tuple[Pod | None, ...]
    seeker: int | None = None
    late: bool = False
    lingers: bool = False

    @property
    def last(self) -> int:
        return len(self.forms) - 1

    def is_made(self, form: int) -> bool:
        """Whether the seeker has been made when this much is left of the pod."""
        stands = self.forms[form]
        return form == self.last or (stands is not None and stands.terminating and not self.late)


class Minding:
    """What the filters of some candidates look at, where standing pods could open nodes."""

    def __init__(self, index: Index, candidates: t.Iterable[Candidate]) -> None:
        self._index = index
        self._near: set[int] = set()
        self._spread: set[tuple[Match, SpreadCount]] = set()
        for candidate in candidates:
            together = candidate.spec.rules.together
            if together is not None and together.match is not None:
                self._near.add(id(together.match))
            for constraint in candidate.constraints:
                if constraint.match is not None and constraint.tally is not None:
                    self._spread.add((constraint.match, constraint.tally))

    def __bool__(self) -> bool:
        return bool(self._near or self._spread)

    def ended(self, pod: Pod, seeker: int | None, late: bool) -> Leaver | None:
        """A pod that ends. The index has it in its last form, or not at all."""
        key = pod_key(pod)
        left = self._index.pod(key) if key in self._index else None
        counts, near = self._looked_at(pod, pod.node_name)
        forms: list[Pod | None] = [pod] if counts else []
        if near and left is None:
            forms.append(replace(pod, terminating=True))
        forms.append(left)
        if len(forms) == 1:
            return None
        return Leaver(key, pod.node_name, tuple(forms), seeker, late)

    def source(self, key: str, seeker: int) -> Leaver | None:
        """A pod that goes when its seeker has a place. The source of a live migration has ended
        then, any other terminates."""
        pod, node = self._index.pod(key), self._index.node_of(key)
        counts, near = self._looked_at(pod, node)
        if not counts and not near:
            return None
        ends = (
            counts and near and not (pod.owner is not None and pod.owner.kind == MACHINE_INSTANCE)
        )
        between = (replace(pod, terminating=True),) if ends else ()
        return Leaver(key, node, (pod, *between, None), seeker, lingers=True)

    def concerns(self, pod: Pod) -> bool:
        """Whether affinity is to a pod, or a spread constraint counts it somewhere."""
        matches = {id(match) for match in self._index.candidate(pod).matches}
        counting = {id(match) for match, _tally in self._spread}
        return not matches.isdisjoint(self._near | counting)

    def any_near(self, pods: t.Iterable[Pod]) -> bool:
        """Whether affinity is to one of these placed pods."""
        return any(self._looked_at(pod, pod.node_name)[1] for pod in pods)

    def _looked_at(self, pod: Pod, node: str) -> tuple[bool, bool]:
        """Whether a spread constraint counts a pod on a node, and whether affinity is to it."""
        matches = {id(match) for match in self._index.candidate(pod).matches}
        n = self._index.table.numbers[node]
        counts = not pod.terminating and any(
            id(match) in matches and tally.eligible.flags[n] for match, tally in self._spread
        )
        return counts, not self._near.isdisjoint(matches)
