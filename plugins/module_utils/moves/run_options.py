# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""How does a run move instances, whichever they are: its limits, its time, and for which request? Pure."""

from __future__ import annotations

import hashlib
import json
import typing as t
from dataclasses import dataclass

from ..model.json_pointer import JSON
from ..model.topology import Topology
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
