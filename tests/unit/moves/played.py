# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""A rollout that is played: its reconciles, and what kube-scheduler and the controllers do meanwhile.

The scheduler is the plain reference of the filters, and shares nothing with the engine.
"""

from __future__ import annotations

import copy
import typing as t
from dataclasses import replace

from ansible_collections.virt.placement.plugins.module_utils.model.objects import Ref
from ansible_collections.virt.placement.plugins.module_utils.model.obstacle import Obstacle
from ansible_collections.virt.placement.plugins.module_utils.model.plan import Method, Plan
from ansible_collections.virt.placement.plugins.module_utils.model.snapshot import (
    Migration,
    Snapshot,
)
from ansible_collections.virt.placement.plugins.module_utils.moves.journal import RunJournal
from ansible_collections.virt.placement.plugins.module_utils.moves.move import (
    MoveRecord,
    Outcome,
    Phase,
)
from ansible_collections.virt.placement.plugins.module_utils.moves.observe import Observer
from ansible_collections.virt.placement.plugins.module_utils.moves.reconcile import Reconciler
from ansible_collections.virt.placement.plugins.module_utils.moves.reconciliation import (
    Reconciliation,
)
from ansible_collections.virt.placement.plugins.module_utils.moves.state import StepReport
from ansible_collections.virt.placement.plugins.module_utils.rollout.judged_snapshot import (
    JudgedSnapshot,
)
from ansible_collections.virt.placement.plugins.module_utils.rollout.options import (
    RolloutOptions,
    wanted,
)
from ansible_collections.virt.placement.plugins.module_utils.rollout.rollout_source import (
    RolloutSource,
)
from tests.support.cluster import HOST, Cluster, expression, machine, node_affinity
from tests.unit.moves.test_gates import parameters
from tests.unit.moves.test_reconcile import NO_API, NODES, keeper
from tests.unit.scheduler.reference import World

JSON = t.Any
NOW = "2026-05-01T08:00:00Z"


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
        self.held: dict[str, Obstacle] = {}
        self.plan = Plan()
        """What is left of it, and what is skipped."""

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
        snapshot = self.snapshot()
        return JudgedSnapshot.of(snapshot, wanted(self.options, snapshot), self.options)

    def reconcile(self) -> list[str]:
        """Begin what may begin. Returns the names of the VMs."""
        view = self.view()
        reconciler = Reconciler(keeper(), self.options, self.journal, StepReport(), 100.0, {}, ())
        now = Reconciliation(view, Observer(NO_API, view.snapshot, self.journal), NODES)
        now.settling, self.settling = self.settling, False
        plan = view.plan(self.journal)
        due = [] if now.settling else reconciler.choose(plan, now)
        begun = {record.uid for record in reconciler.journal.records}
        left = tuple(x for x in plan.moves if x.uid not in {*begun, *now.held})
        now.plan = replace(plan, moves=left)
        self.plan = now.plan
        self.held = now.held
        self.journal = reconciler.journal
        for record in self.journal.records:
            if record.uid in due:
                self.begin(record)
        self.over = not RolloutSource.goes_on(t.cast(t.Any, None), view, reconciler, now)
        self.why = str(now.waiting or "")
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


def not_migratable(made: Cluster, name: str) -> None:
    made.machines[name]["status"]["conditions"] = [
        {"type": "LiveMigratable", "status": "False", "message": "host devices"}
    ]
