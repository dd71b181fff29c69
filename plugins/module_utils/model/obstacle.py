# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Why is something not so now? A code that decisions are made by, and a sentence that people read.

A function that answers `Obstacle | None` says yes with None.
"""

from __future__ import annotations

import typing as t
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Obstacle:
    """`code` is one of `CODES`. `text` is made where the facts are, and no code reads it. `temporary`: it ends by
    itself. `advice`: what to do, where the text does not say so."""

    code: str
    text: str
    temporary: bool = False
    advice: str = ""

    def __str__(self) -> str:
        return self.text


class Described(t.NamedTuple):
    """What a code means, and what to do."""

    meaning: str
    advice: str


NO_ANSWER = "no_answer"

NO_RIGHT = "no_right"
NOT_READ = "not_read"
OUTSIDE_OF_WINDOW = "outside_of_window"

INTERNAL: t.Final = frozenset({NO_ANSWER, "canary", "soaking", "other_domain"})
"""Codes that no result has: a run waits until what they name ends."""

CODES: t.Final[t.Mapping[str, Described]] = {
    NO_ANSWER: Described(
        "virt-controller does not answer",
        "See Deployment virt-controller in the namespace of KubeVirt.",
    ),
    "max_moves": Described(
        "the number of moves that max_moves allows has begun", "Run the task again for the rest."
    ),
    OUTSIDE_OF_WINDOW: Described(
        "nothing is begun outside of the window", "Run the task again when the window opens."
    ),
    "canary_not_ended": Described(
        "a move of the canary was given up and has not ended",
        "See what the line about that move names, then run the task again.",
    ),
    "canary": Described("the moves of the canary are still in flight", "Wait."),
    "soaking": Described("the time of soak is not over", "Wait."),
    "other_domain": Described("moves away from another topology domain are in flight", "Wait."),
    NO_RIGHT: Described("a right is missing", "Grant the right that the reason names."),
    NOT_READ: Described(
        "a list or an object cannot be read or asked for, though no right is missing",
        "The reason names what to do.",
    ),
}
