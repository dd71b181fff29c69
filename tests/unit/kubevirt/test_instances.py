# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which instances exist: state by state, each is one instance of the right workload in the right pod."""

from __future__ import annotations

import typing as t
from dataclasses import replace

import pytest

from ansible_collections.virt.placement.plugins.module_utils.cluster.foreign_owners import (
    without_foreign_owners,
)
from ansible_collections.virt.placement.plugins.module_utils.kubevirt.instances import (
    HOTPLUG,
    InFlight,
    active_pod,
    in_flight,
    instances,
    launcher_pods,
    replaced_once_gone,
)
from ansible_collections.virt.placement.plugins.module_utils.model.objects import Owner, Pod, Ref
from ansible_collections.virt.placement.plugins.module_utils.model.snapshot import (
    Instance,
    Snapshot,
)
from tests.support.facts import VM, VMI, launcher, vm, vmi

POOL = "VirtualMachinePool"


def only(snapshot: Snapshot) -> Instance:
    (instance,) = instances(snapshot)
    return instance


def test_vmi_with_its_launcher_pod_is_one_instance_of_its_vm() -> None:
    running, pod = vmi("db"), launcher("db")
    snapshot = Snapshot(pods=(pod,), workloads=(vm("db"),), vmis=(running,))

    assert only(snapshot) == Instance(running.ref, "u-db", Ref(VM, "shop", "db"), pod, running)


def test_vmi_without_a_pod_is_an_instance_on_the_node_of_its_status() -> None:
    running = vmi("db")
    instance = only(Snapshot(workloads=(vm("db"),), vmis=(running,)))

    assert (instance.pod, instance.vmi, instance.node_name) == (None, running, "w1")
    assert instance.workload == Ref(VM, "shop", "db")


def test_vmi_whose_vm_could_not_be_read_still_names_it() -> None:
    assert only(Snapshot(vmis=(vmi("db"),))).workload == Ref(VM, "shop", "db")


def test_vmi_without_a_controller_is_its_own_workload() -> None:
    alone = vmi("db", owner=None)
    assert only(Snapshot(vmis=(alone,))).workload == alone.ref


def test_vmi_of_a_pooled_vm_is_an_instance_of_the_pool() -> None:
    pooled = vm("db-0", owner=Owner(POOL, "db", "pool-db"))
    snapshot = Snapshot(pods=(launcher("db-0"),), workloads=(pooled,), vmis=(vmi("db-0"),))

    assert only(snapshot).workload == Ref(POOL, "shop", "db")


def test_vmi_of_a_vm_with_another_controller_stays_an_instance_of_the_vm() -> None:
    owned = vm("db", owner=Owner("Application", "shop", "app"))
    snapshot = Snapshot(workloads=(owned,), vmis=(vmi("db"),))

    assert only(snapshot).workload == Ref(VM, "shop", "db")


def test_vm_that_was_recreated_under_its_name_is_the_workload_of_its_old_vmi() -> None:
    old = vmi("db", owner=Owner(VM, "db", "vm-before"))
    snapshot = Snapshot(workloads=(vm("db"),), vmis=(old,))

    assert only(snapshot).workload == Ref(VM, "shop", "db")


def test_owner_of_another_kind_is_not_the_vm_that_has_its_uid() -> None:
    claimed = vmi("db", owner=Owner("Application", "db", "vm-db"))
    snapshot = Snapshot(workloads=(vm("db"),), vmis=(claimed,))

    assert only(snapshot).workload == Ref("Application", "shop", "db")


def test_launcher_pod_of_an_unknown_vmi_is_an_instance_without_a_workload() -> None:
    pod = launcher("db")

    assert only(Snapshot(pods=(pod,))) == Instance(Ref(VMI, "shop", "db"), "u-db", None, pod)
    assert instances(Snapshot(pods=(replace(pod, terminating=True),))) == ()


@pytest.mark.parametrize("target_node", ["", "w2"])
def test_migration_target_is_not_the_pod_of_the_instance(target_node: str) -> None:
    source, target = launcher("db"), launcher("db", target_node, "2")
    snapshot = Snapshot(pods=(target, source), workloads=(vm("db"),), vmis=(vmi("db"),))

    assert only(snapshot).pod == source
    assert launcher_pods(snapshot) == {"u-db": [target, source]}


def test_vmi_that_runs_on_the_target_already_runs_in_the_target_pod() -> None:
    source, target = launcher("db"), launcher("db", "w2", "2")
    snapshot = Snapshot(pods=(source, target), vmis=(vmi("db", "w2"),))

    assert only(snapshot).pod == target


@pytest.mark.parametrize(
    ("pods", "expected"),
    [
        pytest.param([launcher("db", "")], "p-db-1", id="one-pod-without-a-node"),
        pytest.param([launcher("db", "w2")], "p-db-1", id="one-pod-on-another-node"),
        pytest.param([launcher("db", phase="Succeeded")], None, id="one-finished-pod"),
        pytest.param([launcher("db", ""), launcher("db", "w2", "2")], None, id="none-of-two-here"),
        pytest.param(
            [launcher("db", phase="Succeeded"), launcher("db", "w2", "2")],
            "p-db-2",
            id="the-only-unfinished-pod",
        ),
        pytest.param(
            [launcher("db", phase="Pending"), launcher("db", "w1", "2")],
            "p-db-2",
            id="running-before-pending",
        ),
    ],
)
def test_active_pod(pods: list[Pod], expected: str | None) -> None:
    pod = active_pod(vmi("db"), pods)
    assert (pod.uid if pod is not None else None) == expected


def test_active_pod_of_two_on_one_node_is_the_one_that_the_vmi_names() -> None:
    pods = [launcher("db"), launcher("db", "w1", "2")]
    assert active_pod(vmi("db", active_pods={"p-db-2": "w1"}), pods) == pods[1]


@pytest.mark.parametrize("changed", [{"phase": "Succeeded"}, {"terminating": True}])
def test_ended_vmi_and_its_pod_are_no_instance(changed: dict[str, t.Any]) -> None:
    snapshot = Snapshot(pods=(launcher("db"),), vmis=(vmi("db", **changed),))
    assert instances(snapshot) == ()


def test_pods_belong_to_the_controller_behind_their_owner() -> None:
    web = Ref("Deployment", "shop", "web")
    of_deployment = Pod("shop", "web-1", "p1", owner=Owner("ReplicaSet", "web-abc", "rs"))
    of_set = Pod("shop", "db-0", "p2", owner=Owner("StatefulSet", "db", "sts"))
    bare = Pod("shop", "alone", "p3")
    finished = Pod("shop", "job", "p4", phase="Succeeded")
    snapshot = Snapshot(pods=(of_deployment, of_set, bare, finished), controllers={"rs": web})

    assert [(instance.ref, instance.workload) for instance in instances(snapshot)] == [
        (of_deployment.ref, web),
        (of_set.ref, Ref("StatefulSet", "shop", "db")),
        (bare.ref, bare.ref),
    ]


@pytest.mark.parametrize(
    ("kind", "waits"),
    [(VMI, True), ("StatefulSet", True), ("ReplicaSet", False), (VM, False), (POOL, False)],
)
def test_pods_whose_successor_waits_until_they_are_gone(kind: str, waits: bool) -> None:
    """A kind VirtualMachine that owns pods itself is one of another product."""
    assert replaced_once_gone(Pod("shop", "a", "p-a", owner=Owner(kind, "a", "u-a"))) is waits


def test_pod_that_attaches_a_volume_is_no_instance() -> None:
    attachment = Pod("shop", "hp", "p2", labels=dict([HOTPLUG]), owner=Owner("Pod", "x", "p-db-1"))
    snapshot = Snapshot(pods=(launcher("db"), attachment), vmis=(vmi("db"),))

    assert [instance.ref.name for instance in instances(snapshot)] == ["db"]


def test_instances_of_some_namespaces_are_those_of_all_that_are_in_them() -> None:
    pods = (launcher("db"), Pod("lab", "alone", "p3"), replace(launcher("x"), namespace="lab"))
    snapshot = Snapshot(pods=pods, vmis=(vmi("db"), vmi("idle", namespace="lab")))
    every = instances(snapshot)

    assert len(every) == 4
    for namespace in ("shop", "lab"):
        inside = tuple(x for x in every if x.ref.namespace == namespace)
        assert instances(snapshot, {namespace}) == inside


def test_a_pod_of_another_namespace_is_no_launcher_pod() -> None:
    running, pod = vmi("db"), launcher("db")
    forged = launcher("db", node_name="w9", suffix="2", namespace="tenant")
    snapshot = without_foreign_owners(
        Snapshot(pods=(forged, pod), workloads=(vm("db"),), vmis=(running,))
    )

    assert launcher_pods(snapshot) == {"u-db": [pod]}
    assert [i.pod for i in instances(snapshot, {"shop"})] == [pod]
    assert in_flight(snapshot) == InFlight()
