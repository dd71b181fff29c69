# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Do all required pods of a simulation find a node: guaranteed, possible, impossible or unknown?

From cheap to expensive: the worst case of each pod, proofs that not all pods can be placed, one greedy
placement sequence, then all sequences within a limit. An answer never claims more than these show.
"""

from __future__ import annotations

import math
import typing as t
from dataclasses import dataclass

from ..model.rendering import TextEnum, listed
from .bounds import WorstCase, reachable_nodes
from .infeasibility import Proof, examine
from .search import LIMIT, BestAndWorst, greedy_placement, placed, search_all
from .simulation import PlacementSequence, PlacementSimulation

SEARCHABLE = 40.0
"""Binary logarithm of the most combinations for which an exhaustive search is tried."""

NOT_ALL_TRIED = (
    "not guaranteed: all are schedulable with one choice of nodes, but the scheduler may choose others, and not"
    " every choice was tried (the search has a limit)"
)


class ForecastResult(TextEnum):
    """GUARANTEED: every placement sequence places all required pods. POSSIBLE: one sequence does, and it is
    not shown that every one does. IMPOSSIBLE: none does. UNKNOWN: none of these could be shown."""

    GUARANTEED = "guaranteed"
    POSSIBLE = "possible"
    UNKNOWN = "unknown"
    IMPOSSIBLE = "impossible"


WORSE: t.Final = tuple(ForecastResult)
"""The answers from best to worst."""


def worst_of(answers: t.Iterable[ForecastResult]) -> ForecastResult:
    """The worst answer; GUARANTEED if there is none."""
    return max(answers, key=WORSE.index, default=ForecastResult.GUARANTEED)


@dataclass(frozen=True, slots=True)
class Decision:
    """The answer for a simulation. `best` is the known sequence that places the most required pods. `worst`
    leaves a required pod without a node; None if no such sequence is known. At least `least` required pods
    stay without a node, and those in `never` do in every sequence. `exact`: every sequence was visited.
    `doubt`: why the answer claims less than the simulation alone would allow."""

    answer: ForecastResult
    proofs: tuple[Proof, ...] = ()
    best: PlacementSequence = ()
    worst: PlacementSequence | None = None
    least: int = 0
    never: frozenset[int] = frozenset()
    exact: bool = False
    doubt: str = ""

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
    """`complete` false: the cluster may do more than the sequences show, so that a search of all sequences
    does not prove GUARANTEED. `one_at_a_time` false: it does not prove IMPOSSIBLE either. `needs_sequence`
    false: a GUARANTEED decision needs no `best`. `limit` bounds the states of the search."""

    complete: bool = True
    one_at_a_time: bool = True
    needs_sequence: bool = True
    limit: int = LIMIT


def evaluate(simulation: PlacementSimulation, options: SearchOptions = SearchOptions()) -> Decision:
    """The answer for a simulation. It is left as it was."""
    if not simulation.required:
        return Decision(ForecastResult.GUARANTEED, exact=True)
    worst_case = WorstCase(simulation)
    required = [n for n, pending in enumerate(simulation.pending) if pending.required]
    if all(worst_case.is_placed(n) for n in required):
        best: PlacementSequence = ()
        if options.needs_sequence:
            open_nodes = [simulation.feasible_nodes(n) for n in range(len(simulation.pending))]
            best = greedy_placement(simulation, open_nodes, {})
        return Decision(ForecastResult.GUARANTEED, best=best)
    reachable = reachable_nodes(simulation)
    examined = examine(simulation, reachable)
    best = greedy_placement(simulation, reachable, examined.hints)
    if examined.proofs:
        least, never = examined.least, examined.never
        return Decision(ForecastResult.IMPOSSIBLE, examined.proofs, best, best, least, never)
    outcome = BestAndWorst(None, None, exhausted=False)
    size = sum(math.log2(1 + nodes.bit_count()) for nodes in reachable)
    size += sum(math.log2(len(pod.phases)) for pod in simulation.terminating)
    if size <= SEARCHABLE:
        outcome = search_all(simulation, limit=options.limit)
    return _decision(simulation, options, best, outcome)


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
    is_proof = outcome.exhausted and options.one_at_a_time
    if is_proof and not simulation.affinity_to_replaced:
        least = required - placed(simulation, best)
        never = frozenset(n for n, pending in enumerate(simulation.pending) if pending.required)
        never -= outcome.placed
        return Decision(ForecastResult.IMPOSSIBLE, (), best, best, least, never, exact=True)
    return Decision(ForecastResult.UNKNOWN, (), best, best)


def with_affinity_to_ended(simulation: PlacementSimulation) -> list[str]:
    """The names of the pending pods with affinity to pods that have just ended and are recreated. Once all
    of them have ended, the first pending pod may start anywhere. But no event makes the scheduler retry a
    pod that it refused before, for up to five minutes (podMaxInUnschedulablePodsDuration)."""
    selecting = {
        id(match)
        for number, pending in enumerate(simulation.pending)
        if pending.reason == "recreate"
        for match in simulation.pod_info(number).selected_by
    }
    return [
        pending.name
        for number, pending in enumerate(simulation.pending)
        if (term := simulation.pod_info(number).placement_info.affinity_terms.affinity) is not None
        and id(term.selector_count) in selecting
    ]


def near_ended(names: t.Sequence[str]) -> str:
    """The reason of a forecast in which these pods have affinity to pods that are recreated with them."""
    have = "has" if len(names) == 1 else "have"
    return (
        f"not guaranteed: {listed(names)} {have} affinity to pods that are recreated at the same time. If the"
        f" scheduler tries {names[0]} first, {names[0]} may wait up to five minutes for the next try"
    )
