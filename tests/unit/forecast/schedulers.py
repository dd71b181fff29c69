# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Schedulers that play a filling out, on the plain reference of the filters and without the engine."""

from __future__ import annotations

import copy
import random
import typing as t

from tests.unit.scheduler.random_clusters import Cluster
from tests.unit.scheduler.reference import World

JSON = t.Any
Move = tuple[int, str]
"""(number of a seeker, the node that it gets), or (-1, the name of a pod that goes a step further)."""
State = tuple[frozenset[Move], frozenset[tuple[str, int]]]
Choose = t.Callable[["Game", list[Move]], Move]

STANDS, TERMINATES, GONE = range(3)


class TooMany(Exception):
    """There are more states than a test wants to look at."""


class Game:
    """Seekers that look for places in a cluster, and placed pods that go meanwhile, one by one.

    `sources` maps the number of a seeker to the name of the placed pod that goes, some time, once
    the seeker has a place; in `migrations` it has ended then, and never terminates. `ending` maps
    the name of a placed pod that may go at any time to the number of the seeker that comes after
    it, None where there is none. That one looks for a place as soon as the pod terminates; those in
    `late` once it is gone. Sources of the seekers in `first` may go before those have places, too, one
    of them at a time. `dead` are pods that terminate for ever, since their node has failed.
    """

    def __init__(
        self,
        cluster: Cluster,
        seekers: list[JSON],
        sources: t.Mapping[int, str] | None = None,
        ending: t.Mapping[str, int | None] | None = None,
        *,
        late: t.Collection[int] = (),
        dead: t.Collection[str] = (),
        migrations: bool = False,
        first: t.Collection[int] = (),
    ) -> None:
        self.cluster = cluster
        self.seekers = seekers
        self.sources = sources or {}
        self.ending = ending or {}
        self.late = late
        self.migrations = migrations
        self.first = first
        self.last = {x: TERMINATES if x in dead else GONE for x in self.ending}
        self.begin()

    def begin(self) -> None:
        self.placed: dict[int, str] = {}
        self.stage = dict.fromkeys((*self.sources.values(), *self.ending), STANDS)

    def world(self) -> World:
        pods = [found for pod in self.cluster.pods if (found := self._as_it_stands(pod))]
        for number, node in self.placed.items():
            pod = copy.deepcopy(self.seekers[number])
            pod["spec"]["nodeName"] = node
            pods.append(pod)
        return World(self.cluster.nodes, pods, self.cluster.namespaces)

    def _as_it_stands(self, pod: JSON) -> JSON:
        stage = self.stage.get(pod["metadata"]["name"], STANDS)
        if stage == TERMINATES:
            metadata = {**pod["metadata"], "deletionTimestamp": "2026-01-01T00:00:00Z"}
            return {**pod, "metadata": metadata}
        return pod if stage == STANDS else None

    def moves(self) -> list[Move]:
        return [*self.placements(), *((-1, name) for name in self._leaving())]

    def placements(self) -> list[Move]:
        world = self.world()
        waits = self._not_made()
        return [
            (number, node)
            for number, pod in enumerate(self.seekers)
            if number not in self.placed and number not in waits
            for node in sorted(world.feasible(pod))
        ]

    def _not_made(self) -> set[int]:
        found = set()
        for name, number in self.ending.items():
            made = self.last[name] if number in self.late else TERMINATES
            if number is not None and self.stage[name] < made:
                found.add(number)
        return found

    def _leaving(self) -> list[str]:
        found = [name for name, last in self.last.items() if self.stage[name] < last]
        moved = (name for number, name in self.sources.items() if number in self.placed)
        early = [self.sources[n] for n in self.first if n not in self.placed]
        away = [name for name in early if self.stage[name] > STANDS]
        leaving = (*moved, *(away or early))
        return [*found, *(name for name in leaving if self.stage[name] < GONE)]

    def make(self, move: Move) -> None:
        number, where = move
        if number < 0:
            ends = self.migrations and where not in self.ending
            self.stage[where] = GONE if ends else self.stage[where] + 1
        else:
            self.placed[number] = where

    def all_go(self) -> None:
        """All that ends has gone, before anybody has looked for a place."""
        self.stage |= self.last

    def play(self, choose: Choose, *, at_once: bool = False) -> int:
        """How many are placed in the end."""
        self.begin()
        if at_once:
            self.all_go()
        while moves := self.moves():
            self.make(choose(self, moves))
        return len(self.placed)

    def extremes(self, limit: int = 400) -> tuple[int, int]:
        """The most and the fewest placed, over all courses. Raises TooMany."""
        counts = set(map(len, self.ends(limit)))
        return max(counts), min(counts)

    def ends(self, limit: int = 400) -> set[frozenset[int]]:
        """Who is placed in the end, over all courses. Raises TooMany."""
        self.begin()
        seen: set[State] = set()
        found: set[frozenset[int]] = set()
        self._explore(seen, found, limit)
        return found

    def _explore(self, seen: set[State], found: set[frozenset[int]], limit: int) -> None:
        state = frozenset(self.placed.items()), frozenset(self.stage.items())
        if state in seen:
            return
        if len(seen) >= limit:
            raise TooMany
        seen.add(state)
        moves = self.moves()
        if not moves:
            found.add(frozenset(self.placed))
        placed, stage = self.placed, self.stage
        for move in moves:
            self.placed, self.stage = dict(placed), dict(stage)
            self.make(move)
            self._explore(seen, found, limit)
        self.placed, self.stage = placed, stage


def at_random(chance: random.Random) -> Choose:
    return lambda _game, moves: chance.choice(moves)


def spiteful(game: Game, moves: list[Move]) -> Move:
    """The choice that leaves the others the fewest open nodes."""

    def left(move: Move) -> tuple[int, Move]:
        placed, stage = game.placed, game.stage
        game.placed, game.stage = dict(placed), dict(stage)
        game.make(move)
        count = len(game.placements())
        game.placed, game.stage = placed, stage
        return count, move

    return min(moves, key=left)
