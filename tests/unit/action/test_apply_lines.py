# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The moves that the role placement_apply prints with its forecast."""

from __future__ import annotations

import typing as t
from pathlib import Path

import pytest

from tests.unit.action.plays import RunPlaybook, played

ROLE = Path(__file__).resolve().parents[3] / "roles" / "placement_apply"


def move(name: str, method: str) -> dict[str, t.Any]:
    workload = {"kind": "VirtualMachine", "namespace": "shop", "name": name, "instance": name}
    return {**workload, "method": method, "from_node": "w1", "to_node": "w2"}


@pytest.mark.parametrize(
    ("options", "reasons"),
    [
        ({}, ["", "(skipped: restart is not in placement_apply_allow)", ""]),
        (
            {"max_moves": 1},
            [
                "",
                "(skipped: restart is not in placement_apply_allow)",
                "(deferred: placement_apply_max_moves is 1)",
            ],
        ),
        ({"rollout": False}, ["(skipped: placement_apply_rollout is false)"] * 3),
    ],
    ids=["allow", "max_moves", "rollout"],
)
def test_moves_that_the_role_does_not_make_are_marked(
    tmp_path: Path, warm_playbook: RunPlaybook, options: dict[str, t.Any], reasons: list[str]
) -> None:
    facts = {
        "placement_apply_forecast_result": {
            "forecast": "guaranteed",
            "moves": [move("db", "migrate"), move("app", "restart"), move("web", "migrate")],
            "reasons": [],
            "pending": [],
            "optional_moves": 1,
            "preferences_not_met": [
                {
                    **move("db", "migrate"),
                    "node": "w1",
                    "reason": "not met: X",
                    "better_nodes": ["w2"],
                }
            ],
        },
        "__placement_apply_options": {
            "scope": "all",
            "allow": ["migrate"],
            "max_moves": 0,
            "rollout": True,
            "fail_on_forecast": [],
            **options,
        },
    }
    done = played(
        tmp_path,
        [
            {"ansible.builtin.include_vars": str(ROLE / "vars" / "main.yml")},
            {"ansible.builtin.set_fact": facts},
            {"ansible.builtin.debug": {"msg": "{{ __placement_apply_forecast_lines }}"}},
        ],
        "-v",
        warm_playbook,
    )
    lines = [line.strip(' ",') for line in done.stdout.splitlines()]
    expected = [
        f"would {method} VirtualMachine shop/{name} from w1 to w2 {reason}".strip()
        for name, method, reason in zip(
            ("db", "app", "web"), ("migrate", "restart", "migrate"), reasons, strict=True
        )
    ]
    assert [line for line in lines if line.startswith("would ")] == expected, done.stdout[-3000:]
    assert lines.count(
        "Forecast: guaranteed. Moves: 3, of them only for placement_apply_scope all: 1."
    )
    missed = "VirtualMachine shop/db on w1: preference not met: X; placement_apply_scope is all"
    assert f"{missed}, so this play does not move it" in lines
