# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a run says, whom it is about, what it clears, and whether anybody listens."""

from __future__ import annotations

import os
import typing as t
from dataclasses import replace

import pytest

from ansible_collections.virt.placement.plugins.module_utils.compliance.declared import (
    DeclaredReader,
    RuleTerms,
)
from ansible_collections.virt.placement.plugins.module_utils.compliance.drift import Drift
from ansible_collections.virt.placement.plugins.module_utils.compliance.terms import Term, TermKind
from ansible_collections.virt.placement.plugins.module_utils.kubevirt.moving import MoveOptions
from ansible_collections.virt.placement.plugins.module_utils.model.findings import InvalidInput
from ansible_collections.virt.placement.plugins.module_utils.model.kinds import RULES, UNDO
from ansible_collections.virt.placement.plugins.module_utils.model.objects import (
    Namespace,
    Pod,
    Ref,
)
from ansible_collections.virt.placement.plugins.module_utils.model.plan import (
    Method,
    Move,
    Plan,
    SkippedInstance,
)
from ansible_collections.virt.placement.plugins.module_utils.model.snapshot import (
    Instance,
    Platform,
    Snapshot,
    Unreadable,
    Workload,
)
from ansible_collections.virt.placement.plugins.module_utils.planning.movable_instances import (
    MovableInstance,
)
from ansible_collections.virt.placement.plugins.module_utils.rollout import report as progress
from ansible_collections.virt.placement.plugins.module_utils.rollout import report as results
from ansible_collections.virt.placement.plugins.module_utils.rollout.move import (
    MoveRecord,
    MoveResult,
    Outcome,
)
from ansible_collections.virt.placement.plugins.module_utils.rollout.options import wanted
from ansible_collections.virt.placement.plugins.module_utils.rollout.state import (
    RolloutState,
    StepResult,
)
from ansible_collections.virt.placement.plugins.module_utils.rollout.takeover import (
    recompute_removal,
    remove_undo_records,
)
from ansible_collections.virt.placement.plugins.module_utils.rollout.watch import output_is_read
from tests.unit.planning.movable import movable
from tests.unit.rollout.test_gates import parameters

DB = Ref("VirtualMachine", "shop", "db")
VMI = Ref("VirtualMachineInstance", "shop", "db")
PLACES = progress.NodeDescriptions({"w1": {"zone": "a"}, "w2": {"zone": "b"}, "w3": {}}, "zone")


def test_plan_lines_have_skipped_instances() -> None:
    move = Move(VMI, "u", DB, Method.MIGRATE, "w1", ("w2",), "")
    left = SkippedInstance(VMI, "u", DB, "w1", "it cannot")
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
    left = SkippedInstance(web, "v", web, "w1", full, no_node=True)
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


def test_removed_undo_records_are_named() -> None:
    assert progress.undo_records_removed([], check=False) == []
    assert progress.undo_records_removed(["Deployment lab/cache"], check=False) == [
        "removed the record of former constraints (placement.virt/undo) from Deployment lab/cache:"
        " the rules are enforced"
    ]
    many = [f"Deployment lab/d{n}" for n in range(5)]
    assert progress.undo_records_removed(many, check=True) == [
        "would remove the record of former constraints (placement.virt/undo) from Deployment lab/d0, Deployment lab/d1,"
        " Deployment lab/d2 and 2 more: the rules are enforced"
    ]


@pytest.mark.parametrize(
    ("end", "line"),
    [
        (
            MoveResult(Outcome.MOVED, "w2"),
            "1 of 3 done: VirtualMachine shop/db migrated: w1 (a) -> w2 (b) in 4 s",
        ),
        (
            MoveResult(Outcome.FAILED, reason="guest too busy"),
            "1 of 3 done: VirtualMachine shop/db FAILED to migrate: guest too busy (4 s)",
        ),
        (
            MoveResult(Outcome.GONE, reason="the instance ended before its move"),
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
    failed = MoveResult(Outcome.FAILED, reason="guest too busy")
    moves = [
        progress.ended_move(MoveRecord(VMI, "u", DB, Method.MIGRATE, "w1", 1, 0.0), failed, 1.0),
        progress.ended_move(
            MoveRecord(VMI, "v", DB, Method.MIGRATE, "w1", 1, 0.0),
            MoveResult(Outcome.MOVED, "w2"),
            1.0,
        ),
        progress.ended_move(MoveRecord(one, "w", web, Method.RECREATE, "w1", 1, 0.0), failed, 1.0),
    ]
    assert progress.why_failed((), 2, 1, progress.failures(moves)) == (
        "2 moves failed, and failures_allowed is 1: migrate of VirtualMachine shop/db: guest too"
        " busy; recreate of VirtualMachineInstanceReplicaSet shop/web (web-x1): guest too busy. No"
        " other move was started. Correct the causes and run again"
    )


def workload(name: str, undo: str | None = "before", **labels: str) -> Workload:
    annotations = {UNDO: undo} if undo else {}
    manifest = {
        "metadata": {"name": name, "annotations": annotations},
        "spec": {"template": {"metadata": {"labels": labels}}},
    }
    return Workload(Ref("VirtualMachine", "shop", name), f"u-{name}", manifest)


def candidate(
    found: Workload,
    *,
    outdated: bool = False,
    node: str = "w1",
    need: str = "",
) -> MovableInstance:
    pod = Pod("shop", found.ref.name, found.uid, node_name=node)
    instance = Instance(VMI, found.uid, found.ref, pod)
    return movable(
        instance,
        pod,
        found,
        declared_pod=pod,
        migration_target=None,
        move_options=MoveOptions(()),
        takes_effect=need,
        drift=Drift() if outdated else None,
    )


def test_an_undo_record_goes_when_every_instance_runs_by_what_is_declared() -> None:
    effective, mixed, waiting = workload("a"), workload("b"), workload("c")
    writes = remove_undo_records(
        [
            candidate(effective),
            candidate(effective),
            candidate(mixed),
            candidate(mixed, outdated=True),
            candidate(waiting, node=""),
            candidate(workload("d", undo=None)),
        ]
    )
    assert [write.target.name for write in writes] == ["a"]
    *tests, removal = writes[0].patch()
    assert {step["op"] for step in tests} == {"test"}
    assert removal == {"op": "remove", "path": "/metadata/annotations/placement.virt~1undo"}


def test_an_undo_record_that_was_written_anew_stays() -> None:
    (write,) = remove_undo_records([candidate(workload("a"))])
    assert recompute_removal(write, {"metadata": {"annotations": {UNDO: "before"}}}) is write
    assert recompute_removal(write, {"metadata": {"annotations": {UNDO: "newer"}}}) is None
    assert recompute_removal(write, {"metadata": {}}) is None


def test_an_undo_record_stays_where_rules_or_terms_were_written_since() -> None:
    """A second write before a roll-out keeps the text: it says what was effective before both."""
    there = workload("a")
    spec = {"nodeSelector": {"disk": "ssd"}}
    there.manifest["metadata"]["annotations"][RULES] = "first"
    there.manifest["spec"]["template"]["spec"] = spec
    (write,) = remove_undo_records([candidate(there)])

    def now(rules: str, **terms: t.Any) -> dict[str, t.Any]:
        return {
            "metadata": {"annotations": {UNDO: "before", RULES: rules}},
            "spec": {"template": {"spec": terms}},
        }

    assert recompute_removal(write, now("first", **spec)) is write
    assert recompute_removal(write, now("second", **spec)) is None
    assert recompute_removal(write, now("first", nodeSelector={"disk": "hdd"})) is None
    assert recompute_removal(write, now("first", **spec, affinity={"nodeAffinity": {}})) is None
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
    ("options", "message"),
    [
        ({"namespaces": ["shp"]}, "there is no namespace 'shp'; did you mean 'shop'?"),
        ({"workloads": [{"name": "bd"}]}, "there is no VirtualMachine 'bd' in namespace 'shop'"),
    ],
)
def test_missing_workload_is_refused(options: dict[str, t.Any], message: str) -> None:
    with pytest.raises(InvalidInput) as raised:
        wanted(parameters(**options), SNAPSHOT)
    assert message in str(raised.value)


@pytest.mark.parametrize(
    ("kubevirt", "refused"), [("v1.4.0", True), ("v1.6.0", False), ("", False)]
)
def test_pin_target_zone_is_refused_before_kubevirt_1_6(kubevirt: str, refused: bool) -> None:
    """The API server of KubeVirt 1.4.0 answers 400 to a migration with addedNodeSelector."""
    older = replace(SNAPSHOT, platform=Platform(kubevirt=kubevirt))
    options = parameters(namespaces=["shop"], pin_target_zone=True)
    if not refused:
        assert wanted(options, older).namespaces
        return
    with pytest.raises(InvalidInput, match=r"pin_target_zone: needs KubeVirt 1\.6, .*v1\.4\.0"):
        wanted(options, older)


def test_a_run_that_cannot_read_everything_moves_nothing() -> None:
    gap = Unreadable("pods", "", "list", "grant it")
    blind = Snapshot(namespaces=(Namespace("shop"),), unreadable=(gap,))
    with pytest.raises(InvalidInput) as raised:
        wanted(parameters(), blind)
    assert "cannot list pods in all namespaces: grant it" in str(raised.value)


def test_several_lists_that_may_not_be_read_are_one_error() -> None:
    gaps = (Unreadable("nodes", "", "list", "grant it"), Unreadable("pods", "", "list", "grant it"))
    with pytest.raises(InvalidInput) as raised:
        wanted(parameters(), Snapshot(namespaces=(Namespace("shop"),), unreadable=gaps))
    assert [str(error) for error in raised.value.errors] == [
        "not permitted: cannot list nodes, cannot list pods in all namespaces: grant this identity"
        " the ClusterRole virt-placement-reader (rbac/reader.yml)"
    ]


@pytest.mark.parametrize("namespace", ["", "shop"])
def test_unreadable_workload_is_not_reported_as_missing(namespace: str) -> None:
    gap = Unreadable("virtualmachines", namespace, "list", "grant it")
    blind = Snapshot(namespaces=(Namespace("shop"),), unreadable=(gap,), platform=SNAPSHOT.platform)
    with pytest.raises(InvalidInput) as raised:
        wanted(parameters(workloads=[{"name": "db"}, {"kind": "Deployment", "name": "web"}]), blind)
    missing = [str(fault) for fault in raised.value.errors if "there is no" in str(fault)]
    assert missing == ["workloads[1]: there is no Deployment 'web' in namespace 'shop'"]


def test_an_empty_list_is_nothing() -> None:
    instance = Instance(VMI, "u", DB, None)
    assert instance not in wanted(parameters(namespaces=[]), SNAPSHOT)
    assert instance not in wanted(parameters(workloads=[]), SNAPSHOT)


def test_state_travels_as_json() -> None:
    state = RolloutState(
        "r1", 3, elapsed=12.5, waiting="for somebody", total=3, to_come={"u": "db"}
    )
    assert RolloutState.read(state.as_json()) == state
    assert RolloutState.read({"elapsed": 3, "unknown": 1}) == RolloutState(elapsed=3.0)
    assert RolloutState.read(None) == RolloutState()


def test_only_a_step_that_is_followed_by_another_hands_its_state_on() -> None:
    assert (
        StepResult(finished=False, state=RolloutState("r1", 3)).as_json()["step_state"][
            "transitions"
        ]
        == 3
    )
    assert "step_state" not in StepResult(finished=True, state=RolloutState("r1", 3)).as_json()


@pytest.mark.parametrize(
    ("need", "event"), [("migration",) * 2, ("restart",) * 2, ("recreate", "recreation")]
)
def test_correctly_placed_instance_reports_when_its_rule_is_enforced(need: str, event: str) -> None:
    made = workload("db")
    found = candidate(made, outdated=True, need=need)
    record = results.well_placed(found, Plan())
    assert (record["takes_effect"], record["when"]) == (need, "now")
    assert record["reason"] == f"placed correctly; enforced from the next {event}"
    assert results.not_enforced([found], Plan()) == (found,)
    assert results.not_enforced([candidate(made)], Plan()) == ()
    left = SkippedInstance(VMI, found.uid, DB, "w1", "it cannot")
    assert results.not_enforced([found], Plan((), (left,))) == ()


def test_missed_preference_is_not_called_placed_correctly() -> None:
    found = candidate(workload("db"), outdated=True, need="migration")
    reason = results.well_placed(found, Plan(), "not met: preferred node affinity zone In (b)")[
        "reason"
    ]
    assert reason == (
        "no required rule is violated; not met: preferred node affinity zone In (b);"
        " enforced from the next migration"
    )


def test_instance_that_runs_with_a_removed_constraint_is_not_called_enforced() -> None:
    found = candidate(workload("db"), outdated=True, need="migration")
    found.drift = Drift(stale=frozenset({Term(TermKind.NODE_SELECTOR, ("disk", "ssd"))}))
    assert results.well_placed(found, Plan())["reason"] == (
        "placed correctly; a removed constraint stays in effect until the next migration"
    )


def test_rule_whose_constraint_was_removed_is_named_and_keeps_the_undo_record() -> None:
    db = workload("db")
    found, apart = candidate(db), RuleTerms("apart", removed=True)
    found.declared = replace(DeclaredReader(Snapshot()).declared(db), rules=(apart,))
    assert results.removed_constraints([candidate(workload("web"))]) == []
    (warning,) = results.removed_constraints([found])
    assert "VirtualMachine shop/db (rule apart)" in warning
    assert remove_undo_records([found]) == ()
    assert remove_undo_records([candidate(workload("db"))])


def test_instance_that_violates_until_others_move_is_reported() -> None:
    found = candidate(workload("db"), outdated=True, need="migration")
    record = results.well_placed(found, Plan(violated=frozenset({found.uid})))
    assert record["when"] == "after_moves"
    assert record["reason"] == (
        "violated now, satisfied after the planned moves; enforced from the next migration"
    )


def test_well_placed_instances_with_the_same_reason_are_one_line() -> None:
    assert progress.well_placed_lines([]) == []
    one = results.well_placed(candidate(workload("db"), outdated=True, need="restart"), Plan())
    assert progress.well_placed_lines([{**one, "instance": "db", "name": "db"}]) == [
        "VirtualMachine shop/db: placed correctly; enforced from the next restart"
    ]
    many = [{**one, "name": f"v{n}", "instance": f"v{n}"} for n in range(5)]
    assert progress.well_placed_lines(many) == [
        "VirtualMachine shop/v0, VirtualMachine shop/v1, VirtualMachine shop/v2 and 2 more: placed"
        " correctly; enforced from the next restart"
    ]


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
