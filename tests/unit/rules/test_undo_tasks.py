# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""state reverted from options to result, on an API server in this process that may end at any write."""

from __future__ import annotations

import itertools
import json
import typing as t

import pytest

from ansible_collections.virt.placement.plugins.module_utils.rules.registry import RESTORATIONS
from tests.fuzz.cluster import OTHERS, RULES, Objects, objects
from tests.support.api_server import ApiServer, Request
from tests.support.modules import Result, run

KINDS = ("VirtualMachine", "Deployment", "VirtualMachineInstance", "Pod")
OPTIONS: Result = {"namespace": OTHERS, "workload_rollout": "allow"}
UNDO: Result = {**OPTIONS, "state": "reverted"}
LABELLED = [{**RULES[0], "label": {"tier": "web"}}, *RULES[1:]]


class Killed(Exception):
    """The process has ended at a write."""


def killed_server(there: Objects, left: int) -> ApiServer:
    """It makes `left` writes; the caller does not live to see the answer of the next one."""
    writes = itertools.count()

    def kill(_request: Request) -> None:
        if next(writes) >= left:
            raise Killed

    server = ApiServer(there)
    server.add_fault("PATCH", "", kill)
    return server


def placements(there: Objects) -> str:
    """Templates, rules and labels of what is in the namespace."""
    found = {}
    for path, item in there.items():
        if item["kind"] in KINDS and item["metadata"].get("namespace") == OTHERS:
            annotations = item["metadata"].get("annotations") or {}
            found[path] = [
                item["spec"].get("template"),
                item["metadata"].get("labels"),
                annotations.get("placement.virt/rules"),
            ]
    return json.dumps(found, sort_keys=True)


def written(there: Objects, **options: t.Any) -> Objects:
    server = ApiServer(there)
    result = run("rules", server, {**OPTIONS, **options})
    assert "failed" not in result, result["msg"]
    return server.objects


@pytest.mark.parametrize("change", ["added", "removed"])
def test_undo_that_is_killed_at_a_write_is_finished_by_the_next(change: str) -> None:
    before = objects() if change == "added" else written(objects(), rules=LABELLED)
    there = written(before, **({"rules": LABELLED} if change == "added" else {"prune": True}))
    whole = ApiServer(there)
    assert run("rules", whole, UNDO)["changed"]
    assert placements(whole.objects) == placements(before)

    for made in range(len(whole.writes)):
        killed = killed_server(there, made)
        with pytest.raises(Killed):
            run("rules", killed, UNDO)
        again = ApiServer(killed.objects)
        result = run("rules", again, UNDO)
        assert "failed" not in result, result["msg"]
        assert placements(again.objects) == placements(before), f"killed after {made} writes"
        assert len(again.writes) == len(whole.writes) - made
        quiet = ApiServer(again.objects)
        second = run("rules", quiet, UNDO)
        assert (second["changed"], quiet.writes) == (False, [])
        assert len(second["reverted"]) == second["counts"]["workloads"] == 6


def test_check_mode_and_forecast_of_an_undo_write_nothing_and_agree() -> None:
    there = ApiServer(written(objects(), rules=LABELLED))
    forecast = run("forecast_info", there, {"namespace": OTHERS, "state": "reverted"})
    drill = run(
        "drill_info", there, {"namespace": OTHERS, "state": "reverted", "domains_of": ["zone"]}
    )
    planned = run("rules", there, UNDO, check=True)
    assert there.writes == []
    for result in (forecast, drill, planned):
        assert "failed" not in result, result["msg"]
    assert forecast["pending"], "a halted VM lacks its volume, which no rule has to do with"
    assert not forecast["worsened_by_rules"]
    made = run("rules", there, UNDO)
    assert made["workloads"] == planned["workloads"]
    assert made["reverted"] == planned["reverted"]


def test_undo_without_a_record_or_with_other_options_is_refused_before_a_write() -> None:
    server = ApiServer(objects())
    for name in ("rules", "forecast_info"):
        nothing = run(name, server, {"namespace": OTHERS, "state": "reverted"})
        assert "there is nothing to undo: no workload in namespace shop has" in nothing["msg"]
    named = run("rules", server, {**UNDO, "rules": RULES, "prune": True, "adopt": "true"})
    for option in ("rules", "prune", "adopt"):
        assert f"{option}: does not go with state reverted" in named["msg"]
    assert "namespace" in run("forecast_info", server, {"state": "reverted"})["msg"]
    assert server.writes == []


@pytest.mark.parametrize(
    ("module", "options"),
    [
        ("forecast_info", {}),
        ("drill_info", {"domains_of": ["zone"]}),
        ("capacity_info", {"tolerate": ["zone"]}),
    ],
)
def test_forecast_of_an_undo_is_refused_where_no_capability_undoes(
    monkeypatch: pytest.MonkeyPatch, module: str, options: Result
) -> None:
    """It had been the forecast of no change at all."""
    monkeypatch.delitem(RESTORATIONS, "reverted")
    there = ApiServer(written(objects(), rules=LABELLED))
    result = run(module, there, {"namespace": OTHERS, "state": "reverted", **options})
    assert "state: must be one of present, absent, not 'reverted'" in result["msg"]


def test_change_of_a_task_names_what_an_undo_of_it_undoes() -> None:
    made = ApiServer(objects())
    first = run("rules", made, {**OPTIONS, "rules": LABELLED})["change"]
    again = run("rules", ApiServer(made.objects), {**OPTIONS, "rules": LABELLED})
    second = run("rules", made, {**OPTIONS, "prune": True})["change"]

    stale = ApiServer(made.objects)
    refused = run("rules", stale, {**UNDO, "change": first["id"]})
    undone = run("rules", made, {**UNDO, "change": second["id"]})

    assert "change" not in again, "it has written nothing that could be undone"
    assert first["id"].startswith("1-")
    assert second["id"].startswith("2-")
    assert not (first["continues"] or second["continues"])
    assert f"change: change {first['id']} of rule set 'default' in namespace shop" in refused["msg"]
    assert f"its last change is {second['id']}" in refused["msg"]
    assert stale.writes == []
    assert len(undone["reverted"]) == 6
    assert "change" not in undone


def test_change_that_an_earlier_task_has_begun_is_no_change_of_this_task_alone() -> None:
    killed = killed_server(objects(), 3)
    with pytest.raises(Killed):
        run("rules", killed, {**OPTIONS, "rules": LABELLED})

    change = run("rules", ApiServer(killed.objects), {**OPTIONS, "rules": LABELLED})["change"]

    assert change["continues"]


def test_labels_of_what_runs_alone_are_no_change() -> None:
    """The record of an earlier change stays on the workload then."""
    there = written(objects(), rules=LABELLED)
    (vmi,) = [
        item for path, item in there.items() if path.endswith("instances/web0") and OTHERS in path
    ]
    del vmi["metadata"]["labels"]["tier"]

    result = run("rules", ApiServer(there), {**OPTIONS, "rules": LABELLED})

    assert [write["kind"] for write in result["writes"]] == ["VirtualMachineInstance"]
    assert "change" not in result


def test_write_whose_answer_is_lost_may_be_a_change() -> None:
    """Each write of a VM is made, and its answer lost."""
    server = ApiServer(objects())
    server.add_fault("PATCH", "virtualmachines", 500, late=True)

    result = run("rules", server, {**OPTIONS, "rules": RULES[:1]})

    assert result["change"]["id"].startswith("1-")


def test_change_of_other_states_and_unknown_changes_are_refused_before_a_write() -> None:
    server = ApiServer(objects())
    wrong = run("rules", server, {**OPTIONS, "rules": RULES, "change": "1-abc"})
    assert "change: goes with state reverted, which it restricts: omit it" in wrong["msg"]
    assert server.writes == []
    there = ApiServer(written(objects(), rules=RULES))
    unknown = run("rules", there, {**UNDO, "change": "7-abc"})
    assert "change 7-abc of rule set 'default' in namespace shop cannot be undone" in unknown["msg"]
    assert there.writes == []
