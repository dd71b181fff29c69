# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The plan of a roll-out: which instances move, how, in which order, and which stay behind and why.

Pure. The plan is a forecast: the scheduler chooses the node, so after each move it is made anew from
a new snapshot. It is the same for check mode and for the real run.
"""

from __future__ import annotations

import typing as t
from dataclasses import dataclass, field

from ..model.collector import collector_paused
from ..model.objects import Placement
from ..model.plan import Left, Method, Move, Plan
from ..model.snapshot import Snapshot
from ..scheduling.node_table import NodeSet
from ..scheduling.scores import meeting_nodes
from .candidates import Candidate, Wanted, candidates
from .feasible import arrange
from .healing import TARGETS, Chosen, Healer, why
from .order import order
from .ranking import Dislikes, cheaper
from .transit import transit
from .world import Verified, World

Uid = str
Scope = t.Literal["violating", "unmet", "outdated", "all"]

_GENTLY = frozenset({Method.MIGRATE})


@dataclass(frozen=True, slots=True)
class Request:
    """What a plan is asked for.

    `busy` are instances in flight: they are neither moved nor left (nor are those that somebody
    else migrates to a node that has been found). `spent` are instances that may
    not be moved (again), with the reason.
    """

    wanted: Wanted
    scope: Scope = "violating"
    allow: frozenset[Method] = frozenset({Method.MIGRATE})
    activate_foreign_changes: bool = False
    busy: frozenset[Uid] = frozenset()
    spent: t.Mapping[Uid, str] = field(default_factory=dict)


def plan_moves(
    snapshot: Snapshot,
    request: Request,
    found: t.Sequence[Candidate] | None = None,
    *,
    verified: Verified | None = None,
) -> Plan:
    """The fewest moves that do what the scope asks for, and who is left, with the reason.

    `found` are the candidates of the snapshot, `verified` is its verification, where the caller has
    them already. The index is given back as it was.
    """
    with collector_paused():
        if found is None:
            found = candidates(
                snapshot,
                request.wanted,
                activate_foreign_changes=request.activate_foreign_changes,
            )
        on_the_way = transit(snapshot, request.wanted.places)
        away = request.busy | on_the_way.instances
        movable = [x for x in found if x.uid not in away] if away else found
        world = World.of(snapshot, movable, on_the_way=on_the_way, verified=verified)
        return _Planner(request, world, movable).plan()


class _Planner:
    def __init__(self, request: Request, world: World, found: t.Sequence[Candidate]) -> None:
        self.request = request
        self.world = world
        self.candidates = world.candidates
        elsewhere = [x for x in found if x.uid not in world.candidates]
        self.waiting = [x for x in elsewhere if not x.node]
        self.astray = [x for x in elsewhere if x.node]
        self.links = world.links
        self.healer = Healer(world, self.links, self._methods, self._dislikes)
        self.left: dict[Uid, Left] = {}

    def plan(self) -> Plan:
        sequence = self.healer.heal_violators(self.world.violators())
        concerned = self.healer.concerned
        for uid in (x for x in self.candidates if x in concerned):
            if self.world.broken(uid):
                self._leave(self.candidates[uid], self._why_left(uid))
        for found in self.astray:
            self._leave(found, f"its node {found.node} is not there")
        if self.request.scope == "unmet":
            sequence += self._improve()
        elif self.request.scope != "violating":
            sequence += self._renew()
        while self.world.tried:
            self.world.undo()
        moves = self._ordered(sequence)
        return Plan((*moves, *self._make_again()), tuple(self.left.values()))

    def _methods(self, uid: Uid) -> tuple[Method, ...]:
        if uid in self.request.spent:
            return ()
        found = self.candidates[uid]
        if self.request.allow == _GENTLY:
            return (Method.MIGRATE,) if found.migrates else ()
        return tuple(method for method in found.effect.methods if method in self.request.allow)

    def _dislikes(self, uid: Uid) -> Dislikes:
        """What the instance prefers, each with its weight and the nodes where it would not have it.
        A soft spread constraint has no weight of its own and counts as the least."""
        found = self.candidates[uid]
        if not _prefers(found.wanted.placement):
            return ()
        known = meeting_nodes(self.world.declared, found.wanted, without=found.pod.uid)
        every = self.world.table.all
        return [(preference.weight or 1, every & ~nodes) for preference, nodes in known]

    def _worse(self, uid: Uid, node: str) -> int:
        """The weight of what the instance prefers and would not have on the node."""
        n = self.world.table.numbers[node]
        return _cost(self._dislikes(uid), n)

    def _better(self, uid: Uid, nodes: NodeSet) -> NodeSet:
        """Those of some nodes that the instance would like better than where it is."""
        dislikes = self._dislikes(uid)
        here = _cost(dislikes, self.world.table.numbers[self.world.node_of[uid]])
        return cheaper(nodes, dislikes, here)

    def _improve(self) -> list[Chosen]:
        """Unmet preferences, leaders first; whatever a move breaks is healed before the next."""
        chosen: list[Chosen] = []
        todo = {uid for uid in self.candidates if self._could_be_better(uid)}
        while todo:
            uid = min(todo, key=lambda x: (len(self.links.leaders(x) & todo), self._name(x)))
            todo.discard(uid)
            made = self._better_place(uid)
            if made is None:
                continue
            chosen += [made, *self.healer.follow(uid)]
            near = self.links.linked(uid) | todo
            todo = {x for x in near if x not in self.healer.moved and self._could_be_better(x)}
        return chosen

    def _could_be_better(self, uid: Uid) -> bool:
        return uid not in self.left and self._worse(uid, self.world.node_of[uid]) > 0

    def _better_place(self, uid: Uid) -> Chosen | None:
        options = self.healer.options(uid)
        if options is None:
            self._leave_unless_settled(uid)
            return None
        method, nodes = options
        better = self._better(uid, nodes)
        if not better:
            return None
        return self.healer.make(uid, method, better, "a preference is unmet where it is")

    def _leave_unless_settled(self, uid: Uid) -> None:
        """It has no way to move. That is only worth a word where it would be better elsewhere."""
        found = self.candidates[uid]
        places = self.world.open_set(uid, Method.RECREATE) & self.world.good_set(uid)
        if not self._methods(uid) and self._better(uid, places):
            self._leave(found, f"a preference is unmet; {self._why_not_moved(found)}")

    def _renew(self) -> list[Chosen]:
        """Everything that is to run by its declared terms, leaders first."""
        every = self.request.scope == "all"
        reason = "every instance was asked for" if every else "it runs by terms of before"
        todo = {
            uid
            for uid, found in self.candidates.items()
            if (every or found.outdated) and uid not in self.healer.moved and uid not in self.left
        }
        chosen: list[Chosen] = []
        while todo:
            uid = min(todo, key=lambda x: (len(self.links.leaders(x) & todo), self._name(x)))
            todo.discard(uid)
            made = self._in_place_or_elsewhere(uid, reason)
            if made is not None:
                chosen += [made, *self.healer.follow(uid)]
                todo -= self.healer.moved
        return chosen

    def _in_place_or_elsewhere(self, uid: Uid, reason: str) -> Chosen | None:
        if uid in self.healer.moved:
            return None
        methods = self._methods(uid)
        for method in methods:
            nodes = self.world.open_set(uid, method) & self.world.good_set(uid)
            if nodes:
                return self.healer.make(uid, method, nodes, reason)
        found = self.candidates[uid]
        if methods:
            self._leave(found, f"{reason}; no node is open to it while it {_stays(methods[-1])}")
        elif uid in self.request.spent:
            return None
        else:
            self._leave(found, f"{reason}; {self._why_not_moved(found)}")
        return None

    def _make_again(self) -> t.Iterator[Move]:
        """Instances that wait for a node under terms of before, and would find one with theirs."""
        for found in self.waiting:
            allowed = found.effect.allowed(self.request.allow)
            if not found.outdated or found.workload is None:
                continue
            probe = found.probe(Method.RECREATE)
            nodes = self.world.running.open_nodes(probe)
            if allowed is not Method.RECREATE:
                self._leave(found, f"it is Pending; {self._why_not_moved(found)}")
            elif not nodes:
                self._leave(found, "it is Pending, and no node is open to it by its new terms")
            elif found.uid in self.request.spent:
                self._leave(found, self.request.spent[found.uid])
            else:
                reason = "it is Pending by terms of before"
                targets = self.world.ranking.first(nodes, (), TARGETS)
                yield _move(found, Method.RECREATE, "", targets, reason, ())

    def _ordered(self, sequence: list[Chosen]) -> list[Move]:
        numbers = self.world.table.numbers
        after = order(
            sequence,
            self.links,
            self._open_at_first,
            lambda chosen, node: bool(chosen.nodes >> numbers[node] & 1),
        )
        return [
            _move(self.candidates[x.uid], x.method, x.source, x.targets, x.reason, after[x.uid])
            for x in sequence
        ]

    def _open_at_first(self, chosen: Chosen) -> bool:
        n = self.world.table.numbers[chosen.node]
        return bool(self.world.open_set(chosen.uid, chosen.method) >> n & 1)

    def _leave(self, found: Candidate, reason: str) -> None:
        ref = found.workload.ref if found.workload is not None else None
        self.left[found.uid] = Left(
            found.instance.ref, found.uid, ref, found.node, reason, found.effect.passing
        )

    def _why_left(self, uid: Uid) -> str:
        found = self.candidates[uid]
        seen = why(self.world, uid)
        if not self._methods(uid):
            return f"{seen}; {self._why_not_moved(found)}"
        return f"{seen}; {self._proof(uid) or 'no node is open to it'}"

    def _why_not_moved(self, found: Candidate) -> str:
        if found.uid in self.request.spent:
            return self.request.spent[found.uid]
        if not found.effect.methods:
            return found.effect.reason
        needs = " or ".join(str(method) for method in found.effect.methods)
        allowed = ", ".join(sorted(map(str, self.request.allow))) or "nothing"
        because = f" ({found.effect.reason})" if found.effect.reason else ""
        return f"moving it takes {needs}{because}, and allowed is {allowed}"

    def _proof(self, uid: Uid) -> str:
        """Why no arrangement gives all of its group a place, where that can be said."""
        found = arrange(self.world, self.links, [uid])
        if found is None or not found.assignment.unplaced:
            return ""
        crowd = ", ".join(sorted(self._name(str(x)) for x in found.assignment.crowd))
        room = ", ".join(sorted(map(str, found.assignment.room))) or "no domain"
        count = len(found.assignment.crowd)
        return f"{count} instances ({crowd}) that keep apart over {found.key} can only use: {room}"

    def _name(self, uid: Uid) -> str:
        return self.candidates[uid].instance.ref.name


def _move(
    found: Candidate,
    method: Method,
    source: str,
    targets: tuple[str, ...],
    reason: str,
    after: tuple[Uid, ...],
) -> Move:
    if found.workload is None:
        raise AssertionError(f"{found.instance.ref} belongs to no workload, and is not moved")
    ref = found.workload.ref
    return Move(found.instance.ref, found.uid, ref, method, source, targets, reason, after)


def _prefers(placement: Placement) -> bool:
    return bool(
        placement.preferred_node_terms
        or placement.preferred_affinity
        or placement.preferred_anti_affinity
        or any(each.when_unsatisfiable == "ScheduleAnyway" for each in placement.spread)
    )


def _cost(dislikes: Dislikes, n: int) -> int:
    return sum(weight for weight, nodes in dislikes if nodes >> n & 1)


def _stays(method: Method) -> str:
    return "still runs" if method is Method.MIGRATE else "is away"
