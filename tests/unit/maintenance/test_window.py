# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Drains outside of their window."""

from __future__ import annotations

import typing as t
from datetime import datetime, timedelta, timezone

import pytest

from tests.support.modules import run
from tests.unit.maintenance.test_kills import KubeVirt, maintain, three_zones
from tests.unit.maintenance.test_tasks import at, begun


def hours(first: int, last: int) -> dict[str, str]:
    """A window that begins and ends so many hours from now."""
    now = datetime.now(timezone.utc)
    start, end = (f"{now + timedelta(hours=hour):%H:%M}" for hour in (first, last))
    return {"start": start, "end": end, "timezone": "UTC"}


CLOSED = hours(2, 3)


def drained_outside(server: KubeVirt, node: str) -> dict[str, t.Any]:
    before = len(server.writes)
    result = maintain(server, "drained", node, window=CLOSED)
    assert not result.get("failed"), result["msg"]
    assert len(server.writes) == before or result["stop_reason"] == ""
    return result


def test_drain_does_not_begin_beside_the_moves_of_a_killed_run() -> None:
    server = three_zones()
    begun(server, "w1")
    result = drained_outside(server, "w3")
    assert result["stop_reason"].startswith("outside of the window from ")
    assert result["progress"] == [f"w3: not begun, {result['stop_reason']}"]


@pytest.mark.parametrize("uncordoned", [False, True])
def test_drain_that_has_begun_continues_while_its_node_is_cordoned(uncordoned: bool) -> None:
    server = three_zones()
    begun(server, "w1")
    if uncordoned:
        del server.objects[at("w1")]["spec"]["unschedulable"]
    result = drained_outside(server, "w1")
    assert [node["state"] for node in result["nodes"]] == ["draining" if uncordoned else "drained"]
    assert bool(result["stop_reason"]) == uncordoned


@pytest.mark.parametrize("check", [True, False])
@pytest.mark.parametrize("ended", [True, False], ids=["drained", "draining"])
def test_node_is_not_begun_beside_one_that_continues(ended: bool, check: bool) -> None:
    """A killed job has begun w1 alone: w2 waits for the window."""
    server = three_zones()
    begun(server, "w1")
    if ended:
        maintain(server, "drained", "w1")
    asked = {"nodes": ["w1", "w2"], "max_nodes": 2, "window": CLOSED}
    if check:
        result = run("node_maintenance", server, {**asked, "state": "drained"}, check=True)
    else:
        result = maintain(server, "drained", "", **asked)
        assert "unschedulable" not in server.objects[at("w2")]["spec"]
        assert [(x["name"], x["state"]) for x in result["nodes"]] == [("w1", "drained")]
    assert not result.get("failed"), result["msg"]
    assert "w2" not in [write["name"] for write in result["writes"]]
    assert result["stop_reason"].startswith("outside of the window from ")
    assert result["progress"][-1] == f"w2: not begun, {result['stop_reason']}"


@pytest.mark.parametrize("window", [CLOSED, hours(-1, 2)], ids=["closed", "open"])
def test_check_mode_without_nodes_says_whether_the_window_is_open(window: dict[str, str]) -> None:
    server = three_zones()
    begun(server, "w1")
    asked = {"nodes": [], "state": "cordoned", "window": window}
    result = run("node_maintenance", server, asked, check=True)
    assert not result.get("failed"), result["msg"]
    assert bool(result["stop_reason"]) == (window is CLOSED)
    assert result["progress"] == list(filter(None, [result["stop_reason"]]))
    assert [x["code"] for x in result["outcome"]["skipped"]] == ["none_named"]
