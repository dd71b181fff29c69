# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which policy does a task of rules write for new members, and which of its rules does that not cover?"""

from __future__ import annotations

import typing as t
from dataclasses import dataclass, field

from ..model.json_pointer import JSON
from ..model.obstacle import Obstacle
from ..model.rule import RuleId
from ..model.snapshot import Snapshot
from ..rules.rules_request import RulesRequest
from .members import new_members
from .policy import mutating_policy, warning_policy, why_no_policy


@dataclass(frozen=True)
class PolicyPlan:
    """`manifests`: the policy and its binding, none where there is no policy: `why_none` says why, or no rule is for
    new members. `not_covered`: the rules that new members do not get, each with the reason."""

    manifests: tuple[JSON, ...] = ()
    not_covered: t.Mapping[RuleId, Obstacle] = field(default_factory=dict)
    why_none: Obstacle | None = None


def mutating(request: RulesRequest, snapshot: Snapshot) -> PolicyPlan:
    """The policy that gives new members the rules."""
    return _plan(request, snapshot, mutates=True)


def warning(request: RulesRequest, snapshot: Snapshot) -> PolicyPlan:
    """The policy that warns of new members without the rules."""
    return _plan(request, snapshot, mutates=False)


def _plan(request: RulesRequest, snapshot: Snapshot, *, mutates: bool) -> PolicyPlan:
    if request.state != "present":
        return PolicyPlan()
    members, not_covered = new_members(request.rules, snapshot)
    if not members:
        return PolicyPlan(not_covered=not_covered)
    why = why_no_policy(request.namespace, snapshot.platform, members, mutates=mutates)
    if why is not None:
        return PolicyPlan((), not_covered, why)
    make = mutating_policy if mutates else warning_policy
    return PolicyPlan(make(request.namespace, request.rule_set, members), not_covered)
