# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Schedulers and controllers that play a filling out, on the plain reference of the filters and without the
engine."""

from __future__ import annotations

import copy
import random
import typing as t

from ansible_collections.virt.placement.plugins.module_utils.model.objects import Ref
from tests.support import cluster as clusters
from tests.unit.scheduler.random_clusters import Cluster
from tests.unit.scheduler.reference import World

JSON = t.Any
Move = tuple[int, str]
"""(number of a seeker, the node that it gets), or (-1, the name of a pod that goes a step further)."""
State = tuple[frozenset[Move], frozenset[tuple[str, int]]]
Choose = t.Callable[["Game", list[Move]], Move]

Pods = tuple[tuple[str, int], ...]
"""The node of each pod (empty: it waits), and how far it has come."""

ABSENT, STANDS, TERMINATES, GONE = range(-1, 3)
NOW = "2026-01-01T00:00:00Z"


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
            metadata = {**pod["metadata"], "deletionTimestamp": NOW}
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


class Controller(t.NamedTuple):
    """It has the pods `old`, and creates `new` ones: by a rollout with this `room` or by Recreate, or because
    it is `scaled`."""

    old: list[int]
    new: list[int]
    wanted: int
    scaled: bool
    room: tuple[int, int] | None

    def may_end(self, state: Pods) -> list[int]:
        """The pods of which it may end one now: waiting ones first (kubernetes pkg/controller/deployment,
        rolling.go)."""
        alive, created = self._present(state)
        waiting = [n for n in alive if not state[n][0]]
        placed = sum(1 for n in (*alive, *created) if state[n][0])
        if self.scaled:
            ends = len(alive) > self.wanted
        elif self.room is None:
            ends = True
        else:
            least = self.wanted - self.room[1]
            ends = placed + len(waiting) > least and (bool(waiting) or placed > least)
        return (waiting or alive) if ends else []

    def may_create(self, state: Pods) -> bool:
        alive, created = self._present(state)
        if len(created) == len(self.new) or self.scaled:
            return len(created) < len(self.new)
        if self.room is None:
            return all(state[n][1] == GONE for n in self.old)
        return len(alive) + len(created) < self.wanted + self.room[0]

    def _present(self, state: Pods) -> tuple[list[int], list[int]]:
        alive = [n for n in self.old if state[n][1] == STANDS]
        return alive, [n for n in self.new if state[n][1] != ABSENT]


class Controlled:
    """The game. `goals` are the pods that the forecast is about. To a quota, pods that terminate are gone: it
    delays a pod, which forecasts are not about."""

    def __init__(self, made: clusters.Cluster) -> None:
        self.made, self.goals = made, set[int]()
        self.pods = list(map(_served, made.pods.values()))
        self.controllers: list[Controller] = []
        self.quota = made.more["quotas"][0].hard["pods"] if "quotas" in made.more else 99
        self.first = [
            (x["spec"]["nodeName"], TERMINATES if "deletionTimestamp" in x["metadata"] else STANDS)
            for x in self.pods
        ]

    def scale(self, ref: Ref, wanted: int) -> None:
        old = self._pods_of(ref, wanted)
        new = self._planned(ref, wanted - len(old), {}, "5d4f8")
        self.goals |= {*new, *(n for n in old if self.first[n] == ("", STANDS))}
        self.controllers.append(Controller(old, new, wanted, scaled=True, room=None))

    def roll(self, ref: Ref, room: tuple[int, int] | None, change: JSON) -> None:
        wanted = self.made.workloads[ref]["spec"]["replicas"]
        old = self._pods_of(ref, wanted)
        new = self._planned(ref, wanted, change, "next")
        self.goals |= {*new}
        self.controllers.append(Controller(old, new, wanted, scaled=False, room=room))

    def _pods_of(self, ref: Ref, wanted: int) -> list[int]:
        """Those that it has. Waiting ones that are more than wanted end before anything else happens."""
        names = enumerate(pod["metadata"]["name"] for pod in self.pods)
        old = [n for n, x in names if x.startswith(f"{ref.name}-") and self.first[n][1] == STANDS]
        waiting = [n for n in old if not self.first[n][0]]
        for n in waiting[: max(0, len(old) - wanted)]:
            self.first[n] = "", GONE
        return old

    def _planned(self, ref: Ref, count: int, change: JSON, revision: str) -> list[int]:
        template = copy.deepcopy(self.made.template(ref))
        labels = {**template["metadata"]["labels"], "pod-template-hash": revision}
        spec = {**template["spec"], **copy.deepcopy(change), "nodeName": ""}
        clusters.merge_match_label_keys(spec, labels)
        pod = {"metadata": {"name": "new", "namespace": "shop", "labels": labels}, "spec": spec}
        numbers = [*range(len(self.pods), len(self.pods) + count)]
        self.pods += [_served(pod) for _n in numbers]
        self.first += [("", ABSENT) for _n in numbers]
        return numbers

    def ends(self, limit: int = 1000) -> list[Pods]:
        """All that it can come to. Raises TooMany."""
        todo, ends = [tuple(self.first)], []
        seen = set(todo)
        while todo:
            state = todo.pop()
            following = set(map(self._sorted, self._following(state)))
            ends += [] if following else [state]
            todo += following - seen
            seen |= following
            if len(seen) > limit:
                raise TooMany
        return ends

    def without(self, state: Pods) -> set[int]:
        """The pods that the forecast is about and that have no node."""
        return {n for n in self.goals if not state[n][0] and state[n][1] != GONE}

    def _sorted(self, state: Pods) -> Pods:
        """New pods of a controller are alike."""
        alike = list(state)
        for new in (x.new for x in self.controllers if x.new):
            alike[new[0] : new[-1] + 1] = sorted(state[new[0] : new[-1] + 1])
        return tuple(alike)

    def _following(self, state: Pods) -> t.Iterator[Pods]:
        def with_pod(n: int, node: str, stage: int) -> Pods:
            return (*state[:n], (node, stage), *state[n + 1 :])

        exist = sum(1 for _node, stage in state if stage == STANDS)
        for controller in self.controllers:
            for n in controller.may_end(state):
                yield with_pod(n, state[n][0], TERMINATES if state[n][0] else GONE)
            if exist < self.quota and controller.may_create(state):
                absent = [n for n in controller.new if state[n][1] == ABSENT]
                yield with_pod(absent[0], "", STANDS)
        for n, (node, stage) in enumerate(state):
            if stage == TERMINATES:
                yield with_pod(n, "", GONE)
            elif stage == STANDS and not node:
                yield from (with_pod(n, place, STANDS) for place in self._feasible(state, n))

    def _feasible(self, state: Pods, number: int) -> set[str]:
        """The nodes that pass with and without the pods that are nominated for them."""
        placed, nominated = [], []
        for n, (node, stage) in enumerate(state):
            pod, wish = self.pods[n], self.pods[n].get("status", {}).get("nominatedNodeName", "")
            if stage == TERMINATES:
                pod = {**pod, "metadata": {**pod["metadata"], "deletionTimestamp": NOW}}
            if node:
                placed.append({**pod, "spec": {**pod["spec"], "nodeName": node}})
            elif wish and n != number and stage == STANDS:
                nominated.append({**pod, "spec": {**pod["spec"], "nodeName": wish}})
        nodes, spaces = list(self.made.nodes.values()), list(self.made.namespaces.values())
        found = World(nodes, placed, spaces).feasible(self.pods[number])
        if not nominated:
            return found
        there = World(nodes, [*placed, *nominated], spaces)
        wished = {x["spec"]["nodeName"] for x in nominated}
        return {x for x in found if x not in wished or not there.verdicts(self.pods[number], x)}


def _served(pod: JSON) -> JSON:
    """A pod as the API server has it."""
    ports = pod["spec"].get("containers", [{}])[0].get("ports", [])
    for port in ports if pod["spec"].get("hostNetwork") else []:
        port["hostPort"] = port["containerPort"]
    return pod


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
