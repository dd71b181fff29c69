# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""node_maintenance marks and cordons, on a real control plane."""

from __future__ import annotations

import typing as t

import pytest

from sandbox import Sandbox, drain
from tests.maintenance import MARK, Maintenance, maintenance


@pytest.fixture
def shop(six: Sandbox, namespace: t.Any, run_module: t.Any) -> t.Iterator[Maintenance]:
    with maintenance(six, namespace(six, "maintenance"), run_module) as shop:
        yield shop


def test_node_is_cordoned_with_mark_and_put_in_service(shop: Maintenance) -> None:
    result = shop.maintain("cordoned", "w2", reason="firmware")

    assert not result.get("failed"), result.get("msg")
    assert shop.cordoned("w2")
    mark = shop.mark("w2")
    assert mark is not None
    assert (mark["phase"], mark["reason"], mark["cordoned"]) == ("cordoned", "firmware", True)
    assert mark["boot_id"] == shop.node("w2")["status"]["nodeInfo"]["bootID"]
    (node,) = result["nodes"]
    assert (node["name"], node["state"], node["ours"]) == ("w2", "cordoned", True)
    patches = [event for event in shop.sandbox.audit.writes() if event.resource == "nodes"]
    assert patches
    assert shop.lease()["spec"]["holderIdentity"] == ""

    result = shop.maintain("in_service", "w2")

    assert not result.get("failed"), result.get("msg")
    assert result["changed"] is True
    assert not shop.cordoned("w2")
    assert shop.mark("w2") is None


@pytest.mark.parametrize("state", ["cordoned", "in_service"])
def test_second_run_writes_nothing(shop: Maintenance, state: str) -> None:
    shop.maintain("cordoned", "w2")
    shop.maintain(state, "w2")
    mark = shop.sandbox.audit.mark()

    again = shop.maintain(state, "w2")

    assert (again["changed"], again["writes"]) == (False, [])
    assert shop.sandbox.audit.writes(since=mark) == []


def test_foreign_cordon_is_never_lifted(shop: Maintenance) -> None:
    drain.cordon(shop.sandbox, "w2")

    shop.maintain("cordoned", "w2")
    mark = shop.mark("w2")
    assert mark is not None and mark["cordoned"] is False
    result = shop.maintain("in_service", "w2")

    assert shop.cordoned("w2")
    assert shop.mark("w2") is None
    assert [(n["state"], n["ours"]) for n in result["nodes"]] == [("cordoned", False)]
    assert any("cordoned by another client" in line for line in result["progress"])


def test_check_mode_shows_the_cordon_and_writes_nothing(shop: Maintenance) -> None:
    mark = shop.sandbox.audit.mark()

    planned = shop.maintain("cordoned", "w2", check=True, diff=True)

    assert planned["changed"] is True
    (difference,) = planned["diff"]
    assert difference["before"] == {"cordoned": False, "maintenance": None}
    assert difference["after"] == {"cordoned": True, "maintenance": "cordoned"}
    assert shop.sandbox.audit.writes(since=mark) == []


def test_nodes_of_two_zones_are_refused(shop: Maintenance) -> None:
    other = next(name for name in ("w2", "w3", "w4") if shop.zone(name) != shop.zone("w1"))

    result = shop.maintain("cordoned", "w1", other, max_nodes=6)

    assert result["failed"]
    assert "in 2 topology domains" in result["msg"]
    assert not shop.cordoned("w1") and not shop.cordoned(other)
    shop.maintain("cordoned", "w1")
    result = shop.maintain("cordoned", other, max_nodes=6)
    assert result["failed"]
    assert "w1" in result["msg"] and "in maintenance already" in result["msg"]
    assert not shop.cordoned(other)


def test_more_nodes_than_max_nodes_are_refused(shop: Maintenance) -> None:
    result = shop.maintain("cordoned", topology={"zone": shop.zone("w1")})

    assert result["failed"]
    assert result["msg"].startswith("max_nodes: is 1, and 2 nodes would be in maintenance")
    assert not shop.cordoned("w1")


def test_unknown_node_is_named_with_the_nearest(shop: Maintenance) -> None:
    result = shop.maintain("cordoned", "w22")

    assert result["failed"]
    assert "there is no node 'w22'" in result["msg"] and "did you mean" in result["msg"]


def test_damaged_mark_is_an_error_about_its_node(shop: Maintenance) -> None:
    annotations = {"metadata": {"annotations": {MARK: "[" * 3000}}}
    shop.api.patch("/api/v1/nodes/w2", annotations)

    result = shop.maintain("in_service", "w2")

    assert result["failed"]
    assert result["msg"].startswith(f"Node w2: annotation {MARK} is damaged")
    assert not shop.maintain("in_service", "w1").get("failed")
