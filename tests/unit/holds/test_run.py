# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""A run that finds a held StatefulSet, against a server that accepts every write."""

from __future__ import annotations

import time
import typing as t

import pytest

from ansible_collections.virt.placement.plugins.module_utils.api.client import ApiClient
from ansible_collections.virt.placement.plugins.module_utils.holds import release as holds
from ansible_collections.virt.placement.plugins.module_utils.holds.hold import Hold
from ansible_collections.virt.placement.plugins.module_utils.model.obstacle import Obstacle
from ansible_collections.virt.placement.plugins.module_utils.moves import step as steps
from ansible_collections.virt.placement.plugins.module_utils.rollout.registry import HOLDS
from dev.trace_server import NAMESPACE, TraceServer
from tests.unit.moves.test_step import step


@pytest.fixture
def cluster() -> t.Iterator[TraceServer]:
    with TraceServer() as server:
        yield server


@pytest.fixture(autouse=True)
def step_lasts(monkeypatch: pytest.MonkeyPatch) -> None:
    """A step does not end because its moves have just begun: here they end at once."""
    monkeypatch.setattr(steps, "YOUNG", 0.0)


STATEFUL_SETS = f"/apis/apps/v1/namespaces/{NAMESPACE}/statefulsets"
HELD = '{"updateStrategy": {"type": "RollingUpdate"}}'


def hold(cluster: TraceServer, running: str, annotation: str = HELD) -> None:
    """A StatefulSet with one replica and its own rollout held, whose pod is of this revision; `log-2` is the latest."""
    metadata = {"name": "log", "namespace": NAMESPACE, "uid": "log", "resourceVersion": "1"}
    owner = {"apiVersion": "apps/v1", "kind": "StatefulSet", "name": "log", "uid": "log"}
    template: t.Any = {
        "metadata": {"labels": {"app": "log"}},
        "spec": {"containers": [{"name": "log"}]},
    }
    cluster.objects[f"{STATEFUL_SETS}/log"] = {
        "apiVersion": "apps/v1",
        "kind": "StatefulSet",
        "metadata": {
            **metadata,
            "generation": 2,
            "annotations": {"placement.virt/hold": annotation},
        },
        "spec": {"replicas": 1, "template": template, "updateStrategy": {"type": "OnDelete"}},
        "status": {
            "observedGeneration": 2,
            "updateRevision": "log-2",
            "updatedReplicas": int(running == "log-2"),
        },
    }
    cluster.objects[f"/api/v1/namespaces/{NAMESPACE}/pods/log-0"] = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            **metadata,
            "name": "log-0",
            "uid": "log-0",
            "labels": {"app": "log", "controller-revision-hash": running},
            "ownerReferences": [{**owner, "controller": True}],
        },
        "spec": {**template["spec"], "nodeName": "w3"},
        "status": {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]},
    }


def releases(cluster: TraceServer) -> list[t.Any]:
    return [
        x
        for method, path, x in cluster.writes
        if (method, path.startswith(STATEFUL_SETS)) == ("PATCH", True)
    ]


def test_run_gives_an_update_strategy_back(cluster: TraceServer) -> None:
    hold(cluster, "log-2")
    planned, result, again = step(cluster, check=True), step(cluster), step(cluster)
    assert (planned.changed, result.changed, again.changed) == (True, True, False)
    assert (result.failure, result.warnings) == ("", [])
    assert "its update strategy is RollingUpdate again" in result.progress[-1]
    assert len(releases(cluster)) == 1


def test_run_without_the_capability_leaves_the_hold(
    cluster: TraceServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delitem(HOLDS, "hold")
    hold(cluster, "log-2")
    planned, result = step(cluster, check=True), step(cluster)
    assert (result.finished, result.failure, result.held, planned.held) == (True, "", [], [])
    assert releases(cluster) == []


@pytest.mark.parametrize(
    ("running", "annotation", "warning", "code"),
    [
        (
            "log-1",
            HELD,
            "stays held: 1 of 1 replicas is not of its present template",
            "previous_template",
        ),
        ("log-2", "{", "stays held: its annotation placement.virt/hold is damaged", "damaged"),
    ],
)
def test_run_warns_about_a_hold_that_stays(
    cluster: TraceServer, running: str, annotation: str, warning: str, code: str
) -> None:
    """In check mode, with moves, and where there is nothing to move any more."""
    hold(cluster, running, annotation)
    for result in (step(cluster, check=True), step(cluster), step(cluster)):
        assert result.finished
        (found,) = [x for x in result.warnings if "stays held" in x]
        assert warning in found
        assert [x["reason_code"] for x in result.held] == [code]
    assert releases(cluster) == []


def test_check_mode_does_not_warn_about_a_hold_that_a_run_would_end(cluster: TraceServer) -> None:
    hold(cluster, "log-1")
    result = step(cluster, check=True, allow=["migrate", "recreate"])
    assert {move["instance"] for move in result.moves} >= {"log-0"}
    assert not [x for x in result.warnings if "stays held" in x]


def test_hold_that_changes_while_it_ends_stays_and_nothing_is_changed(
    cluster: TraceServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    step(cluster)
    hold(cluster, "log-2")
    end = holds.end

    def change_first(api: ApiClient, ends: Hold) -> Obstacle | None:
        cluster.objects[f"{STATEFUL_SETS}/log"]["metadata"]["generation"] = 3
        return end(api, ends)

    monkeypatch.setattr(holds, "end", change_first)
    result = step(cluster)
    assert not result.changed
    assert "was changed meanwhile" in result.warnings[0]
    found = cluster.objects[f"{STATEFUL_SETS}/log"]
    assert found["spec"]["updateStrategy"] == {"type": "OnDelete"}


def test_strategy_is_given_back_once_kubevirt_has_seen_the_labels(
    cluster: TraceServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It watches VMIs and pools apart, and restarts a VMI that it knows with its old label."""
    step(cluster)
    hold(cluster, "log-2")
    times: list[float] = []
    end = holds.end

    def label(_api: ApiClient, _hold: Hold, *, check: bool = False) -> tuple[int, None]:
        times.append(time.monotonic())
        return 1, None

    def seen(api: ApiClient, ends: Hold) -> Obstacle | None:
        times.append(time.monotonic())
        return end(api, ends)

    monkeypatch.setattr(holds, "prepare", label)
    monkeypatch.setattr(holds, "end", seen)
    monkeypatch.setattr(holds, "LABELS_SEEN", 0.2)
    assert step(cluster).changed
    labeled, given_back = times
    assert given_back - labeled >= 0.2


def test_check_mode_says_why_a_hold_would_stay(
    cluster: TraceServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    step(cluster)
    hold(cluster, "log-2")
    kept = Obstacle("refused", "stays held: why")
    monkeypatch.setattr(holds, "prepare", lambda _api, _hold, check=False: (0, kept))
    planned, result = step(cluster, check=True), step(cluster)
    assert (planned.changed, result.changed) == (False, False)
    assert planned.warnings == result.warnings == ["stays held: why"]
    assert {x["reason_code"] for x in (*planned.held, *result.held)} == {"refused"}
    assert releases(cluster) == []
