# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""No term selects by a label of a rule that some workload does not get."""

from __future__ import annotations

import typing as t

import pytest

from ansible_collections.virt.placement.plugins.module_utils.flows.rule_writes import held_writes
from ansible_collections.virt.placement.plugins.module_utils.model.findings import TaskError
from ansible_collections.virt.placement.plugins.module_utils.model.objects import Ref
from ansible_collections.virt.placement.plugins.module_utils.rules.labels_first import (
    label_writes,
)
from ansible_collections.virt.placement.plugins.module_utils.rules.rules_plan import RulesPlan

from .builders import NAMESPACE, plan, running, snapshot, vm

JSON = t.Any
LABEL = {"app": "fedora"}
LEADER: JSON = {"name": "leader", "workloads": [{"name": "leader"}], "label": LABEL}
FOLLOWER: JSON = {
    "name": "pair",
    "workloads": [{"name": "follower"}],
    "keep_together": {"topology_key": "node", "pods": {"labels": LABEL}},
}
GROUP: JSON = {
    "name": "group",
    "workloads": [{"names": ["a", "b"]}],
    "label": {"tier": "db"},
    "keep_apart": "node",
}


def stages(found: RulesPlan) -> list[list[str]]:
    return [[write.target.name for write in stage] for stage in found.stages]


def held(found: RulesPlan, *errors: Ref, refused: t.Collection[Ref] = ()) -> dict[str, str]:
    """The reasons by name of the writes of all stages that are held back."""
    known = {ref: TaskError("api", "refused") for ref in (*errors, *refused)}
    reasons: dict[str, str] = {}
    for stage in found.stages:
        now = held_writes(found, stage, known, refused)
        known |= now
        reasons |= {ref.name: error.message for ref, error in now.items()}
    return reasons


def pair(*rules: JSON) -> RulesPlan:
    leader, follower = vm("leader"), vm("follower")
    seen = snapshot(leader, follower, run=map(running, (leader, follower)))
    return plan(seen, *rules)


def test_follower_is_written_after_the_leader_its_vmi_and_its_pod_have_the_label() -> None:
    assert stages(pair(LEADER, FOLLOWER)) == [
        ["leader"],
        ["leader"],
        ["virt-launcher-leader"],
        ["follower"],
    ]


REQUIREMENTS: list[JSON] = [
    {"key": "app", "operator": "In", "values": ["fedora", "rhel"]},
    {"key": "app", "operator": "Exists"},
    {"key": "app", "operator": "NotIn", "values": ["fedora"]},
    {"key": "app", "operator": "DoesNotExist"},
]
"""Each selects other pods once the leader has its label."""


def raw(term: JSON, kind: str = "podAffinity") -> JSON:
    required = "requiredDuringSchedulingIgnoredDuringExecution"
    terms = {"affinity": {kind: {required: [{"topologyKey": "kubernetes.io/hostname", **term}]}}}
    return {"name": "pair", "workloads": [{"name": "follower"}], "terms": terms}


@pytest.mark.parametrize("kind", ["podAffinity", "podAntiAffinity"])
@pytest.mark.parametrize("requirement", REQUIREMENTS, ids=lambda x: x["operator"])
def test_raw_term_of_each_operator_waits_for_the_label(requirement: JSON, kind: str) -> None:
    found = pair(LEADER, raw({"labelSelector": {"matchExpressions": [requirement]}}, kind))
    pod = Ref("Pod", "shop", "virt-launcher-leader")

    assert stages(found)[-1] == ["follower"]
    assert held(found, refused=[pod])["follower"] == (
        f"VirtualMachine shop/follower was not written, since {pod} does not get the label app=fedora of rule leader"
    )


@pytest.mark.parametrize("scope", [{"namespaces": [NAMESPACE]}, {"namespaceSelector": {}}], ids=str)
def test_raw_term_that_names_its_namespaces_waits_for_the_label(scope: JSON) -> None:
    found = pair(LEADER, raw({"labelSelector": {"matchLabels": LABEL}, **scope}))

    assert stages(found)[-1] == ["follower"]


@pytest.mark.parametrize(
    "term",
    [
        {"labelSelector": {"matchExpressions": [{**REQUIREMENTS[0], "values": ["rhel"]}]}},
        {"labelSelector": {"matchExpressions": [{**REQUIREMENTS[2], "values": ["rhel"]}]}},
        {"labelSelector": {"matchExpressions": [{"key": "tier", "operator": "Exists"}]}},
        {"labelSelector": {"matchLabels": LABEL}, "namespaces": ["other"]},
    ],
    ids=["another value", "not another value", "another key", "another namespace"],
)
def test_raw_term_that_the_label_does_not_concern_waits_for_nothing(term: JSON) -> None:
    assert sorted(stages(pair(LEADER, raw(term)))[0]) == ["follower", "leader"]


def test_refused_label_holds_back_its_workload_and_the_term_that_selects_by_it() -> None:
    found = pair(LEADER, FOLLOWER)
    pod = Ref("Pod", "shop", "virt-launcher-leader")
    leader = Ref("VirtualMachine", "shop", "leader")

    reasons = held(found, refused=[pod])

    assert reasons["leader"].endswith(f"was not written, since {pod} cannot get its label")
    assert reasons["follower"] == (
        f"VirtualMachine shop/follower was not written, since {pod} does not get the label app=fedora of rule leader"
    )
    assert "follower" in held(found, refused=[leader])
    assert "follower" in held(found, leader), "a write that fails later counts as well"


def test_all_labels_of_a_group_are_tried_before_any_is_written() -> None:
    found = plan(snapshot(vm("a"), vm("b")), GROUP)

    tried = [write.target.name for write in label_writes(found.needs, found.workloads)]
    reasons = held(found, refused=[Ref("VirtualMachine", "shop", "a")])

    assert stages(found) == [["a", "b"]]
    assert sorted(tried) == ["a", "b"]
    assert reasons == {
        "b": "VirtualMachine shop/b was not written, since VirtualMachine shop/a does not get the label tier=db of"
        " rule group"
    }


def test_rules_without_a_label_need_no_trial_and_one_stage() -> None:
    found = plan(
        snapshot(vm("a"), vm("b")),
        {"name": "r", "workloads": [{"names": ["a", "b"]}], "keep_apart": "node"},
    )

    assert stages(found) == [["a", "b"]]
    assert label_writes(found.needs, found.workloads) == ()
