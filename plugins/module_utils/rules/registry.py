# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What do capabilities add to the write of rules? Each has a line."""

from __future__ import annotations

import typing as t

from ..holds import write as holds

if t.TYPE_CHECKING:
    from ..model.snapshot import Snapshot
    from ..new_members.plan import PolicyPlan
    from .rules_plan import Restoration
    from .rules_request import RulesRequest

    PolicyOfRules = t.Callable[[RulesRequest, Snapshot, t.Mapping[str, t.Any] | None], PolicyPlan]


def _undo() -> Restoration:
    from ..undo.revert import REVERT

    return REVERT


def _policy() -> PolicyOfRules:
    from ..new_members.plan import mutating

    return mutating


def _warning() -> PolicyOfRules:
    from ..new_members.plan import warning

    return warning


HOLDS = {
    "hold": holds.HOLDING,
}
"""How `workload_rollout: hold` sets the own rollout of a workload aside."""

RESTORATIONS = {
    "reverted": _undo,
}
"""The states of a rule set that restore workloads, beside those that write its rules: each is imported by the task
that asks for it."""

NEW_MEMBERS = {
    "policy": _policy,
    "warn": _warning,
}
"""How workloads that are created later get the rules of a set: each is imported by the task that asks for it."""
