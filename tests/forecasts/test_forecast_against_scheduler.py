# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Random small clusters: what forecast_info says is compared with what the real scheduler then does.

PLACEMENT_RANDOM_CLUSTERS says how many (10), PLACEMENT_SEED with which seed the first one is made;
each test's name holds its own. A case is forecast, the change is made, and what became Pending is
compared, how many and of which Deployments. A change that is impossible and for which the scheduler
would end other pods is not made, as nobody would make it who asked before; then no pod is ever ended
to make room for another.
"""

from __future__ import annotations

import collections
import dataclasses
import typing as t

import pytest

from ansible_collections.virt.placement.plugins.modules import forecast_info
from sandbox import Sandbox, cluster_file, nodes, objects
from tests.conftest import RunModule

from .random_cases import BATCH, CLUSTERS, FIRST_SEED, assert_enough_definite, count
from .random_cluster import (
    NAMESPACE,
    URGENT,
    Case,
    Stage,
    deployment_of,
    is_free,
    make_priority_classes,
    preempted,
)

JSON = t.Any
BY_FORCE = "by-force"
"""A namespace in which pods may be ended."""


@pytest.fixture(scope="module")
def sandbox() -> t.Iterator[Sandbox]:
    """A control plane without nodes: each case brings its own."""
    with Sandbox.start("plain") as started:
        for node in started.api.list(started.api.path("Node")):
            started.api.delete(started.api.path("Node", name=node["metadata"]["name"]))
        for name in (NAMESPACE, BY_FORCE):
            started.api.create(started.api.path("Namespace"), {"metadata": {"name": name}})
        make_priority_classes(started)
        yield started


@dataclasses.dataclass
class Batch:
    """What came of the cases of this run. `owners`: the Deployment of each pod, by uid. `calm`:
    Deployments of clusters without urgent pods. `preemption_candidates`: those that may take a place by force."""

    answers: list[str] = dataclasses.field(default_factory=list)
    urgent: int = 0
    calm: set[str] = dataclasses.field(default_factory=set)
    preemption_candidates: set[str] = dataclasses.field(default_factory=set)
    owners: dict[str, str] = dataclasses.field(default_factory=dict)


@pytest.fixture(scope="module")
def batch() -> Batch:
    return Batch()


@pytest.mark.parametrize("seed", range(FIRST_SEED, FIRST_SEED + CLUSTERS))
@pytest.mark.tour
def test_the_scheduler_does_what_was_forecast(
    sandbox: Sandbox, run_module: RunModule, seed: int, batch: Batch
) -> None:
    case = Case(seed)
    stage = Stage(sandbox, case)
    try:
        before = stage.begin()
        params = {"kubeconfig": str(sandbox.kubeconfig("reader")), **case.question}
        found = run_module(forecast_info.main, params)
        assert not found.get("failed"), found
        answer = found["forecast"]
        batch.answers.append(answer)
        count(found)
        if answer == "impossible" and case.urgent:
            print(f"seed {seed}: {case.question} impossible but by force, not made")
            assert found["min_unschedulable"] >= 1, found
            return
        stage.change(run_module, found.get("blocking_findings", []))
        asked = {pod for pod in before if case.asks_about(pod)}
        new = stage.settle(placed=answer == "guaranteed" and asked == before) - (before - asked)
        print(f"seed {seed}: {case.question} {answer}, Pending {len(new)}")
        batch.urgent += case.urgent
        batch.owners |= stage.owners()
        if not case.urgent:
            batch.calm |= case.names
        elif answer == "possible":
            batch.preemption_candidates |= _may_wait(found, stage)
        _holds(found, new, stage)
    finally:
        stage.end()


def _may_wait(found: JSON, stage: Stage) -> set[str]:
    """The Deployments of which a pod may be without a place: all that have to find one, where the
    forecast gives a reason and no names."""
    return {each["workload"]["name"] for each in found["pending"]} or stage.affected


def _may_end(found: JSON) -> set[str]:
    return {ref["name"] for each in found["pending"] for ref in each["preemption_candidates"]}


def _holds(found: JSON, new: set[str], stage: Stage) -> None:
    """What is Pending now, and was not before or is asked about, is what the forecast reported."""
    if found["forecast"] == "guaranteed":
        assert not new, found
        _went_where_told(found, stage)
    elif found["forecast"] == "impossible":
        assert len(new) >= found["min_unschedulable"] >= 1, (new, found)
        _wait_as_told(found, new, stage)
    else:
        assert found["forecast"] == "possible", found
        assert found["pending"] or found["reasons"], found
        assert found["min_unschedulable"] == 0, found
        assert not any(each["certain"] for each in found["pending"]), found
        named = _may_wait(found, stage)
        assert named <= stage.affected, (stage.affected, found)
        ended = stage.case.below(named)
        assert _may_end(found) <= ended, (ended, found)
        assert {deployment_of(pod) for pod in new} <= named | ended, (new, found)
        assert (
            len([p for p in new if deployment_of(p) in named]) <= found["instances_to_schedule"]
        ), (new, found)


def _wait_as_told(found: JSON, new: set[str], stage: Stage) -> None:
    """Who is certain to wait does. Beside them wait only those who have to find a place, as many
    as there are: who is named without being certain stands for any of them."""
    waiting = collections.Counter(map(deployment_of, new))
    certain = [each["workload"]["name"] for each in found["pending"] if each["certain"]]
    named = {each["workload"]["name"] for each in found["pending"]}
    assert len(found["pending"]) >= found["min_unschedulable"], found
    assert collections.Counter(certain) <= waiting, (new, found)
    assert len(new) <= found["instances_to_schedule"], (new, found)
    assert named <= stage.affected, (stage.affected, found)
    assert set(waiting) <= (named if len(stage.affected) == 1 else stage.affected), (new, found)


def _went_where_told(found: JSON, stage: Stage) -> None:
    """Those who move are those on the node that is drained, and they go to their targets. These are
    what is open in the plan's order: of two workloads another order may open others."""
    moves = found["moves"]
    assert sorted(each["instance"] for each in moves) == sorted(stage.on_lost), found
    assert {each["from_node"] for each in moves} <= {stage.case.lost}, found
    targets = {node for each in moves for node in each["targets"]}
    assert stage.case.lost not in targets, found
    if len(stage.affected) == 1 and moves:
        assert set(stage.made_on()) <= targets, found


def test_no_pod_was_preempted(sandbox: Sandbox, batch: Batch) -> None:
    """Only an urgent pod of which the answer is `possible` may end another: it finds a place in some
    courses, and where the scheduler takes a course in which it finds none it makes one by force."""
    if len(batch.answers) >= 3 * BATCH:
        assert batch.urgent > 0, "no urgent pod was expected to find a node"
    by_whom = {batch.owners.get(uid, uid) for uid in preempted(sandbox)}
    assert by_whom & batch.calm == set()
    assert by_whom <= batch.preemption_candidates


def test_most_forecasts_are_guaranteed_or_impossible(batch: Batch) -> None:
    assert_enough_definite(batch.answers)


@pytest.mark.parametrize("change", ["scale", "drain"])
def test_a_place_that_exists_only_by_preemption_is_none(
    sandbox: Sandbox, run_module: RunModule, change: str
) -> None:
    """The last word is the scheduler's: made all the same, the change ends a pod."""
    api = sandbox.api
    names = [f"{change}-{number}" for number in (1, 2)]
    entries = [{"name": name, "allocatable": {"cpu": "1"}} for name in names]
    made = cluster_file.parse(change, {"kubevirt": False, "nodes": entries}).nodes
    urgent = objects.deployment(
        f"{change}-urgent",
        BY_FORCE,
        replicas=int(change == "drain"),
        cpu="1",
        placement={"priorityClassName": URGENT},
    )
    low = objects.deployment(
        f"{change}-low", BY_FORCE, replicas=1 if change == "drain" else 2, cpu="1"
    )
    pods, path = api.path("Pod", BY_FORCE), api.path_of(urgent)
    api.create_all([nodes.node_object(node) for node in made])
    try:
        for name in names:
            api.wait(is_free, api.path("Node", name=name))
        api.create_all([urgent, low])
        placed = api.wait_list(pods, lambda found: _nodes(found) == set(names))
        lost = next((_node_of(pod) for pod in placed if _is_urgent(pod)), "")
        question: JSON = {"unavailable": {"nodes": [lost]}}
        if change == "scale":
            scaled = [{"name": f"{change}-urgent", "replicas": 1}]
            question = {"namespace": BY_FORCE, "scale": scaled}

        found = run_module(
            forecast_info.main, {"kubeconfig": str(sandbox.kubeconfig("reader")), **question}
        )

        assert (found["forecast"], found["min_unschedulable"]) == ("impossible", 1), found
        # Nothing says the priority of a workload that has no pod yet: its template names a class only.
        assert _may_end(found) == (set() if change == "scale" else {"drain-low"}), found
        if change == "scale":
            api.patch(path, {"spec": {"replicas": 1}})
        else:
            api.patch(api.path("Node", name=lost), {"spec": {"unschedulable": True}})
            api.delete(f"{pods}?fieldSelector=spec.nodeName={lost}", gracePeriodSeconds=0)
        events = f"/apis/events.k8s.io/v1/namespaces/{BY_FORCE}/events"
        api.wait_list(events, lambda seen: f"{change}-low" in _ended(seen))
        uids = {p["metadata"]["uid"] for p in api.list(pods) if _is_urgent(p)}
        assert uids & preempted(sandbox, BY_FORCE)
    finally:
        for each in (urgent, low):
            api.delete(api.path_of(each), propagationPolicy="Background")
        api.wait_list(api.path("ReplicaSet", BY_FORCE), lambda found: not found)
        api.delete(pods, gracePeriodSeconds=0)
        api.wait_list(pods, lambda found: not found)
        for name in names:
            api.delete(api.path("Node", name=name))


def _is_urgent(pod: JSON) -> bool:
    return deployment_of(pod["metadata"]["name"]).endswith("-urgent")


def _ended(events: list[JSON]) -> set[str]:
    """Deployments of which a pod had to make room."""
    ended = [event["regarding"]["name"] for event in events if event.get("reason") == "Preempted"]
    return {deployment_of(name) for name in ended}


def _node_of(pod: JSON) -> str:
    return str(pod["spec"].get("nodeName", ""))


def _nodes(pods: list[JSON]) -> set[str]:
    return {_node_of(pod) for pod in pods}
