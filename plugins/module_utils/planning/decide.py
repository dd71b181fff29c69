# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Whether all goals of a filling find a place: guaranteed, possible, impossible or unknown.

Pure. A ladder from cheap to dear: proofs against it, an argument that nothing can prevent it, a
course found greedily, then every course within a limit. No answer claims more than was shown.
"""

from __future__ import annotations

import enum
import math
import typing as t
from dataclasses import dataclass

from ..scheduling.node_table import NodeSet
from .certainty import Certainty
from .fill import Filling, Run
from .outcomes import LIMIT, Outcomes, outcomes, placed
from .proof import Proof, examine
from .reach import reach
from .witness import witness

SEARCHABLE = 40.0
"""Binary logarithm of the combinations up to which all courses are worth trying."""

NOT_ALL_TRIED = (
    "not guaranteed: all have a place in the course that was looked at, and not every course was tried"
    " (the search has a limit)"
)


class Answer(str, enum.Enum):
    """guaranteed: whatever the scheduler chooses, in whatever order. possible: some course leads
    there, and not every one was shown to. impossible: none does. unknown: nobody can say."""

    GUARANTEED = "guaranteed"
    POSSIBLE = "possible"
    UNKNOWN = "unknown"
    IMPOSSIBLE = "impossible"

    def __str__(self) -> str:
        return self.value


WORSE: t.Final = (Answer.GUARANTEED, Answer.POSSIBLE, Answer.UNKNOWN, Answer.IMPOSSIBLE)
"""Answers, each worse than those before."""


def worst_of(answers: t.Iterable[Answer]) -> Answer:
    """The answer to several questions at once."""
    return max(answers, key=WORSE.index, default=Answer.GUARANTEED)


@dataclass(frozen=True, slots=True)
class Decision:
    """`best` is the fullest course known. `worst` is one that leaves a goal without a place, None
    where none is known. `least`: at least so many goals stay without a place, `never` are those
    that do in every course. `exact`: every course was looked at. `doubt`: why less is claimed than the
    courses of the filling would bear."""

    answer: Answer
    proofs: tuple[Proof, ...] = ()
    best: Run = ()
    worst: Run | None = None
    least: int = 0
    never: frozenset[int] = frozenset()
    exact: bool = False
    doubt: str = ""

    @property
    def is_untried(self) -> bool:
        """Whether it is called possible only because not every course could be looked at."""
        return self.answer is Answer.POSSIBLE and self.worst is None and not self.exact

    def surely_without(self, besides: t.Collection[int]) -> int:
        """At least so many goals stay without a place, `besides` (goals, too) left out of account."""
        return max(self.least - len(besides), len(self.never.difference(besides)))


@dataclass(frozen=True, slots=True)
class Rules:
    """How the game is played. `ordered`: one turn each, in list order. `fair` false: more may
    happen than a course shows, so that looking at all of them does not prove a guarantee; `tight`
    false: nor that it is impossible. `shown` false: nobody wants to see a course of what is
    guaranteed."""

    ordered: bool = False
    fair: bool = True
    tight: bool = True
    shown: bool = True
    limit: int = LIMIT


def decide(filling: Filling, rules: Rules = Rules()) -> Decision:
    """The answer for a filling. It is left as it was."""
    if not filling.goals:
        return Decision(Answer.GUARANTEED, exact=True)
    certainty = Certainty(filling)
    goals = [n for n, seeker in enumerate(filling.seekers) if seeker.goal]
    if all(certainty.sure(n) for n in goals):
        best = _any_course(filling, rules) if rules.shown else ()
        return Decision(Answer.GUARANTEED, best=best)
    within = reach(filling)
    examined = examine(filling, within)
    if examined.proofs:
        best = _any_course(filling, rules, within, examined.hints)
        least, never = examined.least, examined.never
        return Decision(Answer.IMPOSSIBLE, examined.proofs, best, best, least, never)
    best = _any_course(filling, rules, within, examined.hints)
    found = _search(filling, within, rules)
    return _decision(filling, rules, best, found)


def _any_course(
    filling: Filling,
    rules: Rules,
    within: t.Sequence[NodeSet] | None = None,
    hints: t.Mapping[int, NodeSet] | None = None,
) -> Run:
    if rules.ordered:
        return ()
    if within is None:
        within = [filling.open_nodes(n) for n in range(len(filling.seekers))]
    return witness(filling, within, hints or {})


def _search(filling: Filling, within: t.Sequence[NodeSet], rules: Rules) -> Outcomes:
    size = sum(math.log2(1 + nodes.bit_count()) for nodes in within)
    size += sum(math.log2(len(leaver.forms)) for leaver in filling.leavers)
    if size > SEARCHABLE:
        return Outcomes(None, None, exhausted=False)
    return outcomes(filling, ordered=rules.ordered, limit=rules.limit)


def _decision(filling: Filling, rules: Rules, best: Run, found: Outcomes) -> Decision:
    goals = filling.goals
    if found.best is not None and placed(filling, found.best) > placed(filling, best):
        best = found.best
    full = placed(filling, best) == goals and bool(best)
    worst = (
        found.worst if found.worst is not None and placed(filling, found.worst) < goals else None
    )
    if full:
        proven = found.exhausted and worst is None and rules.fair
        answer = Answer.GUARANTEED if proven else Answer.POSSIBLE
        return Decision(answer, (), best, worst, exact=found.exhausted)
    if found.exhausted and rules.tight and not filling.loose:
        least = goals - placed(filling, best)
        never = frozenset(n for n, x in enumerate(filling.seekers) if x.goal) - found.placed
        return Decision(Answer.IMPOSSIBLE, (), best, best, least, never, exact=True)
    return Decision(Answer.UNKNOWN, (), best, best)


def leans_on_the_lost(filling: Filling, lost: t.Collection[int]) -> bool:
    """Whether a seeker must be near others that have just ended (`lost`: numbers of the seekers
    that come after them). Once the last of those is gone the first may start anywhere, but the
    scheduler need not look again at who was refused before, for up to five minutes
    (podMaxInUnschedulablePodsDuration), since no event tells it to."""
    gone = {id(match) for number in lost for match in filling.candidate(number).matches}
    terms = (filling.candidate(n).spec.rules.together for n in range(len(filling.seekers)))
    return any(each is not None and id(each.match) in gone for each in terms)
