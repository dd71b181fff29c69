# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The plan of check mode is made as it was approved, or refused before the first write."""

from __future__ import annotations

import copy
import json
import typing as t
from dataclasses import replace

import pytest

from ansible_collections.virt.placement.plugins.module_utils.approval.approved_rollout import (
    ApprovedRollout,
)
from ansible_collections.virt.placement.plugins.module_utils.approval.plan import read_plan
from ansible_collections.virt.placement.plugins.module_utils.cluster import lease
from ansible_collections.virt.placement.plugins.module_utils.compliance.instances import (
    InstanceSelection,
)
from ansible_collections.virt.placement.plugins.module_utils.model.findings import InvalidInput
from ansible_collections.virt.placement.plugins.module_utils.model.objects import Pod, Ref
from ansible_collections.virt.placement.plugins.module_utils.model.obstacle import Obstacle
from ansible_collections.virt.placement.plugins.module_utils.model.plan import (
    NOT_IN_PLAN,
    Method,
    Move,
    Plan,
    SkippedInstance,
)
from ansible_collections.virt.placement.plugins.module_utils.model.snapshot import Instance
from ansible_collections.virt.placement.plugins.module_utils.model.topology import Topology
from ansible_collections.virt.placement.plugins.module_utils.moves import journal as journals
from ansible_collections.virt.placement.plugins.module_utils.moves import step as steps
from ansible_collections.virt.placement.plugins.module_utils.moves.journal import RunJournal
from ansible_collections.virt.placement.plugins.module_utils.moves.move import MoveRecord, Phase
from ansible_collections.virt.placement.plugins.module_utils.moves.run_plan import (
    ROLLOUT_PLAN,
    RunPlan,
    checksum,
    options_with_plan,
)
from ansible_collections.virt.placement.plugins.module_utils.moves.state import RunState, StepResult
from ansible_collections.virt.placement.plugins.module_utils.planning.plan_request import (
    PlanRequest,
)
from ansible_collections.virt.placement.plugins.module_utils.rollout.not_moved import judge_approved
from ansible_collections.virt.placement.plugins.module_utils.rollout.options import (
    RolloutOptions,
    parse_options,
)
from ansible_collections.virt.placement.plugins.module_utils.rollout.registry import PLAN_READERS
from dev.trace_server import KUBEVIRT, NAMESPACE, ZONE, TraceServer
from tests.unit.moves.test_gates import GIVEN
from tests.unit.moves.test_step import MIGRATIONS, run_with

JSON = t.Any
VMS = f"{KUBEVIRT}/namespaces/{NAMESPACE}/virtualmachines"
VMIS = f"{KUBEVIRT}/namespaces/{NAMESPACE}/virtualmachineinstances"
PODS = f"/api/v1/namespaces/{NAMESPACE}/pods"


REQUEST = PlanRequest(InstanceSelection())
ON_CORDONED = "VirtualMachine shop/web0 cannot move to w2 any more, only to w3: w2 is cordoned"


@pytest.fixture
def cluster() -> t.Iterator[TraceServer]:
    with TraceServer() as server:
        yield server


@pytest.fixture(autouse=True)
def step_lasts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(steps, "YOUNG", 0.0)


def options(plan: JSON = None, **given: JSON) -> RolloutOptions:
    """As flows/rollout makes them of the options of a task."""
    asked, approved = options_with_plan({**GIVEN, **given, "plan": plan}, GIVEN, PLAN_READERS)
    return parse_options(asked, Topology.of(), approved)


def planned(cluster: TraceServer, **given: JSON) -> JSON:
    """The plan of check mode, as a file has it."""
    plan = run_with(cluster, options(**given), check=True).plan
    return json.loads(json.dumps(plan))


def make(cluster: TraceServer, plan: JSON, *, check: bool = False) -> StepResult:
    return run_with(cluster, options(plan), check=check)


def refusal(cluster: TraceServer, plan: JSON) -> list[str]:
    """The texts of a refusal, in a run and in check mode alike. Nothing is written."""
    written = len(cluster.writes)
    with pytest.raises(InvalidInput) as refused:
        make(cluster, plan)
    with pytest.raises(InvalidInput) as in_check_mode:
        make(cluster, plan, check=True)
    assert str(in_check_mode.value) == str(refused.value)
    assert cluster.writes[written:] == []
    first, *changes = map(str, refused.value.errors)
    assert first == (
        "plan: the cluster has changed since it was made, and nothing was moved: make a new plan in check mode"
    )
    return [change.removeprefix("plan: ") for change in changes]


def patch(cluster: TraceServer, path: str, *keys: str, value: JSON) -> None:
    item = copy.deepcopy(cluster.objects[path])
    inside = item
    for key in keys[:-1]:
        inside = inside.setdefault(key, {})
    inside[keys[-1]] = value
    cluster.change("MODIFIED", path, item)


def add_vm(cluster: TraceServer, name: str, like: str, node: str) -> None:
    """Another VM that runs on a node, with the placement of one that exists."""
    paths = (f"{VMS}/{{}}", f"{VMIS}/{{}}", f"{PODS}/virt-launcher-{{}}")
    for path in paths:
        text = json.dumps(cluster.objects[path.format(like)]).replace(like, name)
        cluster.change("ADDED", path.format(name), json.loads(text.replace('"w1"', f'"{node}"')))


def test_plan_has_moves_and_options(cluster: TraceServer) -> None:
    plan = planned(cluster, max_moves=5)

    assert (plan["format"], plan["cluster_uid"]) == (4, "Namespace-kube-system")
    (move,) = plan["moves"]
    assert (move["name"], move["method"], move["from_node"]) == ("web0", "migrate", "w1")
    assert (move["to_node"], move["to_zone"]) == ("w2", "b")
    assert (plan["options"]["namespaces"], plan["options"]["max_moves"]) == (["shop"], 5)
    assert "relies_on" not in plan


def test_same_cluster_has_the_same_plan(cluster: TraceServer) -> None:
    assert planned(cluster) == planned(cluster)


def test_plan_is_read_back_as_it_was_written(cluster: TraceServer) -> None:
    plan = planned(cluster)
    assert read_plan(plan, ROLLOUT_PLAN).as_json() == plan


def test_approved_plan_is_made_and_is_done_afterwards(cluster: TraceServer) -> None:
    plan = planned(cluster)

    result = make(cluster, plan)
    (move,) = result.moves
    assert (result.failure, move["name"], move["to_node"]) == ("", "web0", "w2")

    written = len(cluster.writes)
    again = make(cluster, plan)
    assert (again.failure, again.moves, again.changed) == ("", [], False)
    assert cluster.writes[written:] == []


def test_check_mode_with_a_plan_returns_that_plan(cluster: TraceServer) -> None:
    plan = planned(cluster)
    result = make(cluster, plan, check=True)
    assert ([move["name"] for move in result.moves], result.plan) == (["web0"], plan)


def test_check_of_rights_for_later_moves_returns_no_plan(cluster: TraceServer) -> None:
    """The rules that these moves are for may not be written yet."""
    assert planned(cluster, require_rights=True) is None


def left_by_a_killed_run(cluster: TraceServer, record: MoveRecord, request: str = "x") -> None:
    """The journal on the Lease, which is free."""
    text = journals.write(RunJournal("r-dead", request, records=(record,)))
    annotations = {"placement.virt/journal": text}
    patch(cluster, lease.PATH, "metadata", "annotations", value=annotations)


def restarting(name: str, phase: Phase) -> MoveRecord:
    move = moving(name)
    uid = f"VirtualMachineInstance-{name}"
    return MoveRecord(move.instance, uid, move.workload, Method.RESTART, "w1", 1, 0.0, phase=phase)


def test_check_mode_knows_the_moves_of_a_killed_run(cluster: TraceServer) -> None:
    """It refused what a rollout continues."""
    given = {"scope": "all", "workloads": ["db0"], "allow": ["migrate", "restart"]}
    plan = planned(cluster, **given)
    left_by_a_killed_run(cluster, restarting("db0", Phase.BEGUN))
    for path in (f"{VMIS}/db0", f"{PODS}/virt-launcher-db0"):
        cluster.change("DELETED", path, cluster.objects[path])
    assert make(cluster, plan, check=True).failure == ""


def test_move_of_a_killed_run_that_was_not_sent_is_checked_like_any_other(
    cluster: TraceServer,
) -> None:
    plan = planned(cluster)
    record = replace(restarting("web0", Phase.INTENDED), method=Method.MIGRATE)
    left_by_a_killed_run(cluster, record)
    patch(cluster, "/api/v1/nodes/w2", "spec", "unschedulable", value=True)
    assert refusal(cluster, plan) == [ON_CORDONED]


@pytest.mark.parametrize("deleted", [False, True])
def test_zone_of_the_plan_holds_where_its_node_is_not_available_any_more(
    cluster: TraceServer, monkeypatch: pytest.MonkeyPatch, deleted: bool
) -> None:
    """The node was filled or deleted after the rollout had begun."""
    plan = planned(cluster, pin_target_zone=True)
    monkeypatch.setattr(ApprovedRollout, "require", lambda *_given: None)
    node = "/api/v1/nodes/w2"
    if deleted:
        cluster.change("DELETED", node, cluster.objects[node])
    else:
        patch(cluster, node, "status", "allocatable", "pods", value="0")
    make(cluster, plan)
    (created,) = [body for _method, path, body in cluster.writes if path == MIGRATIONS]
    assert created["spec"]["addedNodeSelector"] == {ZONE: "b"}


def test_run_that_makes_a_plan_returns_none(cluster: TraceServer) -> None:
    result = make(cluster, planned(cluster))
    assert "plan" not in result.as_json()


def test_vm_that_was_moved_by_hand_is_done(cluster: TraceServer) -> None:
    plan = planned(cluster)
    cluster._migrate("web0")
    result = make(cluster, plan)
    assert (result.failure, result.moves, result.changed) == ("", [], False)


def test_plan_goes_on_though_the_scheduler_chose_other_nodes_for_its_first_moves(
    cluster: TraceServer,
) -> None:
    """The rollout was killed, or its window ended. It would have gone on in the same way."""
    add_vm(cluster, "web2", like="web0", node="w1")
    plan = planned(cluster)
    by_target = {move["to_node"]: move["name"] for move in plan["moves"]}
    assert by_target.keys() == {"w2", "w3"}
    cluster._migrate(by_target["w3"])  # to w2

    result = make(cluster, plan, check=True)

    (move,) = result.moves
    assert (move["name"], move["to_node"]) == (by_target["w2"], "w3")


def test_new_vm_that_violates_a_rule_is_not_moved(cluster: TraceServer) -> None:
    """Two moves are needed now, and one was approved."""
    plan = planned(cluster)
    add_vm(cluster, "web2", like="web0", node="w1")
    assert len(planned(cluster)["moves"]) == 2

    result = make(cluster, plan)

    assert [move["name"] for move in result.moves] == ["web0"]
    (created,) = [body for _method, path, body in cluster.writes if path == MIGRATIONS]
    assert created["spec"] == {"vmiName": "web0"}
    (skipped,) = [x for x in result.skipped if x["name"] == "web2"]
    assert skipped["reason"].endswith("it is not among the moves of the plan")


def test_new_vm_in_the_way_is_refused(cluster: TraceServer) -> None:
    plan = planned(cluster)
    add_vm(cluster, "web2", like="web0", node="w2")
    assert refusal(cluster, plan) == [
        "VirtualMachine shop/web0 cannot move to w2 any more, only to w3"
    ]


def test_cordon_is_refused_where_a_move_counts_on_the_node(cluster: TraceServer) -> None:
    plan = planned(cluster)
    patch(cluster, "/api/v1/nodes/w3", "spec", "unschedulable", value=True)
    assert make(cluster, plan, check=True).failure == ""

    patch(cluster, "/api/v1/nodes/w2", "spec", "unschedulable", value=True)
    (change,) = refusal(cluster, plan)
    assert change.startswith("VirtualMachine shop/web0 cannot be moved as planned: ")


def test_full_target_is_refused_also_where_many_others_are_available(cluster: TraceServer) -> None:
    """A move names at most 20 nodes, and that of the plan is the first one if it is available."""
    text = json.dumps(cluster.objects["/api/v1/nodes/w2"])
    for number in range(25):
        name = f"x{number}"
        cluster.change("ADDED", f"/api/v1/nodes/{name}", json.loads(text.replace("w2", name)))
    plan = planned(cluster)
    target = plan["moves"][0]["to_node"]
    patch(cluster, f"/api/v1/nodes/{target}", "status", "allocatable", "pods", value="0")
    (change,) = refusal(cluster, plan)
    assert change.startswith(f"VirtualMachine shop/web0 cannot move to {target} any more, only to ")


def test_taint_is_refused(cluster: TraceServer) -> None:
    plan = planned(cluster)
    taint = {"key": "example.com/gpu", "value": "a", "effect": "NoSchedule"}
    patch(cluster, "/api/v1/nodes/w2", "spec", "taints", value=[taint])
    assert refusal(cluster, plan) == [
        "VirtualMachine shop/web0 cannot move to w2 any more, only to w3: w2 has the taint example.com/gpu"
    ]


def test_taint_of_a_condition_is_no_change_of_its_own(cluster: TraceServer) -> None:
    """The node controller sets it and takes it back. Where it keeps the VM away, the move is not possible any more."""
    pressure = {"key": "node.kubernetes.io/memory-pressure", "effect": "NoSchedule"}
    tolerated = {**pressure, "operator": "Exists"}
    for name in ("web0", "web1"):
        for at in (f"{VMS}/{name}", f"{VMIS}/{name}", f"{PODS}/virt-launcher-{name}"):
            inside = ("template", "spec") if at.startswith(VMS) else ()
            patch(cluster, at, "spec", *inside, "tolerations", value=[tolerated])
    calm = planned(cluster)
    patch(cluster, "/api/v1/nodes/w2", "spec", "taints", value=[pressure])
    under_pressure = planned(cluster)
    assert calm["moves"][0]["to_node"] == under_pressure["moves"][0]["to_node"] == "w2"

    assert make(cluster, calm, check=True).failure == ""
    patch(cluster, "/api/v1/nodes/w2", "spec", "taints", value=[])
    assert make(cluster, under_pressure, check=True).failure == ""


def test_target_that_is_not_ready_is_refused_with_its_taint(cluster: TraceServer) -> None:
    plan = planned(cluster)
    taint = {"key": "node.kubernetes.io/unreachable", "effect": "NoSchedule"}
    patch(cluster, "/api/v1/nodes/w2", "spec", "taints", value=[taint])
    assert refusal(cluster, plan) == [
        "VirtualMachine shop/web0 cannot move to w2 any more, only to w3:"
        " w2 has the taint node.kubernetes.io/unreachable"
    ]


def test_other_zone_of_the_target_is_refused_where_the_zone_is_pinned(
    cluster: TraceServer,
) -> None:
    """Without the pin a move is made while a new plan has it, too."""
    plan, pinned = planned(cluster), planned(cluster, pin_target_zone=True)
    patch(cluster, "/api/v1/nodes/w2", "metadata", "labels", "team", value="blue")
    assert make(cluster, plan, check=True).failure == ""

    patch(cluster, "/api/v1/nodes/w2", "metadata", "labels", ZONE, value="d")
    assert make(cluster, plan, check=True).failure == ""
    assert refusal(cluster, pinned) == [
        "VirtualMachine shop/web0 would move to zone d: w2 was in zone b"
    ]


def test_placement_that_makes_the_move_impossible_is_refused(cluster: TraceServer) -> None:
    plan = planned(cluster)
    path = ("spec", "template", "spec", "nodeSelector")
    patch(cluster, f"{VMS}/web0", *path, value={"no/such": "label"})
    (change,) = refusal(cluster, plan)
    assert change.startswith("VirtualMachine shop/web0 cannot be moved as planned: ")


def test_rule_that_ended_is_refused(cluster: TraceServer) -> None:
    """The other VM of the rule is gone, so nothing is violated any more."""
    plan = planned(cluster)
    for path in (f"{VMS}/web1", f"{VMIS}/web1", f"{PODS}/virt-launcher-web1"):
        cluster.change("DELETED", path, cluster.objects[path])
    assert refusal(cluster, plan) == [
        "VirtualMachine shop/web0 needs no move any more: it violates nothing on w1"
    ]


def test_instances_that_are_gone_are_each_named(cluster: TraceServer) -> None:
    plan = planned(cluster, scope="all")
    assert len(plan["moves"]) == 4
    for name in ("db0", "db1"):
        for path in (f"{VMIS}/{name}", f"{PODS}/virt-launcher-{name}"):
            cluster.change("DELETED", path, cluster.objects[path])
    assert [text for text in refusal(cluster, plan) if "/db" in text] == [
        "VirtualMachine shop/db0 has no instance any more",
        "VirtualMachine shop/db1 has no instance any more",
    ]


def test_vmi_of_another_uid_is_refused(cluster: TraceServer) -> None:
    """The VM was restarted since."""
    plan = planned(cluster)
    text = json.dumps(cluster.objects[f"{VMIS}/web0"])
    uid = "VirtualMachineInstance-web0"
    cluster.change("MODIFIED", f"{VMIS}/web0", json.loads(text.replace(uid, "new")))
    text = json.dumps(cluster.objects[f"{PODS}/virt-launcher-web0"])
    cluster.change("MODIFIED", f"{PODS}/virt-launcher-web0", json.loads(text.replace(uid, "new")))
    (change,) = refusal(cluster, plan)
    assert change.startswith(
        f"VirtualMachine shop/web0 was replaced: the instance with uid {uid} is gone. The one"
    )
    assert change.endswith("it is not among the moves of the plan")


def test_plan_of_scope_all_is_not_made_twice(cluster: TraceServer) -> None:
    plan = planned(cluster, scope="all", workloads=["web0"])
    make(cluster, plan)
    again = make(cluster, plan)
    assert (again.failure, again.moves, again.changed) == ("", [], False)


def test_plan_of_another_cluster_is_refused(cluster: TraceServer) -> None:
    plan = planned(cluster)
    patch(cluster, "/api/v1/namespaces/kube-system", "metadata", "uid", value="other")
    with pytest.raises(
        InvalidInput, match=r"is of cluster Namespace-kube-system, and .* is cluster other"
    ):
        make(cluster, plan)


def test_edited_plan_is_refused(cluster: TraceServer) -> None:
    plan = planned(cluster)
    plan["moves"][0]["method"] = "restart"
    with pytest.raises(InvalidInput, match="plan: was edited after it was made"):
        read_plan(plan, ROLLOUT_PLAN)


def test_plan_of_another_format_is_refused(cluster: TraceServer) -> None:
    plan = {**planned(cluster), "format": 0}
    with pytest.raises(InvalidInput, match="has format 0, and this release reads 4"):
        read_plan({**plan, "checksum": checksum(plan)}, ROLLOUT_PLAN)


@pytest.mark.parametrize("given", [{}, {"moves": []}, {"format": 4}])
def test_what_is_no_plan_is_refused(given: JSON) -> None:
    with pytest.raises(InvalidInput, match="is not a plan that rollout returned in check mode"):
        read_plan(given, ROLLOUT_PLAN)


@pytest.mark.parametrize(
    "content",
    [
        {},
        {"cluster_uid": "u", "options": [], "moves": 3},
    ],
)
def test_damaged_plan_with_a_right_checksum_is_refused(content: JSON) -> None:
    content = {"format": 4, "module": "rollout", **content}
    with pytest.raises(InvalidInput, match="plan: is damaged"):
        read_plan({**content, "checksum": checksum(content)}, ROLLOUT_PLAN)


def test_plan_is_refused_where_nothing_reads_it() -> None:
    """As where the folder approval is deleted."""
    with pytest.raises(InvalidInput) as refused:
        options_with_plan({"plan": {"format": 4}}, {}, {})
    assert str(refused.value) == "plan: cannot be carried out by this installation"
    assert options_with_plan({"plan": None}, {}, {}) == ({"plan": None}, None)


def test_option_that_differs_from_the_plan_is_refused(cluster: TraceServer) -> None:
    plan = planned(cluster, max_moves=5)
    assert options(plan).max_moves == 5
    assert options(plan, max_moves=5).max_moves == 5
    with pytest.raises(InvalidInput) as refused:
        options(plan, max_moves=7, scope="all")
    assert [error.where for error in refused.value.errors] == ["scope", "max_moves"]
    assert "is 7, and the plan was made with 5" in str(refused.value)


def test_same_options_in_another_order_are_no_difference(cluster: TraceServer) -> None:
    window = {"start": "00:00", "end": "23:59", "timezone": "UTC"}
    given = {"namespaces": ["shop", "kube-system"], "allow": ["restart", "migrate"]}
    plan = planned(cluster, **given, window={**window, "days": ["sat", "sun"]})
    turned = {name: value[::-1] for name, value in given.items()}
    made = options(plan, **turned, window={**window, "days": ["sun", "sat"]})
    assert made.namespaces == ("shop", "kube-system")
    plan = planned(cluster, workloads=["web0", {"kind": "VirtualMachine", "name": "web1"}])
    assert options(plan, workloads=[{"name": "web1", "kind": "VirtualMachine"}, "web0"])
    with pytest.raises(InvalidInput, match="namespaces: is "):
        options(plan, namespaces=["kube-system", "other"])


def test_plan_has_other_checksum_with_each_value(cluster: TraceServer) -> None:
    plan = planned(cluster)
    values = {
        "cluster_uid": "other",
        "options": {**plan["options"], "scope": "all"},
        "moves": [],
    }
    checksums = {checksum({**plan, name: value}) for name, value in values.items()}
    assert len(checksums | {plan["checksum"]}) == 4


def test_checksum_is_of_the_content_and_not_of_its_order(cluster: TraceServer) -> None:
    plan = planned(cluster)
    assert isinstance(read_plan(dict(reversed(plan.items())), ROLLOUT_PLAN), RunPlan)


def moving(uid: str, source: str = "w1", method: Method = Method.MIGRATE) -> Move:
    ref = Ref("VirtualMachineInstance", "shop", uid)
    return Move(ref, uid, Ref("VirtualMachine", "shop", uid), method, source, ("w2",), "")


def approved(*moves: Move) -> RunPlan:
    return RunPlan("uid", {}, moves)


def running(uid: str, node: str = "w1") -> Instance:
    ref = Ref("VirtualMachineInstance", "shop", uid)
    return Instance(ref, uid, None, Pod("shop", uid, node_name=node))


def narrowed() -> PlanRequest:
    """The request of a rollout whose approved plan migrates a."""
    approval = ApprovedRollout(approved(moving("a")))
    return approval.narrow(approval.prefer(REQUEST))


def test_move_by_another_method_than_approved_is_not_planned() -> None:
    (moves,) = narrowed().late
    a = running("a")
    assert moves.permits(a, Method.MIGRATE)
    assert moves.obstacle(a, Method.RESTART) is None
    assert not moves.permits(a, Method.RESTART)
    otherwise = "the plan moves it by migrate, and now it would move by restart"
    assert moves.obstacle(a, Method.MIGRATE) == Obstacle("unlike_plan", otherwise)


def test_instance_that_has_moved_since_is_settled() -> None:
    (moved,) = narrowed().settled
    assert moved.obstacle(running("a"), Method.MIGRATE) is None
    elsewhere = "the plan moves it from w1, and it runs on w9 now"
    assert moved.obstacle(running("a", "w9"), Method.MIGRATE) == Obstacle("unlike_plan", elsewhere)
    assert moved.obstacle(running("b", "w9"), Method.MIGRATE) is None


def test_instance_without_an_approved_move_is_kept() -> None:
    (moves,) = narrowed().late
    assert moves.obstacle(running("b"), Method.MIGRATE) == NOT_IN_PLAN


def test_moves_begin_in_the_order_of_the_approved_plan() -> None:
    """The first ones are the canary."""
    approval = ApprovedRollout(approved(moving("b"), moving("a")))
    plan = approval.order(Plan((moving("a"), moving("b"))))
    assert [move.uid for move in plan.moves] == ["b", "a"]


def test_moves_that_could_not_be_made_are_named_and_moved_instances_are_not() -> None:
    def skipped(uid: str, node: str) -> SkippedInstance:
        move = moving(uid)
        why = Obstacle("no_node", "no node is available")
        return SkippedInstance(move.instance, uid, move.workload, node, why)

    plan = approved(moving("a"), moving("b"))
    seen = [skipped("a", "w1"), skipped("b", "w2"), skipped("other", "w1")]
    result = StepResult(finished=True, state=RunState())
    judge_approved(result, plan, seen[1:])
    assert result.failure == ""
    judge_approved(result, plan, seen)
    assert result.failure == (
        "1 move of the plan was not made: VirtualMachine shop/a: no node is available"
    )


def test_run_does_not_wait_for_instances_that_the_plan_does_not_move() -> None:
    def skipped(uid: str) -> SkippedInstance:
        return SkippedInstance(moving(uid).instance, uid, None, "w1", NOT_IN_PLAN, temporary=True)

    approval = ApprovedRollout(approved(moving("a")))
    plan = approval.order(Plan(skipped=(skipped("a"), skipped("b"))))
    assert [x.temporary for x in plan.skipped] == [True, False]
