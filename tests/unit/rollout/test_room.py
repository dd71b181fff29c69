# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Rollouts that are played: each move that has begun has room of its own, whatever kube-scheduler decides meanwhile.

The scheduler is the plain reference of the filters, and shares nothing with the engine.
"""

from __future__ import annotations

import copy
import random
import typing as t
from dataclasses import replace

import pytest

from ansible_collections.virt.placement.plugins.module_utils.model.objects import Ref
from ansible_collections.virt.placement.plugins.module_utils.model.plan import Method
from ansible_collections.virt.placement.plugins.module_utils.model.snapshot import (
    Migration,
    Snapshot,
)
from ansible_collections.virt.placement.plugins.module_utils.planning.movable_instances import (
    InstanceSelection,
)
from ansible_collections.virt.placement.plugins.module_utils.rollout.journal import RunJournal
from ansible_collections.virt.placement.plugins.module_utils.rollout.move import (
    MoveRecord,
    Outcome,
    Phase,
)
from ansible_collections.virt.placement.plugins.module_utils.rollout.observe import Observer
from ansible_collections.virt.placement.plugins.module_utils.rollout.options import RolloutOptions
from ansible_collections.virt.placement.plugins.module_utils.rollout.reconcile import Reconciler
from ansible_collections.virt.placement.plugins.module_utils.rollout.reconciliation import (
    Reconciliation,
)
from ansible_collections.virt.placement.plugins.module_utils.rollout.state import StepReport
from ansible_collections.virt.placement.plugins.module_utils.rollout.step import RolloutStep
from ansible_collections.virt.placement.plugins.module_utils.rollout.view import JudgedSnapshot
from tests.unit.compliance.cluster import anti_affinity, apart, expression, node_affinity
from tests.unit.planning.scenes import HOST, Cluster, cluster, machine
from tests.unit.rollout.test_gates import parameters
from tests.unit.rollout.test_reconcile import NO_API, NODES, keeper
from tests.unit.scheduler.reference import World

JSON = t.Any
SHOP = InstanceSelection(frozenset({"shop"}))
NOW = "2026-05-01T08:00:00Z"
UNTIL_THE_END = 400
SEEDS = (1, 6, 11, 16, 21, 44, 58, 100, 101, 108)
"""Each one has shown a fault."""


class Played:
    """A rollout whose moves, pods and controllers go on one by one, as `step` and `begin` are called."""

    def __init__(self, made: Cluster, **options: JSON) -> None:
        self.made = made
        self.options: RolloutOptions = parameters(
            **{"max_unavailable": 99, "max_parallel": 0, **options}
        )
        self.journal = RunJournal("r1", "x")
        self.settling = False
        self.over = False
        self.why = ""
        """Why the first move that could not begin waits."""
        self.held: dict[str, str] = {}

    # the engine

    def snapshot(self) -> Snapshot:
        migrations = [
            Migration(
                Ref("VirtualMachineInstanceMigration", "shop", x.uid),
                x.uid,
                x.instance.name,
                "Running",
            )
            for x in self.journal.records
            if x.method is Method.MIGRATE
        ]
        return self.made.snapshot(migrations=tuple(migrations))

    def view(self) -> JudgedSnapshot:
        return JudgedSnapshot.of(self.snapshot(), SHOP, self.options)

    def reconcile(self) -> list[str]:
        """Begin what may begin. Returns the names of the VMs."""
        view = self.view()
        reconciler = Reconciler(keeper(), self.options, self.journal, StepReport(), 100.0, {}, ())
        now = Reconciliation(view, Observer(NO_API, view.snapshot, self.journal), NODES)
        now.settling, self.settling = self.settling, False
        plan = view.plan(self.options, self.journal)
        due = [] if now.settling else reconciler.choose(plan, now)
        begun = {record.uid for record in reconciler.journal.records}
        left = tuple(x for x in plan.moves if x.uid not in {*begun, *now.held})
        now.plan = replace(plan, moves=left)
        self.held = now.held
        self.journal = reconciler.journal
        for record in self.journal.records:
            if record.uid in due:
                self.begin(record)
        self.over = not RolloutStep.goes_on(t.cast(t.Any, None), reconciler, now)
        self.why = now.waiting
        return [view.by_uid[uid].instance.ref.name for uid in due]

    def play_to_the_end(self) -> None:
        while not self.over:
            self.reconcile()
            self.happens()

    # the cluster

    def happens(self) -> None:
        """The first thing that may happen next."""
        for event in self.events()[:1]:
            event()

    def nodes(self) -> dict[str, str]:
        return {name: vmi["status"]["nodeName"] for name, vmi in self.made.machines.items()}

    def begin(self, record: MoveRecord) -> None:
        self.journal = self.journal.with_record(replace(record, phase=Phase.BEGUN))
        if record.method is Method.RESTART:
            for thing in (self.made.machines[record.instance.name], self.pod_of(record)):
                thing["metadata"]["deletionTimestamp"] = NOW

    def pods(self, name: str) -> list[JSON]:
        """The pods of a VM that exist."""
        return [
            pod
            for pod in self.made.pods.values()
            if pod["metadata"]["labels"].get("vm.kubevirt.io/name") == name
            and pod["status"]["phase"] != "Succeeded"
        ]

    def pod_of(self, record: MoveRecord) -> JSON:
        return next(
            pod
            for pod in self.pods(record.instance.name)
            if pod["spec"]["nodeName"] == record.source
        )

    def waiting(self) -> list[tuple[JSON, set[str]]]:
        """The pods of moves that have no node, each with the nodes that kube-scheduler could choose."""
        world = World(
            [*self.made.nodes.values()],
            [*self.made.pods.values()],
            [*self.made.namespaces.values()],
        )
        return [
            (pod, world.feasible(pod) - {record.source if record.method is Method.MIGRATE else ""})
            for record in self.journal.records
            for pod in self.pods(record.instance.name)
            if not pod["spec"]["nodeName"]
        ]

    def events(self) -> list[t.Callable[[], None]]:
        """What may happen next."""
        found: list[t.Callable[[], None]] = []
        for pod, nodes in self.waiting():
            for node in sorted(nodes):
                found.append(lambda pod=pod, node=node: self.bind(pod, node))  # type: ignore[misc]
        for record in self.journal.records:
            of_move = self.of_migration if record.method is Method.MIGRATE else self.of_restart
            if (event := of_move(record)) is not None:
                found.append(event)
        moving = {record.instance.name for record in self.journal.records}
        for pod in self.made.pods.values():
            of = pod["metadata"]["labels"].get("vm.kubevirt.io/name")
            ends = pod["metadata"].get("deletionTimestamp") and pod["status"]["phase"] == "Running"
            if ends and of not in moving:
                found.append(lambda pod=pod: self.end(pod))  # type: ignore[misc]
        return found

    def bind(self, pod: JSON, node: str) -> None:
        pod["spec"]["nodeName"] = node
        pod["status"]["phase"] = "Running"

    def end(self, pod: JSON) -> None:
        pod["status"]["phase"] = "Succeeded"

    def of_migration(self, record: MoveRecord) -> t.Callable[[], None] | None:
        """The target pod is created; once it has a node, the guest moves there."""
        name = record.instance.name
        others = [pod for pod in self.pods(name) if pod is not self.pod_of(record)]
        if not others:
            return lambda: self.create(name, self.pod_of(record), dict(record.node_selector))
        (target,) = others
        if not target["spec"]["nodeName"]:
            return None
        return lambda: self.hand_over(record, target)

    def create(self, name: str, like: JSON, selector: dict[str, str]) -> None:
        pod = self.made.launcher(name, "")
        pod["spec"]["containers"] = copy.deepcopy(like["spec"]["containers"])
        pod["spec"]["nodeSelector"] |= selector

    def hand_over(self, record: MoveRecord, target: JSON) -> None:
        self.pod_of(record)["metadata"]["deletionTimestamp"] = NOW
        self.made.machines[record.instance.name]["status"]["nodeName"] = target["spec"]["nodeName"]
        self.moved(record)

    def of_restart(self, record: MoveRecord) -> t.Callable[[], None] | None:
        """The old pod ends, the VM gets another VMI, that one a pod, and it runs where that gets a node."""
        name = record.instance.name
        vmi = self.made.machines.get(name)
        pods = self.pods(name)
        if vmi is None:
            return lambda: self.start_again(record)
        if vmi["metadata"]["uid"] == record.uid:
            return lambda: self.stop(record)
        (pod,) = pods
        if not pod["spec"]["nodeName"]:
            return None
        return lambda: self.moved(record, vmi, pod["spec"]["nodeName"])

    def stop(self, record: MoveRecord) -> None:
        self.end(self.pod_of(record))
        del self.made.machines[record.instance.name]

    def start_again(self, record: MoveRecord) -> None:
        name = record.instance.name
        (before,) = [
            pod
            for pod in self.made.pods.values()
            if pod["metadata"]["labels"].get("kubevirt.io/created-by") == record.uid
        ]
        pod = self.made.start(record.workload, "", name)
        pod["spec"]["containers"] = copy.deepcopy(before["spec"]["containers"])

    def moved(self, record: MoveRecord, successor: JSON | None = None, node: str = "") -> None:
        if successor is not None:
            successor["status"] |= {"phase": "Running", "nodeName": node}
        self.settling = True
        self.journal = self.journal.end(
            record,
            100.0,
            outcome=Outcome.MOVED,
            successor=successor["metadata"]["uid"] if successor is not None else "",
        )


def vm(made: Cluster, name: str, node: str, cpu: int, spec: JSON = None, **labels: str) -> Ref:
    """A VM that takes so many of the 16 CPUs of its node."""
    ref = machine(made, name, node, spec, **labels)
    (pod,) = [
        pod
        for pod in made.pods.values()
        if pod["metadata"]["labels"].get("vm.kubevirt.io/name") == name
    ]
    requests = {"cpu": str(cpu), "memory": "1Gi"}
    pod["spec"]["containers"] = [{"name": "compute", "resources": {"requests": requests}}]
    return ref


def must_run_on(*nodes: str) -> JSON:
    return node_affinity({"matchExpressions": [expression(HOST, "In", *nodes)]})


def tight_cluster(seed: int) -> Cluster:
    """Most VMs run on nodes that their rules do not allow any more, and few nodes have much room."""
    chance = random.Random(seed)
    made = cluster("abcd"[: chance.randint(3, 4)])
    nodes = list(made.nodes)
    free = dict.fromkeys(nodes, 16)
    for number in range(chance.randint(3, 7)):
        cpu = chance.choice((3, 5, 7, 8, 10))
        here = [node for node in nodes if free[node] >= cpu]
        if not here:
            continue
        node = chance.choice(here)
        free[node] -= cpu
        spec: JSON = {}
        if chance.random() < 0.7:
            spec |= must_run_on(*chance.sample(nodes, chance.randint(1, 2)))
        if chance.random() < 0.2:
            terms = anti_affinity(apart(HOST, app="db"))["affinity"]
            spec["affinity"] = {**spec.get("affinity", {}), **terms}
        ref = vm(made, f"vm{number}", node, cpu, spec, app=chance.choice(("web", "db")))
        if chance.random() < 0.3:
            not_migratable(made, ref.name)
    return made


def not_migratable(made: Cluster, name: str) -> None:
    made.machines[name]["status"]["conditions"] = [
        {"type": "LiveMigratable", "status": "False", "message": "host devices"}
    ]


@pytest.mark.parametrize("seed", SEEDS)
def test_each_move_that_has_begun_has_room_of_its_own(seed: int) -> None:
    """At each moment, and the rollout does not end before a pod that is ending has left its room to a VM."""
    chance = random.Random(seed)
    played = Played(tight_cluster(seed), allow=["migrate", "restart"])
    for _turn in range(UNTIL_THE_END):
        events = played.events()
        if chance.random() < 0.5 or not events:
            played.reconcile()
            if played.over:
                break
        else:
            chance.choice(events)()
        for pod, nodes in played.waiting():
            assert nodes, f"{pod['metadata']['name']} has no node"
    assert played.over
    while events := played.events():
        events[0]()
    assert played.view().plan(played.options, played.journal).moves == ()


def two_for_one_room(*, leaver: bool = False) -> Cluster:
    """Two VMs that have room on n2 each, and not both, before a third one has left it."""
    made = cluster("abc")
    vm(made, "other", "n2", 7, must_run_on("n3") if leaver else None)
    vm(made, "first", "n1", 7, must_run_on("n2"))
    vm(made, "second", "n1", 7, must_run_on("n2"))
    return made


def test_of_two_vms_for_the_room_of_one_the_second_waits_until_the_third_has_left() -> None:
    played = Played(two_for_one_room(leaver=True))
    assert played.reconcile() == ["other", "first"]
    assert played.why == (
        "VirtualMachine shop/second waits until VirtualMachine shop/first has its node: there may be room for one of"
        " the two only"
    )
    played.play_to_the_end()
    assert played.nodes() == {"first": "n2", "second": "n2", "other": "n3"}


@pytest.mark.parametrize("places", [None, {"shop/first": "n2", "shop/second": "n2"}])
def test_room_of_a_migration_in_flight_is_not_given_away(places: JSON) -> None:
    """Its target pod has no node yet."""
    given = {} if places is None else {"places": places, "namespaces": None}
    played = Played(two_for_one_room(), **given)
    assert played.reconcile() == ["first"]
    assert played.reconcile() == []
    assert played.why.startswith("VirtualMachine shop/second waits until VirtualMachine shop/first")
    played.play_to_the_end()
    assert played.nodes() == {"first": "n2", "second": "n1", "other": "n2"}


def test_node_that_the_migration_in_flight_is_held_to_is_the_only_one_that_it_takes() -> None:
    made = cluster("abc")
    for name in ("first", "second"):
        vm(made, name, "n1", 7)
    vm(made, "other", "n2", 7)
    vm(made, "another", "n3", 7)
    places = {"shop/first": "n2", "shop/second": "n3"}
    assert Played(made, places=places, namespaces=None).reconcile() == ["first", "second"]


def test_move_takes_no_room_that_a_restart_in_flight_counts_on() -> None:
    """A migration might get the only node of a VM that is down meanwhile."""
    made = cluster("abcd")
    not_migratable(made, vm(made, "alone", "n1", 10, must_run_on("n2")).name)
    vm(made, "vm", "n4", 7, must_run_on("n2", "n3"))
    vm(made, "other", "n3", 5)
    played = Played(made, allow=["restart", "migrate"])
    assert played.reconcile() == ["alone"]
    for _until in ("it has stopped", "its VMI is created"):
        played.happens()
        assert played.reconcile() == []
        assert "waits until VirtualMachine shop/alone has its node" in played.why
    played.happens()
    assert played.reconcile() == ["vm"]


def test_end_of_the_source_pod_of_an_ended_migration_is_waited_for() -> None:
    made = cluster("abc")
    vm(made, "big", "n1", 10, must_run_on("n2"))
    vm(made, "leaver", "n2", 10, must_run_on("n3"))
    played = Played(made)
    assert played.reconcile() == ["leaver"]
    for _until in ("the target pod is created", "has a node", "the guest has moved"):
        played.happens()
    assert (played.reconcile(), played.reconcile(), played.over) == ([], [], False)
    assert played.why.endswith(
        "as long as pods exist that are ending: Pod shop/virt-launcher-leaver-1"
    )
    played.happens()
    assert played.reconcile() == ["big"]


def test_move_that_was_not_sent_waits_for_room_like_any_other() -> None:
    """A run was killed before it sent the second one, and the first one had no node yet."""
    played = Played(two_for_one_room())
    played.reconcile()
    (begun,) = played.journal.records
    second = next(x for x in played.view().candidates if x.instance.ref.name == "second")
    workload = second.instance.workload
    assert workload is not None
    intended = replace(
        begun,
        instance=second.instance.ref,
        uid=second.uid,
        workload=workload,
        phase=Phase.INTENDED,
    )
    played.journal = played.journal.with_record(intended)
    assert played.reconcile() == []
    assert [x.instance.name for x in played.journal.records] == ["first"]


def test_move_that_would_wait_for_one_that_was_given_up_is_left_out() -> None:
    played = Played(two_for_one_room())
    played.reconcile()
    (begun,) = played.journal.records
    given_up = replace(begun, phase=Phase.GIVEN_UP)
    played.journal = played.journal.with_record(given_up)
    assert (played.reconcile(), played.over) == ([], True)
    (why,) = played.held.values()
    assert why.startswith("VirtualMachine shop/second waits until VirtualMachine shop/first")
