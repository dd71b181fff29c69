# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the result of the module rules says for people."""

from __future__ import annotations

import typing as t
from dataclasses import replace

import pytest

from ansible_collections.virt.placement.plugins.module_utils.flows.rules import entries
from ansible_collections.virt.placement.plugins.module_utils.model.findings import TaskError
from ansible_collections.virt.placement.plugins.module_utils.rules.rules_plan import (
    RulesPlan,
    Written,
)
from tests.unit.rules.builders import NAMESPACE, plan, snapshot, vm

APART = {"name": "apart", "workloads": ["a", "b"], "keep_apart": "zone"}
TASK_ERROR = TaskError("api", "not written", "")


@pytest.fixture
def made() -> RulesPlan:
    return plan(snapshot(vm("a"), vm("b")), APART)


def texts(written: Written, part: str, *, check: bool = False) -> list[str]:
    outcome = entries(written, "present", check=check)["outcome"]
    return [": ".join([x["text"], *x["objects"]]) for x in outcome[part]]


@pytest.mark.parametrize(("check", "words"), [(False, "added"), (True, "that would be added")])
def test_rules_are_counted_by_workloads(made: RulesPlan, check: bool, words: str) -> None:
    written = Written(made, made.writes)
    assert texts(written, "done", check=check) == [f"rules {words}: apart (2 workloads)"]
    assert texts(written, "skipped") == []


def test_workload_that_could_not_be_written_is_skipped(made: RulesPlan) -> None:
    first, second = made.writes
    written = Written(made, (first,), {second.target: TASK_ERROR})
    assert texts(written, "done") == ["rules added: apart (1 workload)"]
    assert texts(written, "skipped") == [f"rules could not be written: {NAMESPACE}/b"]


@pytest.mark.parametrize("by", ["findings", "forecast"])
def test_rules_that_are_refused_are_not_told_as_written(made: RulesPlan, by: str) -> None:
    refused: t.Any = ("a finding",)
    written = Written(replace(made, refused=refused)) if by == "findings" else Written(made)
    written = written if by == "findings" else replace(written, refusal=TASK_ERROR)
    assert texts(written, "done") == ["rules: none was written"]
    assert texts(written, "done", check=True) == ["rules: none would be written"]


def test_nothing_to_write_is_named(made: RulesPlan) -> None:
    unchanged = replace(made, workloads=(), stages=())
    assert texts(Written(unchanged), "done") == [
        "rules: nothing to change, all of them are written already"
    ]


def test_nothing_to_remove_is_named(made: RulesPlan) -> None:
    unchanged = replace(made, workloads=(), stages=(), about=0)
    outcome = entries(Written(unchanged), "absent", check=False)["outcome"]
    assert [x["text"] for x in outcome["done"]] == ["rules: nothing to remove"]


def test_rules_without_a_workload_are_not_told_as_written(made: RulesPlan) -> None:
    unchanged = replace(made, workloads=(), stages=(), about=0)
    assert texts(Written(unchanged), "done") == [
        "rules: nothing to change, they choose no workload that exists"
    ]
