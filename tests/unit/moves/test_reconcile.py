# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What is sent of the moves that were journaled and of which nothing was sent: only what may begin
now, whoever journaled it."""

from __future__ import annotations

import typing as t
from dataclasses import replace

import pytest

from ansible_collections.virt.placement.plugins.module_utils.api.transport import uptime
from ansible_collections.virt.placement.plugins.module_utils.cluster import lease
from ansible_collections.virt.placement.plugins.module_utils.cluster.lease import (
    HeldLease,
    LeaseKeeper,
)
from ansible_collections.virt.placement.plugins.module_utils.compliance.instances import (
    InstanceSelection,
)
from ansible_collections.virt.placement.plugins.module_utils.model.budget import DisruptionBudget
from ansible_collections.virt.placement.plugins.module_utils.model.objects import (
    Ref,
    Requirement,
    Selector,
)
from ansible_collections.virt.placement.plugins.module_utils.model.obstacle import Obstacle
from ansible_collections.virt.placement.plugins.module_utils.model.plan import Method, Move, Plan
from ansible_collections.virt.placement.plugins.module_utils.model.snapshot import (
    Snapshot,
    Unreadable,
)
from ansible_collections.virt.placement.plugins.module_utils.moves import reconcile, report
from ansible_collections.virt.placement.plugins.module_utils.moves.journal import RunJournal
from ansible_collections.virt.placement.plugins.module_utils.moves.move import (
    ApiCall,
    ApiReply,
    MoveRecord,
    Phase,
    ReplyStatus,
    Transition,
)
from ansible_collections.virt.placement.plugins.module_utils.moves.observe import Observer
from ansible_collections.virt.placement.plugins.module_utils.moves.reconcile import (
    Reconciler,
)
from ansible_collections.virt.placement.plugins.module_utils.moves.reconciliation import (
    Reconciliation,
)
from ansible_collections.virt.placement.plugins.module_utils.moves.state import (
    UNCOUNTED,
    MoveCount,
    StepReport,
)
from ansible_collections.virt.placement.plugins.module_utils.rollout.judged_snapshot import (
    JudgedSnapshot,
)
from tests.support.cluster import ZONE, anti_affinity, apart, cluster, machine
from tests.unit.moves.test_gates import parameters
from tests.unit.planning.test_plan import SHOP, vm_with_two_own_terms

NO_API = t.cast(t.Any, None)
NODES = report.NodeDescriptions({"w1": {"zone": "a"}, "w2": {"zone": "b"}}, "zone")


def record(name: str, method: Method = Method.RECREATE, source: str = "w1") -> MoveRecord:
    pod = Ref("Pod", "shop", name)
    return MoveRecord(pod, name, Ref("Deployment", "shop", "web"), method, source, 1, 0.0)


def keeper() -> LeaseKeeper:
    return LeaseKeeper(NO_API, HeldLease("r1", 1), uptime(), "")


def chosen(
    journal: RunJournal,
    clock: float = 100.0,
    retry_at: dict[str, float] | None = None,
    not_outdated: t.Collection[str] = (),
    **options: t.Any,
) -> tuple[list[str], Reconciler, Reconciliation]:
    asked = parameters(allow=["recreate"], **options)
    reconciler = Reconciler(
        keeper(), asked, journal, StepReport(), clock, retry_at or {}, not_outdated
    )
    view = JudgedSnapshot.of(Snapshot(), InstanceSelection(), asked)
    now = Reconciliation(view, Observer(NO_API, view.snapshot, journal), NODES)
    return reconciler.choose(Plan(), now), reconciler, now


def test_intended_move_that_may_begin_is_sent_again() -> None:
    journal = RunJournal("r1", "x", records=(record("a"), record("b")))
    due, reconciler, _now = chosen(journal)
    assert due == ["a", "b"]
    assert reconciler.journal.records == journal.records
    assert reconciler.report.lines == []


@pytest.mark.parametrize(
    ("journal", "options", "reason"),
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
def test_intended_move_that_may_not_begin_now_leaves_the_journal(
    journal: dict[str, t.Any], options: dict[str, t.Any], reason: str
) -> None:
    due, reconciler, _now = chosen(
        RunJournal("r1", "x", records=(record("a"),), **journal), **options
    )
    assert due == []
    assert reconciler.journal.records == ()
    assert reconciler.report.lines[0] == f"Deployment shop/web (a) is not moved for now: {reason}"


def test_blocked_request_is_not_sent_before_retry_after() -> None:
    journal = RunJournal("r1", "x", records=(record("a"), record("b")))
    due, reconciler, _now = chosen(journal, retry_at={"a": 110.0, "b": 99.0})
    assert due == ["b"]
    assert reconciler.journal.records == journal.records


def test_retry_after_of_a_blocked_request_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    _due, reconciler, now = chosen(RunJournal("r1", "x", records=(record("a"),)))
    reply = ApiReply(ReplyStatus.BLOCKED, Obstacle("budget", "web needs 2"), 600.0)
    monkeypatch.setattr(reconcile, "send", lambda _api, _request: reply)
    monkeypatch.setattr(reconciler.keeper, "api_while_ours", lambda: NO_API)
    reconciler._follow(Transition(record("a"), ApiCall("create", "/eviction", {})), now)
    assert 700.0 <= reconciler.retry_at["a"] < 1300.0
    kept = [(record.note, record.code) for record in reconciler.journal.records]
    assert kept == [("web needs 2", "budget")]


def test_a_takeover_keeps_to_its_own_canary() -> None:
    records = tuple(record(name) for name in ("a", "b", "c"))
    due, reconciler, _now = chosen(RunJournal("r1", "x", records=records), canary=1)
    assert due == ["c"]
    assert [found.uid for found in reconciler.journal.records] == ["c"]


def test_sent_move_is_observed_to_its_end_though_gates_are_closed() -> None:
    begun = replace(record("a"), phase=Phase.BEGUN)
    due, reconciler, _now = chosen(RunJournal("r1", "x", records=(begun,), failed=1))
    assert due == []
    assert reconciler.journal.records == (begun,)


def test_restart_that_may_be_queued_stays_in_the_journal_until_it_is_checked() -> None:
    restart = record("a", Method.RESTART)
    journal = RunJournal("r1", "x", records=(restart,), failed=1)
    due, reconciler, now = chosen(journal, clock=5.0)
    assert due == []
    assert reconciler.journal.records == (restart,)
    assert "may be on its way" in line_of(now)
    due, reconciler, _now = chosen(journal, clock=lease.DURATION + 1.0)
    assert (due, reconciler.journal.records) == ([], ())


def test_deletion_that_may_arrive_is_kept_until_no_earlier_process_sends_it() -> None:
    journal = RunJournal("r1", "x", records=(record("a"), record("b")), failed=1)
    due, reconciler, now = chosen(journal, clock=5.0, not_outdated=["a"])
    assert due == []
    assert reconciler.journal.records == (record("a"),)
    assert "the recreate of Pod shop/a may be on its way" in line_of(now)
    _due, reconciler, _now = chosen(journal, clock=lease.DURATION + 1.0, not_outdated=["a"])
    assert reconciler.journal.records == ()


@pytest.mark.parametrize("method", [Method.RESTART, Method.STOP])
def test_request_that_the_plan_lacks_is_kept_while_it_may_arrive(method: Method) -> None:
    snapshot = vm_with_two_own_terms("n3").snapshot()
    (vmi,) = snapshot.vmis
    workload = Ref("VirtualMachine", vmi.ref.namespace, vmi.ref.name)
    sent = MoveRecord(vmi.ref, vmi.uid, workload, method, vmi.node_name, 1, 95.0)
    asked = parameters(allow=["recreate"])
    view = JudgedSnapshot.of(snapshot, SHOP, asked)
    for clock, kept in ((100.0, (sent,)), (95.0 + lease.DURATION + 1, ())):
        journal = RunJournal("r1", "x", records=(sent,))
        reconciler = Reconciler(keeper(), asked, journal, StepReport(), clock, {}, ())
        reconciler.reconcile(view)
        assert reconciler.journal.records == kept


def two_groups() -> Snapshot:
    """In zone a, each group on a node of its own: three machines `a` that are to be one a zone, and
    two machines `b` likewise."""
    made = cluster("aabbcc")
    for name in ("a0", "a1", "a2", "b0", "b1"):
        group = name[0]
        node = "n1" if group == "a" else "n2"
        machine(made, name, node, anti_affinity(apart(group=group)), group=group)
    return made.snapshot()


def begun_of(snapshot: Snapshot, journal: RunJournal, plan: Plan | None = None) -> list[str]:
    """The names of the machines whose moves begin in this turn, of this plan or of a new one."""
    return turn_of(snapshot, journal, plan)[0]


def turn_of(
    snapshot: Snapshot,
    journal: RunJournal,
    plan: Plan | None = None,
    count: MoveCount = UNCOUNTED,
) -> tuple[list[str], str]:
    """The same, and why the first of the others waits."""
    asked = parameters()
    reconciler = Reconciler(keeper(), asked, journal, StepReport(count), 100.0, {}, ())
    view = JudgedSnapshot.of(snapshot, InstanceSelection(frozenset({"shop"})), asked)
    plan = plan or view.plan(journal)
    now = Reconciliation(view, Observer(NO_API, snapshot, journal), NODES)
    due = reconciler.choose(plan, now)
    return [view.by_uid[uid].instance.ref.name for uid in due], line_of(now)


def line_of(now: Reconciliation) -> str:
    return now.waiting.line if now.waiting is not None else ""


def moves_of(snapshot: Snapshot) -> tuple[Move, ...]:
    return (
        JudgedSnapshot.of(snapshot, InstanceSelection(frozenset({"shop"})), parameters())
        .plan()
        .moves
    )


def in_flight(move: Move) -> MoveRecord:
    began = MoveRecord(move.instance, move.uid, move.workload, move.method, move.source, 1, 90.0)
    return replace(began, phase=Phase.BEGUN)


def test_of_each_group_one_begins() -> None:
    snapshot = two_groups()
    assert sorted(move.instance.name[0] for move in moves_of(snapshot)) == ["a", "a", "b"]
    assert sorted(name[0] for name in begun_of(snapshot, RunJournal("r1", "x"))) == ["a", "b"]


def test_while_one_of_a_group_is_in_flight_only_others_begin() -> None:
    snapshot = two_groups()
    first = next(move for move in moves_of(snapshot) if move.instance.name[0] == "a")
    journal = RunJournal("r1", "x", records=(in_flight(first),))
    begun, waiting = turn_of(snapshot, journal)
    assert [name[0] for name in begun] == ["b"]
    other = next(m for m in moves_of(snapshot) if m.instance.name[0] == "a" and m != first)
    assert (
        waiting
        == f"{other.workload} waits for the move of {first.workload}, since a rule is about both"
    )


@pytest.mark.parametrize(
    ("canary", "begun", "stop_reason"), [(0, ["b"], ""), (1, [], "the canary has not ended")]
)
def test_after_a_canary_that_was_given_up_no_move_begins(
    canary: int, begun: list[str], stop_reason: str
) -> None:
    snapshot, asked = two_groups(), parameters(canary=canary)
    first = next(move for move in moves_of(snapshot) if move.instance.name[0] == "a")
    given_up = replace(in_flight(first), phase=Phase.GIVEN_UP, note="still Running")
    journal = RunJournal("r1", "x", records=(given_up,))
    reconciler = Reconciler(keeper(), asked, journal, StepReport(), 100.0, {}, ())
    view = JudgedSnapshot.of(snapshot, InstanceSelection(frozenset({"shop"})), asked)
    now = Reconciliation(view, Observer(NO_API, snapshot, journal), NODES)

    due = reconciler.choose(view.plan(journal), now)

    assert [view.by_uid[uid].instance.ref.name[0] for uid in due] == begun
    assert str(now.stop or "") == stop_reason


@pytest.mark.parametrize("reverse", [False, True])
def test_what_is_planned_after_a_held_move_is_held_too(reverse: bool) -> None:
    """Else the run would wait until run_timeout for moves that nothing lets begin."""
    snapshot, asked = two_groups(), parameters()
    made = [move for move in moves_of(snapshot) if move.instance.name[0] == "a"]
    given_up = replace(in_flight(made[0]), phase=Phase.GIVEN_UP, note="still Running")
    journal = RunJournal("r1", "x", records=(given_up,))
    held = made[1]
    free = next(move for move in moves_of(snapshot) if move.instance.name[0] == "b")
    behind = replace(free, after=(held.uid,))
    reconciler = Reconciler(keeper(), asked, journal, StepReport(), 100.0, {}, ())
    view = JudgedSnapshot.of(snapshot, InstanceSelection(frozenset({"shop"})), asked)
    now = Reconciliation(view, Observer(NO_API, snapshot, journal), NODES)
    moves = (behind, held) if reverse else (held, behind)

    assert reconciler.choose(Plan(moves), now) == []

    assert set(now.held) == {held.uid, behind.uid}
    name = report.short(held.workload, held.instance)
    assert now.held[behind.uid].text == f"it moves after {name}, which is skipped, too"


def test_move_that_was_not_counted_is_not_named_as_one_that_waits() -> None:
    """It may be needless when the moves in flight have ended."""
    snapshot = two_groups()
    first = next(move for move in moves_of(snapshot) if move.instance.name[0] == "a")
    journal = RunJournal("r1", "x", records=(in_flight(first),))
    _begun, waiting = turn_of(snapshot, journal, count=MoveCount(1))
    assert waiting == ""


def test_a_move_waits_for_the_one_before_it_that_cannot_begin_yet() -> None:
    """No rule links the two: the second is to take the place that the first leaves."""
    snapshot = two_groups()
    first = next(move for move in moves_of(snapshot) if move.instance.name[0] == "a")
    second = next(move for move in moves_of(snapshot) if move.instance.name[0] == "b")
    held = replace(
        snapshot,
        vmis=tuple(
            replace(vmi, evacuation_node_name="n1") if vmi.uid == first.uid else vmi
            for vmi in snapshot.vmis
        ),
    )
    journal = RunJournal("r1", "x")
    assert begun_of(held, journal, Plan((first, second))) == [second.instance.name]
    behind = replace(second, after=(first.uid,))
    begun, waiting = turn_of(held, journal, Plan((behind, first)))
    assert begun == []
    assert (
        waiting
        == f"{second.workload} waits for the move of {first.workload}, which may open a node for it"
    )


@pytest.mark.parametrize(
    ("before", "following", "waiting"),
    [
        ("a", "none", "soaking after a, 590 s left"),
        ("none", "b", f"soaking after nodes without {ZONE}, 590 s left"),
        ("none", "none", ""),
        ("a", "pending", ""),
        ("pending", "b", ""),
    ],
)
def test_soak_is_between_domains_also_where_nodes_have_none(
    before: str, following: str, waiting: str
) -> None:
    made = cluster("ab")
    made.node("n0")
    for node in ("n0", "n1", "n2"):
        machine(made, node, node)
    snapshot, asked = made.snapshot(), parameters(scope="all", soak=600)
    view = JudgedSnapshot.of(snapshot, SHOP, asked)
    by_node = {move.source: move for move in view.plan().moves}
    sources = {"none": "n0", "a": "n1", "b": "n2", "pending": ""}
    journal = RunJournal("r1", "x", domain="", settled_at=90.0)

    for source in (before, following):
        move = (
            by_node[sources[source]] if source != "pending" else replace(by_node["n1"], source="")
        )
        reconciler = Reconciler(keeper(), asked, journal, StepReport(), 100.0, {}, ())
        nodes = report.NodeDescriptions.of(snapshot, ZONE)
        now = Reconciliation(view, Observer(NO_API, snapshot, journal), nodes)
        due = reconciler.choose(Plan((move,)), now)
        journal = replace(reconciler.journal, records=(), known={})

    assert (due, line_of(now)) == ([] if waiting else [move.uid], waiting)


def test_move_that_is_planned_after_another_one_names_it_and_the_rule() -> None:
    snapshot = two_groups()
    first, second = (move for move in moves_of(snapshot) if move.instance.name[0] == "a")
    plan = Plan((replace(second, after=(first.uid,)), first))
    begun, waiting = turn_of(snapshot, RunJournal("r1", "x"), plan)
    assert begun == [first.instance.name]
    assert (
        waiting
        == f"{second.workload} waits for the move of {first.workload}, since a rule is about both"
    )


def test_rollout_moves_vm_with_rule_in_each_of_its_own_node_terms() -> None:
    snapshot = vm_with_two_own_terms("n3").snapshot()
    asked = parameters(allow=["migrate"])

    plan = JudgedSnapshot.of(snapshot, SHOP, asked).plan()

    assert plan.skipped == ()
    (move,) = plan.moves
    assert (move.method, move.targets) == (Method.MIGRATE, ("n1", "n2"))


def of_budget(**numbers: t.Any) -> Snapshot:
    """Three VMs that run and serve, and a budget of their pods."""
    made = cluster("abc")
    for number in range(3):
        machine(made, f"till-{number}", f"n{number + 1}", app="till")
    selector = Selector((Requirement("app", "In", ("till",)),))
    budget = DisruptionBudget(Ref("PodDisruptionBudget", "shop", "tills"), selector, 2, 3, 1, 3)
    budget = replace(budget, **numbers)
    snapshot = made.snapshot(budgets=(budget,))
    pods = tuple(replace(pod, ready=True, phase="Running") for pod in snapshot.pods)
    vmis = tuple(replace(vmi, ready=True) for vmi in snapshot.vmis)
    return replace(snapshot, pods=pods, vmis=vmis)


def restarts(snapshot: Snapshot, *begun: int) -> tuple[list[str], str, list[str]]:
    """The VMs whose restart begins while those of these numbers are in flight, why the first of the others
    waits, and the reasons of those that are skipped."""
    asked = parameters(scope="all", allow=["restart"], max_unavailable=9, max_parallel=9)
    view = JudgedSnapshot.of(snapshot, InstanceSelection(frozenset({"shop"})), asked)
    uids = {movable.instance.ref.name: movable.uid for movable in view.candidates}
    planned = {move.uid: move for move in view.plan().moves}
    records = tuple(in_flight(planned[uids[f"till-{number}"]]) for number in begun)
    journal = RunJournal("r1", "x", records=records)
    reconciler = Reconciler(keeper(), asked, journal, StepReport(), 100.0, {}, ())
    now = Reconciliation(view, Observer(NO_API, snapshot, journal), NODES)
    plan = view.plan(journal)
    due = reconciler.choose(plan, now)
    names = [view.by_uid[uid].instance.ref.name for uid in due]
    return names, line_of(now), [str(skipped.reason) for skipped in plan.skipped]


def test_restarts_begin_as_far_as_the_budget_allows() -> None:
    begun, waiting, skipped = restarts(of_budget())
    assert (len(begun), skipped) == (2, [])
    assert "PodDisruptionBudget shop/tills allows no disruption now" in waiting


def test_restart_in_flight_counts_before_the_budget_shows_it() -> None:
    begun, _waiting, _skipped = restarts(of_budget(), 0)
    assert len(begun) == 1
    begun, waiting, _skipped = restarts(of_budget(), 0, 1)
    assert begun == []
    assert "PodDisruptionBudget shop/tills allows no disruption now" in waiting


def test_restart_that_the_budget_never_allows_is_skipped_with_its_name() -> None:
    begun, _waiting, skipped = restarts(of_budget(allowed=0, desired=3))
    assert begun == []
    assert len(skipped) == 3
    why = "PodDisruptionBudget shop/tills never allows a disruption: 3 of 3 pods are healthy, 3 must be"
    assert why in skipped[0]
    assert "add migrate to allow, since a live migration needs no budget" in skipped[0]


def test_restart_is_skipped_where_budgets_cannot_be_read() -> None:
    gap = Unreadable("poddisruptionbudgets", "shop", "list", "grant this identity the verb 'list'")
    begun, _waiting, skipped = restarts(replace(of_budget(), budgets=(), unreadable=(gap,)))
    assert begun == []
    assert "cannot list poddisruptionbudgets in namespace shop" in skipped[0]


def test_successor_of_a_restart_in_flight_is_not_restarted() -> None:
    snapshot = of_budget(desired=0, allowed=3)
    first, *others = (vmi.uid for vmi in snapshot.vmis)
    asked = parameters(scope="all", allow=["restart"], max_unavailable=9, max_parallel=9)
    view = JudgedSnapshot.of(snapshot, InstanceSelection(frozenset({"shop"})), asked)
    move = next(move for move in view.plan().moves if move.uid == first)
    before = replace(in_flight(move), uid="before")
    journal = RunJournal("r1", "x").begin(before, ["before"])
    reconciler = Reconciler(keeper(), asked, journal, StepReport(), 100.0, {}, ())
    now = Reconciliation(view, Observer(NO_API, snapshot, journal), NODES)

    assert sorted(reconciler.choose(view.plan(journal), now)) == sorted(others)
