# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which instances move, and in which sequence, so that no rule is broken: one group at a time.

Pure. A group is first healed greedily, which is exact wherever one instance's leaving is what
another one waits for. Where that needs more moves than a lower bound, or comes to a halt, small
groups are searched exactly.
"""

from __future__ import annotations

import itertools
import typing as t
from dataclasses import dataclass

from ..model.plan import Method
from ..scheduling.failure import Failure
from .effects import EASE
from .feasible import matched
from .links import Links
from .search import fewest_moves
from .world import World

Uid = str

SMALL = 6
"""Members up to which a group is searched exactly."""

CHOICES = 8
"""Nodes that an exact search tries for one move."""

_PAIRWISE = frozenset({"anti", "existing-anti"})
_NOT_PAIRWISE = frozenset({"affinity", "skew"})


@dataclass(frozen=True, slots=True)
class Chosen:
    """One move of a sequence. `targets` are the nodes that were open and good in its turn."""

    uid: Uid
    method: Method
    source: str
    node: str
    targets: tuple[str, ...]
    reason: str


class Healer:
    """Heals a world. `methods` are those that may be used for each instance, gentlest first.

    `worse` says how badly a node suits an instance's preferences: less is better.
    """

    def __init__(
        self,
        world: World,
        links: Links,
        methods: t.Mapping[Uid, tuple[Method, ...]],
        worse: t.Callable[[Uid, str], int],
    ) -> None:
        self.world = world
        self.links = links
        self.methods = methods
        self.worse = worse
        self.moved: set[Uid] = set()

    def heal(self, suspects: t.Iterable[Uid]) -> list[Chosen]:
        """Move as few as can be so that none of `suspects`, and nobody whom that concerns, breaks
        a rule. Who still does afterwards could not be helped."""
        violators = {uid: None for uid in suspects if self.world.broken(uid)}
        chosen: list[Chosen] = []
        for group in self._groups(violators):
            chosen += self._heal_group(group)
        return chosen

    def follow(self, moved: Uid) -> list[Chosen]:
        """What a move makes necessary: followers of the one that moved."""
        return self.heal(sorted(self.links.linked(moved)))

    def options(self, uid: Uid) -> tuple[Method, tuple[str, ...]] | None:
        """The gentlest method with a good node, and those nodes."""
        if uid in self.moved:
            return None
        for method in self.methods.get(uid, ()):
            here = self.world.node_of[uid]
            nodes = self.world.good(uid, self.world.open_to(uid, method))
            elsewhere = tuple(node for node in nodes if node != here)
            if elsewhere:
                return method, elsewhere
        return None

    def ranked(self, uid: Uid, nodes: t.Iterable[str]) -> tuple[str, ...]:
        return tuple(sorted(nodes, key=lambda node: self.rank(uid, node)))

    def rank(self, uid: Uid, node: str) -> tuple[int, int, str]:
        """Nodes in the order in which the scheduler is likely to prefer them."""
        return self.worse(uid, node), self.world.load[node], node

    def make(
        self, uid: Uid, method: Method, nodes: t.Iterable[str], reason: str, node: str = ""
    ) -> Chosen:
        """Try a move to the likeliest of `nodes`, or to `node`."""
        source = self.world.node_of[uid]
        targets = self.ranked(uid, nodes)
        chosen = Chosen(uid, method, source, node or targets[0], targets, reason)
        self.world.move(uid, chosen.node)
        self.moved.add(uid)
        return chosen

    def _groups(self, violators: t.Iterable[Uid]) -> list[list[Uid]]:
        """Violators that are linked, directly or through one another."""
        left = dict.fromkeys(violators)
        groups = []
        while left:
            group, ahead = [], [next(iter(left))]
            del left[ahead[0]]
            while ahead:
                uid = ahead.pop()
                group.append(uid)
                near = [found for found in self.links.linked(uid) if found in left]
                for found in near:
                    del left[found]
                ahead += near
            groups.append(group)
        return groups

    def _heal_group(self, group: list[Uid]) -> list[Chosen]:
        members = sorted({*group, *(x for uid in group for x in self.links.linked(uid))})
        small = len(members) <= SMALL
        least = self._at_least(group) if small else len(group)
        chosen = self._greedily(group)
        unhealed = any(self.world.broken(uid) for uid in members)
        if not unhealed and (len(chosen) <= least or not small):
            return chosen
        self._take_back(chosen)
        best = self._searched(group, members, unhealed) if small else self._rearranged(group)
        if best is None or (not unhealed and len(best) >= len(chosen)):
            self._take_back(best or [])
            return [self._again(move) for move in chosen]
        return best

    def _searched(
        self, group: list[Uid], members: list[Uid], unhealed: bool
    ) -> list[Chosen] | None:
        """A shortest sequence. Leaders who break no rule stay, if there is any way without them:
        it is the followers who follow."""
        idle = {x for uid in group for x in self.links.leaders(uid)} - set(group)
        best = self._exactly(members, idle)
        return self._exactly(members, ()) if best is None and unhealed and idle else best

    def _greedily(self, group: list[Uid]) -> list[Chosen]:
        violators = set(group)
        chosen = []
        while violators:
            best = min(self._startable(violators), default=None)
            if best is None:
                break
            _key, uid, method, nodes = best
            chosen.append(self.make(uid, method, nodes, why(self.world, uid)))
            concerned = violators | self.links.linked(uid)
            violators = {found for found in concerned if self.world.broken(found)}
        return chosen

    def _startable(
        self, violators: set[Uid]
    ) -> t.Iterator[tuple[tuple[t.Any, ...], Uid, Method, tuple[str, ...]]]:
        for uid in violators:
            options = self.options(uid)
            if options is None:
                continue
            method, nodes = options
            leaders = len(self.links.leaders(uid) & violators)
            freed = len(self.links.apart(uid) & violators)
            yield (leaders, -freed, EASE.index(method), len(nodes)), uid, method, nodes

    def _at_least(self, group: list[Uid]) -> int:
        """A lower bound on the moves that a small group needs.

        Who breaks a rule of the node itself must go. Of two that keep apart and share a domain one
        must go: the fewest that touch every such pair. For other rules at least one must.
        """
        failures = {uid: self.world.broken(uid) for uid in group}
        kinds = {uid: _kinds(found) for uid, found in failures.items()}
        if any(found & _NOT_PAIRWISE for found in kinds.values()):
            return 1
        must = {uid for uid, found in kinds.items() if found - _PAIRWISE}
        pairs = [
            (one, other)
            for one, other in itertools.combinations(sorted(set(group) - must), 2)
            if other in self.links.apart(one) and self._share(one, other, failures[one])
        ]
        return len(must) + _fewest_touching(pairs)

    def _share(self, one: Uid, other: Uid, failures: t.Iterable[Failure]) -> bool:
        """Both are in one domain of a key that the first may not share."""
        keys = {x.topology_key for f in failures for x in f.reasons if x.kind in _PAIRWISE}
        nodes = self.world.labels
        here, there = (nodes.get(self.world.node_of[uid], {}) for uid in (one, other))
        return any(key in here and here[key] == there.get(key) for key in keys)

    def _take_back(self, chosen: list[Chosen]) -> None:
        for move in reversed(chosen):
            self.world.undo()
            self.moved.discard(move.uid)

    def _again(self, move: Chosen) -> Chosen:
        return self.make(move.uid, move.method, move.targets, move.reason, move.node)

    def _exactly(self, members: list[Uid], idle: t.Container[Uid]) -> list[Chosen] | None:
        methods = {
            uid: self.methods[uid][0]
            for uid in members
            if self.methods.get(uid) and uid not in self.moved and uid not in idle
        }
        found = fewest_moves(self.world, members, methods, choices=self._choices)
        if found.moves is None:
            return None
        chosen = []
        for uid, node in found.moves:
            nodes = self.world.good(uid, self.world.open_to(uid, methods[uid]))
            reason = why(self.world, uid)
            chosen.append(self.make(uid, methods[uid], {node, *nodes}, reason, node))
        return chosen

    def _choices(self, uid: Uid, nodes: t.Collection[str]) -> t.Collection[str]:
        """The most likely of many nodes: a search tries each."""
        if len(nodes) <= CHOICES:
            return nodes
        return self.ranked(uid, nodes)[:CHOICES]

    def _rearranged(self, group: list[Uid]) -> list[Chosen] | None:
        """A large group that keeps apart: who goes where is matched at once, then made step by
        step. None where not all of it can be made."""
        goal = matched(self.world, self.links, group)
        if goal is None:
            return None
        waiting = {
            uid: nodes for uid, nodes in goal.items() if self.world.node_of[uid] not in nodes
        }
        chosen: list[Chosen] = []
        while waiting:
            for uid, nodes in sorted(waiting.items()):
                options = self.options(uid)
                targets = tuple(n for n in options[1] if n in nodes) if options else ()
                if options and targets:
                    reason = why(self.world, uid)
                    chosen.append(self.make(uid, options[0], targets, reason))
                    del waiting[uid]
                    break
            else:
                self._take_back(chosen)
                return None
        return chosen


def why(world: World, uid: Uid) -> str:
    """The reasons why an instance cannot stay, as people read them."""
    texts = [reason.text for found in world.broken(uid) for reason in found.reported]
    return "; ".join(dict.fromkeys(texts)) or "makes room for another instance"


def _kinds(failures: t.Iterable[Failure]) -> set[str]:
    return {reason.kind for found in failures for reason in found.reasons}


def _fewest_touching(pairs: t.Sequence[tuple[Uid, Uid]]) -> int:
    """The size of the smallest set with one of each pair (a vertex cover), by trying."""
    involved = sorted({uid for pair in pairs for uid in pair})
    for size in range(len(involved) + 1):
        for cover in itertools.combinations(involved, size):
            if all(one in cover or other in cover for one, other in pairs):
                return size
    return len(involved)
