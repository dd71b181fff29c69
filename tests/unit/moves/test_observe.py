# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which instance has come in place of one that a run has ended?"""

from __future__ import annotations

import typing as t
from dataclasses import replace

import pytest

from ansible_collections.virt.placement.plugins.module_utils.kinds.vmi import VMI
from ansible_collections.virt.placement.plugins.module_utils.model.objects import Ref
from ansible_collections.virt.placement.plugins.module_utils.model.obstacle import Obstacle
from ansible_collections.virt.placement.plugins.module_utils.model.plan import Method
from ansible_collections.virt.placement.plugins.module_utils.moves.journal import RunJournal
from ansible_collections.virt.placement.plugins.module_utils.moves.move import MoveRecord, Phase
from ansible_collections.virt.placement.plugins.module_utils.moves.observe import Observer
from tests.support.cluster import Cluster, cluster, deployment, machine
from tests.support.pools import pool

NO_API = t.cast(t.Any, None)


def ended(workload: Ref, kind: str, name: str, method: Method, begun: float) -> MoveRecord:
    instance = Ref(kind, "shop", name)
    uid = f"before-{name}"
    return MoveRecord(instance, uid, workload, method, "n1", 1, begun, Phase.BEGUN)


def successors(made: Cluster, *records: MoveRecord) -> dict[str, str]:
    """The names of the successors, by those of the instances that were ended."""
    journal = RunJournal("r1", "x")
    for record in records:
        journal = journal.begin(record, [x.uid for x in records])
    found = Observer(NO_API, made.snapshot(), journal).successors
    return {x.instance.name: found[x.uid].ref.name for x in records if x.uid in found}


@pytest.mark.parametrize("method", [Method.RESTART, Method.EVICT])
def test_vm_of_a_pool_is_replaced_by_the_vmi_of_its_name(method: Method) -> None:
    made = cluster("ab")
    ref = pool(made, "web", ["n1", "n2"])
    first, second = (ended(ref, VMI, f"web-{number}", method, number) for number in range(2))
    assert successors(made, first, second) == {"web-0": "web-0", "web-1": "web-1"}
    del made.machines["web-0"]
    assert successors(made, first, second) == {"web-1": "web-1"}


def test_pod_of_a_stateful_set_is_replaced_by_the_pod_of_its_name() -> None:
    made = cluster("ab")
    template = {"metadata": {"labels": {"app": "db"}}, "spec": {}}
    ref = made.workload("StatefulSet", "db", {"replicas": 3, "template": template})
    made.start(ref, "n2", "db-1")
    records = (
        ended(ref, "Pod", f"db-{number}", Method.RECREATE, begun)
        for number, begun in ((2, 0.0), (1, 1.0))
    )
    assert successors(made, *records) == {"db-1": "db-1"}


@pytest.mark.parametrize(
    ("kubevirt", "behind"),
    [
        (
            "v1.9.0",
            "KubeVirt migrates VMs that are evacuated first: VirtualMachineInstance shop/out",
        ),
        ("v1.8.4", ""),
        (None, ""),
    ],
)
def test_vms_that_are_evacuated_are_migrated_first(kubevirt: str | None, behind: str) -> None:
    made = cluster("ab")
    for name in ("out", "mine"):
        machine(made, name, "n1")
    shot = made.snapshot()
    vmis = tuple(
        replace(vmi, evacuation_node_name="n1" if vmi.ref.name == "out" else "")
        for vmi in shot.vmis
    )
    shot = replace(shot, vmis=vmis, platform=replace(shot.platform, kubevirt=kubevirt))
    mine = next(vmi for vmi in vmis if vmi.ref.name == "mine")
    record = MoveRecord(mine.ref, mine.uid, mine.ref, Method.MIGRATE, "n1", 1, 0.0)
    observer = Observer(NO_API, shot, RunJournal("r1", "x"))
    assert observer._behind(record) == behind


def test_target_pod_of_a_migration_is_seen_with_its_phase_and_node() -> None:
    made = cluster("ab")
    machine(made, "mine", "n1")
    shot = made.snapshot()
    (vmi,), (pod,) = shot.vmis, shot.pods
    labels = {**pod.labels, "kubevirt.io/migrationJobUID": "m1"}
    target = replace(pod, name="mine-2", uid="p2", node_name="n2", labels=labels)
    record = MoveRecord(vmi.ref, vmi.uid, vmi.ref, Method.MIGRATE, "n1", 1, 0.0)
    observer = Observer(NO_API, replace(shot, pods=(pod, target)), RunJournal("r1", "x"))
    migration = {"metadata": {"uid": "m1"}, "status": {"phase": "PreparingTarget"}}
    assert observer._target(record, migration) == "its target pod mine-2 is Running on node n2"
    assert observer._target(record, {"metadata": {"uid": "m2"}}) == ""
    assert observer._warning(record, migration) is None


def test_pod_of_a_deployment_is_replaced_by_any_new_pod() -> None:
    made = cluster("ab")
    ref = deployment(made, "web", ["n2"], {})
    (pod,) = (name for _namespace, name in made.pods)
    assert successors(made, ended(ref, "Pod", "old", Method.RECREATE, 0.0)) == {"old": pod}


@pytest.mark.parametrize("of_vm", [True, False], ids=["vm", "pool"])
def test_vm_of_a_pool_that_is_not_started_again_says_why(of_vm: bool) -> None:
    """The pool has no condition while its VM, which exists, gets no VMI."""
    made = cluster("ab")
    web = made.workload("VirtualMachinePool", "web", {"replicas": 1, "virtualMachineTemplate": {}})
    vm = made.vm("web-0")
    owner = {"kind": web.kind, "name": "web", "uid": made.workloads[web]["metadata"]["uid"]}
    made.workloads[vm]["metadata"]["ownerReferences"] = [{**owner, "controller": True}]
    failing = vm if of_vm else web
    kind = "Failure" if of_vm else "ReplicaFailure"
    failure = {"type": kind, "status": "True", "message": "exceeded quota"}
    made.workloads[failing]["status"] = {"conditions": [failure]}
    record = ended(web, "VirtualMachineInstance", "web-0", Method.RECREATE, 0.0)
    observer = Observer(NO_API, made.snapshot(), RunJournal("r1", "x", records=(record,)))
    assert observer.observe(record).refused == Obstacle("refused", "exceeded quota", True)
