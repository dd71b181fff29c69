# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The diff of rules in words, beside the fields."""

from __future__ import annotations

import typing as t

from ansible_collections.virt.placement.plugins.module_utils.compliance.terms import (
    term_changes,
)
from ansible_collections.virt.placement.plugins.module_utils.model.snapshot import Workload
from ansible_collections.virt.placement.plugins.module_utils.model.topology import Topology
from ansible_collections.virt.placement.plugins.module_utils.model.write import writes_result
from tests.unit.rules.builders import applied, plan, snapshot, vm, workload

Object = dict[str, t.Any]
ZONE = "topology.kubernetes.io/zone"


def changed(carrier: Workload, *rules: Object, **options: t.Any) -> tuple[list[str], Workload]:
    """The change in words, and the VM after it."""
    (write,) = plan(snapshot(carrier), *rules, **options).writes
    return term_changes(write, Topology.of()), workload(applied(dict(carrier.manifest), write))


def test_diff_of_rules_in_words_has_what_is_added_and_what_is_removed() -> None:
    rule: Object = {"name": "home", "workloads": ["db"], "run_on": {"zone": "a"}}
    soft: Object = {"name": "soft", "workloads": ["db"], "avoid": {"zone": "b"}, "preferred": True}

    lines, after = changed(vm("db"), rule)
    assert lines == ["+ rule shop/default/home", f"+ node affinity {ZONE} In (a)"]

    lines, after = changed(after, {**rule, "run_on": {"zone": "c"}}, soft)
    assert lines == [
        f"- node affinity {ZONE} In (a)",
        "+ rule shop/default/soft",
        f"+ node affinity {ZONE} In (c)",
        f"+ preferred node affinity {ZONE} NotIn (b), weight 100",
    ]

    lines, after = changed(after, {**rule, "run_on": {"zone": "c"}, "enabled": False}, soft)
    assert lines == [
        "- rule shop/default/home",
        f"- node affinity {ZONE} In (c)",
        "+ rule shop/default/home, not enabled",
    ]

    lines, after = changed(after, {"name": "soft"}, {"name": "home"}, state="absent")
    assert lines == [
        "- rule shop/default/home, not enabled",
        "- rule shop/default/soft",
        f"- preferred node affinity {ZONE} NotIn (b), weight 100",
    ]


def test_label_of_a_rule_is_in_the_diff_in_words() -> None:
    rule: Object = {"name": "r", "workloads": ["db"], "keep_apart": "node", "label": {"tier": "x"}}
    lines, _after = changed(vm("db"), rule)
    assert "+ label tier=x" in lines
    assert "+ pod anti-affinity over node to tier In (x)" in lines


def test_diff_has_one_line_for_each_object() -> None:
    rule: Object = {"name": "home", "workloads": ["db"], "run_on": {"zone": "a"}}
    writes = plan(snapshot(vm("db")), rule).writes

    def words(write: t.Any) -> list[str]:
        return term_changes(write, Topology.of())

    (entry,) = writes_result(writes, diff=True, words=words)["diff"]

    assert entry == {
        "prepared": f"VirtualMachine shop/db: + rule shop/default/home; + node affinity {ZONE} In (a)\n"
    }
    assert "diff" not in writes_result(writes, diff=False, words=words)
