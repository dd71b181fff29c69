# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Pods that look for places, one after the other, each where the filters let it in.

Pure. The game that forecasts reason about: whoever waits may be placed next, on any node that is
open to it then; it ends when nothing that waits has an open node. A live migration takes its source
away once the target is placed. Pods that end are gone from the start, or, while `standing` lasts, go
one by one at any time (see leaving). The index is changed and given back as it was.
"""

from __future__ import annotations

import contextlib
import typing as t
from dataclasses import dataclass

from ..model.objects import Pod
from ..scheduling.candidate import Candidate
from ..scheduling.index import Index, pod_key
from ..scheduling.node_table import NodeSet
from .leaving import Leaver, Minding

Run = tuple[tuple[int, str], ...]
"""(number of the seeker, node) in the order in which they were placed. Where pods that end stand at
first, the steps in which they go are among these, each with no node: see Filling.step."""


@dataclass(frozen=True, slots=True, eq=False)
class Seeker:
    """`pod` wants a place. `source` is the key of a placed pod that leaves when it has one:
    after it if `stays`, as in a live migration, else just before. `after` is the key of a pod that
    ends, and that this one takes the place of: see Leaver for `late`. `goal` is false for a pod
    that waits anyway: it takes part, but nobody asks what becomes of it."""

    pod: Pod
    source: str | None = None
    stays: bool = True
    goal: bool = True
    after: str | None = None
    late: bool = False


@dataclass(frozen=True, slots=True)
class _Placed:
    number: int
    node: str
    source: Pod | None
    source_node: str


class Filling:
    """The seekers of one index. `closed` gives nodes that are lost to a pod though the index does
    not know it: so one index serves many drills. `ended` are pods that end, on their nodes; the
    index has what is left of them in the end."""

    def __init__(
        self,
        index: Index,
        seekers: t.Iterable[Seeker],
        closed: t.Callable[[Pod], NodeSet] | None = None,
        ended: t.Iterable[Pod] = (),
    ) -> None:
        self.index = index
        self.table = index.table
        self.seekers = tuple(seekers)
        self.waiting = set(range(len(self.seekers)))
        self.closed = closed or _nothing
        candidates = [index.candidate(seeker.pod) for seeker in self.seekers]
        minding = Minding(index, candidates)
        self.leavers = self._find_leavers(minding, ended)
        self._form = [0 if each.lingers else each.last for each in self.leavers]
        self._before = {
            each.seeker: m for m, each in enumerate(self.leavers) if each.seeker is not None
        }
        self.loose = minding.any_near(
            index.pod(each.source)
            for each in self.seekers
            if not each.stays and each.source is not None and each.source in index
        )
        """Pods that affinity is to leave before their seekers have places: while they terminate they
        open nodes that no course shows."""
        self._standing = False
        self._done: list[_Placed | int] = []
        self._kinds: list[int] | None = None

    @property
    def goals(self) -> int:
        return sum(1 for seeker in self.seekers if seeker.goal)

    @property
    def kinds(self) -> list[int]:
        """A number for each seeker, equal for those that are interchangeable."""
        if self._kinds is None:
            known: dict[t.Hashable, int] = {}
            each = (self._kind_of(number) for number in range(len(self.seekers)))
            self._kinds = [known.setdefault(kind, len(known)) for kind in each]
        return self._kinds

    @property
    def run(self) -> Run:
        count = len(self.seekers)
        return tuple(
            (count + each, "") if isinstance(each, int) else (each.number, each.node)
            for each in self._done
        )

    def candidate(self, number: int) -> Candidate:
        return self.index.candidate(self.seekers[number].pod)

    def open_nodes(self, number: int) -> NodeSet:
        """Where a seeker could be placed now."""
        m = self._before.get(number)
        if m is not None and not self._is_made(m):
            return 0
        seeker = self.seekers[number]
        leaves = None if seeker.stays else seeker.source
        return self.index.open_nodes(seeker.pod, without=leaves) & ~self.closed(seeker.pod)

    @contextlib.contextmanager
    def standing(self) -> t.Iterator[None]:
        """While it lasts, pods that end stand until each one goes. For a filling in which nothing
        was done yet; it is left so."""
        ending = [m for m, each in enumerate(self.leavers) if not each.lingers]
        self._standing = True
        for m in ending:
            self._turn(m, 0)
        try:
            yield
        finally:
            self.undo_to(0)
            for m in ending:
                self._turn(m, self.leavers[m].last)
            self._standing = False

    @contextlib.contextmanager
    def beginning(self, run: Run) -> t.Iterator[None]:
        """While it lasts, things are as at the beginning of a run: its steps may be made."""
        with self.standing() if any(not node for _n, node in run) else contextlib.nullcontext():
            try:
                yield
            finally:
                self.undo_to(0)

    @contextlib.contextmanager
    def played(self, run: Run) -> t.Iterator[None]:
        """While it lasts, all steps of a run are made."""
        with self.beginning(run):
            for number, node in run:
                self.step(number, node)
            yield

    def may_leave(self, m: int) -> bool:
        """Whether a leaver could go now, or a step further."""
        leaver = self.leavers[m]
        waits = leaver.lingers and leaver.seeker in self.waiting
        return self._standing and self._form[m] < leaver.last and not waits

    def step(self, number: int, node: str) -> None:
        """One step of a run."""
        if node:
            self.place(number, node)
        else:
            self.leave(number - len(self.seekers))

    def place(self, number: int, node: str) -> None:
        seeker = self.seekers[number]
        source, where = None, ""
        lingers = self._standing and number in self._before
        if seeker.source is not None and seeker.source in self.index and not lingers:
            where = self.index.node_of(seeker.source)
            source = self.index.take_out(seeker.source)
        self.index.place(seeker.pod, node)
        self.waiting.discard(number)
        self._done.append(_Placed(number, node, source, where))

    def leave(self, m: int) -> None:
        """A leaver goes, or a step further."""
        self._turn(m, self._form[m] + 1)
        self._done.append(m)

    def undo(self) -> None:
        """Take the last step back."""
        last = self._done.pop()
        if isinstance(last, int):
            self._turn(last, self._form[last] - 1)
            return
        self.index.take_out(pod_key(self.seekers[last.number].pod))
        if last.source is not None:
            self.index.place(last.source, last.source_node)
        self.waiting.add(last.number)

    def undo_to(self, length: int) -> None:
        while len(self._done) > length:
            self.undo()

    def state(self) -> t.Hashable:
        """What the steps so far come to, whoever of a kind is where."""
        kinds, form = self.kinds, self._form
        placed = {each.number: each.node for each in self._done if isinstance(each, _Placed)}
        found = [
            (kinds[n], placed.get(n, ""), form[self._before[n]] if n in self._before else 0)
            for n in {*placed, *self._before}
        ]
        alone = tuple(form[m] for m, each in enumerate(self.leavers) if each.seeker is None)
        return tuple(sorted(found)), alone

    def next_ones(self) -> list[int]:
        """One waiting seeker of each kind and state."""
        first: dict[tuple[int, int], int] = {}
        for number in sorted(self.waiting):
            m = self._before.get(number)
            form = self._form[m] if m is not None else 0
            first.setdefault((self.kinds[number], form), number)
        return list(first.values())

    def _find_leavers(self, minding: Minding, ended: t.Iterable[Pod]) -> tuple[Leaver, ...]:
        if not minding:
            return ()
        after = {each.after: n for n, each in enumerate(self.seekers) if each.after is not None}
        found = []
        for pod in ended:
            number = after.get(pod_key(pod))
            late = number is not None and self.seekers[number].late
            found.append(minding.ended(pod, number, late))
        for n, seeker in enumerate(self.seekers):
            if seeker.source is not None and seeker.stays and seeker.source in self.index:
                found.append(minding.source(seeker.source, n))
        return tuple(each for each in found if each is not None)

    def _is_made(self, m: int) -> bool:
        leaver = self.leavers[m]
        return leaver.lingers or leaver.is_made(self._form[m])

    def _turn(self, m: int, form: int) -> None:
        """Have a leaver's pod in another of its forms."""
        leaver = self.leavers[m]
        if leaver.key in self.index:
            self.index.take_out(leaver.key)
        stands = leaver.forms[form]
        if stands is not None:
            self.index.place(stands, leaver.node)
        self._form[m] = form

    def _kind_of(self, number: int) -> t.Hashable:
        seeker, m = self.seekers[number], self._before.get(number)
        before: t.Hashable = seeker.source
        if m is not None and not self.leavers[m].lingers:
            leaver = self.leavers[m]
            pods = (None if pod is None else self._kind(pod) for pod in leaver.forms)
            before = (leaver.node, leaver.late, *pods)
        return (self._kind(seeker.pod), seeker.goal, before)

    def _kind(self, pod: Pod) -> t.Hashable:
        """What matters of a pod: its terms, its requests, and what selects it. Machines carry
        labels of their own, which tell them apart only where some term looks at them."""
        candidate = self.index.candidate(pod)
        return (
            pod.namespace,
            pod.placement,
            frozenset(pod.requests.items()),
            frozenset(map(id, candidate.matches)),
            pod.host_ports,
            pod.claims,
            pod.required_node_name,
            pod.terminating,
        )


def _nothing(_pod: Pod) -> NodeSet:
    return 0
