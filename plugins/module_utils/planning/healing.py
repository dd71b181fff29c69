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
from ..scheduling.node_table import NodeSet
from .effects import EASE
from .feasible import matched
from .links import Links
from .ranking import Dislikes
from .search import fewest_moves
from .world import World

Uid = str

SMALL = 6
"""Members up to which a group is searched exactly."""

CHOICES = 8
"""Nodes that an exact search tries for one move."""

TARGETS = 20
"""Nodes named at most for one move: the likeliest of those that are open."""

RETRIES = 3
"""How often the groups that found no room are healed again before all others, which may have taken
it: groups that have nothing in common but room on nodes are not planned as one."""

_PAIRWISE = frozenset({"anti", "existing-anti"})
_NOT_PAIRWISE = frozenset({"affinity", "skew"})


@dataclass(frozen=True, slots=True)
class Chosen:
    """One move of a sequence. `nodes` were open and good in its turn; `targets` names the likeliest
    of them, first the one that the moves after it count on."""

    uid: Uid
    method: Method
    source: str
    node: str
    targets: tuple[str, ...]
    reason: str
    nodes: NodeSet = 0


class Healer:
    """Heals a world. `methods` gives those that may be used for an instance, gentlest first.

    `dislikes` gives the nodes that suit an instance's preferences badly, and how badly.
    """

    def __init__(
        self,
        world: World,
        links: Links,
        methods: t.Callable[[Uid], tuple[Method, ...]],
        dislikes: t.Callable[[Uid], Dislikes],
    ) -> None:
        self.world = world
        self.links = links
        self.methods = methods
        self.dislikes = dislikes
        self.moved: set[Uid] = set()
        self.concerned: set[Uid] = set()
        """Those that broke a rule, and all that a move may have mattered to."""

    def heal(self, suspects: t.Iterable[Uid]) -> list[Chosen]:
        """Move as few as can be so that none of `suspects`, and nobody whom that concerns, breaks
        a rule. Who still does afterwards could not be helped."""
        return self.heal_violators(uid for uid in suspects if self.world.broken(uid))

    def heal_violators(self, violators: t.Iterable[Uid]) -> list[Chosen]:
        """The same for those who are known to break a rule."""
        violators = dict.fromkeys(violators)
        self.concerned.update(violators)
        groups = self._groups(violators)
        chosen = self._heal_groups(groups)
        for _retry in range(RETRIES):
            left = self._unhealed(violators)
            if not chosen or not left:
                break
            groups.sort(key=left.isdisjoint)
            self._take_back(chosen)
            could = any(self.options(uid) is not None for uid in left)
            again = self._heal_groups(groups) if could else []
            if could and len(self._unhealed(violators)) < len(left):
                chosen = again
                continue
            self._take_back(again)
            chosen = [self._again(move) for move in chosen]
            break
        return chosen

    def _heal_groups(self, groups: t.Iterable[list[Uid]]) -> list[Chosen]:
        return [move for group in groups for move in self._heal_group(group)]

    def _unhealed(self, violators: t.Iterable[Uid]) -> set[Uid]:
        """Those who still break a rule, though they may be moved."""
        return {uid for uid in violators if self.methods(uid) and self.world.broken(uid)}

    def follow(self, moved: Uid) -> list[Chosen]:
        """What a move makes necessary: followers of the one that moved."""
        return self.heal(sorted(self.links.linked(moved)))

    def options(self, uid: Uid) -> tuple[Method, NodeSet] | None:
        """The gentlest method with a good node, and those nodes."""
        if uid in self.moved:
            return None
        here = 1 << self.world.table.numbers[self.world.node_of[uid]]
        for method in self.methods(uid):
            open_set = self.world.open_set(uid, method) & ~here
            elsewhere = open_set and open_set & self.world.good_set(uid)
            if elsewhere:
                return method, elsewhere
        return None

    def likeliest(self, uid: Uid, nodes: NodeSet, limit: int) -> tuple[str, ...]:
        """The first nodes in the order in which the scheduler is likely to prefer them."""
        return self.world.ranking.first(nodes, self.dislikes(uid), limit)

    def make(self, uid: Uid, method: Method, nodes: NodeSet, reason: str, node: str = "") -> Chosen:
        """Try a move to the likeliest of `nodes`, or to `node`."""
        source = self.world.node_of[uid]
        targets = self.likeliest(uid, nodes, TARGETS)
        if node:
            targets = (node, *(each for each in targets if each != node))[:TARGETS]
        chosen = Chosen(uid, method, source, node or targets[0], targets, reason, nodes)
        self.world.move(uid, chosen.node)
        self.moved.add(uid)
        self.concerned |= self.links.linked(uid)
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
        return self._joined(groups)

    def _joined(self, groups: list[list[Uid]]) -> list[list[Uid]]:
        """Small groups that are linked to the same bystander become one: his move may heal both."""
        joined: list[list[Uid]] = []
        of_member: dict[Uid, list[Uid]] = {}
        for group in groups:
            members = self._members(group)
            near = {id(found): found for uid in members if (found := of_member.get(uid))}
            for other in near.values():
                union = members | self._members(other)
                if len(union) <= SMALL:
                    other.extend(group)
                    group, members = other, union
                    break
            else:
                joined.append(group)
            of_member.update(dict.fromkeys(members, group))
        return joined

    def _members(self, group: t.Iterable[Uid]) -> set[Uid]:
        """Those of a group, and all whom their moves matter to."""
        return {*group, *(x for uid in group for x in self.links.linked(uid))}

    def _heal_group(self, group: list[Uid]) -> list[Chosen]:
        members = sorted(self._members(group))
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
    ) -> t.Iterator[tuple[tuple[t.Any, ...], Uid, Method, NodeSet]]:
        for uid in violators:
            options = self.options(uid)
            if options is None:
                continue
            method, nodes = options
            leaders = len(self.links.leaders(uid) & violators)
            freed = len(self.links.apart(uid) & violators)
            yield (leaders, -freed, EASE.index(method), nodes.bit_count()), uid, method, nodes

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
        table = self.world.table
        here, there = (table.labels[table.numbers[self.world.node_of[uid]]] for uid in (one, other))
        return any(key in here and here[key] == there.get(key) for key in keys)

    def _take_back(self, chosen: list[Chosen]) -> None:
        for move in reversed(chosen):
            self.world.undo()
            self.moved.discard(move.uid)

    def _again(self, move: Chosen) -> Chosen:
        return self.make(move.uid, move.method, move.nodes, move.reason, move.node)

    def _exactly(self, members: list[Uid], idle: t.Container[Uid]) -> list[Chosen] | None:
        methods = {
            uid: allowed[:1]
            for uid in members
            if uid not in self.moved and uid not in idle and (allowed := self.methods(uid))
        }
        found = fewest_moves(self.world, members, methods, choices=self._choices)
        if found.moves is None:
            return None
        chosen = []
        for uid, node in found.moves:
            (method,) = methods[uid]
            nodes = self.world.open_set(uid, method) & self.world.good_set(uid)
            nodes |= 1 << self.world.table.numbers[node]
            reason = why(self.world, uid)
            chosen.append(self.make(uid, method, nodes, reason, node))
        return chosen

    def _choices(self, uid: Uid, nodes: NodeSet) -> tuple[str, ...]:
        """The most likely of many nodes: a search tries each."""
        if nodes.bit_count() <= CHOICES:
            return self.world.table.names_of(nodes)
        return self.likeliest(uid, nodes, CHOICES)

    def _rearranged(self, group: list[Uid]) -> list[Chosen] | None:
        """A large group that keeps apart: who goes where is matched at once, then made step by
        step. None where not all of it can be made."""
        goal = matched(self.world, self.links, group)
        if goal is None:
            return None
        table = self.world.table
        waiting = {
            uid: table.of(table.numbers[node] for node in nodes)
            for uid, nodes in goal.items()
            if self.world.node_of[uid] not in nodes
        }
        chosen: list[Chosen] = []
        while waiting:
            for uid, nodes in sorted(waiting.items()):
                options = self.options(uid)
                targets = options[1] & nodes if options else 0
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
