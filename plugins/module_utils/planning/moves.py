# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The plan of a roll-out: which instances move, how, in which order, and which stay behind and why.

Pure. The plan is a forecast: the scheduler chooses the node, so after each move it is made anew from
a new snapshot. It is the same for check mode and for the real run.
"""

from __future__ import annotations

import typing as t
from dataclasses import dataclass, field

from ..model.objects import Placement
from ..model.plan import Left, Method, Move, Plan
from ..model.snapshot import Snapshot
from ..scheduling.scores import unmet
from .candidates import Candidate, Wanted, candidates
from .feasible import arrange
from .healing import Chosen, Healer, why
from .links import Links
from .order import order
from .transit import transit
from .world import World

Uid = str
Scope = t.Literal["violating", "unmet", "outdated", "all"]


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
    snapshot: Snapshot, request: Request, found: t.Sequence[Candidate] | None = None
) -> Plan:
    """The fewest moves that do what the scope asks for, and who is left, with the reason.

    `found` are the candidates of the snapshot, where the caller has them already.
    """
    if found is None:
        found = candidates(
            snapshot,
            request.wanted,
            activate_foreign_changes=request.activate_foreign_changes,
        )
    away = request.busy | transit(snapshot).instances
    return _Planner(snapshot, request, [x for x in found if x.uid not in away]).plan()


class _Planner:
    def __init__(self, snapshot: Snapshot, request: Request, found: t.Sequence[Candidate]) -> None:
        self.request = request
        self.candidates = {candidate.uid: candidate for candidate in found if candidate.node}
        self.waiting = [candidate for candidate in found if not candidate.node]
        self.world = World.of(snapshot, found, namespaces=request.wanted.places)
        self.links = Links(
            {uid: candidate.wanted for uid, candidate in self.candidates.items()},
            snapshot.namespaces,
        )
        self.healer = Healer(self.world, self.links, self._methods(), self._worse)
        self.left: dict[Uid, Left] = {}
        self._picky = {uid for uid, x in self.candidates.items() if _prefers(x.wanted.placement)}

    def plan(self) -> Plan:
        sequence = self.healer.heal(self.candidates)
        for uid in self.candidates:
            if self.world.broken(uid):
                self._leave(self.candidates[uid], self._why_left(uid))
        if self.request.scope == "unmet":
            sequence += self._improve()
        elif self.request.scope != "violating":
            sequence += self._renew()
        while self.world.tried:
            self.world.undo()
        moves = self._ordered(sequence)
        return Plan((*moves, *self._make_again()), tuple(self.left.values()))

    def _methods(self) -> dict[Uid, tuple[Method, ...]]:
        allow, spent = self.request.allow, self.request.spent
        return {
            uid: tuple(method for method in found.effect.methods if method in allow)
            for uid, found in self.candidates.items()
            if uid not in spent
        }

    def _worse(self, uid: Uid, node: str) -> int:
        """The weight of what the instance prefers and would not have on the node. A soft spread
        constraint has no weight of its own and counts as the least."""
        found = self.candidates[uid]
        if uid not in self._picky:
            return 0
        left = unmet(self.world.declared, found.wanted, node, without=found.pod.uid)
        return sum(preference.weight or 1 for preference in left)

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
        here = self._worse(uid, self.world.node_of[uid])
        options = self.healer.options(uid)
        if options is None:
            self._leave_unless_settled(uid, here)
            return None
        method, nodes = options
        better = tuple(node for node in nodes if self._worse(uid, node) < here)
        if not better:
            return None
        return self.healer.make(uid, method, better, "a preference is unmet where it is")

    def _leave_unless_settled(self, uid: Uid, here: int) -> None:
        """It has no way to move. That is only worth a word where it would be better elsewhere."""
        found = self.candidates[uid]
        places = self.world.good(uid, self.world.open_to(uid, Method.RECREATE))
        if any(self._worse(uid, node) < here for node in places) and not self._methods().get(uid):
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
        methods = self.healer.methods.get(uid, ())
        for method in methods:
            nodes = self.world.good(uid, self.world.open_to(uid, method))
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
            nodes = self.world.running.feasible(probe)
            if allowed is not Method.RECREATE:
                self._leave(found, f"it is Pending; {self._why_not_moved(found)}")
            elif not nodes:
                self._leave(found, "it is Pending, and no node is open to it by its new terms")
            elif found.uid in self.request.spent:
                self._leave(found, self.request.spent[found.uid])
            else:
                reason = "it is Pending by terms of before"
                yield _move(found, Method.RECREATE, "", nodes, reason, ())

    def _ordered(self, sequence: list[Chosen]) -> list[Move]:
        after = order(sequence, self.links, self._open_at_first)
        return [
            _move(self.candidates[x.uid], x.method, x.source, x.targets, x.reason, after[x.uid])
            for x in sequence
        ]

    def _open_at_first(self, chosen: Chosen) -> bool:
        return chosen.node in self.world.open_to(chosen.uid, chosen.method)

    def _leave(self, found: Candidate, reason: str) -> None:
        ref = found.workload.ref if found.workload is not None else None
        self.left[found.uid] = Left(
            found.instance.ref, found.uid, ref, found.node, reason, found.effect.passing
        )

    def _why_left(self, uid: Uid) -> str:
        found = self.candidates[uid]
        seen = why(self.world, uid)
        if not self.healer.methods.get(uid):
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


def _stays(method: Method) -> str:
    return "still runs" if method is Method.MIGRATE else "is away"
