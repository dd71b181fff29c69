# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The own rollout of a Deployment: paused by the write of the rules, resumed within limits, and given back."""

from __future__ import annotations

import copy
import json
import typing as t

import pytest

from ansible_collections.virt.placement.plugins.module_utils.flows.rules import more_than_migration
from ansible_collections.virt.placement.plugins.module_utils.model.findings import InvalidInput
from ansible_collections.virt.placement.plugins.module_utils.model.kinds import HOLD
from ansible_collections.virt.placement.plugins.module_utils.model.snapshot import Workload
from ansible_collections.virt.placement.plugins.module_utils.rules.paused_hold import (
    PausedHold,
    end_of,
    limited_strategy,
    paused_hold_of,
    release_of,
)
from ansible_collections.virt.placement.plugins.module_utils.rules.revert import plan_revert

from .builders import applied, deployment, plan, request, snapshot, workload

JSON = t.Any
APART: JSON = {
    "name": "apart",
    "workloads": [{"kind": "Deployment", "name": "web"}],
    "keep_apart": "zone",
}
AWAY: JSON = {"name": "away", "workloads": APART["workloads"], "avoid": {"zone": "a"}}
ROLLING: JSON = {
    "type": "RollingUpdate",
    "rollingUpdate": {"maxSurge": "25%", "maxUnavailable": "25%"},
}
ONE: JSON = {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 0, "maxUnavailable": 1}}
SETTLED: JSON = {
    "observedGeneration": 1,
    "replicas": 3,
    "updatedReplicas": 3,
    "availableReplicas": 3,
}


def web(status: JSON = None, **spec: JSON) -> Workload:
    """All pods are of its template if no status is given."""
    manifest: JSON = deployment("web").manifest
    manifest["metadata"]["generation"] = 1
    manifest["spec"].update(copy.deepcopy({"strategy": ROLLING, **spec}))
    manifest["status"] = copy.deepcopy(SETTLED if status is None else status)
    return workload(manifest)


def written(found: Workload, *writes: t.Any) -> Workload:
    """As the API server has it after these writes."""
    manifest = copy.deepcopy(dict(found.manifest))
    for write in writes:
        spec = copy.deepcopy(manifest["spec"])
        manifest = applied(manifest, write)
        manifest["metadata"]["generation"] += spec != manifest["spec"]
    return workload(manifest)


def held(found: Workload | None = None, rule: JSON = None) -> Workload:
    """After a write of the rule, or of APART."""
    found = found or web()
    (write,) = plan(snapshot(found), rule or APART, workload_rollout="hold").writes
    return written(found, write)


def the_hold(found: Workload) -> PausedHold:
    hold = paused_hold_of(found)
    assert hold is not None
    return hold


def seen(found: Workload, updated: int, *, replicas: int = 3, available: int = 3) -> Workload:
    """After its controller has counted its pods."""
    manifest = copy.deepcopy(dict(found.manifest))
    manifest["status"] = {
        "observedGeneration": manifest["metadata"]["generation"],
        "replicas": replicas,
        "updatedReplicas": updated,
        "availableReplicas": available,
    }
    return workload(manifest)


def released(strategy: JSON = None) -> Workload:
    found = held()
    return written(found, release_of(the_hold(found), ONE if strategy is None else strategy))


def test_one_patch_writes_the_rule_and_pauses_the_deployment() -> None:
    planned = plan(snapshot(web()), APART, workload_rollout="hold")
    assert not planned.refused
    (write,) = planned.writes
    assert (write.before["paused"], write.after["paused"]) == (None, True)
    assert planned.held == {web().ref}
    (change,) = planned.workloads
    assert change.takes_effect == "recreate", "by a rollout with recreate in allow"
    assert "set allow of rollout to [migrate, recreate]" in more_than_migration(planned)
    found = held()
    assert found.manifest["spec"]["paused"] is True
    assert found.template["spec"]["affinity"]["podAntiAffinity"]
    assert the_hold(found).is_held
    assert found.manifest["spec"]["strategy"] == ROLLING
    again = plan(snapshot(found), APART, workload_rollout="hold")
    assert (again.writes, again.refused) == ((), ())
    assert again.held == {found.ref}
    (change,) = plan(snapshot(found), AWAY).workloads
    assert change.takes_effect == "recreate", "it is held already"


def test_deployment_that_another_client_has_paused_is_not_held() -> None:
    (write,) = plan(snapshot(web(paused=True)), APART, workload_rollout="hold").writes
    found = written(web(paused=True), write)
    assert found.manifest["spec"]["paused"] is True
    assert HOLD not in found.annotations


def test_deployment_without_replicas_is_not_held() -> None:
    (write,) = plan(snapshot(web(replicas=0)), APART, workload_rollout="hold").writes
    assert HOLD not in json.dumps(write.changes())


def test_strategy_recreate_refuses_a_hold_of_several_pods() -> None:
    found = web(strategy={"type": "Recreate"})
    (finding,) = plan(snapshot(found), APART, workload_rollout="hold").refused
    assert "its strategy is Recreate" in finding.why
    assert finding.advice == "Set workload_rollout to allow if that is wanted."
    (finding,) = plan(snapshot(web()), APART).refused
    assert "or to hold" in finding.advice


def test_write_needs_the_pause_that_was_read() -> None:
    """A rollout may resume the Deployment between the reading and the write of other rules."""
    before, after = held(), released()
    for workload_rollout in ("refuse", "hold"):
        planned = plan(snapshot(before), AWAY, workload_rollout=workload_rollout)
        (write,) = planned.writes
        with pytest.raises(AssertionError, match="/spec/paused was not so"):
            written(after, write)
        if workload_rollout == "refuse":
            with pytest.raises(InvalidInput, match="was changed meanwhile"):
                planned.recompute(write, after.manifest)
        else:
            again = planned.recompute(write, after.manifest)
            assert again is not None
            assert the_hold(written(after, again)).is_held


def test_release_sets_strategy_and_resumes_in_one_patch() -> None:
    found = released()
    assert "paused" not in found.manifest["spec"]
    assert found.manifest["spec"]["strategy"] == ONE
    hold = the_hold(found)
    assert not hold.is_held
    assert (hold.strategy_is_limited, hold.declared) == (True, ROLLING)


@pytest.mark.parametrize(
    ("updated", "replicas", "available", "replaced"),
    [(3, 3, 3, True), (2, 3, 3, False), (3, 4, 4, False), (3, 3, 2, False)],
    ids=["all", "one of the template before", "one too many", "one not available"],
)
def test_all_pods_are_replaced(updated: int, replicas: int, available: int, replaced: bool) -> None:
    found = seen(released(), updated, replicas=replicas, available=available)
    assert the_hold(found).replaced is replaced
    assert not the_hold(released()).replaced, "its controller has not seen the release"


def test_end_gives_the_strategy_back_as_it_was() -> None:
    found = seen(released(), 3)
    after = written(found, end_of(the_hold(found)))
    assert HOLD not in after.annotations
    assert after.manifest["spec"] == {
        **web().manifest["spec"],
        "template": found.manifest["spec"]["template"],
    }


def test_end_leaves_a_strategy_that_others_have_set() -> None:
    found = seen(released(), 3)
    other = {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 5, "maxUnavailable": 0}}
    found.manifest["spec"]["strategy"] = other
    after = written(found, end_of(the_hold(found)))
    assert after.manifest["spec"]["strategy"] == other
    assert HOLD not in after.annotations


@pytest.mark.parametrize("workload_rollout", ["refuse", "hold", "allow"])
def test_undo_before_the_release_resumes_and_the_object_is_as_before(workload_rollout: str) -> None:
    before, found = web(), seen(held(), 0)
    undo = plan_revert(
        snapshot(found), request(state="reverted", workload_rollout=workload_rollout)
    )
    assert (undo.refused, undo.held) == ((), frozenset())
    assert [change.takes_effect for change in undo.workloads] == ["now"]
    (write,) = undo.writes
    after = written(found, write)
    assert after.manifest["spec"] == before.manifest["spec"]
    assert HOLD not in after.annotations
    assert undo.recompute(write, after.manifest) is None


def test_undo_of_the_second_held_change_leaves_the_pause() -> None:
    """The pods are of the template before the first one."""
    first = seen(held(), 0)
    found = seen(held(first, AWAY), 0)
    undo = plan_revert(snapshot(found), request(state="reverted"))
    after = written(found, undo.writes[0])
    assert the_hold(after).is_held
    removed = plan(snapshot(after), {"name": "apart"}, state="absent")
    last = written(after, *removed.writes)
    assert last.template == web().template
    assert "paused" not in last.manifest["spec"]


def test_undo_does_not_resume_where_another_client_has_changed_the_template() -> None:
    found = seen(held(), 0)
    found.manifest["spec"]["template"]["metadata"]["labels"]["build"] = "2"
    (write,) = plan_revert(snapshot(found), request(state="reverted")).writes
    assert the_hold(written(found, write)).is_held


def test_hold_during_another_rollout_is_not_ended_by_an_undo() -> None:
    """Its pods are of two templates."""
    found = seen(held(web({**SETTLED, "updatedReplicas": 1})), 0)
    (write,) = plan_revert(snapshot(found), request(state="reverted")).writes
    assert the_hold(written(found, write)).is_held


def test_undo_after_the_release_holds_again_and_keeps_the_strategy() -> None:
    found = seen(released(), 1)
    (finding,) = plan_revert(snapshot(found), request(state="reverted")).refused
    assert finding.name == "starts_workload_rollout"
    undo = plan_revert(snapshot(found), request(state="reverted", workload_rollout="hold"))
    assert undo.held == {found.ref}
    after = written(found, *undo.writes)
    hold = the_hold(after)
    assert hold.is_held
    assert hold.declared == ROLLING
    again = written(after, release_of(hold, ONE))
    last = written(again, end_of(the_hold(again)))
    assert last.manifest["spec"] == web().manifest["spec"]
    assert HOLD not in last.annotations


def test_hold_whose_template_came_back_ends_without_a_limit() -> None:
    found = seen(held(), 3)
    hold = the_hold(found)
    assert not hold.behind
    after = written(found, end_of(hold))
    assert "paused" not in after.manifest["spec"]
    assert after.manifest["spec"]["strategy"] == ROLLING


STRATEGIES = {
    # declared maxSurge and maxUnavailable, most, whether a new pod finds a node: the limited ones
    ("25%", "25%", 1, True): (1, 0),
    ("25%", "25%", 1, False): (0, 1),
    (2, 2, 1, True): (2, 1),
    (1, 0, 0, True): (1, 0),
    (1, 0, 0, False): None,
    (0, 3, 2, True): (0, 2),
    ("100%", "100%", 2, False): (0, 2),
}


@pytest.mark.parametrize("case", STRATEGIES, ids=str)
def test_strategy_within_limits(case: tuple[JSON, JSON, int, bool]) -> None:
    surge, unavailable, most, surges = case
    rolling = {"maxSurge": surge, "maxUnavailable": unavailable}
    found = held(web(strategy={"type": "RollingUpdate", "rollingUpdate": rolling}))
    limited = limited_strategy(the_hold(found), most, surges=surges)
    expected = STRATEGIES[case]
    names = ("maxSurge", "maxUnavailable")
    assert (None if limited is None else tuple(limited["rollingUpdate"][x] for x in names)) == (
        expected
    )


@pytest.mark.parametrize(
    "text",
    [
        "{",
        "[]",
        "[" * 100_000,
        "{}",
        '{"phase": 3}',
        '{"phase": "held", "limited": 1, "strategy": {}}',
        '{"phase": "released", "limited": {}}',
    ],
    ids=range(7),
)
def test_damaged_hold_is_neither_held_nor_released(text: str) -> None:
    found = held()
    found.manifest["metadata"]["annotations"][HOLD] = text
    hold = the_hold(found)
    assert hold.record is None
    assert not hold.is_held
    assert not hold.strategy_is_limited
