# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""A migration in flight violates no rule, but its pods count for other VMs."""

from __future__ import annotations

import functools
from dataclasses import replace

import pytest

from ansible_collections.virt.placement.plugins.module_utils.compliance.instances import (
    InstanceSelection,
    movable_instances,
)
from ansible_collections.virt.placement.plugins.module_utils.kubevirt.instances import (
    InFlight,
    in_flight,
    settled,
)
from ansible_collections.virt.placement.plugins.module_utils.model.objects import (
    Owner,
    Pod,
    Ref,
)
from ansible_collections.virt.placement.plugins.module_utils.model.plan import Method
from ansible_collections.virt.placement.plugins.module_utils.model.snapshot import (
    Migration,
    Snapshot,
    Vmi,
)
from ansible_collections.virt.placement.plugins.module_utils.planning.plan import plan_moves
from ansible_collections.virt.placement.plugins.module_utils.planning.plan_request import (
    PlanRequest,
)
from tests.support import facts
from tests.support.cluster import ZONE

NODES = tuple(facts.node(f"w{n}", f"z{n}", allocatable={"pods": 110}) for n in (1, 2, 3))
TERM = {
    "labelSelector": {"matchLabels": {"app": "db"}},
    "topologyKey": ZONE,
    "mismatchLabelKeys": ["kubevirt.io/created-by"],
}
APART = {
    "affinity": {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [TERM]}}
}


LABELS = {"app": "db"}
vmi = functools.partial(facts.vmi, live_migratable=True, labels=LABELS, spec=APART)
launcher = functools.partial(facts.launcher, labels=LABELS)
workload = functools.partial(facts.vm, template=APART, labels=LABELS, runStrategy="Always")


def snapshot_of(*pods: Pod, vmis: tuple[Vmi, ...], migrating: str = "") -> Snapshot:
    ref = Ref("VirtualMachineInstanceMigration", "shop", "m")
    migrations = (Migration(ref, "m", migrating, "Running"),) if migrating else ()
    names = [vmi.ref.name for vmi in vmis]
    return Snapshot(
        NODES,
        pods,
        workloads=tuple(map(workload, names)),
        vmis=vmis,
        migrations=migrations,
    )


def planned(snapshot: Snapshot) -> list[str]:
    request = PlanRequest(InstanceSelection(frozenset({"shop"})), allow=frozenset({Method.MIGRATE}))
    candidates = movable_instances(snapshot, request.selection)
    return [move.instance.name for move in plan_moves(snapshot, request, candidates).moves]


def test_two_vms_in_one_zone_need_one_move() -> None:
    vmis = (vmi("a", "w1"), vmi("b", "w1"))
    snapshot = snapshot_of(launcher("a", "w1"), launcher("b", "w1"), vmis=vmis)
    assert in_flight(snapshot) == InFlight()
    assert len(planned(snapshot)) == 1


def test_source_pod_of_a_finished_migration_causes_no_move() -> None:
    vmis = (vmi("a", "w2"), vmi("b", "w1"))
    snapshot = snapshot_of(
        launcher("a", "w1"), launcher("a", "w2", "2"), launcher("b", "w1"), vmis=vmis
    )
    assert in_flight(snapshot) == InFlight(frozenset({"p-a-1"}))
    assert planned(snapshot) == []


def test_guest_that_is_handed_over_late_counts_where_it_runs() -> None:
    """Its source pod has ended, and for minutes its VMI still names the source node, as seen on real nodes."""
    state = {"migrationUid": "m", "targetNode": "w2", "targetPod": "a-2"}
    vmis = (vmi("a", "w1", migration=state), vmi("b", "w1"))
    target = launcher("a", "w2", "2")
    source = launcher("a", "w1", phase="Succeeded")
    snapshot = snapshot_of(source, target, launcher("b", "w1"), vmis=vmis, migrating="a")
    assert in_flight(snapshot) == InFlight(instances=frozenset({"u-a"}))
    assert planned(snapshot) == []
    after = settled(snapshot)
    assert {pod.uid: pod.node_name for pod in after.pods if not pod.finished} == {
        "p-a-2": "w2",
        "p-b-1": "w1",
    }
    assert {each.ref.name: each.node_name for each in after.vmis} == {"a": "w2", "b": "w1"}


def test_source_pod_is_left_once_the_guest_is_handed_over() -> None:
    """The VMI names its new node before its migration is over, and the source pod is Running for seconds more."""
    state = {"migrationUid": "m", "targetNode": "w2", "sourcePod": "a-1", "targetPod": "a-2"}
    vmis = (vmi("a", "w2", migration=state), vmi("b", "w1"))
    pods = (launcher("a", "w1"), launcher("a", "w2", "2"), launcher("b", "w1"))
    snapshot = snapshot_of(*pods, vmis=vmis, migrating="a")
    assert in_flight(snapshot) == InFlight(frozenset({"p-a-1"}))
    assert planned(snapshot) == []
    assert {pod.uid for pod in settled(snapshot).pods} == {"p-a-2", "p-b-1"}


@pytest.mark.parametrize("failed", [False, True])
def test_pod_that_the_migration_before_left_is_not_the_target_of_the_next(failed: bool) -> None:
    """What an ended migration has left on w3 still ends, and the next target is on w1."""
    here, there = ("a-2", "a-1") if failed else ("a-1", "a-2")
    state = {"sourcePod": here, "targetPod": there, "failed": failed}
    state |= {"targetNode": "w3" if failed else "w2"}
    pods = (launcher("a", "w3", "1"), launcher("a", "w2", "2"), launcher("a", "w1", "3"))
    snapshot = snapshot_of(*pods, vmis=(vmi("a", "w2", migration=state),), migrating="a")
    assert in_flight(snapshot) == InFlight(frozenset({"p-a-1", "p-a-2"}), frozenset({"u-a"}))
    assert [pod.node_name for pod in settled(snapshot).pods] == ["w1"]


def test_pod_that_an_ended_migration_left_on_its_target_is_leaving() -> None:
    """The list of pods is older than that of VMIs, or the migration was aborted."""
    for end in ("completed", "failed"):
        state = {"migrationUid": "m", "targetPod": "a-2", end: True}
        target = launcher("a", "w2", "2")
        vmis = (vmi("a", "w1", migration=state),)
        snapshot = snapshot_of(target, vmis=vmis)
        assert in_flight(snapshot) == InFlight(frozenset({"p-a-2"}))


def test_migration_whose_target_is_scheduled_causes_no_move() -> None:
    vmis = (vmi("a", "w1"), vmi("b", "w1"))
    snapshot = snapshot_of(
        launcher("a", "w1"),
        launcher("a", "w2", "2"),
        launcher("b", "w1"),
        vmis=vmis,
        migrating="a",
    )
    assert in_flight(snapshot) == InFlight(frozenset({"p-a-1"}), frozenset({"u-a"}))
    assert planned(snapshot) == []


def test_migration_whose_target_is_pending_has_its_vmi_on_the_source() -> None:
    vmis = (vmi("a", "w1"), vmi("b", "w1"))
    snapshot = snapshot_of(
        launcher("a", "w1"),
        launcher("a", "", "2", phase="Pending"),
        launcher("b", "w1"),
        vmis=vmis,
        migrating="a",
    )
    assert in_flight(snapshot) == InFlight()


def test_terminating_vmi_causes_no_move() -> None:
    vmis = (vmi("a", "w1", terminating=True), vmi("b", "w1"), vmi("c", "w2"))
    snapshot = snapshot_of(launcher("a", "w1"), launcher("b", "w1"), launcher("c", "w2"), vmis=vmis)
    assert in_flight(snapshot) == InFlight(frozenset({"p-a-1"}))
    assert planned(snapshot) == []


def test_zone_of_a_terminating_launcher_pod_without_vmi_is_no_target() -> None:
    without_vmi = snapshot_of(
        launcher("x", "w3", terminating=True),
        launcher("b", "w1"),
        launcher("c", "w1"),
        vmis=(vmi("b", "w1"), vmi("c", "w1")),
    )
    request = PlanRequest(InstanceSelection(frozenset({"shop"})), allow=frozenset({Method.MIGRATE}))
    plan = plan_moves(without_vmi, request, movable_instances(without_vmi, request.selection))
    assert [move.targets for move in plan.moves] == [("w2",)]


def test_settled_snapshot_has_the_target_of_a_scheduled_migration() -> None:
    source, target = launcher("a", "w1"), launcher("a", "w2", "2")
    snapshot = snapshot_of(source, target, vmis=(vmi("a", "w1"),), migrating="a")

    later = settled(snapshot)

    assert (later.pods, later.terminating_pods, later.migrations) == ((target,), (source,), ())
    assert [vmi.node_name for vmi in later.vmis] == ["w2"]
    assert settled(later) is later


def test_terminating_pod_counts_as_gone_unless_its_node_is_not_ready() -> None:
    snapshot = snapshot_of(launcher("x", "w3", terminating=True), vmis=())
    with_node_not_ready = replace(snapshot, nodes=(*NODES[:2], replace(NODES[2], ready=False)))

    assert settled(snapshot).terminating_pods == snapshot.pods
    assert settled(with_node_not_ready) is with_node_not_ready


def test_pod_with_a_grace_period_of_years_counts_as_running() -> None:
    pod = replace(launcher("x", "w3", terminating=True, deletion_grace=3630), owner=None)
    slow = replace(pod, name="slow", uid="slow", deletion_grace=10 * 365 * 86400)
    snapshot = snapshot_of(pod, slow, vmis=())

    later = settled(snapshot)

    assert in_flight(snapshot) == InFlight(frozenset({pod.uid}))
    assert (later.pods, later.terminating_pods) == ((slow,), (pod,))


def test_launcher_pod_with_long_grace_counts_as_running_unless_vm_moved_or_node_is_fenced() -> None:
    pod = launcher("a", "w1", terminating=True, deletion_grace=86400)
    ends = snapshot_of(pod, vmis=(vmi("a", "w1", terminating=True),))
    moved = snapshot_of(pod, launcher("a", "w2", "2"), vmis=(vmi("a", "w2"),))

    assert settled(ends) is ends
    assert settled(ends, failing=("w1",)).terminating_pods == (pod,)
    assert in_flight(ends) == InFlight()
    assert in_flight(moved) == InFlight(frozenset({pod.uid}))


def test_launcher_pod_on_a_fenced_node_counts_as_gone_and_another_pod_does_not() -> None:
    vm_pod = launcher("x", "w3", terminating=True)
    web_pod = replace(vm_pod, name="web", uid="web", owner=Owner("ReplicaSet", "web", "web"))
    snapshot = snapshot_of(vm_pod, web_pod, vmis=())

    later = settled(snapshot, failing=("w3",))

    assert (later.pods, later.terminating_pods) == ((web_pod,), (vm_pod,))
