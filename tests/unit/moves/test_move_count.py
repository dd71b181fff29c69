# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The number of moves of a run, and the lines when the plan changes."""

from __future__ import annotations

from dataclasses import replace

from ansible_collections.virt.placement.plugins.module_utils.model.objects import Ref
from ansible_collections.virt.placement.plugins.module_utils.model.obstacle import Obstacle
from ansible_collections.virt.placement.plugins.module_utils.model.plan import (
    Method,
    Move,
    Plan,
    SkippedInstance,
)
from ansible_collections.virt.placement.plugins.module_utils.moves.journal import RunJournal
from ansible_collections.virt.placement.plugins.module_utils.moves.move import MoveRecord, Outcome
from ansible_collections.virt.placement.plugins.module_utils.moves.state import NAMED, MoveCount

EMPTY = RunJournal("r1", "x")


def move(name: str) -> Move:
    vmi = Ref("VirtualMachineInstance", "shop", name)
    machine = Ref("VirtualMachine", "shop", name)
    return Move(vmi, name, machine, Method.MIGRATE, "w1", ("w2",), "two in zone a")


def record(of: Move) -> MoveRecord:
    return MoveRecord(of.instance, of.uid, of.workload, of.method, of.source, 1, 0.0)


def begun(count: MoveCount, *moves: Move) -> MoveCount:
    """The count after these moves began, which were counted."""
    for number in range(len(moves)):
        journal = replace(EMPTY, records=tuple(map(record, moves[: number + 1])))
        count, lines = count.begun(moves[number], journal)
        assert lines == []
    return count


A, B, C = move("a"), move("b"), move("c")
THERE = {"a", "b", "c"}


def test_the_first_plan_is_reported_once() -> None:
    count, lines = MoveCount().replanned(EMPTY, Plan((A, B)), THERE)
    assert (count.total, lines) == (2, [])


def test_move_that_is_planned_and_dropped_during_other_moves_is_not_reported() -> None:
    """Two are in flight; a third is planned behind them, and needless once they are over."""
    count, _lines = MoveCount().replanned(EMPTY, Plan((A, B)), THERE)
    flying = replace(EMPTY, records=(record(A), record(B)))
    count = begun(count, A, B)

    count, lines = count.replanned(flying, Plan((C,)), THERE)
    assert (count.total, lines) == (2, [])

    over = EMPTY
    for each in (A, B):
        over = over.end(record(each), 1.0, outcome=Outcome.MOVED)
    count, lines = count.replanned(over, Plan(), THERE)
    assert (count.total, lines) == (2, [])
    assert count.replanned(over, Plan(), THERE) == (count, [])


def test_move_that_was_not_planned_is_reported_once_with_its_cause_when_it_begins() -> None:
    count, _lines = MoveCount().replanned(EMPTY, Plan((A, B)), THERE)
    count = begun(count, A, B)
    flying = replace(EMPTY, records=(record(A), record(B)))
    count, lines = count.replanned(flying, Plan((C,)), THERE)
    assert lines == []
    count, lines = count.begun(C, replace(EMPTY, records=tuple(map(record, (A, B, C)))))
    assert (count.total, lines) == (
        3,
        [
            "plan changed from 2 to 3 moves: VirtualMachine shop/c on w1 has to move too (two in zone a)"
        ],
    )


def test_change_of_the_plan_between_moves_is_one_line_with_its_causes() -> None:
    count, _lines = MoveCount().replanned(EMPTY, Plan((A, B)), THERE)
    changed, lines = count.replanned(EMPTY, Plan((A, C)), THERE)
    assert (changed.total, lines) == (
        2,
        [
            "plan changed, still 2 moves: VirtualMachine shop/b needs no move any more;"
            " VirtualMachine shop/c on w1 has to move too (two in zone a)"
        ],
    )
    assert changed.replanned(EMPTY, Plan((A, C)), THERE)[1] == []


def test_a_move_that_was_journaled_and_not_sent_counts_once() -> None:
    """Such a move is planned again."""
    flying = replace(EMPTY, records=(record(A),))
    count, lines = MoveCount(2, {"b": "b"}).replanned(flying, Plan((A, B)), THERE)
    assert (count.total, lines) == (2, [])


def test_a_move_that_was_put_off_and_is_needless_then_is_named() -> None:
    count, _lines = MoveCount().replanned(EMPTY, Plan((A,)), THERE)
    count = begun(count, A).deferred(record(A))
    _count, lines = count.replanned(EMPTY, Plan(), THERE)
    assert lines == ["plan changed from 1 to 0 moves: VirtualMachine shop/a needs no move any more"]


def test_moves_left_and_moves_no_longer_needed_are_reported() -> None:
    count, _lines = MoveCount().replanned(EMPTY, Plan((A, B, C)), THERE)
    left = (
        SkippedInstance(A.instance, "a", A.workload, "w1", Obstacle("no_node", "no node is open")),
        SkippedInstance(
            B.instance,
            "b",
            B.workload,
            "w1",
            Obstacle("in_progress", "another migration of it is in flight"),
            temporary=True,
        ),
    )
    _count, lines = count.replanned(EMPTY, Plan((), left), {"a", "b"})
    assert lines == [
        "plan changed from 3 to 0 moves: VirtualMachine shop/a on w1 is skipped: no node is open;"
        " VirtualMachine shop/b is not moved for now: another migration of it is in flight;"
        " VirtualMachine shop/c does not exist any more"
    ]


def test_only_some_names_are_kept_of_thousands() -> None:
    many = tuple(move(f"m{number}") for number in range(NAMED + 7))
    count, _lines = MoveCount().replanned(EMPTY, Plan(many), {each.uid for each in many})
    assert (count.total, len(count.to_come)) == (NAMED + 7, NAMED)
