# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a run says, whom it is about, what it clears, and whether anybody listens."""

from __future__ import annotations

import os
import typing as t
from dataclasses import replace

import pytest

from ansible_collections.virt.placement.plugins.module_utils.model.finding import Refused
from ansible_collections.virt.placement.plugins.module_utils.model.names import JOURNAL, RULES
from ansible_collections.virt.placement.plugins.module_utils.model.objects import (
    Namespace,
    Pod,
    Ref,
)
from ansible_collections.virt.placement.plugins.module_utils.model.plan import (
    Left,
    Method,
    Move,
    Plan,
)
from ansible_collections.virt.placement.plugins.module_utils.model.platform import Platform
from ansible_collections.virt.placement.plugins.module_utils.model.snapshot import (
    Instance,
    Snapshot,
    Unreadable,
    Workload,
)
from ansible_collections.virt.placement.plugins.module_utils.movement.entry import (
    Ended,
    Entry,
    Outcome,
)
from ansible_collections.virt.placement.plugins.module_utils.planning.candidates import Candidate
from ansible_collections.virt.placement.plugins.module_utils.planning.effects import Effect
from ansible_collections.virt.placement.plugins.module_utils.runs import progress, results
from ansible_collections.virt.placement.plugins.module_utils.runs.clearing import (
    cleared_again,
    clearing,
)
from ansible_collections.virt.placement.plugins.module_utils.runs.listening import (
    somebody_listens,
)
from ansible_collections.virt.placement.plugins.module_utils.runs.scope import wanted
from ansible_collections.virt.placement.plugins.module_utils.runs.state import (
    State,
    StepResult,
)
from tests.unit.runs.test_pace import parameters

DB = Ref("VirtualMachine", "shop", "db")
VMI = Ref("VirtualMachineInstance", "shop", "db")
PLACES = progress.Places({"w1": {"zone": "a"}, "w2": {"zone": "b"}, "w3": {}}, "zone")


def test_a_plan_is_told_with_what_is_left() -> None:
    move = Move(VMI, "u", DB, Method.MIGRATE, "w1", ("w2",), "")
    left = Left(VMI, "u", DB, "w1", "it cannot")
    assert progress.planned("r1", Plan((move,))) == "run r1: 1 move planned"
    assert progress.planned("r1", Plan((), (left,))) == "run r1: 0 moves planned, 1 left behind"
    assert progress.left_behind(left) == "left: VirtualMachine shop/db on w1: it cannot"


def test_check_mode_tells_each_move() -> None:
    move = Move(VMI, "u", DB, Method.MIGRATE, "w1", ("w2",), "two in zone a")
    assert progress.foretold([move, move], PLACES) == [
        f"[{number}/2] would migrate VirtualMachine shop/db from w1 (a), open: w2 (b); two in zone a"
        for number in (1, 2)
    ]


def test_a_move_is_told_when_it_begins() -> None:
    ref = Ref("VirtualMachineInstanceReplicaSet", "shop", "web")
    one = Ref("VirtualMachineInstance", "shop", "webx7f2")
    targets = ("w2", "w3", "w1", "w9")
    move = Move(one, "u", ref, Method.RECREATE, "w1", targets, "two in zone a")
    assert progress.began(2, 5, move, PLACES) == (
        "[2/5] recreating VirtualMachineInstanceReplicaSet shop/web (webx7f2) from w1 (a), open:"
        " w2 (b), w3, w1 (a) and 1 more; two in zone a"
    )


def test_ways_back_that_are_forgotten_are_named() -> None:
    assert progress.forgotten([], check=False) == []
    assert progress.forgotten(["Deployment lab/cache"], check=False) == [
        "way back forgotten, what is declared is in effect: Deployment lab/cache"
    ]
    many = [f"Deployment lab/d{n}" for n in range(5)]
    assert progress.forgotten(many, check=True) == [
        "5 ways back would be forgotten, what is declared is in effect: Deployment lab/d0,"
        " Deployment lab/d1, Deployment lab/d2 and 2 more"
    ]


def test_who_stands_well_is_told_in_one_line_for_each_need() -> None:
    assert progress.standing([]) == []
    assert progress.standing([("VirtualMachine shop/db", "migration")]) == [
        "VirtualMachine shop/db stands well; takes effect at its next migration"
    ]
    many = [(f"VirtualMachine shop/v{n}", "restart") for n in range(5)]
    assert progress.standing([*many, ("VirtualMachine shop/db", "migration")])[1] == (
        "5 instances stand well; takes effect at the next restart of each: VirtualMachine shop/v0,"
        " VirtualMachine shop/v1, VirtualMachine shop/v2 and 2 more"
    )


@pytest.mark.parametrize(
    ("end", "told"),
    [
        (
            Ended(Outcome.MOVED, "w2"),
            "[1/3] VirtualMachine shop/db migrated: w1 (a) -> w2 (b) in 4 s",
        ),
        (
            Ended(Outcome.FAILED, reason="guest too busy"),
            "[1/3] VirtualMachine shop/db FAILED to migrate: guest too busy (4 s)",
        ),
        (
            Ended(Outcome.GONE, reason="the instance ended before its move"),
            "[1/3] VirtualMachine shop/db: the instance ended before its move",
        ),
    ],
)
def test_a_move_is_told_when_it_ends(end: Ended, told: str) -> None:
    entry = Entry(VMI, "u", DB, Method.MIGRATE, "w1", 1, 0.0)
    assert progress.ended(1, 3, entry, end, 4.2, PLACES) == told


def workload(name: str, journal: str | None = "before", **labels: str) -> Workload:
    annotations = {JOURNAL: journal} if journal else {}
    manifest = {
        "metadata": {"name": name, "annotations": annotations},
        "spec": {"template": {"metadata": {"labels": labels}}},
    }
    return Workload(Ref("VirtualMachine", "shop", name), f"u-{name}", manifest)


def candidate(found: Workload, *, outdated: bool = False, node: str = "w1") -> Candidate:
    pod = Pod("shop", found.ref.name, found.uid, node_name=node)
    instance = Instance(VMI, found.uid, found.ref, pod)
    return Candidate(instance, found, pod, pod, None, Effect(()), outdated)


def test_a_journal_goes_when_every_instance_runs_by_what_is_declared() -> None:
    effective, mixed, waiting = workload("a"), workload("b"), workload("c")
    writes = clearing(
        [
            candidate(effective),
            candidate(effective),
            candidate(mixed),
            candidate(mixed, outdated=True),
            candidate(waiting, node=""),
            candidate(workload("d", journal=None)),
        ]
    )
    assert [write.target.name for write in writes] == ["a"]
    *tests, removal = writes[0].patch()
    assert {step["op"] for step in tests} == {"test"}
    assert removal == {"op": "remove", "path": "/metadata/annotations/placement.virt~1journal"}


def test_a_journal_that_was_written_anew_stays() -> None:
    (write,) = clearing([candidate(workload("a"))])
    assert cleared_again(write, {"metadata": {"annotations": {JOURNAL: "before"}}}) is write
    assert cleared_again(write, {"metadata": {"annotations": {JOURNAL: "newer"}}}) is None
    assert cleared_again(write, {"metadata": {}}) is None


def test_a_journal_stays_where_rules_or_terms_were_written_since() -> None:
    """A second write before a roll-out keeps the text: it says what was effective before both."""
    there = workload("a")
    spec = {"nodeSelector": {"disk": "ssd"}}
    there.manifest["metadata"]["annotations"][RULES] = "first"
    there.manifest["spec"]["template"]["spec"] = spec
    (write,) = clearing([candidate(there)])

    def now(rules: str, **terms: t.Any) -> dict[str, t.Any]:
        return {
            "metadata": {"annotations": {JOURNAL: "before", RULES: rules}},
            "spec": {"template": {"spec": terms}},
        }

    assert cleared_again(write, now("first", **spec)) is write
    assert cleared_again(write, now("second", **spec)) is None
    assert cleared_again(write, now("first", nodeSelector={"disk": "hdd"})) is None
    assert cleared_again(write, now("first", **spec, affinity={"nodeAffinity": {}})) is None
    tested = {step["path"]: step["value"] for step in write.patch() if step["op"] == "test"}
    assert tested["/metadata/annotations/placement.virt~1rules"] == "first"
    assert tested["/spec/template/spec/nodeSelector"] == {"disk": "ssd"}
    assert tested["/spec/template/spec/affinity"] is None


SNAPSHOT = Snapshot(
    namespaces=(Namespace("shop"),),
    workloads=(workload("db", tier="data"), workload("web", tier="front")),
    platform=Platform(kubevirt="1.8.4"),
)


def test_workloads_by_name_and_by_labels() -> None:
    named = parameters(namespaces=["shop"], workloads=[{"name": "db"}])
    assert wanted(named, SNAPSHOT).workloads == {DB}
    chosen = parameters(workloads=[{"labels": {"tier": "front"}}])
    assert {ref.name for ref in wanted(chosen, SNAPSHOT).workloads} == {"web"}


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"namespaces": ["shp"]}, "there is no namespace 'shp'; did you mean 'shop'?"),
        ({"workloads": [{"name": "bd"}]}, "there is no VirtualMachine 'bd' in namespace 'shop'"),
    ],
)
def test_what_does_not_exist_is_refused(options: dict[str, t.Any], told: str) -> None:
    with pytest.raises(Refused) as raised:
        wanted(parameters(**options), SNAPSHOT)
    assert told in str(raised.value)


def test_who_cannot_see_all_moves_nothing() -> None:
    gap = Unreadable("pods", "", "list", "grant it")
    blind = Snapshot(namespaces=(Namespace("shop"),), unreadable=(gap,))
    with pytest.raises(Refused) as raised:
        wanted(parameters(), blind)
    assert "cannot list pods in all namespaces: grant it" in str(raised.value)


@pytest.mark.parametrize("namespace", ["", "shop"])
def test_what_could_not_be_read_is_not_said_to_be_missing(namespace: str) -> None:
    gap = Unreadable("virtualmachines", namespace, "list", "grant it")
    blind = Snapshot(namespaces=(Namespace("shop"),), unreadable=(gap,), platform=SNAPSHOT.platform)
    with pytest.raises(Refused) as raised:
        wanted(parameters(workloads=[{"name": "db"}, {"kind": "Deployment", "name": "web"}]), blind)
    missing = [str(fault) for fault in raised.value.faults if "there is no" in str(fault)]
    assert missing == ["workloads[1]: there is no Deployment 'web' in namespace 'shop'"]


def test_an_empty_list_is_nothing() -> None:
    instance = Instance(VMI, "u", DB, None)
    assert instance not in wanted(parameters(namespaces=[]), SNAPSHOT)
    assert instance not in wanted(parameters(workloads=[]), SNAPSHOT)


def test_state_travels_as_json() -> None:
    state = State("r1", 3, elapsed=12.5, waiting="for somebody", total=3, to_come={"u": "db"})
    assert State.read(state.as_json()) == state
    assert State.read({"elapsed": 3, "unknown": 1}) == State(elapsed=3.0)
    assert State.read(None) == State()


def test_only_a_step_that_is_followed_by_another_hands_its_state_on() -> None:
    assert StepResult(finished=False, state=State("r1", 3)).as_json()["run"]["term"] == 3
    assert "run" not in StepResult(finished=True, state=State("r1", 3)).as_json()


@pytest.mark.parametrize(
    ("methods", "kind", "need"),
    [
        ((Method.MIGRATE, Method.RESTART), "VirtualMachine", "migration"),
        ((Method.RESTART,), "VirtualMachine", "restart"),
        ((), "VirtualMachine", "restart"),
        ((Method.RECREATE,), "VirtualMachineInstanceReplicaSet", "recreation"),
    ],
)
def test_what_makes_terms_take_effect(methods: tuple[Method, ...], kind: str, need: str) -> None:
    made = workload("db")
    made = replace(made, ref=replace(made.ref, kind=kind))
    found = replace(candidate(made, outdated=True), effect=Effect(methods))
    assert results.well_placed(found)["reason"] == f"stands well; takes effect at its next {need}"
    assert results.not_in_effect([found], Plan()) == (found,)
    assert results.not_in_effect([replace(found, outdated=False)], Plan()) == ()
    left = Left(VMI, found.uid, DB, "w1", "it cannot")
    assert results.not_in_effect([found], Plan((), (left,))) == ()


def test_nobody_listens_once_the_other_end_is_closed() -> None:
    reading, writing = os.pipe()
    try:
        assert somebody_listens(writing)
        os.close(reading)
        assert not somebody_listens(writing)
    finally:
        os.close(writing)
    assert not somebody_listens(writing)


def test_a_file_always_listens(tmp_path: t.Any) -> None:
    with open(tmp_path / "out", "w") as file:
        assert somebody_listens(file.fileno())
