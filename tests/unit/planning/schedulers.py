# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Schedulers that play a filling out, on the plain reference of the filters and without the engine."""

from __future__ import annotations

import copy
import random
import typing as t

from tests.unit.scheduling.reference import World
from tests.unit.scheduling.worlds import Cluster

JSON = t.Any
Choose = t.Callable[["Game", list[tuple[int, str]]], tuple[int, str]]


class TooMany(Exception):
    """There are more states than a test wants to look at."""


class Game:
    """Seekers that look for places in a cluster. `sources` maps the number of a seeker to the name
    of the placed pod that leaves once the seeker has a place."""

    def __init__(
        self, cluster: Cluster, seekers: list[JSON], sources: t.Mapping[int, str] | None = None
    ) -> None:
        self.cluster = cluster
        self.seekers = seekers
        self.sources = sources or {}
        self.placed: dict[int, str] = {}

    def world(self) -> World:
        gone = {self.sources[number] for number in self.placed if number in self.sources}
        pods = [pod for pod in self.cluster.pods if pod["metadata"]["name"] not in gone]
        for number, node in self.placed.items():
            pod = copy.deepcopy(self.seekers[number])
            pod["spec"]["nodeName"] = node
            pods.append(pod)
        return World(self.cluster.nodes, pods, self.cluster.namespaces)

    def moves(self) -> list[tuple[int, str]]:
        world = self.world()
        return [
            (number, node)
            for number, pod in enumerate(self.seekers)
            if number not in self.placed
            for node in sorted(world.feasible(pod))
        ]

    def play(self, choose: Choose) -> int:
        """How many are placed in the end."""
        self.placed = {}
        while moves := self.moves():
            number, node = choose(self, moves)
            self.placed[number] = node
        return len(self.placed)

    def extremes(self, limit: int = 400) -> tuple[int, int]:
        """The most and the fewest placed, over all courses. Raises TooMany."""
        ends: set[int] = set()
        seen: set[frozenset[tuple[int, str]]] = set()
        self._explore({}, seen, ends, limit)
        return max(ends), min(ends)

    def _explore(
        self,
        placed: dict[int, str],
        seen: set[frozenset[tuple[int, str]]],
        ends: set[int],
        limit: int,
    ) -> None:
        state = frozenset(placed.items())
        if state in seen:
            return
        if len(seen) >= limit:
            raise TooMany
        seen.add(state)
        self.placed = placed
        moves = self.moves()
        if not moves:
            ends.add(len(placed))
        for number, node in moves:
            self._explore({**placed, number: node}, seen, ends, limit)


def at_random(chance: random.Random) -> Choose:
    return lambda _game, moves: chance.choice(moves)


def spiteful(game: Game, moves: list[tuple[int, str]]) -> tuple[int, str]:
    """The choice that leaves the others the fewest open nodes."""

    def left(move: tuple[int, str]) -> tuple[int, tuple[int, str]]:
        before = dict(game.placed)
        game.placed[move[0]] = move[1]
        count = len(game.moves())
        game.placed = before
        return count, move

    return min(moves, key=left)
