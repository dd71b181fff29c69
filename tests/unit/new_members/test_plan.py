# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which rules the policy of a set has after a task that lists some of them."""

from __future__ import annotations

import json
import typing as t

import pytest

from ansible_collections.virt.placement.plugins.module_utils.model.kinds import RULES
from ansible_collections.virt.placement.plugins.module_utils.new_members.plan import (
    PolicyPlan,
    mutating,
)
from ansible_collections.virt.placement.plugins.module_utils.new_members.stored import (
    rules_of_policy,
    rules_text,
)
from ansible_collections.virt.placement.plugins.module_utils.rules.registry import NEW_MEMBERS
from tests.unit.rules import builders

ZONE = "topology.kubernetes.io/zone"
ONE = {"name": "one", "run_on": {ZONE: "a"}, "workloads": ["a"]}
TWO = {"name": "two", "avoid": {ZONE: ["b", "c"]}, "workloads": [{"labels": {"app": "x"}}]}
KEYLESS: dict[str, t.Any] = {"topology_keys": {"rack": "rack"}}


def planned(*rules: t.Any, present: PolicyPlan | None = None, **options: t.Any) -> PolicyPlan:
    policy = present.manifests[0] if present is not None and present.manifests else None
    return mutating(builders.request(*rules, **options), builders.snapshot(), policy)


def names(plan: PolicyPlan) -> list[str]:
    if not plan.manifests:
        return []
    rules = rules_of_policy(plan.manifests[0], "shop", "default")
    assert rules is not None
    return [rule.id.name for rule in rules]


@pytest.mark.parametrize(
    "rule",
    [
        ONE,
        {**TWO, "preferred": True, "weight": 7},
        {**ONE, "enabled": False},
        {**ONE, "allow_findings": ["empty_node_term"]},
        {"name": "x", "keep_apart": {"topology_key": ZONE, "from": ["b"]}, "workloads": ["a"]},
        {
            "name": "x",
            "label": {"team": "x"},
            "workloads": [{"kind": "Deployment", "names": ["a"]}],
        },
        {"name": "x", "terms": {"tolerations": [{"operator": "Exists"}]}, "workloads": ["a"]},
        {"name": "x", "spread": {"topology_key": ZONE, "max_skew": 2}, "workloads": ["a"]},
    ],
)
def test_rules_of_a_policy_are_read_as_they_were_declared(rule: t.Any) -> None:
    rules = builders.request(rule).rules
    policy = {"metadata": {"annotations": {RULES: rules_text(rules)}}}
    assert rules_of_policy(policy, "shop", "default") == rules


def test_key_without_a_prefix_is_read() -> None:
    rule = {"name": "one", "run_on": {"rack": "a"}, "workloads": ["a"]}
    rules = builders.request(rule, **KEYLESS).rules
    policy = {"metadata": {"annotations": {RULES: rules_text(rules)}}}
    assert rules_of_policy(policy, "shop", "default") == rules


def test_policy_keeps_rules_that_the_task_does_not_list() -> None:
    first = planned(ONE)
    assert names(first) == ["one"]
    assert names(planned(TWO, present=first)) == ["one", "two"]
    assert names(planned(TWO, present=first, prune=True)) == ["two"]
    both = planned(TWO, present=first)
    assert names(planned({"name": "one"}, present=both, state="absent")) == ["two"]
    assert planned({"name": "one"}, present=first, state="absent").manifests == ()


def test_rule_that_rests_by_its_name_rests_in_the_policy() -> None:
    """It is left out where the policy does not have it: its workloads are those that carry it."""
    unknown = planned({"name": "other", "enabled": False}, present=planned(ONE))
    assert names(unknown) == ["one"]
    plan = planned({"name": "one", "enabled": False}, present=planned(ONE))
    rules = rules_of_policy(plan.manifests[0], "shop", "default")
    assert rules is not None
    assert [rule.enabled for rule in rules] == [False]


@pytest.mark.parametrize(
    "text",
    [None, "", "{", "[]", '{"version":1}', '{"version":2,"rules":[]}', '{"version":1,"rules":[1]}'],
)
def test_damaged_annotation_is_not_an_empty_one(text: str | None) -> None:
    first = planned(ONE)
    policy = json.loads(json.dumps(first.manifests[0]))
    policy["metadata"]["annotations"][RULES] = text
    plan = mutating(builders.request(TWO), builders.snapshot(), policy)
    assert plan.manifests == ()
    assert plan.why_none is not None
    assert plan.why_none.code == "no_policy"


def test_registry_has_both_policies() -> None:
    kinds = [
        entry()(builders.request(ONE), builders.snapshot(), None).manifests[0]["kind"]
        for entry in NEW_MEMBERS.values()
    ]
    assert kinds == ["MutatingAdmissionPolicy", "ValidatingAdmissionPolicy"]
