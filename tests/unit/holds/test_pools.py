# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Pools whose own rollout is set aside: which VMs move, and when is the strategy given back?"""

from __future__ import annotations

import copy
import typing as t

import pytest

from ansible_collections.virt.placement.plugins.module_utils.compliance.instances import (
    InstanceSelection,
    movable_instances,
)
from ansible_collections.virt.placement.plugins.module_utils.holds import release as holds
from ansible_collections.virt.placement.plugins.module_utils.holds.hold import Hold
from ansible_collections.virt.placement.plugins.module_utils.kubevirt.labels import (
    POOL_REVISION,
)
from ansible_collections.virt.placement.plugins.module_utils.kubevirt.pending_changes import (
    changes_since_start,
)
from ansible_collections.virt.placement.plugins.module_utils.model.plan import Method, Plan
from ansible_collections.virt.placement.plugins.module_utils.model.snapshot import Snapshot
from ansible_collections.virt.placement.plugins.module_utils.moves.move_source import HeldRollouts
from ansible_collections.virt.placement.plugins.module_utils.planning.plan import plan_moves
from ansible_collections.virt.placement.plugins.module_utils.planning.plan_request import (
    PlanRequest,
)
from tests.support.api_server import ApiServer
from tests.support.cluster import Cluster, cluster, keep_apart
from tests.support.pools import change, pool

JSON = t.Any
SHOP = InstanceSelection(namespaces=frozenset({"shop"}))
APART = keep_apart(pool="web")


def made(nodes: str = "n1 n2 n3", **options: bool) -> tuple[Cluster, t.Any]:
    found = cluster("abcabc")
    ref = pool(found, "web", nodes.split())
    change(found, ref, APART, **options)
    return found, ref


def the_hold(snapshot: Snapshot) -> Hold:
    (hold,) = holds.holds_of(snapshot, SHOP, movable_instances(snapshot, SHOP))
    return hold


def of_run(snapshot: Snapshot) -> HeldRollouts:
    return holds.held_rollouts(snapshot, SHOP, movable_instances(snapshot, SHOP))


def plan(snapshot: Snapshot, *allow: Method) -> Plan:
    candidates = movable_instances(snapshot, SHOP)
    methods = frozenset(allow or {Method.MIGRATE})
    request = PlanRequest(SHOP, allow=methods, held=of_run(snapshot).replicas)
    return plan_moves(snapshot, request, candidates)


def end(server: ApiServer, hold: Hold) -> str:
    _count, why = holds.prepare(server.client(), hold)
    return str(why or holds.end(server.client(), hold) or "")


REVISIONS = "/apis/apps/v1/controllerrevisions"
FIRST = "/apis/apps/v1/namespaces/shop/controllerrevisions/web-1"


def serving(found: Cluster, ref: t.Any, *, before: JSON = None, refuses: str = "") -> ApiServer:
    """It has the revisions of a pool, and takes patches."""
    spec = found.workloads[ref]["spec"]
    old = copy.deepcopy(spec)
    old["virtualMachineTemplate"]["spec"]["template"]["spec"].pop("affinity", None)
    old["virtualMachineTemplate"]["metadata"]["creationTimestamp"] = None
    if before is not None:
        before(old["virtualMachineTemplate"]["spec"])
    server = ApiServer()
    for name, data in (("web-1", old), ("web-2", copy.deepcopy(spec))):
        metadata = {"namespace": "shop", "name": name}
        server.store(REVISIONS, {"metadata": metadata, "data": data})
    if refuses:
        server.add_fault("PATCH", refuses, 409)
    server.add_fault("PATCH", "", 200)
    return server


def test_vms_that_run_without_the_template_move_whatever_the_scope_is() -> None:
    found, _ref = made()
    moves = plan(found.snapshot()).moves
    assert {(move.instance.name, move.method) for move in moves} == {
        ("web-0", Method.MIGRATE),
        ("web-1", Method.MIGRATE),
        ("web-2", Method.MIGRATE),
    }
    snapshot = found.snapshot()
    (line,) = of_run(snapshot).lines
    assert "3 of 3 VMs are not of its present template" in line
    assert "update strategy proactive is given back" in line
    assert "until a rollout has moved them" in str(holds.why_kept(the_hold(snapshot)))


def test_vms_wait_for_the_template_of_their_pool() -> None:
    found, _ref = made(brought=False)
    snapshot = found.snapshot()
    left = plan(snapshot)
    assert left.moves == ()
    assert {(str(x.reason).rpartition("; ")[2], x.temporary) for x in left.skipped} == {
        ("KubeVirt has not brought the template of its pool to its VirtualMachine yet", True)
    }
    assert "has not seen the latest change" in str(of_run(snapshot).waiting)


def test_paused_pool_is_not_waited_for() -> None:
    found, ref = made(brought=False)
    found.workloads[ref]["spec"]["paused"] = True
    snapshot = found.snapshot()
    assert of_run(snapshot).waiting is None
    assert "resume it first" in str(holds.why_kept(the_hold(snapshot)))
    assert [x.temporary for x in plan(snapshot).skipped] == [False] * 3


def test_vm_of_a_pool_that_others_have_changed_is_not_waited_for() -> None:
    """KubeVirt 1.8 does not revert it (seen)."""
    found, _ref = made()
    changed = next(x for ref, x in found.workloads.items() if ref.name == "web-1")
    changed["spec"]["template"]["spec"]["nodeSelector"] = {"disk": "ssd"}
    snapshot = found.snapshot()
    left = plan(snapshot)
    assert {move.instance.name for move in left.moves} == {"web-0", "web-2"}
    (skipped,) = left.skipped
    assert "which KubeVirt does not revert: change it back" in str(skipped.reason)
    assert not skipped.temporary
    assert the_hold(snapshot).seen
    assert of_run(snapshot).waiting is None


def test_restart_of_a_vm_of_a_pool_needs_a_condition_that_only_the_vm_has() -> None:
    found, _ref = made()
    for vm in found.workloads.values():
        if vm["kind"] == "VirtualMachine":
            vm["status"] = {"conditions": [{"type": "RestartRequired", "status": "True"}]}
    for machine in found.machines.values():
        machine["spec"].pop("affinity")
    snapshot = found.snapshot()
    assert plan(snapshot).moves == ()
    moves = plan(snapshot, Method.MIGRATE, Method.RESTART).moves
    assert {move.method for move in moves} == {Method.RESTART}
    assert {move.workload.kind for move in moves} == {"VirtualMachinePool"}


def test_revision_of_a_pool_is_no_other_change_that_a_restart_applies() -> None:
    found, _ref = made()
    vm = found.workloads[next(ref for ref in found.workloads if ref.name == "web-0")]
    started = copy.deepcopy(vm["spec"])
    for spec, revision in ((started, "web-1"), (vm["spec"], "web-2")):
        spec["template"]["metadata"]["labels"][POOL_REVISION] = revision
    snapshot = found.snapshot()
    movable = next(x for x in movable_instances(snapshot, SHOP) if x.instance.ref.name == "web-0")
    assert movable.vm is not None
    vmi = movable.instance.vmi
    assert vmi is not None
    assert changes_since_start(started, movable.vm, vmi, snapshot.platform) == ()
    movable.vm.manifest["spec"]["template"]["metadata"]["labels"]["tier"] = "front"
    assert changes_since_start(started, movable.vm, vmi, snapshot.platform) == ("label tier",)


def test_pool_that_restarts_its_vms_itself_is_left_alone() -> None:
    found, ref = made()
    del found.workloads[ref]["spec"]["updateStrategy"]
    left = plan(found.snapshot())
    assert left.moves == ()
    # Its hold is over, so nothing has to move; and what violates would wait.
    found.workloads[ref]["metadata"].pop("annotations")
    found.machines["web-1"]["status"]["nodeName"] = "n1"
    found.pods["shop", "virt-launcher-web-1-1"]["spec"]["nodeName"] = "n1"
    left = plan(found.snapshot())
    assert left.moves == ()
    assert "the rollout of its workload is in progress" in str(left.skipped[0].reason)


@pytest.fixture
def after() -> tuple[Cluster, t.Any, Snapshot]:
    found, ref = made()
    found.pods.clear()
    for name, machine in found.machines.items():
        found.launcher(name, machine["status"]["nodeName"])
    return found, ref, found.snapshot()


def test_strategy_is_given_back_once_each_vmi_has_the_revision(
    after: tuple[Cluster, t.Any, Snapshot],
) -> None:
    found, ref, snapshot = after
    hold = the_hold(snapshot)
    assert hold.ends
    server = serving(found, ref)

    assert end(server, hold) == ""

    *relabeled, (path, body) = server.patches
    assert len(relabeled) == 3
    for _path, patch in relabeled:
        assert patch[-1] == {
            "op": "replace",
            "path": "/metadata/labels/" + POOL_REVISION.replace("/", "~1"),
            "value": "web-2",
        }
        assert any(x["op"] == "test" and x.get("value") == "web-1" for x in patch)
    assert path.endswith("virtualmachinepools/web")
    assert {"op": "remove", "path": "/spec/updateStrategy"} in body
    assert "update strategy is proactive again" in holds.ended(hold)
    assert {(x.verb, x.resource) for x in of_run(snapshot).rights} == {
        ("patch", "virtualmachinepools"),
        ("patch", "virtualmachineinstances"),
        ("get", "controllerrevisions"),
    }


def test_run_after_one_that_was_killed_between_two_labels_sets_the_others(
    after: tuple[Cluster, t.Any, Snapshot],
) -> None:
    found, ref, _snapshot = after
    found.machines["web-0"]["metadata"]["labels"][POOL_REVISION] = "web-2"
    server = serving(found, ref)
    assert end(server, the_hold(found.snapshot())) == ""
    assert [path.rpartition("/")[2] for path, _body in server.patches] == ["web-1", "web-2", "web"]


def memory(spec: JSON) -> None:
    spec["template"]["spec"]["domain"] = {"memory": {"guest": "8Gi"}}


def disk(spec: JSON) -> None:
    spec["dataVolumeTemplates"] = [{"metadata": {"name": "root"}, "spec": {}}]


@pytest.mark.parametrize("before", [memory, disk])
def test_vm_of_another_template_keeps_the_hold(
    after: tuple[Cluster, t.Any, Snapshot], before: JSON
) -> None:
    """KubeVirt would restart it, and may: the label must not hide that."""
    found, ref, snapshot = after
    server = serving(found, ref, before=before)
    why = end(server, the_hold(snapshot))
    assert "differs from the present one in more than placement" in why
    assert "Restart VirtualMachine shop/web-0, and run the rollout again" in why
    assert server.patches == []


@pytest.mark.parametrize("data", ["text", [], {"virtualMachineTemplate": {"spec": "text"}}, None])
def test_revision_of_any_shape_keeps_the_hold(
    after: tuple[Cluster, t.Any, Snapshot], data: JSON
) -> None:
    """A ControllerRevision has no schema."""
    found, ref, snapshot = after
    server = serving(found, ref)
    server.objects[FIRST]["data"] = data
    assert "stays held" in end(server, the_hold(snapshot))
    assert server.patches == []


def test_missing_revision_keeps_the_hold(after: tuple[Cluster, t.Any, Snapshot]) -> None:
    found, ref, snapshot = after
    server = serving(found, ref)
    del server.objects[FIRST]
    assert "is missing or damaged" in end(server, the_hold(snapshot))
    assert server.patches == []


def test_template_that_has_not_reached_the_vms_keeps_the_hold(
    after: tuple[Cluster, t.Any, Snapshot],
) -> None:
    """What is beside placement, too: KubeVirt would write it, and restart all."""
    found, ref, _snapshot = after
    server = serving(found, ref)
    found.workloads[ref]["metadata"]["generation"] = 3
    template = found.workloads[ref]["spec"]["virtualMachineTemplate"]["spec"]["template"]
    template["spec"]["domain"] = {"memory": {"guest": "9Gi"}}
    assert "has not brought its latest template" in end(server, the_hold(found.snapshot()))
    assert server.patches == []


def test_later_generation_of_the_same_template_ends_the_hold(
    after: tuple[Cluster, t.Any, Snapshot],
) -> None:
    """It was scaled meanwhile; and Go writes quantities in another way."""
    found, ref, _snapshot = after
    spec = found.workloads[ref]["spec"]["virtualMachineTemplate"]["spec"]["template"]["spec"]
    spec["domain"] = {"memory": {"guest": "1024Mi"}}
    server = serving(found, ref)
    for revision in server.objects.values():
        made_from = revision["data"]["virtualMachineTemplate"]["spec"]["template"]["spec"]
        made_from["domain"] = {"memory": {"guest": "1Gi"}, "devices": {}}
    found.workloads[ref]["metadata"]["generation"] = 3
    assert end(server, the_hold(found.snapshot())) == ""


@pytest.mark.parametrize("place", ["virtualmachineinstances/web-1", "virtualmachinepools"])
def test_change_at_the_same_time_keeps_the_hold(
    after: tuple[Cluster, t.Any, Snapshot], place: str
) -> None:
    found, ref, snapshot = after
    server = serving(found, ref, refuses=place)
    assert end(server, the_hold(snapshot)).endswith("Run the rollout again")
    assert not any("virtualmachinepools" in path for path, _body in server.patches)


def tier(spec: JSON) -> None:
    spec["template"]["metadata"]["labels"]["tier"] = "back"


def test_label_that_only_a_restart_brings_keeps_the_hold(
    after: tuple[Cluster, t.Any, Snapshot],
) -> None:
    """A user has removed one from the template meanwhile; labels of rules reach running VMIs."""
    found, ref, _snapshot = after
    server = serving(found, ref, before=tier)
    for machine in found.machines.values():
        machine["metadata"]["labels"]["tier"] = "back"
    why = end(server, the_hold(found.snapshot()))
    assert "the label tier of VirtualMachineInstance shop/web-0" in why
    assert server.patches == []
    for machine in found.machines.values():
        del machine["metadata"]["labels"]["tier"]
    assert end(server, the_hold(found.snapshot())) == ""


def test_check_mode_reads_why_a_hold_stays_and_writes_nothing(
    after: tuple[Cluster, t.Any, Snapshot],
) -> None:
    found, ref, snapshot = after
    server = serving(found, ref)
    assert holds.prepare(server.client(), the_hold(snapshot), check=True) == (3, None)
    del server.objects[FIRST]
    _count, why = holds.prepare(server.client(), the_hold(snapshot), check=True)
    assert why is not None
    assert "is missing or damaged" in why.text
    assert server.patches == []


def test_labels_that_were_written_count_though_the_hold_stays(
    after: tuple[Cluster, t.Any, Snapshot],
) -> None:
    found, ref, snapshot = after
    server = serving(found, ref, refuses="virtualmachineinstances/web-2")
    count, why = holds.prepare(server.client(), the_hold(snapshot))
    assert count == 2
    assert str(why).endswith("Run the rollout again")


def test_advice_to_end_a_hold_by_hand_says_what_kubevirt_restarts() -> None:
    found, ref = made()
    found.workloads[ref]["metadata"]["annotations"]["placement.virt/hold"] = "{"
    snapshot = found.snapshot()
    why = holds.why_kept(the_hold(snapshot))
    assert "Set its update strategy by hand" in str(why)
    assert f"Before that, give each of its VMIs the label {POOL_REVISION}" in str(why)
