# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Moves, their order, and what stays behind."""

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
    """`targets` are the nodes open to it when its turn comes; `after` names the instances
    (their uids) whose moves must have ended before it begins."""

    instance: Ref
    uid: str
    workload: Ref
    method: Method
    source: str
    targets: tuple[str, ...]
    reason: str
    after: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Left:
    """An instance that ought to move and does not, with the reason. `passing`: it will go away
    by itself, so that waiting helps."""

    instance: Ref
    uid: str
    workload: Ref | None
    node: str
    reason: str
    passing: bool = False


@dataclass(frozen=True, slots=True)
class Plan:
    moves: tuple[Move, ...] = ()
    left: tuple[Left, ...] = ()
