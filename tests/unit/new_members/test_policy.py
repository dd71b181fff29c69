# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The manifests of a policy, and where there can be none."""

from __future__ import annotations

import dataclasses
import re
import typing as t

import pytest

from ansible_collections.virt.placement.plugins.module_utils.model.admission_policy import DIGEST
from ansible_collections.virt.placement.plugins.module_utils.new_members.members import (
    NewMember,
    new_members,
)
from ansible_collections.virt.placement.plugins.module_utils.new_members.policy import (
    mutating_policy,
    policy_name,
    warning_policy,
    why_no_policy,
)
from tests.unit.rules import builders

ZONE = "topology.kubernetes.io/zone"
VMS = "virtualmachines"


def members(**options: t.Any) -> tuple[NewMember, ...]:
    rule = {"name": "one", "workloads": ["a", "b"], **(options or {"run_on": {ZONE: "a"}})}
    return new_members(builders.request(rule).rules, builders.snapshot()).members


def test_policy_is_about_creations_in_its_namespace_alone() -> None:
    for policy, binding in (
        mutating_policy("shop", "default", members()),
        warning_policy("shop", "default", members()),
    ):
        spec = policy["spec"]
        assert spec["failurePolicy"] == "Ignore"
        assert spec["matchConstraints"]["namespaceSelector"] == {
            "matchLabels": {"kubernetes.io/metadata.name": "shop"}
        }
        (rule,) = spec["matchConstraints"]["resourceRules"]
        assert (rule["operations"], rule["resources"]) == (["CREATE"], [VMS])
        assert binding["spec"]["policyName"] == policy["metadata"]["name"]
        assert binding["kind"] == f"{policy['kind']}Binding"


def test_digest_follows_the_rules() -> None:
    first, same, other = (
        mutating_policy("shop", "default", rules)[0]["metadata"]["annotations"][DIGEST]
        for rules in (members(), members(), members(run_on={ZONE: "b"}))
    )
    assert first == same != other


def test_each_rule_set_has_a_name_that_an_object_can_have() -> None:
    names = [policy_name("a" * 63, rule_set) for rule_set in ("x", "X", "x_y")]
    assert len(set(names)) == 3
    assert all(re.fullmatch(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?", name) for name in names)


@pytest.mark.parametrize(
    ("namespace", "kubernetes", "mutates", "part"),
    [
        ("shop", (1, 35), True, "needs Kubernetes 1.36"),
        ("shop", (1, 29), False, "needs Kubernetes 1.30"),
        ("kube-system", (1, 36), True, "is a namespace of the system"),
        ("openshift-cnv", (1, 36), True, "is a namespace of the system"),
        ("kubevirt", (1, 36), True, "is a namespace of the system"),
    ],
)
def test_no_policy(namespace: str, kubernetes: tuple[int, int], mutates: bool, part: str) -> None:
    platform = dataclasses.replace(builders.PLATFORM, kubernetes=kubernetes)
    why = why_no_policy(namespace, platform, members(), mutates=mutates)
    assert why is not None
    assert why.code == "no_policy"
    assert part in str(why)
    assert why_no_policy("shop", builders.PLATFORM, members()) is None


def test_older_servers_can_warn() -> None:
    platform = dataclasses.replace(builders.PLATFORM, kubernetes=(1, 35))
    why = why_no_policy("shop", platform, members())
    assert why is not None
    assert "warn" in why.advice
    assert why_no_policy("shop", platform, members(), mutates=False) is None


def test_policy_that_is_too_large_says_how_to_split_it() -> None:
    names = [f"vm-{number:04}" for number in range(8000)]
    large = members(keep_apart=ZONE, workloads=names)
    why = why_no_policy("shop", builders.PLATFORM, large)
    assert why is not None
    assert "100000" in str(why)
    assert "rule_set" in why.advice


def test_object_cannot_get_more_rules_than_are_read() -> None:
    rules = [
        {"name": f"r{number}", "run_on": {ZONE: "a"}, "workloads": ["a"]} for number in range(65)
    ]
    found = new_members(builders.request(*rules).rules, builders.snapshot()).members
    why = why_no_policy("shop", builders.PLATFORM, found)
    assert why is not None
    assert "65 rules" in str(why)
