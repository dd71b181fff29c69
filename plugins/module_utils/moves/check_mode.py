# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What check mode reports of the moves that a run would begin."""

from __future__ import annotations

import datetime
import typing as t
from dataclasses import replace

from ..model.plan import Plan
from ..model.snapshot import Snapshot
from . import report
from .context import StepContext
from .gates import until_stopped
from .run_options import RunOptions
from .state import StepResult


def planned_result(
    context: StepContext,
    options: RunOptions,
    snapshot: Snapshot,
    plan: Plan,
    lines: t.Iterable[str],
) -> StepResult:
    """`lines` stand before those about the moves. There are none of either where only the rights are asked for: the
    moves are planned later then."""
    wall_clock = datetime.datetime.now(datetime.timezone.utc)
    moves, stop = until_stopped(options, plan.moves, wall_clock)
    left = plan.moves[len(moves) :]
    if not options.require_rights:
        nodes = report.NodeDescriptions.of(snapshot, options.zone_key)
        context.report.lines += [*lines, *report.planned_lines(moves, nodes)]
        context.report.lines += [report.stopped(stop, left)] if stop else []
    result = context.result(finished=True, plan=replace(plan, moves=left))
    result.moves = [report.planned_move(move) for move in moves]
    result.stop, result.changed = stop, bool(moves)
    return result
