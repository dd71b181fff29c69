# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Rules that only a policy has, since no workload of theirs exists yet, in rules_info and placement_info."""

from __future__ import annotations

import typing as t
from dataclasses import replace
from unittest import mock

import pytest

from ansible_collections.virt.placement.plugins.module_utils.flows import placement_info, rules_info
from ansible_collections.virt.placement.plugins.module_utils.interface.rule_table import state_of
from ansible_collections.virt.placement.plugins.module_utils.model.admission_policy import (
    AdmissionPolicy,
)
from ansible_collections.virt.placement.plugins.module_utils.model.kinds import RULES
from tests.unit.new_members.test_findings import (
    BY_LABELS,
    BY_NAME,
    cluster,
    policies,
    set_at,
    without_binding,
)

Result = dict[str, t.Any]
EXPECTED = {**BY_NAME, "workloads": ["db-1", "db-2"], "preferred": True}


class ReadPolicies(t.Protocol):
    def __call__(self, *policies: AdmissionPolicy, **options: t.Any) -> Result:
        """The result with these policies."""


@pytest.fixture
def read_rules(monkeypatch: pytest.MonkeyPatch) -> ReadPolicies:
    """rules_info in a namespace with two VMs that have the rule `one`, and with these policies."""

    def run(*read: AdmissionPolicy, carried: t.Any = BY_LABELS, **more: t.Any) -> Result:
        snapshot = replace(cluster(carried), policies=read)
        monkeypatch.setattr(rules_info, "read_snapshot", lambda *_args: snapshot)
        monkeypatch.setattr(rules_info, "with_policies", lambda _api, snapshot, *_args: snapshot)
        options = {"namespaces": ["shop"], "workloads": None, "exclude_namespaces": []}
        others = {"declarations": True, "topology_keys": {}, "cluster_uid": None}
        module = mock.Mock(params={**options, **others, **more})
        return rules_info.run(module, mock.Mock())

    return run


def test_rule_that_no_workload_has_yet_is_listed_and_not_enforced(read_rules: ReadPolicies) -> None:
    result = read_rules(*policies(BY_LABELS, EXPECTED))

    one, two = result["rules"]
    assert (one["name"], len(one["workloads"]), one["new_members"]) == ("one", 2, "policy")
    assert two == {
        "namespace": "shop",
        "rule_set": "default",
        "name": "two",
        "type": "run_on",
        "preferred": True,
        "terms": [],
        "resting": False,
        "since": None,
        "enforced": False,
        "violated": False,
        "workloads": [],
        "new_members": "policy",
        "declaration": {
            "name": "two",
            "workloads": ["db-1", "db-2"],
            "run_on": {"zone": "a"},
            "preferred": True,
        },
    }
    assert state_of(two) == "no workload"
    assert "shop/default/two  run_on, preferred  no workload" in result["table"]
    assert "placement_apply_new_members: policy\n" in result["declarations_yaml"]


def test_rule_at_rest_or_in_a_policy_without_binding_is_listed(read_rules: ReadPolicies) -> None:
    rests = {**EXPECTED, "enabled": False, "allow_findings": ["unsatisfiable"]}
    (_one, two) = read_rules(*policies(BY_LABELS, rests))["rules"]
    assert (two["resting"], state_of(two)) == (True, "not enabled")
    declaration = two["declaration"]
    assert (declaration["enabled"], declaration["allow_findings"]) == (False, ["unsatisfiable"])
    unbound = read_rules(*policies(BY_LABELS, EXPECTED, change=without_binding))
    assert [x["new_members"] for x in unbound["rules"]] == ["none", "none"]
    assert "new_members" not in unbound["declarations_yaml"]


def test_warning_policy_keeps_its_option_in_the_declarations(read_rules: ReadPolicies) -> None:
    result = read_rules(*policies(BY_LABELS, EXPECTED, how="warn"))
    assert [x["new_members"] for x in result["rules"]] == ["warn", "warn"]
    assert "placement_apply_new_members: warn\n" in result["declarations_yaml"]


def test_declaration_whose_key_is_the_name_of_another_one_is_null(read_rules: ReadPolicies) -> None:
    own = policies({**EXPECTED, "run_on": {"performance": "a"}})
    (_one, two) = read_rules(*own, topology_keys={"performance": "example.com/speed"})["rules"]
    assert two["declaration"] is None


def test_policy_whose_rules_cannot_be_read_is_a_gap(read_rules: ReadPolicies) -> None:
    own = policies(EXPECTED, change=set_at(0, "metadata", "annotations", RULES, value="{"))
    result = read_rules(*own)
    assert [x["name"] for x in result["rules"]] == ["one"]
    (gap,) = result["permission_gaps"]
    assert gap["resource"] == f"rules of {own[0].ref}"
    assert "whether there are more is unknown" in result["outcome"]["done"][0]["text"]


def test_rules_of_listed_workloads_are_those_that_they_have(read_rules: ReadPolicies) -> None:
    own = policies(BY_LABELS, EXPECTED)
    result = read_rules(*own, workloads=[{"namespace": "shop", "name": "a"}])
    assert [x["name"] for x in result["rules"]] == ["one"]


@pytest.mark.parametrize(("all_rules", "listed"), [(True, ["one", "two"]), (False, ["one"])])
def test_verification_names_rules_that_no_workload_has_yet(
    all_rules: bool, listed: list[str]
) -> None:
    snapshot = replace(cluster(BY_LABELS), policies=policies(BY_LABELS, EXPECTED))
    found = placement_info._coverage(snapshot.workloads, snapshot, all_rules=all_rules)
    assert found["new_members"] == [
        {"rule": f"shop/default/{name}", "new_members": "policy"} for name in listed
    ]


LABELS = BY_LABELS["workloads"]
POOL = {"kind": "VirtualMachinePool", "labels": {"app": "x"}}


@pytest.mark.parametrize(
    ("of_policy", "how", "declared"),
    [
        (["a", "db-2"], "policy", ["a", "db-2", "b"]),
        ([*LABELS, "db-2", POOL], "policy", [*LABELS, "db-2", POOL]),
        (["a", "db-2"], "warn", ["a", "b"]),  # names of a warning exist
    ],
)
def test_declaration_keeps_what_only_the_policy_chooses(
    read_rules: ReadPolicies, of_policy: t.Any, how: str, declared: t.Any
) -> None:
    carried = {**BY_LABELS, "workloads": LABELS if of_policy[0] != "a" else ["a", "b"]}
    own = policies({**BY_LABELS, "workloads": of_policy}, how=how)
    for only in (None, [{"namespace": "shop", "name": "a"}]):
        (rule,) = read_rules(*own, carried=carried, workloads=only)["rules"]
        assert rule["declaration"]["workloads"] == declared


def test_declaration_of_workloads_with_other_options_is_theirs(read_rules: ReadPolicies) -> None:
    other = {**BY_LABELS, "run_on": {"topology.kubernetes.io/zone": "b"}, "workloads": ["db-2"]}
    (rule,) = read_rules(*policies(other))["rules"]
    assert rule["declaration"]["workloads"] == LABELS


@pytest.mark.parametrize(
    ("rule", "change", "comment"),
    [
        (EXPECTED, None, "# new_members of these was none: one\n"),
        (
            BY_LABELS,
            set_at(0, "spec", "variables", value=[]),
            "# new_members of these was unknown: one\n",
        ),
        (BY_LABELS, None, ""),
    ],
)
def test_declarations_name_rules_that_new_members_get_otherwise(
    read_rules: ReadPolicies, rule: t.Any, change: t.Any, comment: str
) -> None:
    text = read_rules(*policies(rule, change=change))["declarations_yaml"]
    assert comment in text
    assert ("# new_members" in text) == bool(comment)
