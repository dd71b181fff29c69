# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What is sent of the moves that were journalled and of which nothing was sent: only what may begin
now, whoever journalled it."""

from __future__ import annotations

import typing as t
from dataclasses import replace

import pytest

from ansible_collections.virt.placement.plugins.module_utils.cluster import lease
from ansible_collections.virt.placement.plugins.module_utils.cluster.lease import Held
from ansible_collections.virt.placement.plugins.module_utils.model.objects import Ref
from ansible_collections.virt.placement.plugins.module_utils.model.plan import Method, Move, Plan
from ansible_collections.virt.placement.plugins.module_utils.model.snapshot import Snapshot
from ansible_collections.virt.placement.plugins.module_utils.movement.entry import Entry, Phase
from ansible_collections.virt.placement.plugins.module_utils.planning.candidates import Wanted
from ansible_collections.virt.placement.plugins.module_utils.runs import progress
from ansible_collections.virt.placement.plugins.module_utils.runs.journal import Journal
from ansible_collections.virt.placement.plugins.module_utils.runs.observe import Observer
from ansible_collections.virt.placement.plugins.module_utils.runs.turn import Turns, View
from tests.unit.planning.scenes import cluster, machine
from tests.unit.runs.test_pace import parameters
from tests.unit.verdicts.cluster import anti_affinity, apart

NO_API = t.cast(t.Any, None)
PLACES = progress.Places({"w1": {"zone": "a"}, "w2": {"zone": "b"}}, "zone")


def entry(name: str, method: Method = Method.RECREATE, source: str = "w1") -> Entry:
    pod = Ref("Pod", "shop", name)
    return Entry(pod, name, Ref("Deployment", "shop", "web"), method, source, 1, 0.0)


def chosen(journal: Journal, clock: float = 100.0, **options: t.Any) -> tuple[list[str], Turns]:
    asked = parameters(allow=["recreate"], **options)
    turns = Turns(NO_API, asked, Held("r1", 1), journal, clock, [])
    view = View.of(Snapshot(), Wanted(), asked)
    observer = Observer(NO_API, view.snapshot, journal)
    return turns._choose(Plan(), view, observer, PLACES), turns


def test_what_may_still_begin_is_sent_again() -> None:
    journal = Journal("r1", "x", entries=(entry("a"), entry("b")))
    due, turns = chosen(journal)
    assert due == ["a", "b"]
    assert turns.journal.entries == journal.entries
    assert turns.lines == []


@pytest.mark.parametrize(
    ("journal", "options", "told"),
    [
        pytest.param({"failed": 1}, {}, "other moves failed", id="failed"),
        pytest.param({"barrier": 130.0}, {}, "soaking after the canary, 30 s left", id="soak"),
        pytest.param(
            {"domain": "b", "settled_at": 95.0},
            {"soak": 30},
            "soaking after b, 25 s left",
            id="between domains",
        ),
        pytest.param({"moved": 2}, {"max_moves": 2}, "max_moves (2) is reached", id="max_moves"),
    ],
)
def test_what_may_not_begin_now_is_forgotten(
    journal: dict[str, t.Any], options: dict[str, t.Any], told: str
) -> None:
    due, turns = chosen(Journal("r1", "x", entries=(entry("a"),), **journal), **options)
    assert due == []
    assert turns.journal.entries == ()
    assert turns.lines[0] == f"Deployment shop/web (a) is not moved for now: {told}"


def test_who_takes_over_moves_as_many_as_his_canary() -> None:
    entries = tuple(entry(name) for name in ("a", "b", "c"))
    due, turns = chosen(Journal("r1", "x", entries=entries), canary=1)
    assert due == ["c"]
    assert [found.uid for found in turns.journal.entries] == ["c"]


def test_what_was_sent_is_seen_to_its_end_whatever_holds() -> None:
    begun = replace(entry("a"), phase=Phase.BEGUN)
    due, turns = chosen(Journal("r1", "x", entries=(begun,), failed=1))
    assert due == []
    assert turns.journal.entries == (begun,)


def test_a_restart_that_may_be_queued_is_looked_for_before_it_is_forgotten() -> None:
    restart = entry("a", Method.RESTART)
    journal = Journal("r1", "x", entries=(restart,), failed=1)
    due, turns = chosen(journal, clock=5.0)
    assert due == []
    assert turns.journal.entries == (restart,)
    assert "may have been told to restart" in turns.waiting
    due, turns = chosen(journal, clock=lease.DURATION + 1.0)
    assert (due, turns.journal.entries) == ([], ())


def two_groups() -> Snapshot:
    """In zone a, each group on a node of its own: three machines `a` that are to be one a zone, and
    two machines `b` likewise."""
    made = cluster("aabbcc")
    for name in ("a0", "a1", "a2", "b0", "b1"):
        group = name[0]
        node = "n1" if group == "a" else "n2"
        machine(made, name, node, anti_affinity(apart(group=group)), group=group)
    return made.snapshot()


def begun_of(snapshot: Snapshot, journal: Journal, plan: Plan | None = None) -> list[str]:
    """The names of the machines whose moves begin in this turn, of this plan or of a new one."""
    asked = parameters()
    turns = Turns(NO_API, asked, Held("r1", 1), journal, 100.0, [])
    view = View.of(snapshot, Wanted(frozenset({"shop"})), asked)
    plan = plan or view.plan(asked, journal)
    due = turns._choose(plan, view, Observer(NO_API, snapshot, journal), PLACES)
    return [view.by_uid[uid].instance.ref.name for uid in due]


def moves_of(snapshot: Snapshot) -> tuple[Move, ...]:
    return View.of(snapshot, Wanted(frozenset({"shop"})), parameters()).plan(parameters()).moves


def in_flight(move: Move) -> Entry:
    began = Entry(move.instance, move.uid, move.workload, move.method, move.source, 1, 90.0)
    return replace(began, phase=Phase.BEGUN)


def test_of_each_group_one_begins() -> None:
    snapshot = two_groups()
    assert sorted(move.instance.name[0] for move in moves_of(snapshot)) == ["a", "a", "b"]
    assert sorted(name[0] for name in begun_of(snapshot, Journal("r1", "x"))) == ["a", "b"]


def test_while_one_of_a_group_is_in_flight_only_others_begin() -> None:
    snapshot = two_groups()
    first = next(move for move in moves_of(snapshot) if move.instance.name[0] == "a")
    journal = Journal("r1", "x", entries=(in_flight(first),))
    assert [name[0] for name in begun_of(snapshot, journal)] == ["b"]


def test_a_move_waits_for_the_one_before_it_that_cannot_begin_yet() -> None:
    """No rule links the two: the second is to take the place that the first leaves."""
    snapshot = two_groups()
    first = next(move for move in moves_of(snapshot) if move.instance.name[0] == "a")
    second = next(move for move in moves_of(snapshot) if move.instance.name[0] == "b")
    held = replace(
        snapshot,
        machine_instances=tuple(
            replace(vmi, evacuation_node_name="n1") if vmi.uid == first.uid else vmi
            for vmi in snapshot.machine_instances
        ),
    )
    journal = Journal("r1", "x")
    assert begun_of(held, journal, Plan((first, second))) == [second.instance.name]
    behind = replace(second, after=(first.uid,))
    assert begun_of(held, journal, Plan((first, behind))) == []
