# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Do all required pods of a simulation find a node, and what shows it?

From cheap to expensive: the worst case of each pod, proofs that not all pods can be placed, one greedy
placement sequence, then all sequences within a limit. An answer never claims more than these show.
"""

from __future__ import annotations

import math
import typing as t
from dataclasses import dataclass, replace

from ..model.objects import Pod, Ref
from ..model.rendering import listed
from .bounds import WorstCase, reachable_nodes
from .conclusion import NO_CERTAINTY, NO_PROOF, Doubt, Evidence, ForecastResult, conclude
from .infeasibility import Proof, examine
from .search import LIMIT, BestAndWorst, greedy_placement, placed, search_all
from .simulation import PlacementSequence, PlacementSimulation, TermIndex

SEARCHABLE = 40.0
"""Binary logarithm of the most combinations for which an exhaustive search is tried."""

NOT_ALL_TRIED = (
    "all are schedulable with one choice of nodes, but the scheduler may choose others, and not every choice"
    " was tried (the search has a limit)"
)
NONE_FOUND = (
    "no choice of nodes was found for all, and not every choice was tried (the search has a limit)"
)
UNFAVORABLE = "some are unschedulable if the scheduler chooses unfavorable nodes"
NEAR_REPLACED = (
    "a pod has affinity to pods that a workload rollout ends first, and they terminate for a while"
)


@dataclass(frozen=True, slots=True)
class Decision:
    """What is known of a simulation, and the answer that this allows. `best` is the known sequence that places
    the most required pods. `worst` leaves a required pod without a node; None if no such sequence is known. At
    least `least` required pods stay without a node, and those in `never` do in every sequence. `exact`: every
    sequence was visited."""

    evidence: Evidence
    proofs: tuple[Proof, ...] = ()
    best: PlacementSequence = ()
    worst: PlacementSequence | None = None
    least: int = 0
    never: frozenset[int] = frozenset()
    exact: bool = False

    @property
    def answer(self) -> ForecastResult:
        return conclude(self.evidence).answer

    def doubted(self, *doubts: Doubt) -> Decision:
        """The decision with more doubts: what is no longer proven is not claimed."""
        evidence = replace(self.evidence, doubts=(*self.evidence.doubts, *doubts))
        decision = replace(self, evidence=evidence)
        if decision.answer is ForecastResult.IMPOSSIBLE:
            return decision
        return replace(decision, least=0, never=frozenset())

    @property
    def is_search_incomplete(self) -> bool:
        """Whether the answer is POSSIBLE only because not every sequence could be visited."""
        return self.answer is ForecastResult.POSSIBLE and self.worst is None and not self.exact

    @property
    def incomplete(self) -> PlacementSequence | None:
        """The sequence whose unscheduled pods are reported: `worst` if all required pods can be placed,
        otherwise `best`. None if no sequence leaves a required pod without a node."""
        if self.answer is ForecastResult.GUARANTEED:
            return None
        return self.worst if self.answer is ForecastResult.POSSIBLE else self.best

    def least_without(self, excluded: t.Collection[int]) -> int:
        """The least number of required pods that stay without a node, not counting those in `excluded`."""
        return max(self.least - len(excluded), len(self.never.difference(excluded)))


@dataclass(frozen=True, slots=True)
class SearchOptions:
    """`doubts`: why a search of all sequences does not prove as much, since the cluster may do more than they
    show. `needs_sequence` false: a GUARANTEED decision needs no `best`. `limit` bounds the states of the
    search."""

    doubts: tuple[Doubt, ...] = ()
    needs_sequence: bool = True
    limit: int = LIMIT


def evaluate(simulation: PlacementSimulation, options: SearchOptions = SearchOptions()) -> Decision:
    """The answer for a simulation. It is left as it was."""
    if not simulation.required:
        return Decision(Evidence(always="nothing_to_place"), exact=True)
    worst_case = WorstCase(simulation)
    required = [n for n, pending in enumerate(simulation.pending) if pending.required]
    if all(worst_case.is_placed(n) for n in required):
        best: PlacementSequence = ()
        if options.needs_sequence:
            open_nodes = [simulation.feasible_nodes(n) for n in range(len(simulation.pending))]
            best = greedy_placement(simulation, open_nodes, {})
        return Decision(Evidence(always="worst_case"), best=best)
    reachable = reachable_nodes(simulation)
    examined = examine(simulation, reachable)
    best = greedy_placement(simulation, reachable, examined.hints)
    if examined.proofs:
        evidence = Evidence(never=tuple(dict.fromkeys(x.kind for x in examined.proofs)))
        return Decision(evidence, examined.proofs, best, best, examined.least, examined.never)
    outcome = BestAndWorst(None, None, exhausted=False)
    size = sum(math.log2(1 + nodes.bit_count()) for nodes in reachable)
    size += sum(math.log2(len(pod.phases)) for pod in simulation.terminating)
    if size <= SEARCHABLE:
        outcome = search_all(simulation, limit=options.limit)
    return _searched(simulation, options, best, outcome)


def _searched(
    simulation: PlacementSimulation,
    options: SearchOptions,
    best: PlacementSequence,
    outcome: BestAndWorst,
) -> Decision:
    required = simulation.required
    if outcome.best is not None and placed(simulation, outcome.best) > placed(simulation, best):
        best = outcome.best
    worst = outcome.worst
    if worst is not None and placed(simulation, worst) == required:
        worst = None
    doubts = list(options.doubts)
    if worst is None and not outcome.exhausted:
        doubts.append(Doubt("search_limit", NOT_ALL_TRIED, NO_CERTAINTY))
    if placed(simulation, best) == required:
        if worst is not None:
            doubts.append(Doubt("unfavorable_nodes", UNFAVORABLE))
        always = "every_choice" if outcome.exhausted and worst is None else ""
        evidence = Evidence(always, witness=True, doubts=tuple(doubts))
        return Decision(evidence, (), best, worst, exact=outcome.exhausted)
    if not outcome.exhausted:
        doubts = [Doubt("search_limit", NONE_FOUND, NO_CERTAINTY)]
        return Decision(Evidence(doubts=tuple(doubts)), (), best, best)
    if simulation.affinity_to_replaced:
        doubts.append(Doubt("affinity_to_replaced", NEAR_REPLACED, NO_PROOF))
    least = required - placed(simulation, best)
    never = frozenset(n for n, pending in enumerate(simulation.pending) if pending.required)
    never -= outcome.placed
    decision = Decision(Evidence(never=("every_choice",)), (), best, best, least, never, exact=True)
    return decision.doubted(*doubts)


def affinity_doubts(simulation: PlacementSimulation) -> tuple[Doubt, ...]:
    """The doubt about pending pods with affinity to pods that are recreated with them, if there are any."""
    names = with_affinity_to_ended(simulation)
    return (Doubt("affinity_to_ended", near_ended(names)),) if names else ()


def replaced_doubts(
    simulation: PlacementSimulation, touched: t.Collection[Ref]
) -> tuple[Doubt, ...]:
    """The doubt about pods of workload rollouts with affinity to pods that these rollouts end: the scheduler may place
    one beside an old pod, and its affinity is not satisfied once that has ended. The old pods of its own workload are
    no reason where all are on one node, since its new pods are in the domain of that one. `touched` are the workloads
    that get a new template."""
    rolling = [
        x for x in simulation.pending if x.required and x.workload in touched and x.vmi is None
    ]
    old: dict[Ref | None, list[Pod]] = {}
    for pending in rolling:
        if pending.replaces is not None and pending.replaces.node_name:
            old.setdefault(pending.workload, []).append(pending.replaces)
    names = []
    for workload, pending in {x.workload: x for x in rolling}.items():
        others = [pod for ref, pods in old.items() if ref != workload for pod in pods]
        own = old.get(workload, [])
        if len({pod.node_name for pod in own}) > 1:
            others += own
        terms = TermIndex(simulation.index, [simulation.index.pod_info(pending.pod)])
        if terms.has_affinity_to(others):
            names.append(str(workload))
    if not names:
        return ()
    text = (
        f"a pod of {listed(sorted(names))} may be placed beside a pod that is replaced at the same time, and its"
        " affinity is violated once that has ended. Write one rule after the other"
    )
    return (Doubt("beside_replaced", text),)


def with_affinity_to_ended(simulation: PlacementSimulation) -> list[str]:
    """The names of the pending pods with affinity to pods that have just ended and are recreated. Once all
    of them have ended, the first pending pod may start anywhere. But no event makes the scheduler retry a
    pod that it refused before, for up to five minutes (podMaxInUnschedulablePodsDuration)."""
    selecting = {
        match
        for number, pending in enumerate(simulation.pending)
        if pending.reason == "recreate"
        for match in simulation.pod_info(number).selected_by
    }
    return [
        pending.name
        for number, pending in enumerate(simulation.pending)
        if (term := simulation.pod_info(number).placement_info.affinity_terms.affinity) is not None
        and term.selector_count in selecting
    ]


def near_ended(names: t.Sequence[str]) -> str:
    """The reason of a forecast in which these pods have affinity to pods that are recreated with them."""
    have = "has" if len(names) == 1 else "have"
    return (
        f"{listed(names)} {have} affinity to pods that are recreated at the same time. If the"
        f" scheduler tries {names[0]} first, {names[0]} may wait up to five minutes for the next try"
    )
