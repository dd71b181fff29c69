# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""One shape for the moves of every result."""

from __future__ import annotations

from ansible_collections.virt.placement.plugins.module_utils.model.objects import Ref
from ansible_collections.virt.placement.plugins.module_utils.model.obstacle import Obstacle
from ansible_collections.virt.placement.plugins.module_utils.model.plan import (
    Method,
    Move,
    SkippedInstance,
    move_as_json,
    skipped_as_json,
)

DB = Ref("VirtualMachine", "shop", "db")
VMI = Ref("VirtualMachineInstance", "shop", "db-0")
KEYS = [
    *("kind", "namespace", "name", "instance", "uid"),
    *("method", "from_node", "to_node", "reason", "reason_code"),
]


def test_planned_move_is_flat_and_names_the_target_it_counts_on() -> None:
    move = Move(VMI, "u", DB, Method.MIGRATE, "w1", ("w2", "w3"), "two in zone a", ("v",))
    record = move_as_json(move)
    assert [record[key] for key in KEYS] == [
        *("VirtualMachine", "shop", "db", "db-0", "u", "migrate", "w1", "w2", "two in zone a", "")
    ]
    assert (record["targets"], record["after"]) == (["w2", "w3"], ["v"])


def test_skipped_instance_has_the_keys_of_a_move() -> None:
    obstacle = Obstacle("not_movable", "it cannot")
    record = skipped_as_json(SkippedInstance(VMI, "u", DB, "w1", obstacle))
    assert list(record) == KEYS
    assert (record["reason"], record["reason_code"]) == ("it cannot", "not_movable")
    assert (record["method"], record["from_node"], record["to_node"]) == (None, "w1", None)


def test_reason_of_a_skipped_instance_has_its_code() -> None:
    reason = Obstacle("no_node", "the scheduler finds no node")
    record = skipped_as_json(SkippedInstance(VMI, "u", DB, "w1", reason))
    assert (record["reason"], record["reason_code"]) == ("the scheduler finds no node", "no_node")


def test_skipped_instance_without_a_workload_is_named_itself() -> None:
    record = skipped_as_json(
        SkippedInstance(VMI, "u", None, "w1", Obstacle("no_node", "it cannot"))
    )
    assert (record["kind"], record["name"]) == ("VirtualMachineInstance", "db-0")
