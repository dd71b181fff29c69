# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which states of a rule set restore workloads, beside those that write its rules? Each is a line of a capability."""

from __future__ import annotations

from ..undo import revert as undo

RESTORATIONS = {
    **undo.RESTORATIONS,
}
