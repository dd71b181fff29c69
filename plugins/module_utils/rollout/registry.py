# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What plans the moves of a rollout that has an option for it, in place of planning/plan? A capability has a line."""

from __future__ import annotations

from ..places import places

PLANNERS = {
    "places": places.plan_places,
}
