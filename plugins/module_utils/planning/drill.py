# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Drills: each domain of a key lost in turn, and who would find a place elsewhere.

Pure. One index serves all drills of a cluster: a drill takes out what is lost, asks, and puts it
back, so that it costs about as much as the instances that it moves.
"""

from __future__ import annotations

import contextlib
import typing as t
from dataclasses import dataclass, field, replace

from ..model.collector import collector_paused
from ..model.objects import Pod, Ref, Toleration
from ..model.snapshot import Instance, Snapshot, Unreadable
from ..model.topology import Topology
from ..scheduling.index import pod_key
from ..scheduling.node_table import NodeSet
from ..scheduling.tolerations import untolerated
from ..verdicts.instances import bound_launcher, instances, launcher_pods
from .blocking import EVICTION, Blocked, Blocking, counted
from .decide import (
    NOT_ALL_TRIED,
    WORSE,
    Answer,
    Decision,
    Rules,
    decide,
    leans_on_the_lost,
)
from .displaced import CORDON, UNREACHABLE, Cause, Displaced, Displacement, Fate, comes_late
from .fill import Filling, Seeker
from .forecast import LEANING, blind_spots
from .narrowing import narrowing
from .proof_words import ProofWords, listed
from .reach import reach
from .transit import settled
from .world import index_of

LIMIT = 400
"""States that one drill looks at."""

SHOWN = 10


@dataclass(frozen=True, slots=True)
class Drill:
    """What the loss of one domain comes to. `displaced` instances have to find a place. `down`
    counts those that stay without one or end for good, as far as that is sure. Where it is
    impossible that all have a place, `pending` are without one in the best course that was found,
    and `stuck` cannot be live-migrated off; else `at_risk` are those for whom it may come to that.
    `blocked` says of each of those what is in its way, at the end of the course that was looked
    at."""

    key: str
    domain: str
    nodes: tuple[str, ...]
    answer: Answer
    displaced: int = 0
    down: int = 0
    pending: tuple[Ref, ...] = ()
    at_risk: tuple[Ref, ...] = ()
    stuck: tuple[Ref, ...] = ()
    gone: tuple[Ref, ...] = ()
    proof: tuple[str, ...] = ()
    blocked: tuple[Blocked, ...] = ()

    @property
    def harm(self) -> tuple[int, int, int, int, str, str]:
        """Sorts the worst first."""
        stuck = len(self.stuck)
        rank = -WORSE.index(self.answer)
        return (
            rank,
            -self.down - stuck,
            -len(self.at_risk),
            -self.displaced,
            self.key,
            self.domain,
        )

    @property
    def hurts(self) -> bool:
        return self.answer is not Answer.GUARANTEED or bool(self.gone)


@dataclass(frozen=True, slots=True)
class Drilled:
    """All drills, the most harmful first."""

    drills: tuple[Drill, ...] = ()
    unreadable: tuple[Unreadable, ...] = ()


def drill(
    snapshot: Snapshot, keys: t.Sequence[str], *, cause: Cause, topology: Topology | None = None
) -> Drilled:
    """Lose each domain of each key (full label keys) in turn. Nothing is known where something
    that matters could not be read: then there are no drills."""
    gaps = blind_spots(snapshot)
    if gaps:
        return Drilled(unreadable=gaps)
    drills = _Drills(settled(snapshot), cause, topology or Topology.of())
    with collector_paused():
        found = [
            drills.lose(key, domain, nodes)
            for key in keys
            for domain, nodes in drills.index.table.domains(key).items()
        ]
    return Drilled(tuple(sorted(found, key=lambda each: each.harm)))


@dataclass
class _Lost:
    """One loss while it is looked at."""

    seekers: list[Seeker] = field(default_factory=list)
    displaced: list[Displaced] = field(default_factory=list)
    blocked: list[Displaced] = field(default_factory=list)
    gone: list[Displaced] = field(default_factory=list)

    @property
    def ended(self) -> list[Pod]:
        """The pods that end with their node."""
        return [
            each.instance.pod
            for each in (*self.displaced, *self.gone)
            if each.fate is not Fate.MIGRATES and each.instance.pod is not None
        ]


class _Drills:
    def __init__(self, snapshot: Snapshot, cause: Cause, topology: Topology) -> None:
        self.snapshot = snapshot
        self.cause = cause
        self.topology = topology
        self.index = index_of(snapshot, snapshot.pods)
        self.displacement = Displacement(snapshot)
        self.on: dict[str, list[Instance]] = {}
        for found in instances(snapshot):
            if found.pod is not None and pod_key(found.pod) in self.index:
                self.on.setdefault(found.node_name, []).append(found)
        launchers = launcher_pods(snapshot)
        self.pending = [
            Seeker(pod, _source_of(pod, launchers), goal=False)
            for pod in snapshot.pods
            if not pod.node_name and not pod.finished and not pod.terminating
        ]
        self.blocking = Blocking(snapshot)
        self._tolerated: dict[tuple[Toleration, ...], bool] = {}

    def lose(self, key: str, domain: str, nodes: NodeSet) -> Drill:
        names = self.index.table.names_of(nodes)
        fates = [
            self.displacement.of(found, self.cause)
            for name in names
            for found in self.on.get(name, ())
        ]
        lost = self._sorted(fates)
        left_over = self._left_over(names)
        leaving = [*lost.ended, *(x for x in self.snapshot.ending if x not in left_over)]
        with self._taken_out(lost, left_over), self.index.shut(nodes, self._tolerates):
            filling = self._filling(lost, nodes, leaving)
            again = [n for n, x in enumerate(lost.displaced) if x.fate is Fate.REMADE]
            fair = not leans_on_the_lost(filling, again)
            decision = decide(filling, Rules(limit=LIMIT, fair=fair, shown=False))
            return self._drill(key, domain, names, lost, filling, decision)

    def _sorted(self, fates: t.Iterable[Displaced]) -> _Lost:
        lost = _Lost()
        for each in fates:
            if each.fate is Fate.BLOCKED:
                lost.blocked.append(each)
            elif each.fate is Fate.GONE:
                lost.gone.append(each)
            elif each.next_pod is not None and each.instance.pod is not None:
                lost.displaced.append(each)
                lost.seekers.append(_seeker(each, each.instance.pod, each.next_pod))
        return lost

    def _filling(self, lost: _Lost, nodes: NodeSet, leaving: t.Sequence[Pod]) -> Filling:
        """Those displaced, and what waits anyway and could ever take their places."""

        def among(seekers: t.Sequence[Seeker]) -> Filling:
            return Filling(self.index, seekers, lambda pod: self._closed(pod, nodes), leaving)

        machines = {each.instance.uid for each in lost.displaced}
        waiting = [
            x for x in self.pending if x.pod.owner is None or x.pod.owner.uid not in machines
        ]
        if not lost.seekers or not waiting:
            return among(lost.seekers)
        seekers = [*lost.seekers, *waiting]
        within = reach(among(seekers))
        return among([x for x, open_to in zip(seekers, within, strict=True) if open_to or x.goal])

    @contextlib.contextmanager
    def _taken_out(self, lost: _Lost, left_over: t.Sequence[Pod]) -> t.Iterator[None]:
        """While it lasts, what ends with its node is gone, or terminating there; `left_over` is
        there, too."""
        ended = lost.ended
        for pod in left_over:
            self.index.place(pod, pod.node_name)
        for pod in ended:
            self.index.take_out(pod_key(pod))
            if self.cause == "failure":
                self.index.place(replace(pod, terminating=True), pod.node_name)
        try:
            yield
        finally:
            for pod in left_over:
                self.index.take_out(pod_key(pod))
            for pod in ended:
                if self.cause == "failure":
                    self.index.take_out(pod_key(pod))
                self.index.place(pod, pod.node_name)

    def _left_over(self, names: t.Container[str]) -> list[Pod]:
        """What terminates already on nodes that fail, and is never gone then."""
        if self.cause == "drain":
            return []
        return [x for x in self.snapshot.ending if x.terminating and x.node_name in names]

    def _closed(self, pod: Pod, nodes: NodeSet) -> NodeSet:
        """Lost nodes, unless the pod tolerates what they are tainted with then."""
        return 0 if self._tolerates(pod.placement.tolerations) else nodes

    def _tolerates(self, tolerations: tuple[Toleration, ...]) -> bool:
        known = self._tolerated.get(tolerations)
        if known is None:
            taints = (CORDON,) if self.cause == "drain" else UNREACHABLE
            left = untolerated(taints, tolerations)
            known = self._tolerated[tolerations] = next(left, None) is None
        return known

    def _drill(
        self,
        key: str,
        domain: str,
        names: tuple[str, ...],
        lost: _Lost,
        filling: Filling,
        decision: Decision,
    ) -> Drill:
        answer = Answer.IMPOSSIBLE if lost.blocked else decision.answer
        if answer is Answer.GUARANTEED and not all(each.sure for each in lost.displaced):
            answer = Answer.POSSIBLE
        sure = decision.answer is Answer.IMPOSSIBLE
        without = self._without(filling, lost, decision)
        moving = {n for n, x in enumerate(lost.displaced) if x.fate is Fate.MIGRATES}
        refs = {lost.displaced[n].instance.ref for n in moving}
        pending = tuple(ref for ref in without if sure and ref not in refs)
        stuck = tuple(ref for ref in without if sure and ref in refs)
        blocked = tuple(each.instance.ref for each in lost.blocked)
        gone = tuple(each.instance.ref for each in lost.gone)
        return Drill(
            key=key,
            domain=domain,
            nodes=names,
            answer=answer,
            displaced=len(lost.displaced) + len(lost.blocked),
            down=min(decision.surely_without(moving), len(pending)) + len(gone),
            pending=pending,
            at_risk=() if sure else tuple(without),
            stuck=(*blocked, *stuck),
            gone=gone,
            proof=tuple(self._proof(filling, lost, decision)),
            blocked=tuple(self._blocked(filling, lost, decision)),
        )

    def _blocked(self, filling: Filling, lost: _Lost, decision: Decision) -> t.Iterator[Blocked]:
        for each in lost.blocked:
            yield Blocked(each.instance.ref, EVICTION, each.reason)
        run = decision.worst if decision.answer is Answer.POSSIBLE else decision.best
        if run is None or decision.answer is Answer.GUARANTEED:
            return
        with filling.played(run):
            for number, each in enumerate(lost.displaced):
                if number in filling.waiting:
                    blocked = self.blocking.of(filling, number, each.instance)
                    if blocked is not None:
                        yield blocked

    def _without(self, filling: Filling, lost: _Lost, decision: Decision) -> list[Ref]:
        run = decision.worst if decision.answer is Answer.POSSIBLE else decision.best
        if run is None or decision.answer is Answer.GUARANTEED:
            return []
        placed = {number for number, _node in run}
        return [
            each.instance.ref for number, each in enumerate(lost.displaced) if number not in placed
        ]

    def _proof(self, filling: Filling, lost: _Lost, decision: Decision) -> t.Iterator[str]:
        words = ProofWords(
            self.topology,
            lambda n: lost.displaced[n].instance.ref.name,
            lambda n: lost.displaced[n].instance.vmi is not None,
            lambda n: narrowing(filling, n),
        )
        for proof in decision.proofs[:SHOWN]:
            yield words.text(proof)
        if len(decision.proofs) > SHOWN:
            yield f"and {len(decision.proofs) - SHOWN} more"
        if decision.answer is Answer.IMPOSSIBLE and not decision.proofs:
            yield "every choice of nodes was tried"
        if decision.answer is Answer.UNKNOWN:
            yield "no way was found to place all, and not every way was tried"
        if decision.is_untried:
            yield NOT_ALL_TRIED
        elif decision.answer is Answer.POSSIBLE and decision.worst is None:
            yield LEANING
        unsure = [each.instance.ref.name for each in lost.displaced if not each.sure]
        if unsure and decision.answer in (Answer.GUARANTEED, Answer.POSSIBLE):
            yield f"whether these can be live-migrated is not known: {listed(unsure)}"
        for each in lost.blocked[:SHOWN]:
            yield f"{each.instance.ref.name} holds the drain up: {each.reason}"
        for each in lost.gone[:SHOWN]:
            yield f"{each.instance.ref.name} ends for good: {each.reason}"


def _source_of(pod: Pod, launchers: t.Mapping[str, t.Sequence[Pod]]) -> str | None:
    """The key of the pod that leaves when this one has a place: it is the target of a migration."""
    source = bound_launcher(launchers.get(pod.owner.uid, ())) if pod.owner is not None else None
    return pod_key(source) if source is not None else None


def _seeker(displaced: Displaced, pod: Pod, next_pod: Pod) -> Seeker:
    if displaced.fate is Fate.MIGRATES:
        return Seeker(next_pod, pod_key(pod))
    return Seeker(next_pod, after=pod_key(pod), late=comes_late(pod))


def table(drilled: Drilled, topology: Topology, *, shown: int = 20) -> str:
    """The drills that hurt as text, in columns, the worst first; or why nobody can say."""
    if drilled.unreadable:
        head = "nobody can say which loss would hurt, since not all could be read:"
        return "\n".join([head, *map(str, drilled.unreadable)])
    drills = drilled.drills
    hurting = [each for each in drills if each.hurts]
    rows = [("LOST", "INSTANCES", "ANSWER", "DOWN", "STUCK", "WHY")]
    for each in hurting[:shown]:
        why = counted(each.blocked) or next(iter(each.proof), "")
        rows.append(
            (
                f"{topology.name_of(each.key)} {each.domain}",
                str(each.displaced),
                str(each.answer),
                str(each.down),
                str(len(each.stuck)),
                why,
            )
        )
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]) - 1)]
    lines = [
        "  ".join(
            [*(cell.ljust(w) for cell, w in zip(row, widths, strict=False)), row[-1]]
        ).rstrip()
        for row in rows
    ]
    if len(hurting) > shown:
        lines.append(f"and {len(hurting) - shown} more that hurt")
    lines.append(f"{len(drills) - len(hurting)} of {len(drills)} losses hurt nothing")
    return "\n".join(lines if hurting else lines[-1:])
