# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The order in which the role placement_maintenance services nodes, and which nodes they are."""

from __future__ import annotations

import typing as t

import pytest

from ansible_collections.virt.placement.plugins.plugin_utils.maintenance_plan import (
    drained_states,
    end_states,
    maintenance_plan,
    topology_values,
)

BEGUN = "2026-11-22T19:00:00Z"


def node(name: str, zone: str, since: str | None = None, change_id: str = "") -> dict[str, t.Any]:
    cordoned = since is not None
    return {
        "name": name,
        "zone": zone,
        "since": since,
        "cordoned": cordoned,
        "change_id": change_id,
    }


CASES: dict[str, tuple[dict[str, t.Any], list[dict[str, t.Any]], list[str]]] = {
    "zone after zone": (
        {},
        [node("w1", "a"), node("w3", "b"), node("w2", "a")],
        ["w1", "w2", "w3"],
    ),
    "a node in maintenance first, and its zone": (
        {},
        [node("w1", "a"), node("w3", "b"), node("w4", "b", BEGUN)],
        ["w4", "w3", "w1"],
    ),
    "the canary alone": (
        {"max_nodes": 2, "canary": 1},
        [node("w1", "a"), node("w2", "a"), node("w3", "a"), node("w4", "b")],
        ["w1", "w2,w3", "w4"],
    ),
    "all together where they stay in maintenance": (
        {"state": "drained", "canary": 1},
        [node("w1", "a"), node("w3", "b"), node("w2", "a")],
        ["w1,w3,w2"],
    ),
    "together with a node in maintenance": (
        {"max_nodes": 2},
        [node("w1", "a"), node("w2", "a"), node("w3", "a", BEGUN)],
        ["w3,w1", "w2"],
    ),
    "not beside a node in maintenance, which continues outside of the window": (
        {"max_nodes": 2, "window": {"start": "22:00", "end": "04:00"}},
        [node("w1", "a"), node("w2", "a"), node("w3", "a", BEGUN), node("w4", "b")],
        ["w3", "w1,w2", "w4"],
    ),
    "nothing to drain": ({"state": "drained"}, [], []),
    "not what the change has serviced": (
        {"change_id": "CHG1"},
        [node("w1", "a", change_id="CHG1"), node("w2", "a", change_id="CHG0")],
        ["w2"],
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_nodes_are_serviced_in_this_order(case: str) -> None:
    options, nodes, expected = CASES[case]
    defaults = {"state": "serviced", "change_id": "", "max_nodes": 1, "canary": 0, "topology": {}}
    plan = maintenance_plan(nodes, {**defaults, **options})
    assert [",".join(group) for group in plan.groups] == expected


def test_node_that_was_uncordoned_is_in_maintenance_and_not_begun() -> None:
    gone = {**node("w1", "a", BEGUN), "cordoned": False}
    options = {"state": "serviced", "change_id": "", "max_nodes": 1, "canary": 0}
    plan = maintenance_plan([gone, node("w2", "a", BEGUN)], options)
    assert plan.uncordoned == ["w1"]
    assert [x["name"] for x in plan.begun] == ["w2"]


def test_values_are_texts() -> None:
    assert topology_values({"topology": {"zone": 1}}) == ["1"]
    assert topology_values({"topology": {}}) == []


def test_states_of_nodes() -> None:
    nodes: list[dict[str, t.Any]] = [
        {"name": "w1", "since": BEGUN, "state": "drained"},
        {"name": "w2", "since": None, "state": "in_service"},
    ]
    assert drained_states(nodes) == {"w1": "drained", "w2": "not_begun"}
    ended = [{"name": "w1", "state": "in_service"}, {"name": "w2", "state": "cordoned"}]
    assert end_states(ended, "serviced") == {"w1": "serviced", "w2": "cordoned"}
    assert end_states(ended, "in_service") == {"w1": "in_service", "w2": "cordoned"}
