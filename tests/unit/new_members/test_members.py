# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which rules can be written to workloads that do not exist yet, and what each such workload gets."""

from __future__ import annotations

import typing as t

import pytest

from ansible_collections.virt.placement.plugins.module_utils.new_members.members import (
    NewMembers,
    new_members,
)
from tests.unit.rules import builders

ZONE = "topology.kubernetes.io/zone"
VM_ID = "vmi.kubevirt.io/id"
BY_LABEL: dict[str, t.Any] = {"labels": {"app": "x"}}


def members(*rules: t.Any, workloads: t.Sequence[t.Any] = ()) -> NewMembers:
    return new_members(builders.request(*rules).rules, builders.snapshot(*workloads))


def test_vms_that_do_not_exist_get_the_terms_of_those_that_do() -> None:
    rule = {"name": "one", "keep_apart": ZONE, "workloads": ["a", "b"]}
    (member,) = members(rule, workloads=[builders.vm("a")]).members
    (term,) = member.terms
    assert member.names == ("a", "b")
    assert term.value["labelSelector"] == {
        "matchExpressions": [{"key": VM_ID, "operator": "In", "values": ["a", "b"]}]
    }


def test_members_by_labels_have_these_in_the_annotation() -> None:
    rule = {"name": "one", "run_on": {ZONE: "a"}, "workloads": [BY_LABEL]}
    (member,) = members(rule).members
    assert (member.names, member.labels) == ((), {"app": "x"})
    assert member.stored.chosen == (("app", "x"),)
    assert member.stored.declared == f'{{"run_on":{{"{ZONE}":"a"}}}}'


def test_name_counts_before_labels() -> None:
    rule = {"name": "one", "run_on": {ZONE: "a"}, "workloads": [BY_LABEL, "a"]}
    assert [member.names for member in members(rule).members] == [("a",), ()]


def test_rule_that_rests_is_known_to_its_new_members() -> None:
    rule = {"name": "one", "run_on": {ZONE: "a"}, "workloads": ["a"], "enabled": False}
    (member,) = members(rule).members
    assert member.terms == ()
    assert not member.stored.enabled


def test_target_gets_the_label_of_its_group() -> None:
    """Its pods run under a KubeVirt that labels none with the id, and the VM's hostname is that of another one."""
    vm = builders.vm("db", placement={"hostname": "same"})
    twin = builders.vm("twin", placement={"hostname": "same"})
    rule = {"name": "one", "keep_apart": {"topology_key": ZONE, "from": ["db"]}, "workloads": ["a"]}
    run = [builders.running(vm, without=[VM_ID])]
    found = new_members(builders.request(rule).rules, builders.snapshot(vm, twin, run=run))
    target = next(member for member in found.members if member.names == ("db",))
    assert [str(term.location) for term in target.terms] == ["label"]
    assert target.stored.content() == {"terms": []}


@pytest.mark.parametrize(
    ("rule", "advice"),
    [
        ({"keep_apart": ZONE, "workloads": [{"kind": "Deployment", **BY_LABEL}]}, "spread with"),
        ({"keep_apart": ZONE, "workloads": [{"kind": "Deployment", "name": "a"}]}, "Set its"),
        ({"spread": ZONE, "workloads": [{"kind": "Deployment", **BY_LABEL}]}, "Set its"),
        (
            {"keep_together": ZONE, "workloads": [{"kind": "StatefulSet", "name": "a"}]},
            "same labels",
        ),
        ({"keep_apart": ZONE, "workloads": [BY_LABEL, "a"]}, "same labels"),
    ],
)
def test_what_depends_on_the_new_workload_is_not_covered(rule: t.Any, advice: str) -> None:
    """The option label helps, but for keep_apart of several Deployments."""
    found = members(
        {"name": "one", **rule}, {"name": "two", "run_on": {ZONE: "a"}, "workloads": ["a"]}
    )
    assert [member.rule.name for member in found.members] == ["two"]
    (why,) = found.not_covered.values()
    assert why.code == "not_covered"
    assert advice in why.advice
    labeled = {"name": "one", **rule, "label": {"team": "x"}}
    assert bool(members(labeled).not_covered) == ("spread" in advice)


@pytest.mark.parametrize(
    "rule",
    [
        {"keep_apart": ZONE, "workloads": [{"kind": "StatefulSet", **BY_LABEL}]},
        {"keep_together": ZONE, "workloads": [BY_LABEL], "label": {"team": "x"}},
        {"spread": ZONE, "workloads": [BY_LABEL]},
        {
            "keep_apart": {"topology_key": ZONE, "pods": {"labels": {"app": "db"}}},
            "workloads": ["a"],
        },
        {"terms": {"tolerations": [{"key": "gpu", "operator": "Exists"}]}, "workloads": [BY_LABEL]},
    ],
)
def test_what_is_the_same_for_each_workload_is_covered(rule: t.Any) -> None:
    found = members({"name": "one", **rule})
    assert found.members
    assert not found.not_covered
