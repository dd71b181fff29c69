# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What plans, limits or ends a rollout in a way of its own? Each is a line of a capability."""

from __future__ import annotations

from ..approval import approved_rollout as approval
from ..holds import release as holds
from ..places import places

PLAN_READERS = {
    "plan": approval.read,
}
APPROVALS = {
    "plan": approval.ApprovedRollout,
}
"""What reads an approved plan, and what limits a rollout to it."""

HOLDS = {
    "hold": holds.held_rollouts,
}
"""What finds workloads whose own rollouts are set aside, and gives them back."""

PLANNERS = {
    "places": places.plan_places,
}
"""What plans the moves of a rollout that has this option, in place of planning/plan."""
