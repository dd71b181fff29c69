# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Holds of StatefulSets, as a run finds and ends them."""

from __future__ import annotations

import json
import typing as t
from dataclasses import replace

import pytest

from ansible_collections.virt.placement.plugins.module_utils.compliance.instances import (
    InstanceSelection,
    movable_instances,
)
from ansible_collections.virt.placement.plugins.module_utils.holds import release as holds
from ansible_collections.virt.placement.plugins.module_utils.holds.hold import Hold
from ansible_collections.virt.placement.plugins.module_utils.model.kinds import HOLD
from ansible_collections.virt.placement.plugins.module_utils.model.objects import Ref
from ansible_collections.virt.placement.plugins.module_utils.model.plan import Method
from ansible_collections.virt.placement.plugins.module_utils.model.snapshot import Snapshot
from ansible_collections.virt.placement.plugins.module_utils.moves.move_source import HeldRollouts
from ansible_collections.virt.placement.plugins.module_utils.planning.plan import plan_moves
from ansible_collections.virt.placement.plugins.module_utils.planning.plan_request import (
    PlanRequest,
)
from tests.support.api_server import ApiServer, Reply, status
from tests.support.cluster import cluster
from tests.unit.forecast.test_claims import stateful_set

JSON = t.Any
SHOP = InstanceSelection(namespaces=frozenset({"shop"}))
ROLLING: JSON = {"type": "RollingUpdate", "rollingUpdate": {"partition": 0}}


def held(*revisions: str, updated: int, generation: int = 2) -> Snapshot:
    """A held StatefulSet whose replicas are of these revisions; `db-2` is the present one."""
    made = cluster("a" * len(revisions))
    nodes = [f"n{number + 1}" for number in range(len(revisions))]
    db = made.workloads[stateful_set(made, "db", nodes)]
    db["spec"]["updateStrategy"] = {"type": "OnDelete"}
    text = json.dumps({"updateStrategy": ROLLING})
    db["metadata"] |= {"annotations": {HOLD: text}, "generation": generation}
    db["status"] = {"observedGeneration": 2, "updateRevision": "db-2", "updatedReplicas": updated}
    for number, revision in enumerate(revisions):
        pod = made.pods["shop", f"db-{number}"]
        pod["metadata"]["labels"]["controller-revision-hash"] = revision
    return made.snapshot()


def of_run(snapshot: Snapshot, selection: InstanceSelection = SHOP) -> HeldRollouts:
    return holds.held_rollouts(snapshot, selection, movable_instances(snapshot, selection))


def holds_of(snapshot: Snapshot, selection: InstanceSelection = SHOP) -> tuple[Hold, ...]:
    return holds.holds_of(snapshot, selection, movable_instances(snapshot, selection))


def server(code: int | Reply = 200) -> ApiServer:
    """It takes patches of any object, or refuses them."""
    made = ApiServer()
    made.add_fault("PATCH", "", code)
    return made


def test_held_replicas_move_from_the_last_one_whatever_the_scope_is() -> None:
    snapshot = held("db-1", "db-2", "db-1", updated=1)
    candidates = movable_instances(snapshot, SHOP)
    found = of_run(snapshot)
    request = PlanRequest(SHOP, allow=frozenset({Method.RECREATE}), held=found.replicas)
    plan = plan_moves(snapshot, request, candidates)
    assert [(move.instance.name, move.method) for move in plan.moves] == [
        ("db-2", Method.RECREATE),
        ("db-0", Method.RECREATE),
    ]
    assert {move.reason for move in plan.moves} == {"the rollout of its workload is held"}
    assert found.waiting is None
    (line,) = found.lines
    assert "2 of 3 replicas are not of its present template" in line
    assert "RollingUpdate is given back" in line


def test_hold_of_a_workload_that_is_not_selected_is_left() -> None:
    snapshot = held("db-1", updated=0)
    assert not holds_of(snapshot, InstanceSelection(namespaces=frozenset({"other"})))
    other = InstanceSelection(workloads=frozenset({Ref("StatefulSet", "shop", "mq")}))
    assert not holds_of(snapshot, other)
    named = InstanceSelection(workloads=frozenset({Ref("StatefulSet", "shop", "db")}))
    assert len(holds_of(snapshot, named)) == 1


def test_hold_of_a_workload_that_is_being_deleted_is_not_waited_for() -> None:
    """Its pods go first, with the propagation policy Foreground."""
    snapshot = held("db-1", updated=0)
    snapshot.workloads[0].manifest["metadata"]["deletionTimestamp"] = "2026-11-26T10:00:00Z"
    assert not holds_of(snapshot)


@pytest.mark.parametrize(
    ("updated", "generation", "text"),
    [(2, 2, "None"), (1, 2, "1 of 2 replicas is not"), (2, 3, "has not seen the latest change")],
)
def test_run_waits_for_the_controller(updated: int, generation: int, text: str) -> None:
    snapshot = held("db-2", "db-2", updated=updated, generation=generation)
    why = of_run(snapshot).waiting
    assert text in str(why)
    assert why is None or (why.code, why.temporary) == ("in_progress", True)


def test_strategy_is_given_back_once() -> None:
    api = server()
    (hold,) = holds_of(held("db-2", updated=1))
    assert holds.end(api.client(), hold) is None
    assert "its update strategy is RollingUpdate again" in holds.ended(hold)
    ((_path, patch),) = api.patches
    changes = [x for x in patch if x["op"] != "test"]
    assert [(x["op"], x["path"]) for x in changes] == [
        ("replace", "/spec/updateStrategy"),
        ("remove", "/metadata/annotations/placement.virt~1hold"),
    ]


@pytest.mark.parametrize(
    ("code", "text"),
    [
        (409, "changed meanwhile"),
        (status(422, details={"causes": [{"field": "spec"}]}), "Set its update strategy by hand"),
        (403, "Set its update strategy by hand"),
        (404, "check the name"),
    ],
)
def test_refusal_of_one_workload_does_not_keep_the_others(code: int | Reply, text: str) -> None:
    """An admission policy of its namespace, or a deletion."""
    (hold,) = holds_of(held("db-2", updated=1))
    why = holds.end(server(code).client(), hold)
    assert "stays held" in str(why)
    assert text in str(why)


def test_strategy_is_not_given_back_where_the_object_was_changed_meanwhile() -> None:
    """Rules that are written at the same time count on the strategy OnDelete."""
    api = server()
    (hold,) = holds_of(held("db-2", updated=1))
    holds.end(api.client(), hold)
    ((_path, patch),) = api.patches
    assert {"op": "test", "path": "/metadata/generation", "value": 2} in patch


def test_unfinished_or_damaged_hold_stays() -> None:
    snapshot = held("db-1", updated=0)
    (hold,) = holds_of(snapshot)
    why = holds.why_kept(hold)
    assert "stays held: 1 of 1 replicas is not of its present template" in str(why)
    assert "recreate in allow" in str(why)
    hold.workload.manifest["metadata"]["annotations"][HOLD] = "{"
    (hold,) = holds_of(snapshot)
    assert "is damaged. Set its update strategy by hand" in str(holds.why_kept(hold))
    (line,) = of_run(snapshot).lines
    assert "is damaged" in line
    assert "given back" not in line


def test_hold_stays_while_a_pod_is_of_another_template_though_enough_are_counted() -> None:
    """A scale-in deletes db-1. Until then the controller counts it, and a rollout of its own would replace db-0."""
    snapshot = held("db-1", "db-2", updated=1)
    (hold,) = holds_of(snapshot)
    hold.workload.manifest["spec"]["replicas"] = 1
    assert not hold.ends
    assert "1 of 1 replicas is not" in str(holds.why_kept(hold))
    (line,) = of_run(snapshot).lines
    assert "1 of 1 replicas is not" in line


def test_hold_is_over_once_another_client_has_set_a_strategy() -> None:
    """A partition would keep two replicas on the previous template for ever."""
    snapshot = held("db-1", "db-1", "db-2", updated=1)
    (hold,) = holds_of(snapshot)
    rolling = {"type": "RollingUpdate", "rollingUpdate": {"partition": 2}}
    hold.workload.manifest["spec"]["updateStrategy"] = rolling
    (hold,), found = holds_of(snapshot), of_run(snapshot)
    assert (found.replicas, found.waiting, found.ends) == (frozenset(), None, True)
    (line,) = found.lines
    assert "is not held any more" in line
    api = server()
    assert holds.end(api.client(), hold) is None
    ((_path, patch),) = api.patches
    assert [x["op"] for x in patch if x["op"] != "test"] == ["remove"]
    assert "stays as it is" in holds.ended(hold)


def test_pending_replica_of_another_template_moves_though_its_constraints_are_the_same() -> None:
    """OnDelete leaves it to us: a request that fits no node was corrected in the template."""
    snapshot = held("db-1", "db-2", updated=1)
    asks = {**snapshot.pods[0].requests, "cpu": 10**9}
    pods = (
        replace(x, node_name="", requests=asks) if x.name == "db-0" else x for x in snapshot.pods
    )
    snapshot = replace(snapshot, pods=tuple(pods))
    candidates = movable_instances(snapshot, SHOP)
    replicas = of_run(snapshot).replicas
    request = PlanRequest(SHOP, allow=frozenset({Method.RECREATE}), held=replicas)
    (move,) = plan_moves(snapshot, request, candidates).moves
    assert (move.instance.name, move.reason) == ("db-0", "the rollout of its workload is held")
    (left,) = plan_moves(snapshot, PlanRequest(SHOP, held=replicas), candidates).skipped
    assert "add recreate to allow" in str(left.reason)
