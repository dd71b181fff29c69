# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Pods that look for places, one after the other, each where the filters let it in.

Pure. The game that forecasts reason about: whoever waits may be placed next, on any node that is
open to it then; it ends when nothing that waits has an open node. A live migration takes its source
away once the target is placed. The index is changed and given back as it was.
"""

from __future__ import annotations

import typing as t
from dataclasses import dataclass

from ..model.objects import Pod
from ..scheduling.candidate import Candidate
from ..scheduling.index import Index, pod_key
from ..scheduling.node_table import NodeSet

Run = tuple[tuple[int, str], ...]
"""(number of the seeker, node) in the order in which they were placed."""


@dataclass(frozen=True, slots=True, eq=False)
class Seeker:
    """`pod` wants a place. `source` is the key of a placed pod that leaves when it has one:
    after it if `stays`, as in a live migration, else just before. `goal` is false for a pod
    that waits anyway: it takes part, but nobody asks what becomes of it."""

    pod: Pod
    source: str | None = None
    stays: bool = True
    goal: bool = True


@dataclass(frozen=True, slots=True)
class _Placed:
    number: int
    node: str
    source: Pod | None
    source_node: str


class Filling:
    """The seekers of one index. `closed` gives nodes that are lost to a pod though the index does
    not know it: so one index serves many drills."""

    def __init__(
        self,
        index: Index,
        seekers: t.Iterable[Seeker],
        closed: t.Callable[[Pod], NodeSet] | None = None,
    ) -> None:
        self.index = index
        self.table = index.table
        self.seekers = tuple(seekers)
        self.waiting = set(range(len(self.seekers)))
        self.closed = closed or _nothing
        for seeker in self.seekers:
            index.candidate(seeker.pod)
        self._placed: list[_Placed] = []
        self._kinds: list[int] | None = None

    @property
    def goals(self) -> int:
        return sum(1 for seeker in self.seekers if seeker.goal)

    @property
    def kinds(self) -> list[int]:
        """A number for each seeker, equal for those that are interchangeable."""
        if self._kinds is None:
            known: dict[t.Hashable, int] = {}
            each = (self._kind(seeker) for seeker in self.seekers)
            self._kinds = [known.setdefault(kind, len(known)) for kind in each]
        return self._kinds

    @property
    def run(self) -> Run:
        return tuple((each.number, each.node) for each in self._placed)

    def candidate(self, number: int) -> Candidate:
        return self.index.candidate(self.seekers[number].pod)

    def open_nodes(self, number: int) -> NodeSet:
        """Where a seeker could be placed now."""
        seeker = self.seekers[number]
        leaves = None if seeker.stays else seeker.source
        return self.index.open_nodes(seeker.pod, without=leaves) & ~self.closed(seeker.pod)

    def place(self, number: int, node: str) -> None:
        seeker = self.seekers[number]
        source, where = None, ""
        if seeker.source is not None and seeker.source in self.index:
            where = self.index.node_of(seeker.source)
            source = self.index.take_out(seeker.source)
        self.index.place(seeker.pod, node)
        self.waiting.discard(number)
        self._placed.append(_Placed(number, node, source, where))

    def undo(self) -> None:
        """Take the last placement back."""
        last = self._placed.pop()
        self.index.take_out(pod_key(self.seekers[last.number].pod))
        if last.source is not None:
            self.index.place(last.source, last.source_node)
        self.waiting.add(last.number)

    def undo_to(self, length: int) -> None:
        while len(self._placed) > length:
            self.undo()

    def state(self) -> t.Hashable:
        """What the placements so far come to, whoever of a kind is where."""
        kinds = self.kinds
        return tuple(sorted((kinds[each.number], each.node) for each in self._placed))

    def next_ones(self) -> list[int]:
        """One waiting seeker of each kind."""
        first: dict[int, int] = {}
        for number in sorted(self.waiting):
            first.setdefault(self.kinds[number], number)
        return list(first.values())

    def _kind(self, seeker: Seeker) -> t.Hashable:
        """What matters of a seeker: its terms, its requests, and what selects it. Machines carry
        labels of their own, which tell them apart only where some term looks at them."""
        candidate = self.index.candidate(seeker.pod)
        pod = seeker.pod
        return (
            pod.namespace,
            pod.placement,
            frozenset(pod.requests.items()),
            frozenset(map(id, candidate.matches)),
            pod.host_ports,
            pod.claims,
            pod.required_node_name,
            seeker.source,
            seeker.goal,
        )


def _nothing(_pod: Pod) -> NodeSet:
    return 0
