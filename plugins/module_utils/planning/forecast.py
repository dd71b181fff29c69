# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What would come of a change: two snapshots compared, before it and after it.

Pure. Whoever has to find a place is a game of its own (`decide`); whoever runs and breaks what is
declared now is healed by the planner. The answer is the worst of both, and of what cannot leave.
"""

from __future__ import annotations

import typing as t
from dataclasses import dataclass, replace

from ..model.objects import Pod, Ref
from ..model.plan import Method, Move
from ..model.snapshot import Snapshot, Unreadable
from ..model.topology import Topology
from ..scheduling.index import Index
from ..verdicts.successor import NEXT
from ..verdicts.waiting import Waiting
from .afterwards import Afterwards
from .changed_machines import NAMED, ChangedMachines
from .decide import (
    NOT_ALL_TRIED,
    Answer,
    Decision,
    Rules,
    decide,
    leans_on_the_lost,
    worst_of,
)
from .displaced import Cause, Displacement, Fate
from .fill import Filling, Run, Seeker
from .foreseen import Deadlock, Forecast, Stuck, Unplaced
from .not_made_again import not_made_again
from .not_renewed import NotRenewed
from .outcomes import LIMIT
from .proof_words import ProofWords, listed
from .reach import reach
from .seekers import Seekers, Sought, remaining
from .stay_behind import StayBehind
from .ways_out import ways_out
from .what_if import rollout_room
from .world import index_of
from .written import touched

LEANING = (
    "not guaranteed: some must be near pods that end now, and the scheduler may look again at who"
    " was refused only after five minutes"
)
NOT_RENEWED = (
    "not certain: machines that stay where they are run by terms of before, so that the scheduler may"
    " give others places that the new rules forbid"
)
BREAKABLE = (
    "not certain: somebody leaves or comes whom new rules look at, and the scheduler does not ask them"
    " once their machines have places"
)
NOT_PROVEN = "not proven: machines may move otherwise than planned, and make room"


def forecast(
    before: Snapshot,
    after: Snapshot,
    *,
    members: t.Collection[Ref] = (),
    scaled: t.Collection[Ref] = (),
    lost_nodes: t.Collection[str] = (),
    cause: Cause = "drain",
    topology: Topology | None = None,
    limit: int = LIMIT,
    assumed: t.Sequence[str] = (),
    estimated: t.Sequence[str] = (),
) -> Forecast:
    """What would come of the change that leads from `before` to `after` (see `what_if`).

    `members` are workloads that are asked about whether the change touches them or not: machines of
    theirs that break what is declared have to move, and who waits already is to be placed; so is who
    waits of those `scaled`.
    `lost_nodes` and `cause` are those of the change: a node may have been cordoned before it, so that
    the snapshots do not tell.
    `limit` bounds how many states a search looks at. `assumed` says what had to be assumed:
    then nothing is called guaranteed. `estimated` says what may be otherwise for better or worse:
    then nothing is called impossible either.
    """
    gaps = blind_spots(after)
    if gaps:
        proof = tuple(f"nobody can say: {gap}" for gap in gaps)
        return Forecast(Answer.UNKNOWN, proof, unreadable=gaps)
    asked = _Asked(
        touched(before, after),
        frozenset(members),
        frozenset(scaled),
        frozenset(lost_nodes),
        cause,
    )
    found = _Forecaster(before, after, asked, topology or Topology.of(), limit).forecast()
    return _qualified(found, assumed, estimated)


_LESS_SURE: t.Final = {
    Answer.GUARANTEED: (Answer.POSSIBLE, "not guaranteed"),
    Answer.IMPOSSIBLE: (Answer.UNKNOWN, "not proven"),
}


def _qualified(found: Forecast, assumed: t.Sequence[str], estimated: t.Sequence[str]) -> Forecast:
    """The forecast with no more claimed than its assumptions bear."""
    sure = found.answer is Answer.GUARANTEED
    why = [*estimated, *(assumed if sure else ())]
    if not why or found.answer not in _LESS_SURE or (found.to_place == 0 and sure):
        return found
    answer, words = _LESS_SURE[found.answer]
    return replace(
        found,
        answer=answer,
        proof=(*found.proof, *(f"{words}, since {each}" for each in why)),
        pending=tuple(replace(each, certain=False) for each in found.pending),
        least_pending=0 if estimated else found.least_pending,
    )


def blind_spots(snapshot: Snapshot) -> tuple[Unreadable, ...]:
    """What could not be read and matters: all that was asked for, volumes only where claims are."""
    claims = any(pod.claims for pod in snapshot.pods)
    return tuple(
        gap
        for gap in snapshot.unreadable
        if claims or not gap.resource.startswith("persistentvolume")
    )


@dataclass(frozen=True, slots=True)
class _Asked:
    """The workloads that a question is about, those with another template and others that it names;
    and the nodes that are lost."""

    touched: frozenset[Ref]
    members: frozenset[Ref]
    scaled: frozenset[Ref]
    lost_nodes: frozenset[str]
    cause: Cause

    @property
    def to_obey(self) -> frozenset[Ref]:
        """Whose machines have to move where they break what is declared."""
        return self.touched | self.members

    @property
    def to_be_placed(self) -> frozenset[Ref]:
        """Of which who waits already is to be placed."""
        return self.touched | self.members | self.scaled


class _Forecaster:
    def __init__(
        self,
        before: Snapshot,
        after: Snapshot,
        asked: _Asked,
        topology: Topology,
        limit: int,
    ) -> None:
        self.before = before
        self.after = after
        self.topology = topology
        self.limit = limit
        self.touched = asked.touched
        self.to_obey = asked.to_obey
        self.lost_nodes = asked.lost_nodes
        self.cause = asked.cause
        self.displacement = Displacement(after)
        self.sought = Seekers(before, after, self.touched, asked.to_be_placed).find()
        displaced = {found.uid for found in self.sought}
        self.changed = ChangedMachines(after, asked.to_obey, displaced, topology, limit)
        self.plan = self.changed.plan
        self.index = index_of(after, self.changed.pods())
        self.waiting = Waiting(self.index, topology)

    def forecast(self) -> Forecast:
        self._drop_hopeless()
        filling = self._filling()
        lost = [n for n, found in enumerate(self.sought) if found.way == "again"]
        leaning = leans_on_the_lost(filling, lost)
        decided = decide(filling, self._rules(leaning))
        decision = self._as_sure(decided, filling, leaning)
        moved = self.changed.judge(self.sought)
        proof = [*self._proof(filling, decided, decision), *moved.why]
        if moved.proven is not None:
            least, never = moved.proven.least, moved.proven.never
            decision, proof = replace(decision, least=least, never=never), [*moved.why]
        blocked = self._blocked()
        answers = [decision.answer, moved.answer]
        if blocked:
            answers.append(Answer.IMPOSSIBLE)
        answer = worst_of(answers)
        if leaning and answer is Answer.POSSIBLE:
            proof.append(LEANING)
        elif decision.is_untried and not decision.doubt and moved.proven is None:
            proof.append(NOT_ALL_TRIED)
        proof += [f"{found.instance} stays on {found.node}: {found.reason}" for found in blocked]
        pending, stuck = self._stay_behind(filling, decision)
        migrating = {n for n, x in enumerate(self.sought) if x.way == "migrate" and x.seeker.goal}
        return Forecast(
            answer=answer,
            proof=tuple(proof),
            pending=tuple(pending),
            stuck=(*blocked, *stuck, *self.changed.cannot_migrate()),
            moves=(*self.plan.moves, *self._moves(filling, decision.best)),
            left=self.plan.left,
            deadlock=self._deadlock(filling, decision) or moved.deadlock,
            findings=tuple(not_made_again(self.before, self.after, self.lost_nodes, self.cause)),
            to_place=filling.goals,
            least_pending=min(decision.surely_without(migrating), len(pending)),
        )

    # What is compared.

    def _filling(self, index: Index | None = None) -> Filling:
        seekers = [found.seeker for found in self.sought]
        return Filling(index or self.index, seekers, ended=self.after.ending)

    def _drop_hopeless(self) -> None:
        """What waited before and can never be placed competes for nothing."""
        filling = self._filling()
        if filling.goals == len(self.sought):
            return
        within = reach(filling)
        kept = zip(self.sought, within, strict=True)
        self.sought = [found for found, nodes in kept if nodes or found.seeker.goal]

    def _rules(self, leaning: bool) -> Rules:
        workloads = {found.ref: found for found in self.after.workloads}
        rolling = [found for found in self.sought if found.way == "roll"]
        rooms = [rollout_room(workloads[x.workload]) for x in rolling if x.workload]
        return Rules(
            fair=not leaning and all(room.unavailable == 0 for room in rooms),
            tight=all(room.unavailable <= 1 for room in rooms),
            limit=self.limit,
        )

    # Answers and why.

    def _as_sure(self, decision: Decision, filling: Filling, leaning: bool) -> Decision:
        """No proof where machines move or ought to: the scheduler may choose other nodes for them.
        Nor where somebody who has a place may break what is declared: then it is possible only where
        a course is known after which all rules are obeyed."""
        plan, staying = self.plan, NotRenewed(self.changed.staying, self.index)
        afterwards = Afterwards(self.after, self.changed, self.sought, self.to_obey)
        breaks = staying.may_be_broken_by(seeker.pod for seeker in filling.seekers)
        breakable = breaks or afterwards.may_break(self.index)
        if decision.answer is Answer.IMPOSSIBLE and (plan.moves or plan.left or breakable):
            doubt, nobody = NOT_PROVEN, frozenset[int]()
            return replace(decision, answer=Answer.UNKNOWN, least=0, never=nobody, doubt=doubt)
        if decision.answer not in (Answer.GUARANTEED, Answer.POSSIBLE):
            return decision
        if not breakable and not (plan.moves and self.sought):
            return decision
        doubt = NOT_RENEWED if breaks else BREAKABLE
        best = decision.best
        well = afterwards.is_well(best)
        if breaks and not well:
            obeying = index_of(self.after, staying.keeping_away(self.changed.pods()))
            best = decide(self._filling(obeying), self._rules(leaning)).best
            well = afterwards.is_well(best)
        if not well:
            return replace(decision, answer=Answer.UNKNOWN, doubt=doubt)
        if not breakable:
            return decision
        return replace(decision, answer=Answer.POSSIBLE, best=best, doubt=doubt)

    def _proof(self, filling: Filling, decided: Decision, decision: Decision) -> list[str]:
        """What was found (`decided`), and why less is claimed where it is (`decision`)."""
        found = self._found(filling, decided)
        if decided.answer is Answer.IMPOSSIBLE and decision.doubt:
            found = [f"unless others move: {text}" for text in found]
        elif decision.answer is Answer.UNKNOWN and decision.doubt:
            found = [
                f"places were found for all {filling.goals}, but no way in which no new rule is"
                " broken then"
            ]
        return [*found, decision.doubt] if decision.doubt else found

    def _found(self, filling: Filling, decision: Decision) -> list[str]:
        words = self._words(filling)
        if decision.proofs:
            return [words.text(proof) for proof in decision.proofs]
        if decision.answer is Answer.IMPOSSIBLE:
            return [
                f"every choice of nodes was tried: at most {filling.goals - decision.least} of"
                f" {filling.goals} find a place"
            ]
        if decision.answer is Answer.UNKNOWN:
            return [
                f"no way was found to place all {filling.goals}, and not every way was tried"
                " (the search has a limit)"
            ]
        return []

    def _words(self, filling: Filling) -> ProofWords:
        return ProofWords(
            self.topology,
            lambda n: self.sought[n].name,
            lambda n: self.sought[n].vmi is not None,
            lambda n: self.waiting.reason(filling.seekers[n].pod),
        )

    # Who stays behind.

    def _stay_behind(
        self, filling: Filling, decision: Decision
    ) -> tuple[list[Unplaced], list[Stuck]]:
        """Those without a place at the end of the best course; where there is one that places
        all, those of the worst, who may be without."""
        run = decision.worst if decision.answer is Answer.POSSIBLE else decision.best
        if run is None or decision.answer is Answer.GUARANTEED:
            return [], []
        with filling.played(run):
            behind = StayBehind(
                self.after,
                self.touched,
                self.sought,
                self.displacement,
                self.index,
                self.topology,
            )
            return behind.of(filling, decision.never)

    def _blocked(self) -> list[Stuck]:
        """Who is held on a drained node: it cannot be migrated, and must not be restarted."""
        if self.cause != "drain":
            return []
        leaving = {found.seeker.source or "" for found in self.sought}
        found = []
        for instance in remaining(self.after, self.lost_nodes, leaving):
            displaced = self.displacement.of(instance, "drain")
            if displaced.fate is not Fate.ROOTED:
                reason = displaced.reason or "nothing takes it off the node"
                node = instance.node_name
                found.append(Stuck(instance.ref, instance.workload, node, reason))
        return found

    # Moves, and ways out where there are none.

    def _moves(self, filling: Filling, run: Run) -> list[Move]:
        """What leaves a lost node, in the order of a course that works. A roll-out is its
        controller's doing."""
        found = []
        with filling.beginning(run):
            for number, node in run:
                sought = self.sought[number] if node else None
                if sought and sought.source and sought.source.node_name in self.lost_nodes:
                    names = filling.table.names_of(filling.open_nodes(number))
                    others = tuple(name for name in names if name != node)
                    found.append(_move(sought, sought.source, (node, *others)[:NAMED]))
                filling.step(number, node)
        return found

    def _deadlock(self, filling: Filling, decision: Decision) -> Deadlock | None:
        """Whether those who cannot be placed one by one could be if their sources were gone."""
        placed = {number for number, _node in decision.best}
        bound = [
            found
            for number, found in enumerate(self.sought)
            if found.seeker.source is not None and number not in placed
        ]
        if decision.answer is not Answer.IMPOSSIBLE or not bound:
            return None
        refs = tuple(dict.fromkeys(found.instance for found in bound))
        sources = {found.seeker.source for found in bound}
        taken = [self.index.take_out(x) for x in sources if x is not None and x in self.index]
        try:
            free = Filling(self.index, [self._without_source(found) for found in self.sought])
            answer = decide(free, Rules(limit=self.limit)).answer
        finally:
            for pod in taken:
                self.index.place(pod, pod.node_name)
        if answer not in (Answer.GUARANTEED, Answer.POSSIBLE):
            return None
        rolls = any(found.way == "roll" for found in bound)
        what = "old pods stand" if rolls else "source still runs"
        names = listed([found.name for found in bound])
        why = f"there is room for {names}, but not while the {what}"
        return Deadlock(refs, why, ways_out(refs, rolls=rolls))

    def _without_source(self, found: Sought) -> Seeker:
        if found.way == "migrate" and found.vmi is not None and found.source is not None:
            workload = self.displacement.workload(found.workload)
            return Seeker(self.displacement.renewed(found.source, found.vmi, workload))
        return replace(found.seeker, source=None)


def _move(found: Sought, source: Pod, targets: tuple[str, ...]) -> Move:
    method = Method.MIGRATE
    if found.way == "again":
        machine = found.workload is not None and found.workload.kind == "VirtualMachine"
        method = Method.RESTART if machine else Method.RECREATE
    ref = found.instance
    if found.vmi is None:
        ref = replace(ref, name=ref.name.removesuffix(NEXT))
    uid = source.uid
    if found.vmi is not None and source.owner is not None:
        uid = source.owner.uid
    workload = found.workload or ref
    return Move(ref, uid, workload, method, source.node_name, targets, "its node is lost")
