# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""One step of a drain against a server that accepts every write and migrates at once."""

from __future__ import annotations

import typing as t
from collections import Counter

import pytest
import urllib3

from ansible_collections.virt.placement.plugins.module_utils.api.client import ApiClient
from ansible_collections.virt.placement.plugins.module_utils.api.transport import (
    Deadline,
    Session,
    Transport,
)
from ansible_collections.virt.placement.plugins.module_utils.maintenance.drain import DrainSource
from ansible_collections.virt.placement.plugins.module_utils.maintenance.drain_state import (
    DrainState,
)
from ansible_collections.virt.placement.plugins.module_utils.model.kinds import MAINTENANCE
from ansible_collections.virt.placement.plugins.module_utils.moves.step import run_step
from dev.trace_server import TraceServer
from tests.unit.maintenance.builders import DRAIN_W1


@pytest.fixture
def cluster() -> t.Iterator[TraceServer]:
    with TraceServer() as server:
        yield server


def test_drain_reads_its_lists_once_a_step_and_again_before_it_ends(cluster: TraceServer) -> None:
    state = DrainState()
    steps = 0
    while True:
        steps += 1
        with urllib3.PoolManager(maxsize=32) as pool:
            session = Session(pool, cluster.url, list)
            api = ApiClient(Transport(lambda session=session: session), Deadline(60))  # type: ignore[misc]
            result = run_step(DrainSource(api, DRAIN_W1, state, lambda: True), check=False)
        if result.finished:
            break
        assert steps < 10
        state = t.cast(DrainState, result.state)
    assert result.failure == ""
    node = cluster.objects["/api/v1/nodes/w1"]
    assert node["spec"]["unschedulable"] is True
    assert '"drained"' in node["metadata"]["annotations"][MAINTENANCE]
    lists = Counter(read.partition("?")[0] for read in cluster.reads if "limit=" in read)
    read = lists["/api/v1/pods"]
    # A step on a slow machine may end between the two readings that show no pod.
    assert steps + 1 <= read <= steps + 2
    assert lists["/apis/kubevirt.io/v1/virtualmachineinstances"] == read
    assert lists["/api/v1/nodes"] == read + 3, "before and after the cordon, and as it was written"


def test_check_mode_names_the_node_for_each_instance(cluster: TraceServer) -> None:
    with urllib3.PoolManager(maxsize=32) as pool:
        session = Session(pool, cluster.url, list)
        api = ApiClient(Transport(lambda: session), Deadline(60))
        result = run_step(DrainSource(api, DRAIN_W1, DrainState(), lambda: True), check=True)

    assert any("/limitranges" in read for read in cluster.reads), "as the forecast of a drain"
    assert result.moves
    assert all(move["to_node"] not in (None, "w1") for move in result.moves)
    planned = [line for line in result.progress if "would " in line]
    assert len(planned) == len(result.moves)
    assert all("; available: " in line for line in planned)


def test_canceled_drain_names_the_nodes_that_stay_cordoned(cluster: TraceServer) -> None:
    with urllib3.PoolManager(maxsize=32) as pool:
        session = Session(pool, cluster.url, list)
        api = ApiClient(Transport(lambda: session), Deadline(60))
        result = run_step(DrainSource(api, DRAIN_W1, DrainState(), lambda: False), check=False)

    ended = "the Ansible task of this maintenance has ended; the next maintenance continues"
    assert result.failure.startswith(ended)
    assert result.failure.endswith(
        ". The cordon of w1 stays: remove the cause and run again, or undo it with state in_service and no change_id"
    )
