# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The moves of a plan, and the instances that it skips."""

from __future__ import annotations

import enum
from dataclasses import dataclass

from .objects import Ref


class Method(str, enum.Enum):
    """How an instance moves.

    migrate: same VMI. restart: new VMI of a VirtualMachine. recreate: the VMI is deleted or the
    pod evicted, its controller makes a new one.
    """

    MIGRATE = "migrate"
    RESTART = "restart"
    RECREATE = "recreate"

    def __str__(self) -> str:
        return self.value


@dataclass(frozen=True, slots=True)
class Move:
    """`targets`: the feasible nodes when the move starts, the likeliest first. `after`: uids of the
    instances whose moves must end before this one starts."""

    instance: Ref
    uid: str
    workload: Ref
    method: Method
    source: str
    targets: tuple[str, ...]
    reason: str
    after: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class SkippedInstance:
    """An instance that should move and does not, with the reason. `temporary`: the reason ends by
    itself, so waiting helps."""

    instance: Ref
    uid: str
    workload: Ref | None
    node: str
    reason: str
    temporary: bool = False


@dataclass(frozen=True, slots=True)
class Plan:
    moves: tuple[Move, ...] = ()
    skipped: tuple[SkippedInstance, ...] = ()
