# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a run says, whom it is about, what it clears, and whether anybody listens."""

from __future__ import annotations

import os
import typing as t

import pytest

from ansible_collections.virt.placement.plugins.module_utils.model.objects import (
    Ref,
)
from ansible_collections.virt.placement.plugins.module_utils.model.obstacle import Obstacle
from ansible_collections.virt.placement.plugins.module_utils.model.plan import (
    Method,
    Move,
    Plan,
    SkippedInstance,
)
from ansible_collections.virt.placement.plugins.module_utils.moves import report as progress
from ansible_collections.virt.placement.plugins.module_utils.moves.move import (
    MoveRecord,
    MoveResult,
    Outcome,
    Phase,
)
from ansible_collections.virt.placement.plugins.module_utils.moves.watch import output_is_read

DB = Ref("VirtualMachine", "shop", "db")
VMI = Ref("VirtualMachineInstance", "shop", "db")
PLACES = progress.NodeDescriptions({"w1": {"zone": "a"}, "w2": {"zone": "b"}, "w3": {}}, "zone")


def test_plan_lines_have_skipped_instances() -> None:
    move = Move(VMI, "u", DB, Method.MIGRATE, "w1", ("w2",), "")
    left = SkippedInstance(VMI, "u", DB, "w1", Obstacle("no_node", "it cannot"))
    assert progress.plan_lines(Plan((move,)), "run r1") == ["run r1: 1 move planned"]
    assert progress.plan_lines(Plan((move,))) == ["1 move planned"]
    skipped = "VirtualMachine shop/db on w1 is skipped: it cannot"
    assert progress.plan_lines(Plan((), (left,)), "run r1") == [
        "run r1: 0 moves planned, 1 skipped",
        skipped,
    ]


def test_instance_without_a_node_is_not_called_skipped_while_moves_may_free_one() -> None:
    move = Move(VMI, "u", DB, Method.MIGRATE, "w1", ("w2",), "")
    web = Ref("VirtualMachine", "shop", "web")
    full = "0/3 nodes are available: 3 Insufficient memory"
    left = SkippedInstance(web, "v", web, "w1", Obstacle("no_node", full), no_node=True)
    assert progress.plan_lines(Plan((move,), (left,)), "run r1") == [
        "run r1: 1 move planned, 1 without a node to move to now",
        f"VirtualMachine shop/web (on w1) has no node to move to now; tried again after each move: {full}",
    ]
    assert progress.plan_lines(Plan((), (left,)), "run r1")[1] == (
        f"VirtualMachine shop/web on w1 is skipped: {full}"
    )


def test_check_mode_reports_each_move() -> None:
    move = Move(VMI, "u", DB, Method.MIGRATE, "w1", ("w2",), "two in zone a")
    assert progress.planned_lines([move, move], PLACES) == [
        f"[{number}/2] would migrate VirtualMachine shop/db from w1 (a); available: w2 (b); reason: two in zone a"
        for number in (1, 2)
    ]


def test_begun_move_is_reported() -> None:
    ref = Ref("VirtualMachineInstanceReplicaSet", "shop", "web")
    one = Ref("VirtualMachineInstance", "shop", "webx7f2")
    targets = ("w2", "w3", "w1", "w9")
    move = Move(one, "u", ref, Method.RECREATE, "w1", targets, "two in zone a")
    assert progress.began(2, 5, move, PLACES) == (
        "[2/5] recreating VirtualMachineInstanceReplicaSet shop/web (webx7f2) from w1 (a);"
        " available: w2 (b), w3, w1 (a) and 1 more; reason: two in zone a"
    )


@pytest.mark.parametrize(
    ("end", "line"),
    [
        (
            MoveResult(Outcome.MOVED, "w2"),
            "1 of 3 done: VirtualMachine shop/db migrated: w1 (a) -> w2 (b) in 4 s",
        ),
        (
            MoveResult(Outcome.FAILED, reason=Obstacle("migration_failed", "guest too busy")),
            "1 of 3 done: VirtualMachine shop/db FAILED to migrate: guest too busy (4 s)",
        ),
        (
            MoveResult(Outcome.GONE, reason=Obstacle("gone", "the instance ended before its move")),
            "1 of 3 done: VirtualMachine shop/db: the instance ended before its move",
        ),
    ],
)
def test_ended_move_is_reported(end: MoveResult, line: str) -> None:
    record = MoveRecord(VMI, "u", DB, Method.MIGRATE, "w1", 1, 0.0)
    assert progress.ended(1, 3, record, end, 4.2, PLACES) == line


def test_failed_moves_are_named_with_namespace_and_reason() -> None:
    web = Ref("VirtualMachineInstanceReplicaSet", "shop", "web")
    one = Ref("VirtualMachineInstance", "shop", "web-x1")
    failed = MoveResult(Outcome.FAILED, reason=Obstacle("migration_failed", "guest too busy"))
    moves = [
        progress.ended_move(MoveRecord(VMI, "u", DB, Method.MIGRATE, "w1", 1, 0.0), failed, 1.0),
        progress.ended_move(
            MoveRecord(VMI, "v", DB, Method.MIGRATE, "w1", 1, 0.0),
            MoveResult(Outcome.MOVED, "w2"),
            1.0,
        ),
        progress.ended_move(MoveRecord(one, "w", web, Method.RECREATE, "w1", 1, 0.0), failed, 1.0),
    ]
    assert progress.failure((), 2, 1, progress.failures(moves)) == (
        "2 moves failed, and failures_allowed is 1: migrate of VirtualMachine shop/db: guest too"
        " busy; recreate of VirtualMachineInstanceReplicaSet shop/web (web-x1): guest too busy. No"
        " other move was started. Correct the causes and run again"
    )


def test_a_pipe_that_its_reader_closed_gets_no_more_lines() -> None:
    reading, writing = os.pipe()
    try:
        assert output_is_read(writing)
        os.close(reading)
        assert not output_is_read(writing)
    finally:
        os.close(writing)
    assert not output_is_read(writing)


def test_a_file_always_listens(tmp_path: t.Any) -> None:
    with open(tmp_path / "out", "w") as file:
        assert output_is_read(file.fileno())


@pytest.mark.parametrize(
    ("phase", "note", "reason"),
    [
        (Phase.INTENDED, "", "may have begun, and the next task continues it"),
        (
            Phase.BEGUN,
            "the migration is Running",
            "goes on without this task, and the next one continues it: the migration is Running",
        ),
    ],
)
def test_move_that_a_run_leaves_is_named_without_a_word_of_the_journal(
    phase: Phase, note: str, reason: str
) -> None:
    """A right was taken away while the run went on: `about to start: intended` was the reason."""
    record = MoveRecord(VMI, "u", DB, Method.MIGRATE, "w1", 1, 0.0, phase, note)
    assert progress.move_in_flight(record)["reason"] == reason
    assert phase.value not in progress.undone([record], Plan(())).partition("(")[2]
