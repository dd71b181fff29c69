# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The rollout that a StatefulSet makes by itself: set aside by the write of the rules, and given back."""

from __future__ import annotations

import copy
import json
import typing as t

import pytest

from ansible_collections.virt.placement.plugins.module_utils.holds.hold import Hold, hold_of
from ansible_collections.virt.placement.plugins.module_utils.holds.release import release_of
from ansible_collections.virt.placement.plugins.module_utils.model.findings import InvalidInput
from ansible_collections.virt.placement.plugins.module_utils.model.kinds import HOLD
from ansible_collections.virt.placement.plugins.module_utils.model.snapshot import Workload
from ansible_collections.virt.placement.plugins.module_utils.rules.change import NO_HOLDING
from ansible_collections.virt.placement.plugins.module_utils.undo.revert import plan_revert
from tests.unit.rules.builders import (
    applied,
    deployment,
    plan,
    request,
    snapshot,
    stateful_set,
    workload,
)

JSON = t.Any
APART: JSON = {
    "name": "apart",
    "workloads": [{"kind": "StatefulSet", "name": "pg"}],
    "keep_apart": "zone",
}
ROLLING: JSON = {"type": "RollingUpdate", "rollingUpdate": {"partition": 0}}


def pg(strategy: JSON = None, **spec: JSON) -> Workload:
    """With ROLLING if no strategy is given."""
    made, strategy = stateful_set("pg"), ROLLING if strategy is None else strategy
    made.manifest["spec"].update(copy.deepcopy(spec), updateStrategy=copy.deepcopy(strategy))
    return made


def held(found: Workload, rule: JSON = None) -> Workload:
    """After a write of the rule, or of APART."""
    (write,) = plan(snapshot(found), rule or APART, workload_rollout="hold").writes
    return workload(applied(copy.deepcopy(dict(found.manifest)), write))


def the_hold(found: Workload) -> Hold:
    hold = hold_of(found)
    assert hold is not None
    return hold


def test_one_patch_writes_the_rule_and_sets_the_rollout_aside() -> None:
    (change,) = (planned := plan(snapshot(pg()), APART, workload_rollout="hold")).workloads
    assert not planned.refused
    assert change.takes_effect == "recreate"
    (write,) = planned.writes
    assert change.merged.write is write
    assert write.before["updateStrategy"] == ROLLING
    assert write.after["updateStrategy"] == {"type": "OnDelete"}

    found = held(pg())

    assert found.manifest["spec"]["updateStrategy"] == {"type": "OnDelete"}
    assert found.template["spec"]["affinity"]["podAntiAffinity"]
    assert the_hold(found).strategy == ROLLING
    again = plan(snapshot(found), APART, workload_rollout="hold")
    assert (again.writes, again.refused) == ((), ())


def test_held_workload_takes_another_rule_and_keeps_its_strategy() -> None:
    other = {**APART, "name": "away"}
    del other["keep_apart"]
    found = held(held(pg()), {**other, "avoid": {"zone": "a"}})
    assert the_hold(found).strategy == ROLLING
    assert "starts_workload_rollout" not in [
        finding.name for finding in plan(snapshot(found), APART).findings
    ]


@pytest.mark.parametrize(
    "text",
    [
        "{",
        "[]",
        "[" * 100_000,
        '{"updateStrategy": 3}',
        "{}",
        '{"updateStrategy": {"type": "x\\ny"}}',
        '{"updateStrategy": {"\\ud800": 1}}',
    ],
    ids=range(7),
)
def test_damaged_hold_never_ends(text: str) -> None:
    found = held(pg())
    found.manifest["metadata"]["annotations"][HOLD] = text
    hold = the_hold(found)
    assert hold.strategy is None
    assert not hold.ends


@pytest.mark.parametrize(
    ("status", "ends"),
    [
        ({"observedGeneration": 2, "updatedReplicas": 3}, True),
        ({"observedGeneration": 2, "updatedReplicas": 2}, False),
        ({"observedGeneration": 1, "updatedReplicas": 3}, False),
        ({}, False),
    ],
)
def test_hold_ends_once_all_replicas_are_of_the_present_template(status: JSON, ends: bool) -> None:
    found = held(pg())
    manifest: JSON = found.manifest
    manifest["metadata"]["generation"] = 2
    manifest["status"] = status
    assert the_hold(found).ends is ends


@pytest.mark.parametrize("strategy", [ROLLING, {"type": "RollingUpdate"}])
def test_end_of_a_hold_gives_the_strategy_back(strategy: JSON) -> None:
    found = held(pg(strategy))
    after = applied(copy.deepcopy(dict(found.manifest)), release_of(the_hold(found)))
    assert after["spec"]["updateStrategy"] == strategy
    assert HOLD not in after["metadata"]["annotations"]


def test_end_of_a_hold_leaves_a_strategy_that_others_have_set() -> None:
    found = held(pg())
    found.manifest["spec"]["updateStrategy"] = {"type": "RollingUpdate"}
    after = applied(copy.deepcopy(dict(found.manifest)), release_of(the_hold(found)))
    assert after["spec"]["updateStrategy"] == {"type": "RollingUpdate"}
    assert HOLD not in after["metadata"]["annotations"]


def test_partition_of_its_own_refuses_a_hold() -> None:
    found = pg({"type": "RollingUpdate", "rollingUpdate": {"partition": 1}})
    planned = plan(snapshot(found), APART, workload_rollout="hold")
    (finding,) = planned.refused
    assert "it has a partition (1)" in finding.why
    assert finding.advice == "Set workload_rollout to allow if that is wanted."


def test_hold_of_a_deployment_is_refused_with_the_strategy_to_set() -> None:
    rule = {**APART, "workloads": [{"kind": "Deployment", "name": "web"}]}
    (finding,) = plan(snapshot(deployment("web")), rule, workload_rollout="hold").refused
    assert finding.name == "starts_workload_rollout"
    assert "it has no strategy that replaces nothing" in finding.why
    assert "spec.strategy.rollingUpdate (maxUnavailable, maxSurge)" in finding.why


def test_write_to_a_paused_deployment_needs_the_pause() -> None:
    rule = {**APART, "workloads": [{"kind": "Deployment", "name": "web"}]}
    paused = deployment("web")
    paused.manifest["spec"]["paused"] = True
    for option in ("refuse", "hold"):
        (write,) = plan(snapshot(paused), rule, workload_rollout=option).writes
        assert {"op": "test", "path": "/spec/paused", "value": True} in write.patch()


def test_advice_names_the_hold() -> None:
    (finding,) = plan(snapshot(pg()), APART).refused
    assert "or to hold" in finding.advice


def test_hold_is_refused_where_nothing_gives_the_rollout_back() -> None:
    for option in ("refuse", "hold"):
        options = {"workload_rollout": option, "holding": NO_HOLDING}
        (finding,) = plan(snapshot(pg()), APART, **options).refused
        assert ("this installation cannot hold it" in finding.why) is (option == "hold")
        assert finding.advice == "Set workload_rollout to allow if that is wanted."


def test_workload_that_replaces_nothing_by_itself_is_not_held() -> None:
    for found in (pg({"type": "OnDelete"}), pg(replicas=0)):
        (write,) = plan(snapshot(found), APART, workload_rollout="hold").writes
        assert HOLD not in json.dumps(write.changes())


def test_write_that_is_made_again_holds_too() -> None:
    planned = plan(snapshot(pg()), APART, workload_rollout="hold")
    (write,) = planned.writes
    changed = pg()
    changed.manifest["spec"]["template"]["spec"]["nodeSelector"] = {"disk": "ssd"}
    again = planned.recompute(write, changed.manifest)
    assert again is not None
    assert applied(copy.deepcopy(dict(changed.manifest)), again)["spec"]["updateStrategy"] == {
        "type": "OnDelete"
    }
    assert planned.recompute(write, held(pg()).manifest) is None
    kept = pg({"type": "RollingUpdate", "rollingUpdate": {"partition": 2}})
    with pytest.raises(InvalidInput, match="partition"):
        planned.recompute(write, kept.manifest)


def test_undo_holds_too_and_the_object_is_as_before() -> None:
    before = pg()
    found = held(before)
    ended = applied(copy.deepcopy(dict(found.manifest)), release_of(the_hold(found)))
    undo = plan_revert(
        snapshot(workload(ended)), request(state="reverted", workload_rollout="hold")
    )
    (write,) = undo.writes
    reverted = workload(applied(ended, write))
    assert the_hold(reverted).strategy == ROLLING
    last = applied(copy.deepcopy(dict(reverted.manifest)), release_of(the_hold(reverted)))
    assert last["spec"] == before.manifest["spec"]


def test_write_that_counts_on_on_delete_is_not_made_once_the_strategy_was_given_back() -> None:
    """A rollout may end the hold between the reading and the write of other rules."""
    away = {"name": "away", "workloads": APART["workloads"], "avoid": {"zone": "a"}}
    before, given_back = held(pg()), held(pg())
    given_back = workload(applied(dict(given_back.manifest), release_of(the_hold(given_back))))
    for workload_rollout in ("refuse", "hold"):
        planned = plan(snapshot(before), away, workload_rollout=workload_rollout)
        (write,) = planned.writes
        with pytest.raises(AssertionError, match="updateStrategy was not so"):
            applied(copy.deepcopy(dict(given_back.manifest)), write)
        if workload_rollout == "refuse":
            with pytest.raises(InvalidInput, match="was changed meanwhile"):
                planned.recompute(write, given_back.manifest)
        else:
            again = planned.recompute(write, given_back.manifest)
            assert again is not None
            after = applied(copy.deepcopy(dict(given_back.manifest)), again)
            assert after["spec"]["updateStrategy"] == {"type": "OnDelete"}
    planned = plan(snapshot(before), away, workload_rollout="allow")
    assert applied(copy.deepcopy(dict(given_back.manifest)), planned.writes[0])


def test_undo_that_counts_on_on_delete_is_not_made_once_the_strategy_was_given_back() -> None:
    found = held(pg())
    undo = plan_revert(snapshot(found), request(state="reverted"))
    (write,) = undo.writes
    given_back = applied(copy.deepcopy(dict(found.manifest)), release_of(the_hold(found)))
    with pytest.raises(AssertionError, match="updateStrategy was not so"):
        applied(given_back, write)
    with pytest.raises(InvalidInput, match="was changed meanwhile"):
        undo.recompute(write, given_back)


def test_patch_for_the_source_of_a_managed_object_has_no_hold() -> None:
    """Committed there, it would be set again and again."""
    managed = pg()
    managed.manifest["metadata"]["annotations"] = {"argocd.argoproj.io/tracking-id": "a"}
    planned = plan(snapshot(managed), APART, workload_rollout="hold")
    (finding,) = planned.refused
    assert finding.name == "externally_managed"
    assert "would revert the change and the hold of its rollout" in finding.why
    (change,) = planned.workloads
    paths = [op["path"] for op in change.as_json((), refused=True)["patch"]]
    assert paths == ["/spec/template/spec/affinity"]


def test_plan_names_what_its_rule_set_holds_also_without_a_rule() -> None:
    """A rule that is removed leaves no member, and a rollout has to find the StatefulSet."""
    pg_ref = pg().ref
    assert plan(snapshot(pg()), APART, workload_rollout="hold").held == {pg_ref}
    assert not plan(snapshot(pg()), APART, workload_rollout="allow").held
    (write,) = plan(snapshot(pg()), APART, workload_rollout="allow").writes
    ruled = workload(applied(copy.deepcopy(dict(pg().manifest)), write))
    removal = plan(snapshot(ruled), {"name": "apart"}, state="absent", workload_rollout="hold")
    (write,) = removal.writes
    assert removal.held == {pg_ref}
    assert not removal.members
    left = workload(applied(copy.deepcopy(dict(ruled.manifest)), write))
    again = plan(snapshot(left), {"name": "apart"}, state="absent", workload_rollout="hold")
    assert again.held == {pg_ref}
    assert not again.writes
    assert not plan(snapshot(left), {"name": "x"}, state="absent", rule_set="other").held
    ended = workload(applied(copy.deepcopy(dict(left.manifest)), release_of(the_hold(left))))
    assert not plan(snapshot(ended), {"name": "apart"}, state="absent").held
