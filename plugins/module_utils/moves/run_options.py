# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""How does a run move instances, whichever they are: its limits, its time, and for which request? Pure."""

from __future__ import annotations

import datetime
import hashlib
import json
import typing as t
from dataclasses import dataclass, replace

from ..model.json_pointer import JSON
from ..model.obstacle import Obstacle
from ..model.plan import Move
from ..model.topology import Topology
from .journal import RunJournal

if t.TYPE_CHECKING:
    from .window import Window


@dataclass(frozen=True, slots=True, kw_only=True)
class RunOptions:
    """How a run moves instances, whichever they are. Without a limit it has none: 0 or None stand for that.

    `request` is a digest of what is to be moved. A run of the same request that `moves_once` is continued also when it
    has no move in flight, since its journal has what was moved. With `require_rights` check mode only asks for the
    rights. With `fail_on_skipped` an instance that is skipped is a failure, which names it."""

    request: str
    run_timeout: int
    move_timeout: int
    topology: Topology
    moves_once: bool = False
    max_parallel: int = 0
    max_unavailable: int | None = None
    canary: int = 0
    soak: int = 0
    max_moves: int = 0
    window: Window | None = None
    failures_allowed: int | None = None
    fail_on_skipped: bool = False
    require_rights: bool = False

    @property
    def zone_key(self) -> str:
        return self.topology.resolve("zone")


def request_digest(values: t.Sequence[JSON]) -> str:
    """The `request` of options with these values."""
    return hashlib.sha256(json.dumps(values).encode()).hexdigest()[:16]


def why_defer(
    options: RunOptions,
    journal: RunJournal,
    domain: str | None,
    now: float,
    wall_clock: datetime.datetime,
) -> Obstacle | None:
    """Why a move away from `domain` may not begin; None: it leaves no node. `now` is the run's clock. What is
    not temporary ends the run: no move begins any more."""
    if options.max_moves and journal.started >= options.max_moves:
        return Obstacle("max_moves", f"max_moves ({options.max_moves}) is reached")
    if options.window is not None and wall_clock not in options.window:
        return options.window.outside
    if options.canary and journal.started >= options.canary > journal.ended:
        return Obstacle("canary", "the canary has not ended yet", True)
    if now < journal.barrier:
        return _soaking("the canary", journal.barrier - now)
    if options.soak and journal.domain and domain not in (None, journal.domain):
        if journal.records:
            return Obstacle(
                "other_domain", f"moves away from {journal.domain} are still in flight", True
            )
        left = journal.settled_at + options.soak - now
        if left > 0:
            return _soaking(journal.domain, left)
    return None


def _soaking(what: str, left: float) -> Obstacle:
    return Obstacle("soaking", f"soaking after {what}", True, f"{left:.0f} s left")


def until_stopped(
    options: RunOptions, moves: t.Sequence[Move], wall_clock: datetime.datetime
) -> tuple[t.Sequence[Move], Obstacle | None]:
    """Those of the planned moves that a new run begins, and why it begins no other one."""
    for number in range(len(moves)):
        gate = why_defer(options, RunJournal("", "", moved=number), None, 0.0, wall_clock)
        if gate is not None and not gate.temporary:
            return moves[:number], gate
    return moves, None


def after_end(options: RunOptions, journal: RunJournal, now: float) -> RunJournal:
    """The journal once a move has ended: the last canary sets the barrier."""
    if options.canary and journal.ended == options.canary:
        return replace(journal, barrier=now + options.soak)
    return journal
