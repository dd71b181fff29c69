# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""How much may be in flight: KubeVirt's limits, what others do, what is not Ready."""

from __future__ import annotations

import functools
from dataclasses import replace

import pytest

from ansible_collections.virt.placement.plugins.module_utils.compliance.instances import (
    InstanceSelection,
)
from ansible_collections.virt.placement.plugins.module_utils.model.objects import Owner, Pod, Ref
from ansible_collections.virt.placement.plugins.module_utils.model.plan import Method, Move
from ansible_collections.virt.placement.plugins.module_utils.model.snapshot import (
    Instance,
    Migration,
    Snapshot,
    Vmi,
    Workload,
)
from ansible_collections.virt.placement.plugins.module_utils.moves.gates import (
    instances_of_run,
    limit_reached,
    load_of,
)
from ansible_collections.virt.placement.plugins.module_utils.moves.move import MoveRecord
from ansible_collections.virt.placement.plugins.module_utils.moves.observe import (
    ForeignMigrations,
)
from tests.support import facts
from tests.support.api_server import ApiServer
from tests.unit.moves.test_gates import parameters

SET = Ref("VirtualMachineInstanceReplicaSet", "shop", "web")


machine = functools.partial(facts.vmi, ready=True, owner=None)


def instance(vmi: Vmi, ready: bool = True) -> Instance:
    pod = Pod("shop", vmi.ref.name, f"p-{vmi.uid}", node_name=vmi.node_name, ready=ready)
    return Instance(vmi.ref, vmi.uid, SET, pod, vmi)


def record(vmi: Vmi, method: Method) -> MoveRecord:
    return MoveRecord(vmi.ref, vmi.uid, SET, method, vmi.node_name, 1, 0.0)


def move(method: Method, source: str = "w1") -> Move:
    ref = Ref("VirtualMachineInstance", "shop", "next")
    return Move(ref, "u-next", SET, method, source, ("w9",), "")


def replica_set(replicas: int) -> Workload:
    return Workload(SET, "u-set", {"metadata": {}, "spec": {"replicas": replicas}})


def test_migrations_of_others_fill_the_cluster() -> None:
    machines = tuple(machine(f"m{n}", f"n{n}") for n in range(5))
    migrations = tuple(
        Migration(Ref("VirtualMachineInstanceMigration", "shop", f"x{n}"), f"x{n}", f"m{n}", "")
        for n in range(5)
    )
    snapshot = Snapshot(vmis=machines, migrations=migrations)
    load = load_of(snapshot, (), ())
    reason = limit_reached(move(Method.MIGRATE), load, parameters(), snapshot)
    assert str(reason) == "5 migrations are in flight on the cluster"
    assert limit_reached(move(Method.RECREATE), load, parameters(), snapshot) is None


def test_two_migrations_leave_a_node_at_most() -> None:
    machines = tuple(machine(f"m{n}") for n in range(2))
    records = [record(vmi, Method.MIGRATE) for vmi in machines]
    snapshot = Snapshot(vmis=machines)
    load = load_of(snapshot, records, ())
    reason = limit_reached(move(Method.MIGRATE), load, parameters(), snapshot)
    assert str(reason) == "2 migrations away from w1 are in flight"
    assert limit_reached(move(Method.MIGRATE, "w2"), load, parameters(), snapshot) is None


def test_a_mark_for_evacuation_is_a_migration_to_come() -> None:
    machines = tuple(machine(f"m{n}", evacuation_node_name="w1") for n in range(2))
    snapshot = Snapshot(vmis=machines)
    assert (
        limit_reached(move(Method.MIGRATE), load_of(snapshot, (), ()), parameters(), snapshot)
        is not None
    )


def test_migration_of_a_vmi_that_was_not_read_counts_for_its_source_node() -> None:
    migrations = tuple(
        Migration(Ref("VirtualMachineInstanceMigration", "bar", f"x{n}"), f"x{n}", f"m{n}", "")
        for n in range(2)
    )
    snapshot = Snapshot(migrations=migrations)
    foreign = {("bar", "m0"): frozenset({"w1"}), ("bar", "m1"): frozenset({"w1"})}
    assert (
        limit_reached(move(Method.MIGRATE), load_of(snapshot, (), ()), parameters(), snapshot)
        is None
    )
    load = load_of(snapshot, (), (), foreign=foreign)
    reason = limit_reached(move(Method.MIGRATE), load, parameters(), snapshot)
    assert str(reason) == "2 migrations away from w1 are in flight"
    assert limit_reached(move(Method.MIGRATE, "w2"), load, parameters(), snapshot) is None


@pytest.mark.parametrize("ours", [True, False])
def test_a_migration_counts_for_its_source_until_its_object_has_ended(ours: bool) -> None:
    state = {"migrationUid": "x0", "sourceNode": "w1", "targetNode": "w2"}
    arrived, leaving = machine("m0", "w2", migration=state), machine("m1", "w1")
    migrations = tuple(
        Migration(Ref("VirtualMachineInstanceMigration", "shop", f"x{n}"), f"x{n}", f"m{n}", "")
        for n in range(2)
    )
    snapshot = Snapshot(vmis=(arrived, leaving), migrations=migrations)
    begun = [replace(record(arrived, Method.MIGRATE), source="w1"), record(leaving, Method.MIGRATE)]
    load = load_of(snapshot, begun if ours else (), ())
    reason = limit_reached(move(Method.MIGRATE), load, parameters(), snapshot)
    assert str(reason) == "2 migrations away from w1 are in flight"
    assert limit_reached(move(Method.MIGRATE, "w2"), load, parameters(), snapshot) is None


def test_a_migration_counts_for_the_node_where_the_guest_has_arrived_until_its_object_has_ended() -> (
    None
):
    """KubeVirt counts it for both nodes, also a source that is left from an earlier migration."""
    state = {"migrationUid": "old", "sourceNode": "w1", "targetNode": "w2"}
    machines = tuple(machine(f"m{n}", "w2", migration=state) for n in range(2))
    migrations = tuple(
        Migration(Ref("VirtualMachineInstanceMigration", "shop", f"x{n}"), f"x{n}", f"m{n}", "")
        for n in range(2)
    )
    load = load_of(Snapshot(vmis=machines, migrations=migrations), (), ())

    for node in ("w1", "w2"):
        reason = limit_reached(move(Method.MIGRATE, node), load, parameters(), Snapshot())
        assert str(reason) == f"2 migrations away from {node} are in flight"
    assert load.migrations == 2


def test_load_beside_a_restart_counts_one_more_move_and_one_more_unavailable_instance() -> None:
    load = load_of(Snapshot(), (), ()).beside(move(Method.RESTART))
    assert (load.ours, load.unavailable, load.migrations) == (1, 1, 0)
    reached = limit_reached(move(Method.MIGRATE), load, parameters(max_parallel=1), Snapshot())
    assert str(reached) == "1 moves are in flight (max_parallel)"


def test_outbound_nodes_of_a_foreign_migration_are_those_of_its_vmi() -> None:
    where = "/apis/kubevirt.io/v1/namespaces/bar/virtualmachineinstances/"
    state = {"migrationUid": "x1", "sourceNode": "w2", "targetNode": "w3"}
    server = ApiServer(
        {
            f"{where}m0": {"status": {"nodeName": "w1", "migrationState": {"migrationUid": "old"}}},
            f"{where}m1": {"status": {"nodeName": "w3", "migrationState": state}},
        }
    )
    migrations = tuple(
        Migration(Ref("VirtualMachineInstanceMigration", space, f"x{n}"), f"x{n}", f"m{n}", "")
        for n, space in enumerate(["bar", "bar", "bar", "shop"])
    )
    snapshot = Snapshot(vmis=(machine("m3"),), migrations=migrations)
    foreign = ForeignMigrations()
    for _again in range(2):
        nodes = foreign.nodes(server.client(), snapshot)
        assert nodes == {("bar", "m0"): {"w1"}, ("bar", "m1"): {"w2", "w3"}}
    assert [x.path for x in server.seen] == [f"{where}m{n}" for n in range(3)], (
        "each once, and none that is known"
    )
    full = replace(snapshot, platform=replace(snapshot.platform, migrations_per_cluster=4))
    assert ForeignMigrations().nodes(server.client(), full) == {}
    assert len(server.seen) == 3


def test_a_recreation_that_was_taken_over_counts_the_workload_as_it_stands() -> None:
    """Its instances are not ours to move, and the ones that serve are not missing."""
    victim, others = machine("a"), [machine("b"), machine("c")]
    records = [record(victim, Method.RECREATE)]
    snapshot = Snapshot(workloads=(replica_set(3),))
    elsewhere = InstanceSelection(namespaces=frozenset({"bar"}))
    there = [instance(vmi) for vmi in (victim, *others)]
    assert instances_of_run(there, elsewhere, ()) == []
    load = load_of(snapshot, records, instances_of_run(there, elsewhere, records))
    assert (load.unavailable, load.named) == (1, (f"1 of {SET}",))


def test_our_own_limit() -> None:
    vmi = machine("m0", "w5")
    snapshot = Snapshot(vmis=(vmi,))
    load = load_of(snapshot, [record(vmi, Method.MIGRATE)], ())
    reason = limit_reached(move(Method.MIGRATE), load, parameters(max_parallel=1), snapshot)
    assert str(reason) == "1 moves are in flight (max_parallel)"


def test_an_instance_that_is_missing_counts_as_unavailable() -> None:
    there = [instance(machine("a")), instance(machine("b"))]
    snapshot = Snapshot(workloads=(replica_set(3),))
    load = load_of(snapshot, (), there)
    assert load.unavailable == 1
    reason = limit_reached(move(Method.RECREATE), load, parameters(), snapshot)
    assert str(reason) == f"max_unavailable is reached, not ready or being replaced: 1 of {SET}"
    assert (
        limit_reached(move(Method.RECREATE), load, parameters(max_unavailable=2), snapshot) is None
    )


def vm(strategy: str, pool: bool = False, **metadata: str) -> Workload:
    owner = Owner("VirtualMachinePool", "p", "u-p") if pool else None
    return facts.vm("db", owner=owner, metadata=metadata, runStrategy=strategy)


@pytest.mark.parametrize(
    ("workload", "missing"),
    [
        pytest.param(replica_set(2), 2, id="all of a set are missing"),
        pytest.param(replica_set(0), 0, id="scaled to nothing"),
        pytest.param(vm("Always"), 1, id="a machine that ought to run"),
        pytest.param(vm("Halted"), 0, id="a machine that ought not"),
        pytest.param(vm("RerunOnFailure"), 0, id="a machine that may have ended"),
        pytest.param(vm("Always", pool=True), 0, id="counted by its pool"),
        pytest.param(vm("Always", deletionTimestamp="2026-06-01"), 0, id="being deleted"),
    ],
)
def test_a_workload_without_instances_lacks_those_that_it_ought_to_have(
    workload: Workload, missing: int
) -> None:
    other = Ref("Deployment", "shop", "other")
    serving = replace(instance(machine("a")), workload=other)
    snapshot = Snapshot(
        workloads=(workload, Workload(other, "u-o", {"metadata": {}, "spec": {"replicas": 1}}))
    )
    load = load_of(snapshot, (), [serving], [workload.ref, other])
    assert load.unavailable == missing
    assert bool(limit_reached(move(Method.RECREATE), load, parameters(), snapshot)) is bool(missing)
    assert load_of(snapshot, (), [serving], [other]).unavailable == 0, (
        "it belongs to another workload"
    )


POOL = Ref("VirtualMachinePool", "shop", "p")


@pytest.mark.parametrize(("strategy", "missing"), [("Halted", 0), ("Manual", 0), ("Always", 1)])
def test_stopped_vm_of_a_pool_is_not_missing(strategy: str, missing: int) -> None:
    """Else no other one would ever be restarted."""
    pool = Workload(POOL, "u-p", {"metadata": {}, "spec": {"replicas": 2}})
    serving = replace(instance(machine("a")), workload=POOL)
    snapshot = Snapshot(workloads=(pool, vm(strategy, pool=True)))
    assert load_of(snapshot, (), [serving], [POOL]).unavailable == missing
    restart = MoveRecord(
        Ref("VirtualMachineInstance", "shop", "db"), "u", POOL, Method.RESTART, "w1", 1, 0.0
    )
    assert load_of(snapshot, [restart], [serving], [POOL]).unavailable == 1, "we restart it"


def test_one_that_we_take_away_counts_once_before_and_after_it_is_gone() -> None:
    victim = machine("a")
    records = [record(victim, Method.RECREATE)]
    snapshot = Snapshot(workloads=(replica_set(2),))
    before = load_of(snapshot, records, [instance(victim), instance(machine("b"))])
    after = load_of(snapshot, records, [instance(machine("b"))])
    assert before.unavailable == after.unavailable == 1


def test_move_of_a_pending_instance_needs_no_budget() -> None:
    waiting = instance(machine("a", ""), ready=False)
    snapshot = Snapshot(workloads=(replica_set(1),))
    load = load_of(snapshot, (), [waiting])
    assert load.unavailable == 1
    assert limit_reached(move(Method.RECREATE, ""), load, parameters(), snapshot) is None


def test_restart_of_what_is_down_takes_nothing_away() -> None:
    """A PodDisruptionBudget with unhealthyPodEvictionPolicy AlwaysAllow allows it, too."""
    sick, serving = machine("next", ready=False), [machine("a"), machine("b")]
    snapshot = Snapshot(workloads=(replica_set(3),))
    load = load_of(snapshot, (), [instance(x, ready=x.ready) for x in (sick, *serving)])
    restart = move(Method.RECREATE)
    assert limit_reached(restart, load, parameters(), snapshot) is None
    assert load.beside(restart).unavailable == 1, "it is down before and after"
    other = replace(restart, uid="u-a")
    reason = f"max_unavailable is reached, not ready or being replaced: 1 of {SET}"
    assert str(limit_reached(other, load.beside(restart), parameters(), snapshot)) == reason


@pytest.mark.parametrize(
    "there",
    [
        pytest.param(
            [machine("next", ready=False), machine("a", ready=False)], id="another is down"
        ),
        pytest.param([machine("next", ready=False)], id="another is missing"),
        pytest.param([machine("next"), machine("a", ready=False)], id="it serves"),
    ],
)
def test_others_that_are_down_count_for_each_restart(there: list[Vmi]) -> None:
    snapshot = Snapshot(workloads=(replica_set(2),))
    load = load_of(snapshot, (), [instance(x, ready=x.ready) for x in there])
    reason = limit_reached(move(Method.RECREATE), load, parameters(), snapshot)
    assert str(reason) == f"max_unavailable is reached, not ready or being replaced: 1 of {SET}"


def test_what_is_not_known_of_an_instance_does_not_make_it_down() -> None:
    unread = replace(instance(machine("next")), pod=None)
    snapshot = Snapshot(workloads=(replica_set(1),))
    load = load_of(snapshot, (), [unread])
    assert limit_reached(move(Method.RECREATE), load, parameters(), snapshot) is not None


def test_moves_chosen_together_count_together() -> None:
    snapshot = Snapshot(workloads=(replica_set(2),))
    load = load_of(snapshot, (), [instance(machine("a")), instance(machine("b"))])
    chosen = move(Method.RECREATE)
    assert limit_reached(chosen, load, parameters(), snapshot) is None
    assert limit_reached(chosen, load.beside(chosen), parameters(), snapshot) is not None
