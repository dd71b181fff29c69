# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which policy does a task of rules write for new members, and which of its rules does that not cover?"""

from __future__ import annotations

import typing as t
from dataclasses import dataclass, field, replace

from ..model.json_pointer import JSON
from ..model.kinds import RULES
from ..model.obstacle import NO_POLICY, Obstacle
from ..model.rule import Rule, RuleId
from ..model.snapshot import Snapshot
from ..rules.rules_request import RulesRequest
from .members import new_members
from .policy import mutating_policy, policy_name, warning_policy, why_no_policy
from .stored import rules_of_policy, rules_text

Policy = t.Mapping[str, JSON]


@dataclass(frozen=True)
class PolicyPlan:
    """`manifests`: the policy and its binding, none where there is no policy: `why_none` says why, or no rule is for
    new members. `not_covered`: the rules that new members do not get, each with the reason."""

    manifests: tuple[JSON, ...] = ()
    not_covered: t.Mapping[RuleId, Obstacle] = field(default_factory=dict)
    why_none: Obstacle | None = None


def mutating(request: RulesRequest, snapshot: Snapshot, present: Policy | None) -> PolicyPlan:
    """The policy that gives new members the rules. `present`: the policy of the rule set as it is, None where there is
    none."""
    return _plan(request, snapshot, present, mutates=True)


def warning(request: RulesRequest, snapshot: Snapshot, present: Policy | None) -> PolicyPlan:
    """The policy that warns of new members without the rules."""
    return _plan(request, snapshot, present, mutates=False)


def _plan(
    request: RulesRequest, snapshot: Snapshot, present: Policy | None, *, mutates: bool
) -> PolicyPlan:
    rules = _rules_after(request, present)
    if rules is None:
        name = policy_name(request.namespace, request.rule_set)
        text = f"the rules in the annotation {RULES} of the policy {name} cannot be read"
        advice = "Delete the policy and its binding, and write all rules of the set again."
        return PolicyPlan(why_none=Obstacle(NO_POLICY, text, advice=advice))
    members, not_covered = new_members(rules, snapshot)
    if not members:
        return PolicyPlan(not_covered=not_covered)
    why = why_no_policy(request.namespace, snapshot.platform, members, mutates=mutates)
    if why is not None:
        return PolicyPlan((), not_covered, why)
    make = mutating_policy if mutates else warning_policy
    policy, binding = make(request.namespace, request.rule_set, members)
    policy["metadata"] = _with_rules(policy["metadata"], rules)
    return PolicyPlan((policy, binding), not_covered)


def _with_rules(metadata: JSON, rules: t.Iterable[Rule]) -> JSON:
    return {**metadata, "annotations": {**metadata["annotations"], RULES: rules_text(rules)}}


def _rules_after(request: RulesRequest, present: Policy | None) -> list[Rule] | None:
    """The rules of the set after the request: those that it lists, and others that the policy has. None where they
    cannot be read."""
    listed = {rule.id: rule for rule in request.rules}
    kept: t.Iterable[Rule] = ()
    if present is not None and not request.prune:
        stored = rules_of_policy(present, request.namespace, request.rule_set)
        if stored is None:
            return None
        kept = stored
    if request.state != "present":
        return [rule for rule in kept if rule.id not in listed]
    after = {rule.id: rule for rule in kept}
    for rule in request.rules:
        if not rule.is_named_alone:
            after[rule.id] = rule
        elif rule.id in after:
            after[rule.id] = replace(after[rule.id], enabled=False)
    return sorted(after.values(), key=lambda rule: rule.id)
