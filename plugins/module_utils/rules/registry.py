# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What do capabilities add to the write of rules? Each has a line."""

from __future__ import annotations

from ..holds import write as holds
from ..undo import revert as undo

HOLDS = {
    "hold": holds.HOLDING,
}
"""How `workload_rollout: hold` sets the own rollout of a workload aside."""

RESTORATIONS = {
    **undo.RESTORATIONS,
}
"""The states of a rule set that restore workloads, beside those that write its rules."""
