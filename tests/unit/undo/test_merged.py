# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""An undo of what rules/merge has written."""

from __future__ import annotations

from ansible_collections.virt.placement.plugins.module_utils.model.kinds import RULES
from ansible_collections.virt.placement.plugins.module_utils.undo.revert import plan_revert
from tests.unit.rules.builders import applied, request, snapshot, vm, workload
from tests.unit.rules.test_merge import DB, after


def test_undo_of_a_rule_that_names_its_workload_by_another_label_restores_the_annotation() -> None:
    rule = {"name": "r", "run_on": {"zone": "a"}}
    carrier = vm("db", labels={"tier": "api", "app": "db"})
    first = workload(after(carrier, {**rule, "workloads": [{"labels": {"tier": "api"}}]}))
    second = workload(after(first, {**rule, "workloads": [{"labels": {"app": "db"}}]}))
    (change,) = plan_revert(snapshot(second), request(state="reverted")).workloads
    assert change.merged.write is not None
    restored = workload(applied(dict(second.manifest), change.merged.write))
    assert restored.annotations[RULES] == first.annotations[RULES]


def test_undo_for_which_the_annotations_have_no_room_leaves_the_workload_as_it_is() -> None:
    written = after(vm("db"), {**DB, "run_on": {"zone": "a"}})
    there = sum(len(k) + len(x) for k, x in written["metadata"]["annotations"].items())
    written["metadata"]["annotations"]["example.com/text"] = "x" * (256 * 1024 - there - 16)
    carrier = workload(written)
    (change,) = plan_revert(snapshot(carrier), request(state="reverted")).workloads
    assert change.merged.write is not None, "they get shorter"
    written["metadata"]["annotations"]["example.com/text"] += "x" * 4000
    found = plan_revert(snapshot(workload(written)), request(state="reverted"))
    assert found.workloads == ()
    (finding,) = found.findings
    assert "at most 262144 are possible" in finding.why
