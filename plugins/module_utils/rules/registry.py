# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What do capabilities add to the write of rules? Each has a line."""

from __future__ import annotations

import typing as t

from ..holds import write as holds

if t.TYPE_CHECKING:
    from ..model.snapshot import Snapshot
    from .policy_plan import PolicyPlan
    from .rules_plan import Restoration
    from .rules_request import RulesRequest
    from .stored_rules import Coverage

    PlanPolicies = t.Callable[[RulesRequest, Snapshot], PolicyPlan]


def _undo() -> Restoration:
    from ..undo.revert import REVERT

    return REVERT


def _policies() -> PlanPolicies:
    from ..new_members.plan import plan_policies

    return plan_policies


def _coverage() -> t.Callable[[Snapshot], Coverage]:
    from ..new_members.findings import coverage

    return coverage


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
    "policy": _policies,
    "warn": _policies,
}
"""What workloads that are created later get of the rules of a set. Imported where a task asks for it, or where a set
has policies."""

COVERAGE = {
    "new_members": _coverage,
}
"""Fields of a rule in results, and what says them: how workloads that are created later get it, and which rules there
are for these alone."""
