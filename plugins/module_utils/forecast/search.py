# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which placement sequences does a simulation have: one good one, or all of them within a limit?

`greedy_placement` finds one sequence without a search of all: a proof that it is possible. The most
constrained pod goes first, onto the node that the others need least; further tries go by chance. Where
it matters which ended pods are still there, further tries let one pod end at a time.

`search_all` is exact where its limit is not reached. Pods of one kind are interchangeable, and each
state is visited once, whatever led to it.
"""

from __future__ import annotations

import contextlib
import itertools
import random
import typing as t
from dataclasses import dataclass

from ..scheduler.nodes import NodeSet
from .simulation import PlacementSequence, PlacementSimulation

LIMIT = 4000
"""States that are visited before the search is given up."""


@dataclass(frozen=True, slots=True)
class BestAndWorst:
    """`best` and `worst` are sequences with the most and the fewest required pods placed of all that
    were seen, None where none was seen to its end. `exhausted`: there are no others. `placed` are
    pods that have a node at some end."""

    best: PlacementSequence | None
    worst: PlacementSequence | None
    exhausted: bool
    placed: frozenset[int] = frozenset()


def placed(simulation: PlacementSimulation, sequence: PlacementSequence) -> int:
    """How many required pods a sequence places."""
    return sum(1 for number, node in sequence if node and simulation.pending[number].required)


def search_all(simulation: PlacementSimulation, *, limit: int = LIMIT) -> BestAndWorst:
    """The best and the worst end of a simulation. Any waiting pod may be next, again and again, as in a
    scheduler's queue.

    It ends early once both a full end and one that is not full are known.
    """
    search = _Search(simulation, limit)
    with contextlib.suppress(_Enough), simulation.ended_present():
        search.explore()
    best, worst = search.best, search.worst
    kinds = simulation.kinds if search.kinds_placed else []
    somewhere = frozenset(n for n, kind in enumerate(kinds) if kind in search.kinds_placed)
    return BestAndWorst(best and best[1], worst and worst[1], search.exhausted, somewhere)


class _Enough(Exception):
    """Nothing more is to be learned, or the limit is reached."""


class _Search:
    def __init__(self, simulation: PlacementSimulation, limit: int) -> None:
        self.simulation = simulation
        self.limit = limit
        self.seen: set[t.Hashable] = set()
        self.best: tuple[int, PlacementSequence] | None = None
        self.worst: tuple[int, PlacementSequence] | None = None
        self.exhausted = True
        self.kinds_placed: set[int] = set()

    def explore(self) -> None:
        state = self.simulation.state()
        if state in self.seen:
            return
        if len(self.seen) >= self.limit:
            self.exhausted = False
            raise _Enough
        self.seen.add(state)
        if not self._any_step():
            self._end()

    def _any_step(self) -> bool:
        """Explore what follows each step that is possible now; False where none is."""
        simulation, progress = self.simulation, False
        for m in range(len(simulation.terminating)):
            if simulation.can_advance(m):
                simulation.advance(m)
                self._explore_further()
                progress = True
        for number in simulation.next_pods():
            for name in simulation.table.names_of(simulation.open_nodes(number)):
                simulation.place(number, name)
                self._explore_further()
                progress = True
        return progress

    def _explore_further(self) -> None:
        try:
            self.explore()
        finally:
            self.simulation.revert()

    def _end(self) -> None:
        sequence = self.simulation.sequence
        count = placed(self.simulation, sequence)
        self.kinds_placed |= {self.simulation.kinds[number] for number, node in sequence if node}
        if self.best is None or count > self.best[0]:
            self.best = count, sequence
        if self.worst is None or count < self.worst[0]:
            self.worst = count, sequence
        if self.best[0] == self.simulation.required > self.worst[0]:
            raise _Enough


TRIES = 6
CHOICES = 64
"""Nodes that are compared for one placement."""

REPAIRS = 40
"""Placed pods that are tried to be moved for one that finds no node."""


def greedy_placement(
    simulation: PlacementSimulation,
    reachable: t.Sequence[NodeSet],
    hints: t.Mapping[int, NodeSet],
) -> PlacementSequence:
    """The longest sequence found (by required pods). The simulation is left as it was.

    `reachable` are nodes that could ever be open to each pod, `hints` those where a matching has put
    some of them.
    """
    best: PlacementSequence = ()
    best_count = -1
    ways = (False, True) if simulation.terminating else (False,)
    for attempt, one_by_one in itertools.product(range(TRIES), ways):
        chance = random.Random(attempt) if attempt else None
        greedy = _Greedy(simulation, reachable, hints, chance)
        sequence = greedy.play_one_by_one() if one_by_one else greedy.play()
        count = placed(simulation, sequence)
        if count > best_count:
            best, best_count = sequence, count
        if count == simulation.required:
            break
    return best


class _Greedy:
    def __init__(
        self,
        simulation: PlacementSimulation,
        reachable: t.Sequence[NodeSet],
        hints: t.Mapping[int, NodeSet],
        chance: random.Random | None,
    ) -> None:
        self.simulation = simulation
        self.reachable = reachable
        self.hints = hints
        self.chance = chance
        self.load = [0] * len(simulation.table.nodes)
        self.start = 0

    def play(self) -> PlacementSequence:
        self._fill()
        sequence = self.simulation.sequence
        self.simulation.revert_all()
        return sequence

    def play_one_by_one(self) -> PlacementSequence:
        """As long as any pod can be placed no ended pod leaves, and then one."""
        terminating = list(range(len(self.simulation.terminating)))
        if self.chance is not None:
            self.chance.shuffle(terminating)
        with self.simulation.ended_present():
            self._fill()
            while sum(self._end(m) for m in terminating):
                self._fill()
            return self.simulation.sequence

    def _end(self, m: int) -> bool:
        """End a terminating pod and place what can be placed then; False where it cannot end."""
        simulation, advanced = self.simulation, False
        while simulation.can_advance(m):
            advanced = True
            simulation.advance(m)
            successor = simulation.terminating[m].successor
            if len(simulation.waiting) <= REPAIRS:
                self._fill()
            elif successor in simulation.waiting and simulation.open_nodes(successor):
                self._place(successor, simulation.open_nodes(successor))
        return advanced

    def _fill(self) -> None:
        """Place what can be placed, the most constrained pod first, until nothing can."""
        progress = True
        while progress:
            progress = False
            for number in self._order():
                nodes = self.simulation.open_nodes(number)
                if nodes:
                    self._place(number, nodes)
                    progress = True

    def _order(self) -> list[int]:
        waiting = list(self.simulation.waiting)
        if self.chance is not None:
            self.chance.shuffle(waiting)
            return waiting
        pending, reachable = self.simulation.pending, self.reachable
        return sorted(waiting, key=lambda n: (not pending[n].required, reachable[n].bit_count(), n))

    def _place(self, number: int, nodes: NodeSet) -> None:
        hinted = nodes & self.hints.get(number, 0)
        names = self._some(hinted or nodes)
        node = min(names, key=self._cost) if self.chance is None else self.chance.choice(names)
        self.load[self.simulation.table.numbers[node]] += 1
        self.simulation.place(number, node)

    def _some(self, nodes: NodeSet) -> tuple[str, ...]:
        """A few of many nodes, others each time."""
        table = self.simulation.table
        if nodes.bit_count() <= CHOICES:
            return table.names_of(nodes)
        self.start += CHOICES
        start = self.start % len(table.nodes)
        ahead = nodes >> start << start
        names = table.first_names(ahead, CHOICES)
        return (*names, *table.first_names(nodes ^ ahead, CHOICES - len(names)))

    def _cost(self, node: str) -> tuple[int, str]:
        return self.load[self.simulation.table.numbers[node]], node
