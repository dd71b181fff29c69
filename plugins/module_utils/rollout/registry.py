# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What plans, limits or ends a rollout in a way of its own? Each is a line of a capability, imported where asked."""

from __future__ import annotations

import typing as t

if t.TYPE_CHECKING:
    from ..approval.approved_rollout import ApprovedRollout
    from ..model.plan import Plan
    from ..moves.move_source import HeldRollouts
    from ..moves.run_plan import PlanReader, RunPlan


def _plan_reader() -> PlanReader:
    from ..approval.approved_rollout import read

    return read


def _approval(plan: RunPlan) -> ApprovedRollout:
    from ..approval.approved_rollout import ApprovedRollout

    return ApprovedRollout(plan)


def _holds() -> t.Callable[..., HeldRollouts]:
    from ..holds.release import held_rollouts

    return held_rollouts


def _places() -> t.Callable[..., Plan]:
    from ..places.places import plan_places

    return plan_places


PLAN_READERS = {
    "plan": _plan_reader,
}
APPROVALS = {
    "plan": _approval,
}
"""What reads an approved plan, and what limits a rollout to it."""


def approval_of(plan: RunPlan | None) -> ApprovedRollout | None:
    """What limits a rollout to its approved plan, where it has one."""
    return APPROVALS["plan"](plan) if plan is not None else None


HOLDS = {
    "hold": _holds,
}
"""What finds workloads whose own rollouts are set aside, and gives them back."""

PLANNERS = {
    "places": _places,
}
"""What plans the moves of a rollout that has this option, in place of planning/plan."""
