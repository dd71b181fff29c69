# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Do all required pods of a simulation find a node: guaranteed, possible, impossible or unknown?

From cheap to expensive: the worst case of each pod, proofs against a placement of all, a sequence found
greedily, then every sequence within a limit. No answer claims more than was shown.
"""

from __future__ import annotations

import enum
import math
import typing as t
from dataclasses import dataclass

from ..scheduler.nodes import NodeSet
from .bounds import WorstCase, reachable_nodes
from .infeasibility import Proof, examine
from .search import LIMIT, BestAndWorst, greedy_placement, placed, search_all
from .simulation import PlacementSequence, PlacementSimulation

SEARCHABLE = 40.0
"""Binary logarithm of the combinations up to which an exhaustive search is worth a try."""

NOT_ALL_TRIED = (
    "can fail: all are schedulable with one choice of nodes, but the scheduler may choose others, and not"
    " every choice was tried (the search has a limit)"
)


class ForecastResult(str, enum.Enum):
    """GUARANTEED: whatever the scheduler chooses, in whatever order. POSSIBLE: some sequence places
    all, and not every one was shown to. IMPOSSIBLE: none does. UNKNOWN: none of these could be shown."""

    GUARANTEED = "guaranteed"
    POSSIBLE = "possible"
    UNKNOWN = "unknown"
    IMPOSSIBLE = "impossible"

    def __str__(self) -> str:
        return self.value


WORSE: t.Final = (
    ForecastResult.GUARANTEED,
    ForecastResult.POSSIBLE,
    ForecastResult.UNKNOWN,
    ForecastResult.IMPOSSIBLE,
)
"""Answers, each worse than those before."""


def worst_of(answers: t.Iterable[ForecastResult]) -> ForecastResult:
    """The answer to several questions at once."""
    return max(answers, key=WORSE.index, default=ForecastResult.GUARANTEED)


@dataclass(frozen=True, slots=True)
class Decision:
    """`best` is the fullest sequence known. `worst` is one that leaves a required pod without a node,
    None where none is known. At least `least` required pods stay without a node, and those in `never`
    do in every sequence. `exact`: every sequence was visited. `doubt`: why less is claimed than the
    simulation alone would allow."""

    answer: ForecastResult
    proofs: tuple[Proof, ...] = ()
    best: PlacementSequence = ()
    worst: PlacementSequence | None = None
    least: int = 0
    never: frozenset[int] = frozenset()
    exact: bool = False
    doubt: str = ""

    @property
    def is_untried(self) -> bool:
        """Whether it is called possible only because not every sequence could be visited."""
        return self.answer is ForecastResult.POSSIBLE and self.worst is None and not self.exact

    @property
    def incomplete(self) -> PlacementSequence | None:
        """The sequence to report on: one after which required pods have no node, None where none is
        known. Where all can be placed it is the worst, else the fullest."""
        if self.answer is ForecastResult.GUARANTEED:
            return None
        return self.worst if self.answer is ForecastResult.POSSIBLE else self.best

    def least_without(self, besides: t.Collection[int]) -> int:
        """At least so many required pods stay without a node, not counting `besides`."""
        return max(self.least - len(besides), len(self.never.difference(besides)))


@dataclass(frozen=True, slots=True)
class SearchOptions:
    """`complete` false: more may happen than a sequence shows, so that a search of all of them does not
    prove a guarantee; `one_at_a_time` false: nor that it is impossible. `shown` false: a sequence is not
    needed where all is guaranteed. `limit` bounds the states of the search."""

    complete: bool = True
    one_at_a_time: bool = True
    shown: bool = True
    limit: int = LIMIT


def evaluate(simulation: PlacementSimulation, options: SearchOptions = SearchOptions()) -> Decision:
    """The answer for a simulation. It is left as it was."""
    if not simulation.required:
        return Decision(ForecastResult.GUARANTEED, exact=True)
    worst_case = WorstCase(simulation)
    required = [n for n, pending in enumerate(simulation.pending) if pending.required]
    if all(worst_case.is_placed(n) for n in required):
        best: PlacementSequence = ()
        if options.shown:
            open_nodes = [simulation.open_nodes(n) for n in range(len(simulation.pending))]
            best = greedy_placement(simulation, open_nodes, {})
        return Decision(ForecastResult.GUARANTEED, best=best)
    reachable = reachable_nodes(simulation)
    examined = examine(simulation, reachable)
    best = greedy_placement(simulation, reachable, examined.hints)
    if examined.proofs:
        least, never = examined.least, examined.never
        return Decision(ForecastResult.IMPOSSIBLE, examined.proofs, best, best, least, never)
    return _decision(simulation, options, best, _search(simulation, reachable, options))


def _search(
    simulation: PlacementSimulation, reachable: t.Sequence[NodeSet], options: SearchOptions
) -> BestAndWorst:
    size = sum(math.log2(1 + nodes.bit_count()) for nodes in reachable)
    size += sum(math.log2(len(pod.phases)) for pod in simulation.terminating)
    if size > SEARCHABLE:
        return BestAndWorst(None, None, exhausted=False)
    return search_all(simulation, limit=options.limit)


def _decision(
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
    if placed(simulation, best) == required:
        guaranteed = outcome.exhausted and worst is None and options.complete
        answer = ForecastResult.GUARANTEED if guaranteed else ForecastResult.POSSIBLE
        return Decision(answer, (), best, worst, exact=outcome.exhausted)
    proves = outcome.exhausted and options.one_at_a_time
    if proves and not simulation.affinity_to_replaced:
        least = required - placed(simulation, best)
        never = frozenset(n for n, pending in enumerate(simulation.pending) if pending.required)
        never -= outcome.placed
        return Decision(ForecastResult.IMPOSSIBLE, (), best, best, least, never, exact=True)
    return Decision(ForecastResult.UNKNOWN, (), best, best)


def depends_on_ended_pods(simulation: PlacementSimulation, successors: t.Collection[int]) -> bool:
    """Whether a pending pod must be near pods that have just ended (`successors`: numbers of the pods
    that come after these). Once the last of them is gone the first may start anywhere, but the
    scheduler need not look again at a pod that it refused before, for up to five minutes
    (podMaxInUnschedulablePodsDuration), since no event triggers it."""
    ended = {
        id(match) for number in successors for match in simulation.pod_info(number).selected_by
    }
    terms = (
        simulation.pod_info(n).placement_info.affinity_terms.affinity
        for n in range(len(simulation.pending))
    )
    return any(term is not None and id(term.selector_count) in ended for term in terms)
