# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Running machines of changed templates, or asked about: who has to move, and whether it can be done.

Pure.
"""

from __future__ import annotations

import typing as t
from dataclasses import dataclass, replace

from ..model.objects import Pod, Ref
from ..model.plan import Method, Plan
from ..model.snapshot import Snapshot
from ..model.topology import Topology
from ..scheduling.index import Index, pod_key
from ..verdicts.attribution import HAZARDS
from ..verdicts.waiting import Waiting
from .candidates import Candidate, Wanted, candidates
from .decide import Answer
from .foreseen import Deadlock, Stuck
from .links import Links
from .moves import Request, plan_moves
from .not_renewed import looked_at
from .search import fewest_moves
from .seekers import Sought
from .static_proofs import StaticProofs, static_proofs
from .ways_out import ways_out
from .world import World, index_of

EVERY_METHOD = frozenset(Method)
NAMED = 20
"""Nodes named at most in a list."""

SEARCHED = 7
"""Members up to which every sequence of moves is tried."""

NONE_HEALS = "every sequence of single moves was tried, and none ends with all rules obeyed"
GIVEN_UP = "no sequence of moves was found that heals all, and not every one was tried"
MAY_BE_HELPED = (
    "no sequence of moves heals all as things are, but others leave or look for places meanwhile, and"
    " that may open some"
)
HEALED_BESIDES = (
    "moves were found that heal all, but not whether they still do when the others have places"
)


@dataclass(frozen=True, slots=True)
class Judgement:
    """`why` not. `deadlock`: who stands in whose way. `proven` is what speaks against any places."""

    answer: Answer
    why: tuple[str, ...] = ()
    deadlock: Deadlock | None = None
    proven: StaticProofs | None = None


class ChangedMachines:
    """The candidates of the workloads in `concerned`, but for `displaced` (uids), and their plan."""

    def __init__(
        self,
        after: Snapshot,
        concerned: t.Collection[Ref],
        displaced: t.Container[str],
        topology: Topology,
        limit: int,
    ) -> None:
        self.after = after
        self.topology = topology
        self.limit = limit
        self.candidates = self._candidates(concerned, displaced)
        self.plan = self._plan()

    @property
    def staying(self) -> list[Candidate]:
        """Those that no move is planned for."""
        moved = {move.uid for move in self.plan.moves}
        return [found for found in self.candidates if found.uid not in moved]

    def pods(self, *, declared: bool = False) -> list[Pod]:
        """All pods with the planned moves made. Who moves runs as declared then; who stays, too, if
        `declared`."""
        found = {x.uid: x for x in self.candidates}
        wanted = {x.pod.uid: x.wanted for x in self.candidates} if declared else {}
        for move in self.plan.moves:
            if move.targets and move.uid in found:
                pod = found[move.uid].wanted
                wanted[pod.uid] = replace(pod, node_name=move.targets[0])
        return [wanted.get(pod.uid, pod) for pod in self.after.pods]

    def judge(self, sought: t.Sequence[Sought]) -> Judgement:
        """Whether all rules can be obeyed. `sought` have to find places meanwhile."""
        if not self.plan.moves and not self.plan.left:
            return Judgement(Answer.GUARANTEED)
        proven = static_proofs(self.after, self.candidates, sought, self.topology)
        if proven.texts:
            return Judgement(Answer.IMPOSSIBLE, proven.texts, proven=proven)
        if not self.plan.left:
            sure = not sought and self._any_node_will_do()
            return Judgement(Answer.GUARANTEED if sure else Answer.POSSIBLE)
        refs = tuple(left.instance for left in self.plan.left)
        reasons = [f"{left.instance}: {left.reason}" for left in self.plan.left]
        answer, why = self._by_any_sequence(sought)
        if answer is Answer.POSSIBLE:
            return Judgement(answer)
        if answer is Answer.UNKNOWN:
            return Judgement(answer, (*reasons, why))
        deadlock = Deadlock(refs, why, ways_out(refs, rolls=False))
        return Judgement(answer, (why, *reasons), deadlock)

    def _any_node_will_do(self) -> bool:
        """Whether one move is needed, and nobody breaks a rule after it whichever node is chosen."""
        if len(self.plan.moves) != 1:
            return False
        (move,) = self.plan.moves
        world = World.of(self.after, self.candidates)
        vmi = world.candidates[move.uid].instance.vmi
        if move.method is Method.MIGRATE and (vmi is None or not vmi.live_migratable):
            return False
        nodes = world.open_set(move.uid, move.method)
        concerned = {move.uid, *world.violators(), *world.links.linked(move.uid)}
        others = self._around(world, move.uid)
        if not nodes or nodes.bit_count() * (len(concerned) + len(others)) > self.limit:
            return False
        if looked_at(world.declared, [x.wanted for x in self.candidates], self.after.ending):
            return False
        return all(
            self._obeyed(world, move.uid, node, concerned, others)
            for node in world.table.names_of(nodes)
        )

    def _around(self, world: World, uid: str) -> list[str]:
        """The keys of pods that are no candidates, stand well, and that the move of one concerns."""
        index, found = world.running, world.candidates[uid]
        candidates = {each.pod.uid for each in self.candidates}
        keys = {key: key for pod in index.pods if (key := pod_key(pod)) not in candidates}
        placed = ((key, index.pod(key)) for key in keys)
        links = Links.of(index, keys, lambda key: key, placed)
        near = links.around(index.placed(found.pod.uid)) | links.around(
            index.candidate(found.wanted)
        )
        return [key for key in near if not _breaks(index, key)]

    def _obeyed(
        self,
        world: World,
        uid: str,
        node: str,
        concerned: t.Iterable[str],
        others: t.Iterable[str],
    ) -> bool:
        world.move(uid, node)
        broken = any(world.broken(each) for each in concerned)
        broken = broken or any(_breaks(world.running, key) for key in others)
        world.undo()
        return not broken

    def obeyed_with(
        self, leaving: t.Iterable[str], coming: t.Iterable[tuple[Pod, str]], also: t.Iterable[str]
    ) -> bool:
        """Whether all rules are obeyed once the planned moves are made, the pods of these keys have
        left, and others have come to nodes: by the changed machines, and by the keys in `also`."""
        world = World.of(self.after, self.candidates)
        for move in self.plan.moves:
            if move.targets:
                world.move(move.uid, move.targets[0])
        for key in leaving:
            if key in world.declared:
                world.declared.take_out(key)
        for pod, node in coming:
            world.declared.place(pod, node)
        return not world.violators() and not any(_breaks(world.declared, key) for key in also)

    def _by_any_sequence(self, sought: t.Sequence[Sought]) -> tuple[Answer, str]:
        """Whether some sequence of single moves heals all, and why not."""
        members = [found.uid for found in self.candidates]
        if len(members) > SEARCHED:
            return Answer.UNKNOWN, GIVEN_UP
        world = World.of(self.after, self.candidates)
        methods = {x.uid: x.effect.methods for x in self.candidates if x.effect.methods}
        found = fewest_moves(world, members, methods, once=False, in_place=True, limit=self.limit)
        if found.moves is not None:
            return (Answer.UNKNOWN, HEALED_BESIDES) if sought else (Answer.POSSIBLE, "")
        if not found.exhausted:
            return Answer.UNKNOWN, GIVEN_UP
        if self._helped_by(world.declared, sought):
            return Answer.UNKNOWN, MAY_BE_HELPED
        return Answer.IMPOSSIBLE, NONE_HEALS

    def _helped_by(self, index: Index, sought: t.Sequence[Sought]) -> bool:
        """Whether places may come to be open once others have theirs, or have gone."""
        if any(found.seeker.source is not None for found in sought):
            return True
        others = [*(found.seeker.pod for found in sought), *self.after.ending]
        return looked_at(index, [found.wanted for found in self.candidates], others)

    def cannot_migrate(self) -> t.Iterator[Stuck]:
        """Changed machines that nothing could live-migrate where they would be once all run as
        declared."""
        index = index_of(self.after, self.pods(declared=True))
        waiting = Waiting(index, self.topology)
        for found in self.candidates:
            if Method.MIGRATE not in found.effect.methods or found.pod.uid not in index:
                continue
            target = found.probe(Method.MIGRATE)
            here = index.node_of(found.pod.uid)
            if index.feasible(target, exclude={here}):
                continue
            restart = found.probe(Method.RECREATE)
            open_to = index.feasible(restart, without=found.pod.uid)
            reason = waiting.reason(target)
            workload = found.workload.ref if found.workload is not None else None
            yield Stuck(found.instance.ref, workload, here, reason, open_to[:NAMED])

    def _candidates(
        self, concerned: t.Collection[Ref], displaced: t.Container[str]
    ) -> tuple[Candidate, ...]:
        """Running machines of the workloads that are concerned: they may have to move."""
        workloads = {found.ref: found for found in self.after.workloads}
        refs = frozenset(ref for ref in concerned if workloads[ref].kind.virtual_machines)
        if not refs:
            return ()
        found = candidates(self.after, Wanted(workloads=refs))
        return tuple(x for x in found if x.node and x.uid not in displaced)

    def _plan(self) -> Plan:
        if not self.candidates:
            return Plan()
        request = Request(
            Wanted(), scope="violating", allow=EVERY_METHOD, activate_foreign_changes=True
        )
        return plan_moves(self.after, request, self.candidates)


def _breaks(index: Index, key: str) -> bool:
    """Whether a placed pod breaks a rule by its own terms."""
    reasons = (reason for failure in index.verify(key) for reason in failure.reasons)
    return any(reason.kind not in HAZARDS for reason in reasons)
