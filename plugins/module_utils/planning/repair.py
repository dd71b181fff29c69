# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which moves repair violations, in an order in which each is possible? One group at a time.

A group is first repaired greedily, which is exact wherever one instance waits only for another to
leave. If that stops, or needs more moves than a lower bound, a small group is searched exactly and a
large one that keeps apart is matched with its topology domains.
"""

from __future__ import annotations

import itertools
import typing as t
from dataclasses import dataclass

from ..model.plan import Method, Uid
from ..scheduler.framework import FilterStatus
from ..scheduler.nodes import NodeSet
from .search import arrange, shortest_repair
from .simulation import ClusterSimulation, PreferencePenalties

SMALL = 6
"""Members up to which a group is searched exactly."""

CHOICES = 8
"""Nodes that an exact search tries for one move."""

TARGETS = 20
"""Nodes named at most for one move: the likeliest of the open ones."""

RETRIES = 3
"""How often groups without room are repaired again before all others, which may have taken it.
Groups that share nothing but room on nodes are not planned as one."""

_EASE = (Method.MIGRATE, Method.RESTART, Method.RECREATE)
"""Methods, the least disruptive first."""

_PAIRWISE = frozenset({"anti", "existing-anti"})
_NOT_PAIRWISE = frozenset({"affinity", "skew"})


@dataclass(frozen=True, slots=True)
class PlannedMove:
    """One move of a sequence. `nodes` were open and good in its turn; `targets` names the likeliest
    of them, first the one that the moves after it count on."""

    uid: Uid
    method: Method
    source: str
    node: str
    targets: tuple[str, ...]
    reason: str
    nodes: NodeSet = 0


class RepairPlanner:
    """Repairs a simulation. `methods`: those that an instance may move by, gentlest first. `permits`: whether a move
    may be made; where not, its instance has lost the method. `preference_penalties`: the nodes that do not meet an
    instance's preferences, with weights. `preferred_node`: the one that is tried first for an instance."""

    def __init__(
        self,
        simulation: ClusterSimulation,
        methods: t.Callable[[Uid], tuple[Method, ...]],
        preference_penalties: t.Callable[[Uid], PreferencePenalties],
        preferred_node: t.Callable[[Uid], str] = lambda _uid: "",
        permits: t.Callable[[Uid, Method], bool] = lambda _uid, _method: True,
    ) -> None:
        self.preferred_node, self.permits = preferred_node, permits
        self.simulation = simulation
        self.dependencies = simulation.dependencies
        self.methods = methods
        self.preference_penalties = preference_penalties
        self.moved: set[Uid] = set()
        self.suspects: set[Uid] = set()
        """Instances that violated something, and all that are related to a moved one."""

    def repair(self, suspects: t.Iterable[Uid]) -> list[PlannedMove]:
        """The fewest moves after which none of `suspects`, and no instance that is related to a
        moved one, violates anything. What still does afterwards cannot be repaired."""
        violating = [uid for uid in suspects if self.simulation.violations(uid)]
        self.suspects.update(violating)
        groups = self._groups(violating)
        chosen = self._repair_groups(groups)
        for _retry in range(RETRIES):
            left = self._still_violating(violating)
            if not chosen or not left:
                break
            groups.sort(key=left.isdisjoint)
            self.revert(chosen)
            could = any(self.options(uid) is not None for uid in left)
            again = self._repair_groups(groups) if could else []
            if could and len(self._still_violating(violating)) < len(left):
                chosen = again
                continue
            self.revert(again)
            chosen = [self._repeat(move) for move in chosen]
            break
        return chosen

    def _repair_groups(self, groups: t.Iterable[list[Uid]]) -> list[PlannedMove]:
        return [move for group in groups for move in self._repair_group(group)]

    def _still_violating(self, violating: t.Iterable[Uid]) -> set[Uid]:
        """Those that still violate something, though they may be moved."""
        return {uid for uid in violating if self.methods(uid) and self.simulation.violations(uid)}

    def options(self, uid: Uid) -> tuple[Method, NodeSet] | None:
        """The gentlest method with a good node, and those nodes."""
        if uid in self.moved:
            return None
        here = 1 << self.simulation.table.numbers[self.simulation.node_of[uid]]
        for method in self.methods(uid):
            open_set = self.simulation.open_set(uid, method) & ~here
            elsewhere = open_set and open_set & self.simulation.good_set(uid)
            if elsewhere:
                return method, elsewhere
        return None

    def likeliest(self, uid: Uid, nodes: NodeSet, limit: int) -> tuple[str, ...]:
        """The first nodes in the order in which the scheduler is likely to prefer them."""
        names = self.simulation.ranking.first(nodes, self.preference_penalties(uid), limit)
        return self.preferred_first(uid, nodes, names)[:limit]

    def preferred_first(self, uid: Uid, nodes: NodeSet, names: t.Sequence[str]) -> tuple[str, ...]:
        """The names behind the preferred node of an instance, if that is among `nodes`."""
        first = self.preferred_node(uid)
        number = self.simulation.table.numbers.get(first)
        if number is None or not nodes >> number & 1:
            return tuple(names)
        return (first, *(name for name in names if name != first))

    def make(
        self, uid: Uid, method: Method, nodes: NodeSet, reason: str, node: str = ""
    ) -> PlannedMove:
        """Try a move to the likeliest of `nodes`, or to `node`."""
        source = self.simulation.node_of[uid]
        targets = self.likeliest(uid, nodes, TARGETS)
        if node:
            targets = (node, *(target for target in targets if target != node))[:TARGETS]
        chosen = PlannedMove(uid, method, source, node or targets[0], targets, reason, nodes)
        self.simulation.move(uid, chosen.node)
        self.moved.add(uid)
        self.suspects |= self.dependencies.related(uid)
        return chosen

    def _groups(self, violating: t.Iterable[Uid]) -> list[list[Uid]]:
        """Violating instances that are related, directly or through one another."""
        left = dict.fromkeys(violating)
        groups = []
        while left:
            group, ahead = [], [next(iter(left))]
            del left[ahead[0]]
            while ahead:
                uid = ahead.pop()
                group.append(uid)
                near = [neighbor for neighbor in self.dependencies.related(uid) if neighbor in left]
                for neighbor in near:
                    del left[neighbor]
                ahead += near
            groups.append(group)
        return self._merge_groups(groups)

    def _merge_groups(self, groups: list[list[Uid]]) -> list[list[Uid]]:
        """Small groups with the same related instance become one: its move may repair both."""
        joined: list[list[Uid]] = []
        of_member: dict[Uid, list[Uid]] = {}
        for group in groups:
            members = self._members(group)
            near: list[list[Uid]] = []
            for uid in members:
                near_group = of_member.get(uid)
                if near_group and not any(near_group is group for group in near):
                    near.append(near_group)
            for candidate in near:
                union = members | self._members(candidate)
                if len(union) <= SMALL:
                    candidate.extend(group)
                    group, members = candidate, union
                    break
            else:
                joined.append(group)
            of_member.update(dict.fromkeys(members, group))
        return joined

    def _members(self, group: t.Iterable[Uid]) -> set[Uid]:
        """The instances of a group and all that are related to them."""
        return {*group, *(x for uid in group for x in self.dependencies.related(uid))}

    def _repair_group(self, group: list[Uid]) -> list[PlannedMove]:
        members = sorted(self._members(group))
        small = len(members) <= SMALL
        least = self._lower_bound(group) if small else len(group)
        chosen = self._repair_greedily(group)
        touched = self._members([*group, *(move.uid for move in chosen)])
        unrepaired = any(self.simulation.violations(uid) for uid in touched)
        if not unrepaired and (len(chosen) <= least or not small):
            return chosen
        self.revert(chosen)
        if small:
            # Affinity targets that violate nothing stay if possible: instances with affinity move to them.
            idle = {x for uid in group for x in self.dependencies.affinity_targets(uid)} - set(
                group
            )
            best = self._search(members, idle)
            if best is None and unrepaired and idle:
                best = self._search(members, ())
        else:
            best = self._repair_by_matching(group)
        if best is None or (not unrepaired and len(best) >= len(chosen)):
            self.revert(best or [])
            return self._repeat_harmless(chosen)
        return best

    def _repair_greedily(self, group: list[Uid]) -> list[PlannedMove]:
        violating = set(group)
        chosen = []
        while violating:
            best = min(self._startable(violating), default=None)
            if best is None:
                break
            _key, uid, method, nodes = best
            if not self.permits(uid, method):
                continue
            chosen.append(self.make(uid, method, nodes, violation_text(self.simulation, uid)))
            concerned = violating | self.dependencies.related(uid)
            violating = {member for member in concerned if self.simulation.violations(member)}
        return chosen

    def _startable(
        self, violating: set[Uid]
    ) -> t.Iterator[tuple[tuple[t.Any, ...], Uid, Method, NodeSet]]:
        for uid in violating:
            options = self.options(uid)
            if options is None:
                continue
            method, nodes = options
            targets = len(self.dependencies.affinity_targets(uid) & violating)
            freed = len(self.dependencies.anti_affinity_peers(uid) & violating)
            yield (targets, -freed, _EASE.index(method), nodes.bit_count()), uid, method, nodes

    def _lower_bound(self, group: list[Uid]) -> int:
        """A lower bound on the moves that a small group needs.

        An instance that violates a rule about the node itself must move. Of two that keep apart and
        share a domain one must move: the smallest vertex cover of such pairs. For other rules at
        least one instance must move.
        """
        failures = {uid: self.simulation.violations(uid) for uid in group}
        kinds = {
            uid: {reason.kind for status in statuses for reason in status.reasons}
            for uid, statuses in failures.items()
        }
        if any(x & _NOT_PAIRWISE for x in kinds.values()):
            return 1
        must = {uid for uid, x in kinds.items() if x - _PAIRWISE}
        pairs = [
            (a, b)
            for a, b in itertools.combinations(sorted(set(group) - must), 2)
            if self._must_part(a, b, failures[a])
        ]
        return len(must) + _vertex_cover_size(pairs)

    def _must_part(self, a: Uid, b: Uid, failures: t.Iterable[FilterStatus]) -> bool:
        """Both are in one domain of a key over which a required term keeps them apart."""
        keys = {x.topology_key for f in failures for x in f.reasons if x.kind in _PAIRWISE}
        table, apart = self.simulation.table, self.dependencies.required_apart
        here, there = (table.labels[table.numbers[self.simulation.node_of[uid]]] for uid in (a, b))
        return any(
            key in here and here[key] == there.get(key) and apart(a, key).excludes(apart(b, key))
            for key in keys
        )

    def revert(self, chosen: list[PlannedMove]) -> None:
        for move in reversed(chosen):
            self.simulation.revert()
            self.moved.discard(move.uid)

    def _repeat(self, move: PlannedMove) -> PlannedMove:
        return self.make(move.uid, move.method, move.nodes, move.reason, move.node)

    def _repeat_harmless(self, moves: list[PlannedMove]) -> list[PlannedMove]:
        """Repeat these moves, without the last ones if an instance violates a rule after them that violated none
        before: a pod with affinity to one that moved, or one that is to be spread evenly with others."""
        touched = sorted(self._members([move.uid for move in moves]))
        satisfied = [uid for uid in touched if not self.simulation.violations(uid)]
        made = [self._repeat(move) for move in moves]
        while harmed := next((uid for uid in satisfied if self.simulation.violations(uid)), ""):
            while self.simulation.violations(harmed):
                self.revert([made.pop()])
        return made

    def _search(self, members: list[Uid], idle: t.Container[Uid]) -> list[PlannedMove] | None:
        methods = {
            uid: allowed[:1]
            for uid in members
            if uid not in self.moved and uid not in idle and (allowed := self.methods(uid))
        }
        outcome = shortest_repair(self.simulation, members, methods, choices=self._choices)
        if outcome.moves is None:
            return None
        if not all(self.permits(uid, methods[uid][0]) for uid, _node in outcome.moves):
            return self._search(members, idle)  # without those methods
        chosen = []
        for uid, node in outcome.moves:
            (method,) = methods[uid]
            nodes = self.simulation.open_set(uid, method) & self.simulation.good_set(uid)
            nodes |= 1 << self.simulation.table.numbers[node]
            reason = violation_text(self.simulation, uid)
            chosen.append(self.make(uid, method, nodes, reason, node))
        return chosen

    def _choices(self, uid: Uid, nodes: NodeSet) -> tuple[str, ...]:
        """The most likely of many nodes: a search tries each."""
        if nodes.bit_count() <= CHOICES:
            names = self.simulation.table.names_of(nodes)
            return self.preferred_first(uid, nodes, names)
        return self.likeliest(uid, nodes, CHOICES)

    def _repair_by_matching(self, group: list[Uid]) -> list[PlannedMove] | None:
        """A large group that keeps apart: all members are matched with domains, then moved one by
        one. None if not all of these moves can be made."""
        arrangement = arrange(self.simulation, group)
        if arrangement is None or arrangement.assignment.unplaced:
            return None
        table, node_of = self.simulation.table, self.simulation.node_of
        domains = table.domains(arrangement.key)
        waiting = {
            uid: domains[domain]
            for uid, domain in arrangement.assignment.placed.items()
            if not domains[domain] >> table.numbers[node_of[uid]] & 1
        }
        chosen: list[PlannedMove] = []
        while waiting:
            for uid, nodes in sorted(waiting.items()):
                options = self.options(uid)
                targets = options[1] & nodes if options else 0
                if options and targets and self.permits(uid, options[0]):
                    reason = violation_text(self.simulation, uid)
                    chosen.append(self.make(uid, options[0], targets, reason))
                    del waiting[uid]
                    break
            else:
                self.revert(chosen)
                return None
        return chosen


def violation_text(simulation: ClusterSimulation, uid: Uid) -> str:
    """What an instance violates, in words, or the instance that violates a rule as long as this one stays."""
    if texts := simulation.violation_texts(uid):
        return "; ".join(texts)
    for other in sorted(simulation.dependencies.related(uid)):
        if texts := simulation.violation_texts(other):
            return f"since {simulation.candidates[other].instance.ref} violates {'; '.join(texts)}"
    return "makes room for another instance"


def _vertex_cover_size(pairs: t.Sequence[tuple[Uid, Uid]]) -> int:
    """The size of the smallest set with one of each pair (a vertex cover), by trying."""
    involved = sorted({uid for pair in pairs for uid in pair})
    for size in range(len(involved) + 1):
        for cover in itertools.combinations(involved, size):
            if all(a in cover or b in cover for a, b in pairs):
                return size
    return len(involved)
