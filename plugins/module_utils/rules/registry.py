# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What do capabilities add to the write of rules? Each has a line."""

from __future__ import annotations

import typing as t

from ..holds import write as holds

if t.TYPE_CHECKING:
    from .rules_plan import Restoration


def _undo() -> Restoration:
    from ..undo.revert import REVERT

    return REVERT


HOLDS = {
    "hold": holds.HOLDING,
}
"""How `workload_rollout: hold` sets the own rollout of a workload aside."""

RESTORATIONS = {
    "reverted": _undo,
}
"""The states of a rule set that restore workloads, beside those that write its rules: each is imported by the task
that asks for it."""
