# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""When the next move may begin, as the user asked: canary, soak, window, number of moves.

Pure.
"""

from __future__ import annotations

import datetime
import typing as t
from dataclasses import dataclass, replace

from .journal import Journal
from .parameters import Parameters


@dataclass(frozen=True, slots=True)
class Hold:
    """Why a move has to wait. `final`: it will not come to its turn in this run."""

    reason: str = ""
    final: bool = False

    def __bool__(self) -> bool:
        return bool(self.reason)


NO_HOLD: t.Final = Hold()


def hold(
    parameters: Parameters,
    journal: Journal,
    domain: str,
    now: float,
    wall_clock: datetime.datetime,
) -> Hold:
    """Why a move away from `domain` may not begin. `now` is the run's clock."""
    if parameters.max_moves and journal.started >= parameters.max_moves:
        return Hold(f"max_moves ({parameters.max_moves}) is reached", final=True)
    if parameters.window is not None and wall_clock not in parameters.window:
        return Hold(f"outside of the window from {parameters.window}", final=True)
    if parameters.canary and journal.started >= parameters.canary > journal.ended:
        return Hold("the canary is still moving")
    if now < journal.barrier:
        return Hold(f"soaking after the canary, {journal.barrier - now:.0f} s left")
    if parameters.soak and journal.domain and domain != journal.domain:
        return _between_domains(parameters, journal, now)
    return NO_HOLD


def _between_domains(parameters: Parameters, journal: Journal, now: float) -> Hold:
    if journal.entries:
        return Hold(f"moves away from {journal.domain} are still in flight")
    left = journal.settled_at + parameters.soak - now
    return Hold(f"soaking after {journal.domain}, {left:.0f} s left") if left > 0 else NO_HOLD


def after_end(parameters: Parameters, journal: Journal, now: float) -> Journal:
    """The journal once a move has ended: the last canary sets the barrier."""
    if parameters.canary and journal.ended == parameters.canary:
        return replace(journal, barrier=now + parameters.soak)
    return journal
