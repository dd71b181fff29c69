# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The plan of a maintenance is carried out as it was approved, or refused before the first write."""

from __future__ import annotations

import contextlib
import copy
import datetime
import json
import typing as t

import pytest

from ansible_collections.virt.placement.plugins.module_utils.approval.plan import read_plan
from ansible_collections.virt.placement.plugins.module_utils.maintenance.returned_plan import (
    DRAIN_PLAN,
    joined,
)
from ansible_collections.virt.placement.plugins.module_utils.moves.run_plan import checksum
from tests.fuzz import cluster
from tests.support.modules import run
from tests.unit.maintenance.test_kills import (
    EVERY,
    SERVICED,
    WRITES,
    Killed,
    KubeVirt,
    maintain,
    service,
    three_zones,
)

JSON = t.Any
VMS = "/apis/kubevirt.io/v1/namespaces/shop/virtualmachines"
VMIS = "/apis/kubevirt.io/v1/namespaces/shop/virtualmachineinstances"
PODS = "/api/v1/namespaces/shop/pods"
HEAD = "plan: the cluster has changed since it was made, and nothing was done: make a new plan in check mode"


def at(node: str) -> str:
    return f"/api/v1/nodes/{node}"


def planned(server: KubeVirt, *nodes: str, **options: JSON) -> JSON:
    """The plan of check mode."""
    asked = {"nodes": list(nodes), "state": "drained", **options}
    checked = run("node_maintenance", server, asked, check=True)
    assert not checked.get("failed"), checked["msg"]
    return checked["plan"]


def of_two_nodes(server: KubeVirt) -> JSON:
    """w1, and then w3, as the role plans them."""
    return joined([planned(server, "w1"), planned(server, "w3", assume_in_service=["w1"])])


def carried_out(server: KubeVirt, plan: JSON, **options: JSON) -> JSON:
    return maintain(server, "drained", "", **{"nodes": None, "plan": plan, **options})


def refusal(server: KubeVirt, plan: JSON, **options: JSON) -> list[str]:
    """The lines of a refusal, in a run and in check mode alike. Nothing is written."""
    written = len(server.writes)
    asked = {"state": "drained", "plan": plan, **options}
    checked = run("node_maintenance", server, asked, check=True)
    result = carried_out(server, plan, **options)
    assert result["failed"] and result["msg"] == checked["msg"]
    assert len(server.writes) == written
    count, *lines = str(result["msg"]).splitlines()
    return [line.removeprefix("- ") for line in lines] if count.endswith(" errors:") else [count]


def changes(server: KubeVirt, plan: JSON, **options: JSON) -> list[str]:
    head, *lines = refusal(server, plan, **options)
    assert head == HEAD
    return [line.removeprefix("plan: ") for line in lines]


def harmless(server: KubeVirt, plan: JSON) -> None:
    checked = run("node_maintenance", server, {"state": "drained", "plan": plan}, check=True)
    assert not checked.get("failed"), checked["msg"]


def patch(server: KubeVirt, path: str, *keys: str, value: JSON) -> None:
    item = copy.deepcopy(server.objects[path])
    inside = item
    for key in keys[:-1]:
        inside = inside.setdefault(key, {})
    inside[keys[-1]] = value
    server.objects[path] = item


def on(server: KubeVirt, node: str) -> list[str]:
    vmis = server.of("virtualmachineinstances").items()
    return [name for name, vmi in vmis if vmi["status"]["nodeName"] == node]


def add_vm(server: KubeVirt, name: str, node: str) -> None:
    for item in cluster._virtual_machine("shop", name, node):
        server.objects[cluster.path_of(item)] = copy.deepcopy(item)


def move(server: KubeVirt, name: str, node: str) -> None:
    """Another client has migrated it."""
    text = json.dumps(server.objects[f"{PODS}/virt-launcher-{name}-x1"])
    old = server.objects[f"{VMIS}/{name}"]["status"]["nodeName"]
    for path in (f"{VMIS}/{name}", f"{PODS}/virt-launcher-{name}-x1"):
        text = json.dumps(server.objects[path]).replace(f'"{old}"', f'"{node}"')
        server.objects[path] = json.loads(text)


def restarted(server: KubeVirt, name: str) -> None:
    """The VMI is another one, of the same VM."""
    uid = f"virtualmachineinstance-shop-{name}"
    for path in list(server.objects):
        if f"-{name}" in path or path.endswith(f"/{name}"):
            text = json.dumps(server.objects[path]).replace(uid, f"{uid}-new")
            server.objects[path] = json.loads(text)


def remove_vm(server: KubeVirt, name: str) -> None:
    for path in (f"{VMS}/{name}", f"{VMIS}/{name}", f"{PODS}/virt-launcher-{name}-x1"):
        del server.objects[path]


def add_pods(server: KubeVirt, name: str, *nodes: str, volumes: JSON = ()) -> None:
    """A Deployment, with a pod on each node."""
    deployment = cluster._replicated(
        "apps/v1", "Deployment", name, "shop", template=cluster._pod_template(name)
    )
    replica_set = cluster._object(
        "apps/v1", "ReplicaSet", f"{name}-h1", "shop", metadata=cluster._owned_by(deployment)
    )
    pods = list(cluster._pods("shop", replica_set, f"{name}-h1", nodes))
    for pod in pods:
        pod["spec"]["volumes"] = list(volumes)
    for item in (deployment, replica_set, *pods):
        server.objects[cluster.path_of(item)] = copy.deepcopy(item)


def test_plan_has_nodes_moves_and_limits() -> None:
    server = three_zones()
    add_pods(server, "cache", "w1")
    plan = planned(server, "w1", vm_policy=["migrate", "restart"])

    assert (plan["module"], plan["cluster_uid"]) == ("node_maintenance", "namespace--kube-system")
    assert plan["nodes"] == [{"name": "w1", "uid": "node-w1"}]
    moves = {move["name"]: move for move in plan["moves"]}
    assert sorted(moves) == ["cache", "w1-0", "w1-1", "w1-2", "w1-3"]
    assert (moves["cache"]["method"], "vm_policy" in moves["cache"]) == ("evict", False)
    assert (moves["w1-0"]["method"], moves["w1-0"]["vm_policy"]) == ("migrate", "migrate")
    assert moves["w1-0"]["owner_uid"] == "virtualmachine-shop-w1-0"
    assert moves["w1-0"]["from_node"] == "w1" and moves["w1-0"]["to_node"] not in (None, "w1")
    assert plan["options"]["vm_policy"] == ["migrate", "restart"]
    assert (plan["options"]["max_nodes"], plan["options"]["allow_findings"]) == (1, [])
    assert "relies_on" not in plan
    assert read_plan(plan, DRAIN_PLAN).as_json() == plan
    assert planned(server, "w1", vm_policy=["migrate", "restart"]) == plan


@pytest.mark.parametrize("state", ["cordoned", "in_service"])
def test_other_states_have_no_plan(state: str) -> None:
    server = three_zones()
    plan = planned(server, "w1")
    asked = {"nodes": ["w1"], "state": state}
    assert "plan" not in run("node_maintenance", server, asked, check=True)
    refused = run("node_maintenance", server, {**asked, "plan": plan}, check=True)
    assert refused["msg"] == f"plan: is for the state drained, and not {state}"


def test_plan_is_carried_out_and_is_done_afterwards() -> None:
    server = three_zones()
    plan = planned(server, "w1")
    result = carried_out(server, plan)
    assert not result.get("failed"), result["msg"]
    assert "plan" not in result
    assert (on(server, "w1"), result["nodes"][0]["state"]) == ([], "drained")

    written = len(server.writes)
    again = carried_out(server, plan)
    assert (again["changed"], again["moves"]) == (False, [])
    assert len(server.writes) == written


def test_check_mode_with_a_plan_returns_that_plan() -> None:
    server = three_zones()
    plan = planned(server, "w1")
    add_pods(server, "cache", "w1")
    asked = {"state": "drained", "plan": plan}
    assert run("node_maintenance", server, asked, check=True)["plan"] == plan


@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
@pytest.mark.parametrize("write", range(1, 28, EVERY))
def test_killed_job_continues_with_the_same_plan(write: int, after: bool) -> None:
    server = three_zones()
    plan = planned(server, "w1")
    server.kill_at, server.after = write, after
    with contextlib.suppress(Killed):
        carried_out(server, plan)
    server.dead = False
    result = carried_out(server, plan)
    assert not result.get("failed"), result["msg"]
    assert on(server, "w1") == []


def test_later_node_accepts_vms_that_the_maintenance_moved_there() -> None:
    """All VMs of w1 were migrated to w2 or w3, and one of them was restarted."""
    server = three_zones()
    plan = of_two_nodes(server)
    assert [node["name"] for node in plan["nodes"]] == ["w1", "w3"]
    for name in on(server, "w1"):
        move(server, name, "w3")
    restarted(server, "w1-2")
    assert len(on(server, "w3")) == 8

    result = carried_out(server, plan, nodes=["w3"])
    assert not result.get("failed"), result["msg"]
    assert on(server, "w3") == []


def test_later_node_is_refused_where_a_vm_came_from_elsewhere() -> None:
    server = three_zones()
    plan = of_two_nodes(server)
    move(server, "w5-0", "w3")
    assert changes(server, plan, nodes=["w3"]) == [
        "VirtualMachine shop/w5-0 on node w3: it is not among the moves of the plan"
    ]


def test_node_that_is_not_of_the_plan_is_refused() -> None:
    server = three_zones()
    assert refusal(server, planned(server, "w1"), nodes=["w3", "w1"]) == [
        "nodes: 'w3' is not among the nodes of the plan: w1"
    ]


def test_new_vm_is_refused() -> None:
    server = three_zones()
    plan = planned(server, "w1")
    add_vm(server, "new", "w1")
    assert changes(server, plan) == [
        "VirtualMachine shop/new on node w1: it is not among the moves of the plan"
    ]


def test_vm_that_was_made_anew_is_refused_and_one_that_was_restarted_is_not() -> None:
    server = three_zones()
    plan = planned(server, "w1")
    restarted(server, "w1-0")
    harmless(server, plan)
    for path in (f"{VMS}/w1-0", f"{VMIS}/w1-0"):
        text = json.dumps(server.objects[path]).replace("virtualmachine-shop-w1-0", "another")
        server.objects[path] = json.loads(text)
    assert changes(server, plan) == [
        "VirtualMachine shop/w1-0 on node w1: it is not among the moves of the plan"
    ]


def test_vms_that_left_or_are_gone_are_done() -> None:
    server = three_zones()
    plan = planned(server, "w1")
    move(server, "w1-0", "w2")
    remove_vm(server, "w1-1")
    result = carried_out(server, plan)
    assert not result.get("failed"), result["msg"]
    assert sorted(move["name"] for move in result["moves"]) == ["w1-2", "w1-3"]


def test_other_way_of_a_vm_is_refused() -> None:
    server = three_zones()
    plan = planned(server, "w1", vm_policy=["migrate", "stop"])
    condition = {"type": "LiveMigratable", "status": "False", "reason": "DisksNotLiveMigratable"}
    patch(server, f"{VMIS}/w1-3", "status", "conditions", value=[condition])
    label = {"placement.virt/vm-policy": "stop"}
    patch(server, f"{VMS}/w1-2", "metadata", "labels", value=label)
    first, second = changes(server, plan)
    assert first == (
        "VirtualMachine shop/w1-2 on node w1: the plan moves it by migrate, and now it would move by stop"
    )
    assert second.startswith(
        "VirtualMachine shop/w1-3 on node w1: the plan moves it by migrate, and now it would move by stop (not migrate:"
    )


def test_vm_that_would_stay_off_is_refused() -> None:
    """Both policies stop it, and only one of them starts it again."""
    server = three_zones()
    plan = planned(server, "w1", vm_policy=["stop_and_start"])
    label = {"placement.virt/vm-policy": "stop"}
    patch(server, f"{VMS}/w1-2", "metadata", "labels", value=label)
    (change,) = changes(server, plan)
    assert change.endswith("moves it by stop_and_start, and now it would move by stop")


def test_vm_that_stays_by_an_allowed_finding_is_not_in_the_plan_and_another_one_is_refused() -> (
    None
):
    server = three_zones()
    condition = {"type": "LiveMigratable", "status": "False", "reason": "DisksNotLiveMigratable"}
    patch(server, f"{VMIS}/w1-3", "status", "conditions", value=[condition])
    plan = planned(server, "w1", allow_findings=["not_migratable"])
    assert "w1-3" not in [move["name"] for move in plan["moves"]]
    harmless(server, plan)
    patch(server, f"{VMIS}/w1-2", "status", "conditions", value=[condition])
    (change,) = changes(server, plan)
    assert change.startswith("new finding not_migratable: VirtualMachineInstance shop/w1-2 on node")


@pytest.mark.parametrize("phase", ["Scheduling", "Paused"])
def test_new_vm_that_does_not_run_yet_is_refused(phase: str) -> None:
    server = three_zones()
    plan = planned(server, "w1")
    add_vm(server, "new", "w1")
    patch(server, f"{VMIS}/new", "status", "phase", value=phase)
    (change,) = changes(server, plan)
    assert change.startswith("VirtualMachine shop/new on node w1: it is not among the moves")


def test_vm_that_does_not_report_yet_whether_it_can_be_migrated_is_no_change() -> None:
    server = three_zones()
    plan = planned(server, "w1")
    patch(server, f"{VMIS}/w1-2", "status", "conditions", value=[])
    harmless(server, plan)


class Fails(KubeVirt):
    """Each migration fails."""

    def _migrate(self, path: str) -> None:
        self._change(path, "status", {"phase": "Failed"})


def test_vm_whose_migration_fails_is_not_stopped_against_the_plan() -> None:
    server = Fails(three_zones().objects)
    plan = planned(server, "w1", vm_policy=["migrate", "stop"])
    result = carried_out(server, plan)
    assert result["msg"].startswith("not drained: VirtualMachine shop/w1-0 on w1: ")
    assert "the plan moves it by migrate, and now it would move by stop" in result["msg"]
    assert server.puts == [] and len(on(server, "w1")) == 4


def start_late(server: KubeVirt, method: str, path: str) -> None:
    """A VM starts on w1 just before the first such request."""
    server.add_fault(method, path, lambda _request: add_vm(server, "late", "w1"), 1)


def test_vm_that_starts_meanwhile_is_left_and_named() -> None:
    server = three_zones()
    plan = planned(server, "w1")
    start_late(server, "PATCH", at("w1"))
    result = carried_out(server, plan)
    assert result["msg"].startswith(
        "not drained: VirtualMachine shop/late on w1: it is not among the moves of the plan"
    )
    assert on(server, "w1") == ["late"]


def test_pods_that_come_and_go_make_no_plan_stale() -> None:
    server = three_zones()
    add_pods(server, "cache", "w1")
    plan = planned(server, "w1")
    del server.objects[f"{PODS}/cache-h1-0"]
    harmless(server, plan)
    add_pods(server, "other", "w1", "w1")
    harmless(server, plan)


SCRATCH = [{"name": "scratch", "emptyDir": {}}]


def test_new_finding_is_refused_and_the_next_pod_of_a_workload_is_none() -> None:
    server = three_zones()
    add_pods(server, "cache", "w1", volumes=SCRATCH)
    plan = planned(server, "w1", allow_findings=["local_data_lost"])
    pod = server.objects.pop(f"{PODS}/cache-h1-0")
    pod["metadata"] |= {"name": "cache-h1-9", "uid": "cache-h1-9"}
    server.objects[f"{PODS}/cache-h1-9"] = pod
    harmless(server, plan)

    add_pods(server, "other", "w1", volumes=SCRATCH)
    (change,) = changes(server, plan)
    assert change.startswith("new finding local_data_lost: Pod shop/other-h1-0 on node w1")


def test_changes_that_leave_the_moves_as_planned_are_harmless() -> None:
    """A planned move is made while a new plan has it, too: cordons, labels, placement fields and quotas."""
    server = three_zones()
    plan = planned(server, "w1")
    patch(server, at("w4"), "spec", "unschedulable", value=True)
    patch(server, at("w4"), "metadata", "labels", cluster.ZONE, value="other")
    patch(server, at("w1"), "spec", "unschedulable", value=True)
    patch(server, at("w1"), "metadata", "labels", cluster.ZONE, value="z")
    quota = cluster._object(
        "v1", "ResourceQuota", "most", "shop", spec={"hard": {"pods": "99"}}, status={}
    )
    server.objects[cluster.path_of(quota)] = quota
    spread = [{"maxSkew": 9, "topologyKey": cluster.ZONE, "whenUnsatisfiable": "ScheduleAnyway"}]
    path = ("spec", "template", "spec", "topologySpreadConstraints")
    patch(server, f"{VMS}/w1-0", *path, value=spread)
    result = carried_out(server, plan)
    assert not result.get("failed"), result["msg"]
    assert on(server, "w1") == []


def test_nodes_that_are_gone_or_replaced_are_each_named_with_the_vms() -> None:
    server = three_zones()
    plan = of_two_nodes(server)
    patch(server, at("w1"), "metadata", "uid", value="other")
    del server.objects[at("w3")]
    add_vm(server, "new", "w1")
    assert changes(server, plan, nodes=["w1", "w3"], max_nodes=1) == [
        "Node w1 was replaced: its uid is other, and was node-w1",
        "Node w3 does not exist any more",
        "VirtualMachine shop/new on node w1: it is not among the moves of the plan",
    ]


def test_change_while_the_task_waits_for_the_lease_is_refused() -> None:
    server = three_zones()
    plan = planned(server, "w1")
    start_late(server, "PATCH", "leases")
    result = carried_out(server, plan)
    assert (
        "VirtualMachine shop/late on node w1: it is not among the moves of the plan"
        in (result["msg"])
    )
    assert ("PATCH", at("w1")) not in server.writes


def test_plan_of_another_cluster_is_refused() -> None:
    server = three_zones()
    plan = planned(server, "w1")
    patch(server, "/api/v1/namespaces/kube-system", "metadata", "uid", value="other")
    add_vm(server, "new", "w1")
    (line,) = refusal(server, plan)
    assert line.startswith("plan: is of cluster namespace--kube-system, and ")
    assert line.endswith("is cluster other: check the connection. Nothing was done")


def test_limits_that_differ_are_each_refused() -> None:
    server = three_zones()
    plan = planned(server, "w1", vm_policy=["migrate", "restart"], max_nodes=2)
    harmless(server, plan)
    given = {"vm_policy": ["restart", "migrate"], "max_nodes": 3, "allow_findings": ["bare_pod"]}
    lines = refusal(server, plan, **given)
    assert [line.partition(":")[0] for line in lines] == [
        "vm_policy",
        "max_nodes",
        "allow_findings",
    ]
    assert lines[1].startswith("max_nodes: is 3, and the plan was made with 2")


@pytest.mark.parametrize(
    ("edit", "fault"),
    [
        ({"format": 2}, "has format 2, and this release reads 4"),
        ({"module": "rollout"}, "is a plan of rollout, and not of node_maintenance"),
        ({"nodes": [{"name": "w1"}]}, "is damaged (its field 'uid' is missing)"),
        ({"findings": 3}, "is damaged (a value in it has a wrong type"),
        ({"moves": [{}]}, "is damaged (its field '"),
    ],
)
def test_bad_plan_is_refused(edit: JSON, fault: str) -> None:
    server = three_zones()
    plan = {**planned(server, "w1"), **edit}
    (line,) = refusal(server, {**plan, "checksum": checksum(plan)})
    assert line.startswith(f"plan: {fault}")
    if "format" not in edit and "module" not in edit:
        (line,) = refusal(server, plan)
        assert line.startswith("plan: was edited after it was made")


def test_move_of_a_vm_without_a_policy_is_damaged() -> None:
    server = three_zones()
    plan = planned(server, "w1")
    del plan["moves"][0]["vm_policy"]
    (line,) = refusal(server, {**plan, "checksum": checksum(plan)})
    assert line.startswith("plan: is damaged (its field 'vm_policy' is missing)")


def test_plan_is_made_outside_of_its_window_and_waits_for_it() -> None:
    server = three_zones()
    inside = planned(server, "w1")
    now, hour = datetime.datetime.now(datetime.timezone.utc), datetime.timedelta(hours=1)
    window = {"start": f"{now + hour:%H:%M}", "end": f"{now + 2 * hour:%H:%M}"}
    plan = planned(server, "w1", window=window)
    assert [plan[name] for name in ("nodes", "moves")] == [
        inside[name] for name in ("nodes", "moves")
    ]
    waits = carried_out(server, plan)
    assert waits["stop_reason"].startswith("outside of the window from ")
    assert server.writes == []


def test_drain_that_would_be_refused_in_the_window_has_no_plan() -> None:
    server = three_zones()
    condition = {"type": "LiveMigratable", "status": "False", "reason": "DisksNotLiveMigratable"}
    patch(server, f"{VMIS}/w1-3", "status", "conditions", value=[condition])
    now, hour = datetime.datetime.now(datetime.timezone.utc), datetime.timedelta(hours=1)
    window = {"start": f"{now + hour:%H:%M}", "end": f"{now + 2 * hour:%H:%M}"}
    asked = {"nodes": ["w1"], "state": "drained", "window": window}
    checked = run("node_maintenance", server, asked, check=True)
    assert checked["failed"] and "plan" not in checked
    assert [error["object"] for error in checked["errors"]] == ["not_migratable"]


@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
@pytest.mark.parametrize("write", range(1, WRITES, EVERY))
def test_maintenance_of_three_zones_killed_at_a_write_continues_with_its_plan(
    write: int, after: bool
) -> None:
    """VMs of each zone may be moved to nodes of the others."""
    server = three_zones()
    plans = []
    for number, name in enumerate(SERVICED):
        plans.append(planned(server, name, assume_in_service=list(SERVICED[:number])))
    plan = joined(plans)
    server.kill_at, server.after = write, after
    with contextlib.suppress(Killed):
        service(server, plan=plan)
    server.dead = False
    service(server, plan=plan)
    done = len(server.writes)
    service(server, plan=plan)
    assert len(server.writes) == done
    assert not [name for name in SERVICED if server.objects[at(name)]["spec"]]
