# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Machines that stay where they are and run by terms of before, though others are declared now.

Pure. The scheduler goes by what a pod runs with. So whoever looks for a place may get one beside such
a machine that its declared terms forbid: then a rule is broken that holds now.
"""

from __future__ import annotations

import typing as t
from dataclasses import replace

from ..model.objects import Pod
from ..scheduling.candidate import Candidate as Looked
from ..scheduling.index import Index
from .candidates import Candidate
from .leaving import Minding


class NotRenewed:
    """`found` are the machines. `index` has them as they run."""

    def __init__(self, found: t.Iterable[Candidate], index: Index) -> None:
        self._index = index
        self._machines = [each for each in found if each.wanted is not each.pod]
        self._declared = [index.candidate(each.wanted) for each in self._machines]

    def may_be_broken_by(self, pods: t.Iterable[Pod]) -> bool:
        """Whether a declared term that does not run yet looks at one of these pods, which does not
        obey the same term by itself."""
        running = (self._index.candidate(each.pod) for each in self._machines)
        machines = {
            (_kind(now), _kind(then)): (now, then)
            for now, then in zip(running, self._declared, strict=True)
        }
        return any(
            _keeps_away(now, then, seeker) or _spreads(then, seeker)
            for seeker in _kinds_of(self._index, pods)
            for now, then in machines.values()
        )

    def keeping_away(self, pods: t.Iterable[Pod]) -> list[Pod]:
        """`pods`, in which each such machine keeps away from others by both its terms."""
        both = {
            x.pod.uid: (*x.pod.placement.anti_affinity, *x.wanted.placement.anti_affinity)
            for x in self._machines
        }
        return [
            replace(pod, placement=replace(pod.placement, anti_affinity=both[pod.uid]))
            if pod.uid in both
            else pod
            for pod in pods
        ]


def _kinds_of(index: Index, pods: t.Iterable[Pod]) -> t.Collection[Looked]:
    """One of each kind."""
    return {_kind(each): each for each in map(index.candidate, pods)}.values()


def _kind(looked: Looked) -> t.Hashable:
    """What matters here of a pod: equal for those of which one answers for all."""
    constraints = frozenset(map(id, looked.constraints))
    return id(looked.spec), frozenset(map(id, looked.matches)), constraints


def _keeps_away(now: Looked, then: Looked, seeker: Looked) -> bool:
    mutual = {x for x in seeker.spec.rules.owners if x.match in now.matches}
    return any(
        not owned.weight and owned.match in seeker.matches
        for owned in {*then.spec.rules.owners} - {*now.spec.rules.owners} - mutual
    )


def _spreads(then: Looked, seeker: Looked) -> bool:
    own = {(id(each.tally), each.max_skew, each.min_domains) for each in seeker.constraints}
    return any(
        each.match in seeker.matches
        and (id(each.tally), each.max_skew, each.min_domains) not in own
        for each in then.constraints
    )


def looked_at(index: Index, declared: t.Iterable[Pod], pods: t.Iterable[Pod]) -> bool:
    """Whether affinity or a spread that is declared for one of these looks at one of `pods`: whether
    that comes or goes may then close places, open some, or break the rule."""
    minding = Minding(index, map(index.candidate, declared))
    return bool(minding) and any(minding.concerns(pod) for pod in pods)


def spread_beside(index: Index, declared: t.Iterable[Pod], pods: t.Iterable[Pod]) -> bool:
    """Whether a spread that is declared for one of these counts one of `pods`, which is not spread by
    the same."""
    spreading = [each for each in _kinds_of(index, declared) if each.constraints]
    coming = _kinds_of(index, pods) if spreading else ()
    return any(_spreads(then, x) for x in coming for then in spreading)
