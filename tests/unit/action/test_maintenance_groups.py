# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The order in which the role placement_maintenance services nodes."""

from __future__ import annotations

import typing as t
from pathlib import Path

import pytest

from tests.unit.action.plays import Task, played

ROLE = Path(__file__).resolve().parents[3] / "roles" / "placement_maintenance"
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
def test_nodes_are_serviced_in_this_order(tmp_path: Path, case: str) -> None:
    options, nodes, expected = CASES[case]
    defaults = {"state": "serviced", "change_id": "", "max_nodes": 1, "canary": 0, "topology": {}}
    tasks: list[Task] = [
        {"ansible.builtin.include_vars": str(ROLE / "vars" / "main.yml")},
        {
            "ansible.builtin.set_fact": {
                "placement_maintenance_nodes_result": {"nodes": nodes},
                "__placement_maintenance_options": {**defaults, **options},
            }
        },
        {"ansible.builtin.debug": {"msg": "<{{ __placement_maintenance_groups | join(' ') }}>"}},
    ]
    done = played(tmp_path, tasks, "-v")
    assert f'"<{" ".join(expected)}>"' in done.stdout, done.stdout[-3000:]
