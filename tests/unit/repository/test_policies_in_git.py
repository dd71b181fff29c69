# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""lint_info returns the policy for new members that rules would write, so that a repository can hold it."""

from __future__ import annotations

import types
import typing as t

import pytest

from ansible_collections.virt.placement.plugins.module_utils.flows.lint import run
from ansible_collections.virt.placement.plugins.module_utils.model.findings import InvalidInput
from ansible_collections.virt.placement.plugins.module_utils.new_members.plan import plan_policies
from tests.unit.rules import builders

ZONE = "topology.kubernetes.io/zone"
RULES: list[dict[str, t.Any]] = [
    {"name": "one", "run_on": {ZONE: "a"}, "workloads": [{"labels": {"app": "x"}}]},
    {"name": "two", "keep_apart": {"topology_key": ZONE}, "workloads": ["a", "b"]},
]


def linted(new_members: str, rules: t.Any = None, **options: t.Any) -> dict[str, t.Any]:
    params: dict[str, t.Any] = {
        "exclude_namespaces": [],
        "files": [],
        "exclude": [],
        "manifests": [],
        "rules": RULES if rules is None else rules,
        "namespace": "shop",
        "rule_set": "default",
        "topology_keys": {},
        "cluster_uid": None,
        "timeout": 60,
        "kubernetes_version": None,
        "kubevirt_version": None,
        "assume_node_labels": {},
        "new_members": new_members,
        **options,
    }
    warnings: list[str] = []
    module = types.SimpleNamespace(params=params, warn=warnings.append)
    return {**run(t.cast(t.Any, module)), "warnings": warnings}


@pytest.mark.parametrize("how", ["policy", "warn"])
def test_policy_is_the_one_that_rules_writes(how: str) -> None:
    request = builders.request(*RULES, new_members=how)
    for members in ((), (builders.vm("a"), builders.vm("b", labels={"app": "x"}))):
        wanted = plan_policies(request, builders.snapshot(*members))
        found = linted(how)["new_members"]
        assert found["manifests"] == list(wanted.manifests) != []
        assert found["covered"] == ["one", "two"]
        # what the rules choose is known on a cluster alone, and not documented here
        assert found.keys() == {"manifests", "covered", "not_covered", "expected"}
    manifests = [dict(member.manifest) for member in members]
    assert linted(how, manifests=manifests)["new_members"]["manifests"] == list(wanted.manifests)


@pytest.mark.parametrize("namespace", ["default", "shop"])
def test_vm_that_is_expected_in_one_namespace_and_is_in_another_is_named(namespace: str) -> None:
    result = linted("policy", manifests=[dict(builders.vm("a").manifest)], namespace=namespace)
    expected = [x["name"] for x in result["new_members"]["expected"]]
    elsewhere = "no VirtualMachine a among the manifests of default, but in shop: set namespace"
    assert expected == (["b"] if namespace == "shop" else ["a", "b"])
    assert any(elsewhere in x for x in result["warnings"]) == (namespace == "default")


def test_nothing_is_returned_where_it_is_not_asked_for() -> None:
    assert "new_members" not in linted("none")
    assert "new_members" not in linted("policy", [])


def test_server_that_is_too_old_is_an_error_with_what_to_use() -> None:
    with pytest.raises(InvalidInput, match=r"needs Kubernetes 1\.36.*Set new_members to warn"):
        linted("policy", kubernetes_version="1.35")
    assert linted("warn", kubernetes_version="1.35")["new_members"]["manifests"]
