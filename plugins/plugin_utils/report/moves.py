# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a rollout did, or in check mode would do, from its result. Pure."""

from __future__ import annotations

import typing as t
from dataclasses import dataclass

from .results import ResultMap


@dataclass(frozen=True, slots=True)
class ReportedMove:
    """One move, or an instance that was not moved. Nodes are empty where there is none."""

    workload: tuple[str, str, str]
    instance: str
    uid: str
    from_node: str
    to_node: str
    method: str
    state: str
    """`moved`, `failed`, `gone`, `planned`, `deferred` or `skipped`."""
    reason: str
    seconds: float | None = None


@dataclass(frozen=True, slots=True)
class MovesContent:
    moves: tuple[ReportedMove, ...]
    not_moved: tuple[ReportedMove, ...]
    stop_reason: str

    @property
    def planned(self) -> bool:
        """Whether the rollout ran in check mode."""
        return any(move.state == "planned" for move in self.moves)


def read_moves(result: ResultMap) -> MovesContent:
    """The rollout may have failed: its moves are shown all the same. Raises DamagedResult."""
    reason = result.text("stop_reason") if "stop_reason" in result else ""
    if "failed" in result and result.flag("failed"):
        reason = result.text("msg") if "msg" in result else "the rollout failed"
    skipped = _moves(result, "skipped_instances", "skipped")
    deferred = _moves(result, "deferred", "deferred")
    return MovesContent(
        moves=tuple(_moves(result, "moves", "")),
        not_moved=(*skipped, *deferred),
        stop_reason=reason,
    )


def _moves(result: ResultMap, key: str, state: str) -> t.Iterator[ReportedMove]:
    if key not in result and ("failed" in result or key != "moves"):
        return  # the rollout could not start
    for entry in result.maps(key):
        yield ReportedMove(
            workload=(entry.text("kind"), entry.text("namespace"), entry.text("name")),
            instance=entry.text("instance"),
            uid=entry.text("uid"),
            from_node=entry.text("from_node"),
            to_node=entry.text("to_node"),
            method=entry.text("method"),
            state=state or entry.text("state"),
            reason=entry.text("reason"),
            seconds=entry.seconds("seconds"),
        )
