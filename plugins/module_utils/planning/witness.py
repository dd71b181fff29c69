# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""One good course of a filling, found without trying them all: a proof that it is possible.

Pure. The most constrained seeker goes first, onto the node that the others can best do without.
Who finds none is let in by moving another one that was placed, and the result is played from the
start: only a course that is open step by step counts. Where it matters who still stands, there are
also tries in which one pod ends at a time, and what comes after it is placed before the next does.
"""

from __future__ import annotations

import itertools
import random
import typing as t

from ..scheduling.node_table import NodeSet
from .fill import Filling, Run
from .outcomes import placed

TRIES = 6
CHOICES = 64
"""Nodes that are weighed against each other for one placement."""

REPAIRS = 40
"""Placed seekers that are tried to be moved for one that finds no place."""


def witness(
    filling: Filling,
    reach: t.Sequence[NodeSet],
    hints: t.Mapping[int, NodeSet],
    *,
    tries: int = TRIES,
) -> Run:
    """The longest course found (by goals placed). The filling is left as it was.

    `reach` are nodes that could ever be open to each seeker, `hints` those where a matching
    would have some of them.
    """
    best: Run = ()
    best_count = -1
    ways = (False, True) if filling.leavers else (False,)
    for attempt, one_by_one in itertools.product(range(tries), ways):
        course = _Course(filling, reach, hints, random.Random(attempt) if attempt else None)
        run = course.play_one_by_one() if one_by_one else course.play()
        count = placed(filling, run)
        if count > best_count:
            best, best_count = run, count
        if count == filling.goals:
            break
    return best


class _Course:
    def __init__(
        self,
        filling: Filling,
        reach: t.Sequence[NodeSet],
        hints: t.Mapping[int, NodeSet],
        chance: random.Random | None,
    ) -> None:
        self.filling = filling
        self.reach = reach
        self.hints = hints
        self.chance = chance
        self.load = [0] * len(filling.table.nodes)
        self.turn = 0

    def play(self) -> Run:
        self._fill()
        run = self.filling.run
        missing = [n for n in self.filling.waiting if self.filling.seekers[n].goal]
        if missing and len(missing) <= REPAIRS:
            repaired = self._repair(missing)
            self.filling.undo_to(0)
            again = self._replay(repaired)
            run = max(run, again, key=len)
        self.filling.undo_to(0)
        return run

    def play_one_by_one(self) -> Run:
        """As long as anybody can be placed nobody goes, and then one."""
        leavers = list(range(len(self.filling.leavers)))
        if self.chance is not None:
            self.chance.shuffle(leavers)
        with self.filling.standing():
            self._fill()
            while sum(self._goes(m) for m in leavers):
                self._fill()
            return self.filling.run

    def _goes(self, m: int) -> bool:
        """Have a leaver go and whoever can be placed then; False where it cannot."""
        filling, goes = self.filling, False
        while filling.may_leave(m):
            goes = True
            filling.leave(m)
            heir = filling.leavers[m].seeker
            if len(filling.waiting) <= REPAIRS:
                self._fill()
            elif heir is not None and heir in filling.waiting and filling.open_nodes(heir):
                self._place(heir, filling.open_nodes(heir))
        return goes

    def _fill(self) -> None:
        """Place whoever can be placed, the most constrained first, until nobody can."""
        progress = True
        while progress:
            progress = False
            for number in self._order():
                nodes = self.filling.open_nodes(number)
                if nodes:
                    self._place(number, nodes)
                    progress = True

    def _order(self) -> list[int]:
        waiting = list(self.filling.waiting)
        if self.chance is not None:
            self.chance.shuffle(waiting)
            return waiting
        seekers = self.filling.seekers
        return sorted(waiting, key=lambda n: (not seekers[n].goal, self.reach[n].bit_count(), n))

    def _place(self, number: int, nodes: NodeSet) -> None:
        hinted = nodes & self.hints.get(number, 0)
        names = self._some(hinted or nodes)
        node = min(names, key=self._cost) if self.chance is None else self.chance.choice(names)
        self.load[self.filling.table.numbers[node]] += 1
        self.filling.place(number, node)

    def _some(self, nodes: NodeSet) -> tuple[str, ...]:
        """A few of many nodes, others each time."""
        table = self.filling.table
        if nodes.bit_count() <= CHOICES:
            return table.names_of(nodes)
        self.turn += CHOICES
        start = self.turn % len(table.nodes)
        ahead = nodes >> start << start
        found = table.first(ahead, CHOICES)
        return (*found, *table.first(nodes ^ ahead, CHOICES - len(found)))

    def _cost(self, node: str) -> tuple[int, str]:
        return self.load[self.filling.table.numbers[node]], node

    def _repair(self, missing: t.Sequence[int]) -> dict[int, str]:
        """Who stands where after trying to let each missing one in by moving another."""
        for number in missing:
            self._let_in(number)
        return dict(self.filling.run)

    def _let_in(self, number: int) -> None:
        where = dict(self.filling.run)
        for other in list(where)[-REPAIRS:]:
            without = self._rearranged(where, other)
            if other not in self.filling.waiting:
                continue
            nodes = self.filling.open_nodes(number) if without else 0
            for node in self.filling.table.names_of(nodes)[:REPAIRS]:
                self.filling.place(number, node)
                elsewhere = self.filling.open_nodes(other)
                if elsewhere:
                    self.filling.place(other, self.filling.table.names_of(elsewhere)[0])
                    return
                self.filling.undo()
            self.filling.undo_to(0)
            self._replay(where)

    def _rearranged(self, where: t.Mapping[int, str], other: int) -> bool:
        """Everyone where they were but for `other`; False where that cannot be played."""
        self.filling.undo_to(0)
        kept = {number: node for number, node in where.items() if number != other}
        return len(self._replay(kept)) == len(kept)

    def _replay(self, where: t.Mapping[int, str]) -> Run:
        """Place everyone where they are wanted, in an order in which each place is open."""
        table = self.filling.table
        left = dict(where)
        progress = True
        while left and progress:
            progress = False
            for number, node in list(left.items()):
                if self.filling.open_nodes(number) >> table.numbers[node] & 1:
                    self.filling.place(number, node)
                    del left[number]
                    progress = True
        return self.filling.run
