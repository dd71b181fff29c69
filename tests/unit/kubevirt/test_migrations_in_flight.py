# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What is on its way breaks no rule, and still stands in the way."""

from __future__ import annotations

import typing as t
from dataclasses import replace

from ansible_collections.virt.placement.plugins.module_utils.kubevirt.instances import (
    InFlight,
    in_flight,
    settled,
)
from ansible_collections.virt.placement.plugins.module_utils.model.objects import (
    Node,
    Owner,
    Pod,
    Ref,
)
from ansible_collections.virt.placement.plugins.module_utils.model.plan import Method
from ansible_collections.virt.placement.plugins.module_utils.model.snapshot import (
    Migration,
    Snapshot,
    Vmi,
    Workload,
)
from ansible_collections.virt.placement.plugins.module_utils.planning.movable_instances import (
    InstanceSelection,
    movable_instances,
)
from ansible_collections.virt.placement.plugins.module_utils.planning.plan import (
    PlanRequest,
    plan_moves,
)

ZONE = "topology.kubernetes.io/zone"
NODES = tuple(Node(f"w{n}", labels={ZONE: f"z{n}"}, allocatable={"pods": 110}) for n in (1, 2, 3))
TERM = {
    "labelSelector": {"matchLabels": {"app": "db"}},
    "topologyKey": ZONE,
    "mismatchLabelKeys": ["kubevirt.io/created-by"],
}
APART = {
    "affinity": {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [TERM]}}
}


def machine(name: str, node: str, **changed: t.Any) -> Vmi:
    ref = Ref("VirtualMachineInstance", "shop", name)
    owner = Owner("VirtualMachine", name, f"vm-{name}")
    values: dict[str, t.Any] = {"live_migratable": True, "owner": owner, **changed}
    return Vmi(ref, f"u-{name}", "Running", node, {"app": "db"}, APART, **values)


def launcher(name: str, node: str, suffix: str = "1", **changed: t.Any) -> Pod:
    labels = {"app": "db", "kubevirt.io/created-by": f"u-{name}"}
    owner = Owner("VirtualMachineInstance", name, f"u-{name}")
    pod = Pod("shop", f"{name}-{suffix}", f"p-{name}-{suffix}", labels, phase="Running")
    return replace(pod, node_name=node, owner=owner, **changed)


def workload(name: str) -> Workload:
    manifest = {
        "metadata": {"name": name},
        "spec": {
            "runStrategy": "Always",
            "template": {"metadata": {"labels": {"app": "db"}}, "spec": APART},
        },
    }
    return Workload(Ref("VirtualMachine", "shop", name), f"vm-{name}", manifest)


def snapshot(*pods: Pod, machines: tuple[Vmi, ...], migrating: str = "") -> Snapshot:
    ref = Ref("VirtualMachineInstanceMigration", "shop", "m")
    migrations = (Migration(ref, "m", migrating, "Running"),) if migrating else ()
    names = [found.ref.name for found in machines]
    return Snapshot(
        NODES,
        pods,
        workloads=tuple(map(workload, names)),
        vmis=machines,
        migrations=migrations,
    )


def planned(found: Snapshot) -> list[str]:
    request = PlanRequest(InstanceSelection(frozenset({"shop"})), allow=frozenset({Method.MIGRATE}))
    candidates = movable_instances(found, request.selection)
    return [move.instance.name for move in plan_moves(found, request, candidates).moves]


def test_two_in_one_zone_take_a_move() -> None:
    machines = (machine("a", "w1"), machine("b", "w1"))
    found = snapshot(launcher("a", "w1"), launcher("b", "w1"), machines=machines)
    assert in_flight(found) == InFlight()
    assert len(planned(found)) == 1


def test_source_pod_of_a_finished_migration_causes_no_move() -> None:
    machines = (machine("a", "w2"), machine("b", "w1"))
    found = snapshot(
        launcher("a", "w1"), launcher("a", "w2", "2"), launcher("b", "w1"), machines=machines
    )
    assert in_flight(found) == InFlight(frozenset({"p-a-1"}))
    assert planned(found) == []


def test_migration_whose_target_is_scheduled_causes_no_move() -> None:
    machines = (machine("a", "w1"), machine("b", "w1"))
    found = snapshot(
        launcher("a", "w1"),
        launcher("a", "w2", "2"),
        launcher("b", "w1"),
        machines=machines,
        migrating="a",
    )
    assert in_flight(found) == InFlight(frozenset({"p-a-1"}), frozenset({"u-a"}))
    assert planned(found) == []


def test_migration_whose_target_is_pending_has_its_vmi_on_the_source() -> None:
    machines = (machine("a", "w1"), machine("b", "w1"))
    found = snapshot(
        launcher("a", "w1"),
        launcher("a", "", "2", phase="Pending"),
        launcher("b", "w1"),
        machines=machines,
        migrating="a",
    )
    assert in_flight(found) == InFlight()


def test_terminating_vmi_causes_no_move_and_counts_as_gone() -> None:
    machines = (machine("a", "w1", terminating=True), machine("b", "w1"), machine("c", "w2"))
    found = snapshot(
        launcher("a", "w1"), launcher("b", "w1"), launcher("c", "w2"), machines=machines
    )
    assert in_flight(found) == InFlight(frozenset({"p-a-1"}))
    assert planned(found) == []
    alone = snapshot(
        launcher("x", "w3", terminating=True),
        launcher("b", "w1"),
        launcher("c", "w1"),
        machines=(machine("b", "w1"), machine("c", "w1")),
    )
    request = PlanRequest(InstanceSelection(frozenset({"shop"})), allow=frozenset({Method.MIGRATE}))
    plan = plan_moves(alone, request, movable_instances(alone, request.selection))
    assert [move.targets for move in plan.moves] == [("w2",)]


def test_settled_snapshot_has_the_target_of_a_scheduled_migration() -> None:
    source, target = launcher("a", "w1"), launcher("a", "w2", "2")
    found = snapshot(source, target, machines=(machine("a", "w1"),), migrating="a")

    later = settled(found)

    assert (later.pods, later.terminating_pods, later.migrations) == ((target,), (source,), ())
    assert [vmi.node_name for vmi in later.vmis] == ["w2"]
    assert settled(later) is later


def test_terminating_pod_counts_as_gone_unless_its_node_is_not_ready() -> None:
    found = snapshot(launcher("x", "w3", terminating=True), machines=())
    silent = replace(found, nodes=(*NODES[:2], replace(NODES[2], ready=False)))

    assert settled(found).terminating_pods == found.pods
    assert settled(silent) is silent


def test_pod_that_terminates_for_hours_stays() -> None:
    pod = replace(launcher("x", "w3", terminating=True, deletion_grace=3630), owner=None)
    slow = replace(pod, name="slow", uid="slow", deletion_grace=10 * 365 * 86400)
    found = snapshot(pod, slow, machines=())

    later = settled(found)

    assert in_flight(found) == InFlight(frozenset({pod.uid}))
    assert (later.pods, later.terminating_pods) == ((slow,), (pod,))


def test_launcher_pod_that_terminates_for_hours_stays_unless_its_vm_has_moved_or_is_fenced() -> (
    None
):
    pod = launcher("a", "w1", terminating=True, deletion_grace=86400)
    ends = snapshot(pod, machines=(machine("a", "w1", terminating=True),))
    moved = snapshot(pod, launcher("a", "w2", "2"), machines=(machine("a", "w2"),))

    assert settled(ends) is ends
    assert settled(ends, failing=("w1",)).terminating_pods == (pod,)
    assert in_flight(ends) == InFlight()
    assert in_flight(moved) == InFlight(frozenset({pod.uid}))


def test_launcher_pod_leaves_a_failing_node_that_is_fenced_and_another_pod_does_not() -> None:
    vm_pod = launcher("x", "w3", terminating=True)
    web_pod = replace(vm_pod, name="web", uid="web", owner=Owner("ReplicaSet", "web", "web"))
    found = snapshot(vm_pod, web_pod, machines=())

    later = settled(found, failing=("w3",))

    assert (later.pods, later.terminating_pods) == ((web_pod,), (vm_pod,))
