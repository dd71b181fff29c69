# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""One step of a run against a server that accepts every write and migrates at once."""

from __future__ import annotations

import typing as t
from dataclasses import replace

import pytest
import urllib3

from ansible_collections.virt.placement.plugins.module_utils.api.client import ApiClient
from ansible_collections.virt.placement.plugins.module_utils.api.transport import (
    Deadline,
    Session,
    Transport,
)
from ansible_collections.virt.placement.plugins.module_utils.cluster import lease
from ansible_collections.virt.placement.plugins.module_utils.model.findings import InvalidInput
from ansible_collections.virt.placement.plugins.module_utils.rollout import journal as journals
from ansible_collections.virt.placement.plugins.module_utils.rollout.state import (
    RolloutState,
    StepResult,
)
from ansible_collections.virt.placement.plugins.module_utils.rollout.step import rollout_step
from dev.trace_server import TraceServer
from tests.unit.rollout.test_gates import parameters

MIGRATIONS = "/apis/kubevirt.io/v1/namespaces/shop/virtualmachineinstancemigrations"
JOURNAL = "/metadata/annotations/placement.virt~1journal"


@pytest.fixture
def cluster() -> t.Iterator[TraceServer]:
    with TraceServer() as server:
        yield server


def step(cluster: TraceServer, state: RolloutState | None = None, **options: t.Any) -> StepResult:
    flags = {name: options.pop(name) for name in ("check", "listening") if name in options}
    with urllib3.PoolManager(maxsize=16) as pool:
        session = Session(pool, cluster.url, list)
        api = ApiClient(Transport(lambda: session), Deadline(60))
        asked = replace(parameters(**options), zone_key="topology.kubernetes.io/zone")
        return rollout_step(api, asked, state or RolloutState(), **flags)


def lease_patches(cluster: TraceServer) -> list[dict[str, t.Any]]:
    return [
        {operation["path"]: operation["value"] for operation in body}
        for method, path, body in cluster.writes
        if (method, path) == ("PATCH", lease.PATH)
    ]


def test_step_migrates_one_vm_and_releases_the_lease(cluster: TraceServer) -> None:
    result = step(cluster)
    assert (result.finished, result.failure, result.changed) == (True, "", True)
    (move,) = result.moves
    assert (move["method"], move["from_node"], move["to_node"]) == ("migrate", "w1", "w2")
    assert move["state"] == "moved"
    (created,) = [body for _method, path, body in cluster.writes if path == MIGRATIONS]
    assert created["spec"] == {"vmiName": move["instance"]}
    assert len(result.progress) == 3
    assert "1 move planned" in result.progress[0]
    assert result.progress[1].startswith("[1/1] migrating")
    assert "migrated: w1 (a) -> w2 (b)" in result.progress[2]
    journaled, *_renewals, released = lease_patches(cluster)
    (record,) = journals.read(journaled[JOURNAL]).records
    assert (record.instance.name, record.source) == (move["instance"], "w1")
    assert (released["/spec/holderIdentity"], released[JOURNAL]) == ("", "")


def test_move_is_journaled_before_it_is_sent(cluster: TraceServer) -> None:
    step(cluster)
    order = [(method, path) for method, path, _body in cluster.writes]
    assert order.index(("PATCH", lease.PATH)) < order.index(("POST", MIGRATIONS))


def test_check_mode_plans_and_writes_nothing(cluster: TraceServer) -> None:
    result = step(cluster, check=True)
    assert (result.finished, result.changed) == (True, True)
    assert [move["method"] for move in result.moves] == ["migrate"]
    reviews = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"
    assert {path for _method, path, _body in cluster.writes} == {reviews}


def test_step_that_no_process_listens_to_leaves_its_move_to_the_next_run(
    cluster: TraceServer,
) -> None:
    result = step(cluster, listening=lambda: False)
    assert result.finished
    assert result.failure.startswith("the Ansible task of this rollout has ended; the next rollout")
    released = lease_patches(cluster)[-1]
    assert released["/spec/holderIdentity"] == ""
    assert len(journals.read(released[JOURNAL]).records) == 1


def test_scope_outdated_moves_nothing_where_all_run_as_declared(cluster: TraceServer) -> None:
    result = step(cluster, allow=["restart"], scope="not_enforced")
    assert (result.moves, result.failure) == ([], "")
    assert MIGRATIONS not in {path for _method, path, _body in cluster.writes}


def test_time_that_is_over_before_the_step(cluster: TraceServer) -> None:
    result = step(cluster, RolloutState(elapsed=99.0, waiting="waiting: soak"), run_timeout=60)
    assert result.failure == "not done within 60 s (run_timeout): waiting: soak"
    assert cluster.writes == []


def test_unknown_namespace_is_refused_before_the_lease(cluster: TraceServer) -> None:
    with pytest.raises(InvalidInput, match="there is no namespace 'shp'"):
        step(cluster, namespaces=["shp"])
    assert cluster.writes == []
