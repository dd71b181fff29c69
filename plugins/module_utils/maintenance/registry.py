# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What limits a drain to an approved plan? Each is a line of a capability."""

from __future__ import annotations

from ..approval import approved_drain as approval

PLAN_READERS = {
    "plan": approval.read,
}
APPROVALS = {
    "plan": approval.ApprovedDrain.of,
}
