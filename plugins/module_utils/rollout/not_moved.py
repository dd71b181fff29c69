# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What does a rollout report of the instances that it did not move, and which of them are a failure? Pure."""

from __future__ import annotations

import typing as t

from ..compliance.tied import tied_text, tied_to
from ..model.plan import Plan, SkippedInstance
from ..model.snapshot import Snapshot
from ..model.topology import Topology
from ..moves import report
from ..moves.state import StepResult
from ..planning.missed_preferences import MissedPreference, missed_preferences
from ..planning.movable_instances import MovableInstance
from ..planning.simulation import ClusterSimulation


def judge_skipped(result: StepResult, plan: Plan, *, fail: bool) -> None:
    """With `fail` skipped instances are a failure, which names them all; if not, those that still violate
    a rule are a warning."""
    if plan.skipped and fail and not result.failure:
        result.failure = report.not_all_moved(plan.skipped)
        return
    violators = [skipped for skipped in plan.skipped if skipped.uid in plan.violated]
    if violators:
        result.warnings.append(report.still_violated(violators))


def judge_places(result: StepResult, skipped: t.Sequence[SkippedInstance], *, fail: bool) -> None:
    """VMs that are not in their places are a failure, or else a warning. Either one names them all."""
    if not skipped:
        return
    text = report.not_in_place(skipped)
    if fail and not result.failure:
        result.failure = text
    else:
        result.warnings.append(text)


def report_not_enforced(
    result: StepResult,
    snapshot: Snapshot,
    candidates: t.Sequence[MovableInstance],
    plan: Plan,
    topology: Topology,
) -> None:
    """Report the instances that are placed correctly, though their rules are not enforced yet."""
    placed = report.not_enforced(candidates, plan)
    missed: tuple[MissedPreference, ...] = ()
    tied: dict[str, str] = {}
    if placed:
        simulation = ClusterSimulation(snapshot, candidates)
        missed = missed_preferences(simulation, placed, topology)
        tied = {x.uid: why for x in placed if (why := why_tied(simulation, x))}
    unmet = {each.uid: str(each) for each in missed}
    result.not_enforced = [
        report.well_placed(x, plan, unmet.get(x.uid, ""), tied.get(x.uid, "")) for x in placed
    ]
    result.progress += report.well_placed_lines(result.not_enforced)
    result.warnings += report.removed_constraints(candidates)


def why_tied(simulation: ClusterSimulation, movable: MovableInstance) -> str:
    """Why other pods on its node leave a VM no live migration, or nothing."""
    if movable.instance.vmi is None or movable.pinned:
        return ""
    others = tied_to(simulation.declared, movable.declared_pod)
    return tied_text(others) if others else ""
