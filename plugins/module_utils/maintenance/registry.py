# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What limits a drain to an approved plan? Each is a line of a capability, imported for such a plan."""

from __future__ import annotations

import typing as t

if t.TYPE_CHECKING:
    from ..approval.approved_drain import ApprovedDrain
    from ..moves.run_plan import PlanReader, RunPlan


def _plan_reader() -> PlanReader:
    from ..approval.approved_drain import read

    return read


def _approval(plan: RunPlan) -> ApprovedDrain:
    from ..approval.approved_drain import ApprovedDrain

    return ApprovedDrain.of(plan)


PLAN_READERS = {
    "plan": _plan_reader,
}
APPROVALS = {
    "plan": _approval,
}


def approval_of(plan: RunPlan | None) -> ApprovedDrain | None:
    """What limits a drain to its approved plan, where it has one."""
    return APPROVALS["plan"](plan) if plan is not None else None
