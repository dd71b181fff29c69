# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Why rules that are written cannot all be obeyed, wherever the machines were that they are for.

Pure. Machines that run look for places, too, as if they were nowhere yet. So the proofs speak against
every arrangement, by whatever moves it were to come about.
"""

from __future__ import annotations

import typing as t
from dataclasses import dataclass

from ..model.plan import Method
from ..model.snapshot import Snapshot
from ..model.topology import Topology
from ..scheduling.index import Index
from ..scheduling.node_terms import matches_node
from ..verdicts.attribution import HAZARDS
from ..verdicts.waiting import Waiting
from .candidates import Candidate
from .fill import Filling, Seeker
from .proof import Examined, examine
from .proof_words import ProofWords
from .reach import reach
from .seekers import Sought
from .world import index_of


@dataclass(frozen=True, slots=True)
class StaticProofs:
    """`texts` are none where nothing was found. Of those that look for places anyway (`never` has their
    numbers) at least `least` stay without one, among them all of `never`."""

    texts: tuple[str, ...] = ()
    least: int = 0
    never: frozenset[int] = frozenset()


def static_proofs(
    after: Snapshot,
    candidates: t.Sequence[Candidate],
    sought: t.Sequence[Sought],
    topology: Topology,
) -> StaticProofs:
    """The proofs against any places for `candidates` and `sought` together. What leaves meanwhile
    stands in nobody's way, and is counted as long as that helps somebody."""
    every = [*map(_freed, candidates), *map(_at_last, sought)]
    filling = _filling(after, candidates, sought, [found.seeker for found in every])
    within = reach(filling)
    with filling.index.without(*(found.seeker.source for found in every)):
        for number, found in enumerate(candidates):
            if _may_stay(after, filling.index, found):
                within[number] |= 1 << filling.table.numbers[found.node]
    proofs = examine(filling, within).proofs
    proofs = tuple(proof for proof in proofs if proof.kind != "resources")
    first = len(candidates)
    of_sought = Examined(tuple(x for x in proofs if min(x.crowd) >= first), {})
    waiting = Waiting(filling.index, topology)
    words = ProofWords(
        topology,
        lambda n: every[n].name,
        lambda n: every[n].vmi is not None,
        lambda n: waiting.reason(filling.seekers[n].pod),
    )
    never = frozenset(number - first for number in of_sought.never)
    return StaticProofs(tuple(words.text(proof) for proof in proofs), of_sought.least, never)


def _filling(
    after: Snapshot,
    candidates: t.Sequence[Candidate],
    sought: t.Sequence[Sought],
    seekers: t.Sequence[Seeker],
) -> Filling:
    """Machines that may move end where they run, and so do the old pods of a roll-out. Only those who
    look for places besides ever see them stand: the machines themselves are judged in the end."""
    replaced = [x.source for x in sought if x.way == "roll" and x.source is not None]
    ends = [*(found.pod for found in candidates), *replaced]
    gone = {pod.uid for pod in ends if pod.uid}
    pods = (pod for pod in after.pods if pod.uid not in gone)
    ending = [pod for pod in after.ending if pod.uid not in gone]
    ended = [*ending, *ends] if sought else ending
    return Filling(index_of(after, pods), seekers, ended=ended)


def _freed(found: Candidate) -> Sought:
    seeker = Seeker(found.probe(Method.RECREATE))
    workload = found.workload.ref if found.workload is not None else None
    return Sought(
        seeker, found.instance.ref, found.uid, workload, "again", None, found.instance.vmi
    )


def _at_last(found: Sought) -> Sought:
    """One of those that look for places anyway. A pod of a roll-out may open nodes to others, but
    whether it has a place is another question."""
    if found.way != "roll":
        return found
    seeker = Seeker(found.seeker.pod, goal=False)
    return Sought(seeker, found.instance, found.uid, found.workload, "roll", None, found.vmi)


def _may_stay(after: Snapshot, index: Index, found: Candidate) -> bool:
    """Whether nothing but others of its kind keeps a running machine off its own node: a cordon
    or too little room drives nobody away."""
    failures = index.failures(found.probe(Method.RECREATE), found.node)
    kinds = {reason.kind for failure in failures for reason in failure.reasons}
    kinds -= {*HAZARDS, "skew", "affinity"}
    node = next(node for node in after.nodes if node.name == found.node)
    return not kinds or (kinds == {"node-affinity"} and matches_node(found.asked, node))
