# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a forecast says."""

from __future__ import annotations

from dataclasses import dataclass

from ..model.finding import Finding
from ..model.objects import Ref
from ..model.plan import Left, Move
from ..model.snapshot import Unreadable
from .decide import Answer


@dataclass(frozen=True, slots=True)
class Unplaced:
    """An instance that would have no node. `certain` is false where that depends on what the
    scheduler chooses. `may_end` are workloads of lower priority whose pods the scheduler may end to
    make room for it, as things are then."""

    instance: Ref
    workload: Ref | None
    reason: str
    certain: bool = True
    may_end: tuple[Ref, ...] = ()


@dataclass(frozen=True, slots=True)
class Stuck:
    """An instance that cannot be live-migrated as things are: it runs on where it is. `if_restarted`
    are nodes that would be open to it while it is away. `certain` as for what is unplaced."""

    instance: Ref
    workload: Ref | None
    node: str
    reason: str
    if_restarted: tuple[str, ...] = ()
    certain: bool = True


@dataclass(frozen=True, slots=True)
class Deadlock:
    """An arrangement that obeys all rules may exist, and no single move leads towards it.
    `ways_out` are for people to choose from; none is ever taken."""

    instances: tuple[Ref, ...]
    why: str
    ways_out: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Forecast:
    """`to_place` counts the instances that have to find a place, `least_pending` how many of them
    stay without one whatever is chosen. `moves` come in their order."""

    answer: Answer
    proof: tuple[str, ...] = ()
    pending: tuple[Unplaced, ...] = ()
    stuck: tuple[Stuck, ...] = ()
    moves: tuple[Move, ...] = ()
    left: tuple[Left, ...] = ()
    deadlock: Deadlock | None = None
    findings: tuple[Finding, ...] = ()
    unreadable: tuple[Unreadable, ...] = ()
    to_place: int = 0
    least_pending: int = 0
