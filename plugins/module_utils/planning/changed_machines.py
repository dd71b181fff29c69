# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Running machines of changed templates, or asked about: who has to move, and whether it can be done.

Pure.
"""

from __future__ import annotations

import typing as t
from dataclasses import replace

from ..model.objects import Pod, Ref
from ..model.plan import Method, Plan
from ..model.snapshot import Snapshot
from ..model.topology import Topology
from ..scheduling.index import Index
from ..scheduling.node_terms import matches_node
from ..verdicts.attribution import HAZARDS
from ..verdicts.waiting import Waiting
from .candidates import Candidate, Wanted, candidates
from .decide import Answer
from .fill import Filling, Seeker
from .foreseen import Deadlock, Stuck
from .moves import Request, plan_moves
from .not_renewed import helped_by
from .proof import Proof, examine
from .proof_words import ProofWords
from .reach import reach
from .search import fewest_moves
from .seekers import Sought
from .ways_out import ways_out
from .world import World

EVERY_METHOD = frozenset(Method)
NAMED = 20
"""Nodes named at most in a list."""

SEARCHED = 7
"""Members up to which every sequence of moves is tried."""


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

    def judge(self, sought: t.Sequence[Sought]) -> tuple[Answer, list[str], Deadlock | None]:
        """Whether all rules can be obeyed, why not, and who stands in whose way. `sought` have to find
        places meanwhile."""
        if not self.plan.moves and not self.plan.left:
            return Answer.GUARANTEED, [], None
        proofs, texts = self._static_proofs(sought)
        if proofs:
            return Answer.IMPOSSIBLE, texts, None
        if not self.plan.left:
            sure = not sought and self._any_node_will_do()
            return Answer.GUARANTEED if sure else Answer.POSSIBLE, [], None
        refs = tuple(left.instance for left in self.plan.left)
        reasons = [f"{left.instance}: {left.reason}" for left in self.plan.left]
        exhausted = self._no_sequence([found.seeker.pod for found in sought])
        if exhausted is None:
            return Answer.UNKNOWN, [*reasons, "no sequence of moves was found that heals all"], None
        if not exhausted:
            return Answer.POSSIBLE, [], None
        why = "every sequence of single moves was tried, and none ends with all rules obeyed"
        return Answer.IMPOSSIBLE, [why, *reasons], Deadlock(refs, why, ways_out(refs, rolls=False))

    def _static_proofs(self, sought: t.Sequence[Sought]) -> tuple[tuple[Proof, ...], list[str]]:
        """Against any arrangement at all of the machines that were changed, running or not."""
        free = [self._freed(found) for found in self.candidates]
        gone = {found.pod.uid for found in self.candidates}
        sought = [*free, *(x for x in sought if x.way != "roll")]
        pods = (pod for pod in self.after.pods if pod.uid not in gone or not pod.uid)
        filling = Filling(build(self.after, pods), [found.seeker for found in sought])
        within = reach(filling)
        for number, found in enumerate(self.candidates):
            if self._may_stay(filling.index, found):
                within[number] |= 1 << filling.table.numbers[found.node]
        examined = examine(filling, within).proofs
        proofs = tuple(proof for proof in examined if proof.kind != "resources")
        waiting = Waiting(filling.index, self.topology)
        words = ProofWords(
            self.topology,
            lambda n: sought[n].name,
            lambda n: sought[n].vmi is not None,
            lambda n: waiting.reason(filling.seekers[n].pod),
        )
        return proofs, [words.text(proof) for proof in proofs]

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
        if not nodes or nodes.bit_count() * len(concerned) > self.limit:
            return False
        return all(
            self._obeyed(world, move.uid, node, concerned) for node in world.table.names_of(nodes)
        )

    def _obeyed(self, world: World, uid: str, node: str, concerned: t.Iterable[str]) -> bool:
        world.move(uid, node)
        broken = any(world.broken(each) for each in concerned)
        world.undo()
        return not broken

    def _may_stay(self, index: Index, found: Candidate) -> bool:
        """Whether nothing but others of its kind keeps a running machine off its own node: a cordon
        or too little room drives nobody away."""
        failures = index.failures(found.probe(Method.RECREATE), found.node)
        kinds = {reason.kind for failure in failures for reason in failure.reasons}
        kinds -= {*HAZARDS, "skew", "affinity"}
        node = next(node for node in self.after.nodes if node.name == found.node)
        return not kinds or (kinds == {"node-affinity"} and matches_node(found.asked, node))

    def _freed(self, found: Candidate) -> Sought:
        seeker = Seeker(found.probe(Method.RECREATE))
        workload = found.workload.ref if found.workload is not None else None
        return Sought(
            seeker, found.instance.ref, found.uid, workload, "again", None, found.instance.vmi
        )

    def _no_sequence(self, sought: t.Sequence[Pod]) -> bool | None:
        """Whether no sequence of single moves heals all; None: nobody knows, since there are too many
        to try, or it depends on what becomes of others that look for places."""
        members = [found.uid for found in self.candidates]
        if len(members) > SEARCHED:
            return None
        world = World.of(self.after, self.candidates)
        methods = {x.uid: x.effect.methods for x in self.candidates if x.effect.methods}
        found = fewest_moves(world, members, methods, once=False, in_place=True, limit=self.limit)
        if found.moves is not None:
            return None if sought else False
        alone = not helped_by(world.declared, self.candidates, sought)
        return True if found.exhausted and alone else None

    def cannot_migrate(self) -> t.Iterator[Stuck]:
        """Changed machines that nothing could live-migrate where they would be once all run as
        declared."""
        index = build(self.after, self.pods(declared=True))
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


def build(snapshot: Snapshot, pods: t.Iterable[Pod]) -> Index:
    """The index of a snapshot with other pods."""
    return Index.build(snapshot.nodes, pods, snapshot.namespaces, claim_terms=snapshot.claim_terms)
