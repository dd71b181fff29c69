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

INTERNAL: t.Final = frozenset({NO_ANSWER})
"""Codes that no result has: they are kept in the journal of a run."""

CODES: t.Final[t.Mapping[str, Described]] = {
    NO_ANSWER: Described(
        "virt-controller does not answer",
        "See Deployment virt-controller in the namespace of KubeVirt.",
    ),
    NO_RIGHT: Described("a right is missing", "Grant the right that the reason names."),
    NOT_READ: Described(
        "a list or an object cannot be read or asked for, though no right is missing",
        "The reason names what to do.",
    ),
}
