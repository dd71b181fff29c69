# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The table of rules that the playbook rules shows."""

from __future__ import annotations

import typing as t

import pytest
import yaml

from ansible_collections.virt.placement.plugins.module_utils.interface.rule_table import (
    declarations_yaml,
    rule_table,
    state_of,
)


def workload(name: str, **values: t.Any) -> dict[str, t.Any]:
    counts = {"instances": 1, "enforced": 1, "violated": 0}
    return {"name": name, "complete": True, "resting": False, **counts, **values}


def rule(*workloads: dict[str, t.Any], **values: t.Any) -> dict[str, t.Any]:
    return {
        "namespace": "shop",
        "rule_set": "default",
        "name": "apart",
        "type": "keep_apart",
        "preferred": False,
        "enforced": True,
        "violated": False,
        "resting": any(x["resting"] for x in workloads),
        "since": "2026-03-02T21:14:09Z",
        "workloads": list(workloads),
        **values,
    }


@pytest.mark.parametrize(
    ("shown", "state"),
    [
        (rule(workload("db"), workload("web")), "enforced"),
        (rule(workload("db", violated=1), workload("web"), violated=True), "violated by 1 of 2"),
        (rule(workload("db", enforced=0), workload("web"), enforced=False), "enforced by 1 of 2"),
        (rule(workload("db", complete=False), enforced=False), "terms removed"),
        (rule(workload("db", instances=0, enforced=0)), "nothing runs"),
        (rule(workload("db", resting=True, enforced=0), enforced=False), "not enabled"),
        (
            rule(workload("db", resting=True), workload("web"), enforced=False),
            "not enabled on 1 of 2",
        ),
        (
            rule(workload("db", instances=0, enforced=0), enforced=False),
            "unknown: not everything could be read",
        ),
    ],
)
def test_state_is_the_worst_that_is_known(shown: dict[str, t.Any], state: str) -> None:
    assert state_of(shown) == state


def test_each_rule_is_a_line_with_its_workloads() -> None:
    many = [workload(f"vm{number}") for number in range(7)]
    assert rule_table([rule(*many, preferred=True)]).splitlines() == [
        "RULE                TYPE                   STATE     SINCE       WORKLOADS",
        "shop/default/apart  keep_apart, preferred  enforced  2026-03-02  vm0, vm1, vm2, vm3, vm4 and 2 more",
    ]
    unknown = rule_table([rule(workload("db"), since=None)]).splitlines()[1]
    assert unknown.split() == ["shop/default/apart", "keep_apart", "enforced", "db"]
    assert rule_table([]) == "no rules"


def test_declarations_are_variables_of_apply() -> None:
    apart = {"name": "apart", "workloads": ["db1", "db2"], "keep_apart": "zone"}
    resting = rule(workload("db", resting=True), name="rests", declaration=None)
    why = "its workloads have different options, or such that cannot be written"
    of_team = rule(workload("db"), rule_set="team", declaration={**apart, "name": "a"})
    text = declarations_yaml([rule(workload("db"), declaration=apart), resting, of_team])
    first, second = yaml.safe_load_all(text)
    assert first == {
        "placement_apply_namespace": "shop",
        "placement_apply_rule_set": "default",
        "placement_apply_rules": [apart],
    }
    assert second["placement_apply_rules"] == [{**apart, "name": "a"}]
    assert f"# left out, since {why}: rests (not enabled)" in text.splitlines()
