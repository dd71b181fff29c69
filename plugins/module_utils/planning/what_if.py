# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The snapshot of a cluster as it would be if something were written, lost or scaled.

Pure. Whatever would have to find a node stands in it as a pod without one: members that do not run
yet, pods of a roll-out that starts by itself, successors of what a lost node takes with it. The
target of a live migration stands beside its source, which is still there.
"""

from __future__ import annotations

import typing as t
from dataclasses import dataclass, replace

from ..model.kinds import DEPLOYMENT, REPLICA_SET, STATEFUL_SET, VIRTUAL_MACHINE
from ..model.objects import Node, Pod, Ref
from ..model.pointer import JSON
from ..model.snapshot import Instance, MachineInstance, Snapshot, Workload
from ..model.write import Write
from ..rules.effect import replicas, rolls_itself
from ..verdicts.instances import instances, launcher_pods
from .displaced import CORDON, UNREACHABLE, Cause, Displacement, Fate, next_uid
from .making import controlled_pod, launcher_pod, machine_instance
from .transit import settled
from .written import touched, written

SCALABLE = (DEPLOYMENT.name, STATEFUL_SET.name, REPLICA_SET.name)
HASH = "pod-template-hash"


@dataclass(frozen=True, slots=True)
class Scale:
    """`workload` is to have so many instances. Its kind is one of SCALABLE."""

    workload: Ref
    replicas: int


def what_if(
    snapshot: Snapshot,
    *,
    writes: t.Sequence[Write] = (),
    members: t.Collection[Ref] = (),
    lost_nodes: t.Collection[str] = (),
    cause: Cause = "drain",
    scale: t.Sequence[Scale] = (),
) -> Snapshot:
    """`snapshot` after these changes, before anything has found a place.

    `members` are workloads that are asked about though nothing may be written to them: of those, too,
    halted machines are to be placed, and machines that wait are made anew by what is declared.
    A drain cordons the nodes; what runs there migrates or is made again. With a failure the nodes
    stay, unreachable, and lost pods stay bound to them, terminating: they still count for anyone's
    anti-affinity. Raises KeyError for a node or workload that is not there, ValueError for a write
    that does not fit its object. Migrations that have found their nodes are taken to be over.
    """
    failing = lost_nodes if cause == "failure" else ()
    changed = _written(settled(snapshot, failing), writes, members)
    for each in scale:
        changed = _scaled(changed, each)
    return _lost(changed, frozenset(lost_nodes), cause) if lost_nodes else changed


def lost_node(node: Node, cause: Cause) -> Node:
    """A node that is drained or has failed."""
    if cause == "drain":
        taints = node.taints if CORDON in node.taints else (*node.taints, CORDON)
        return replace(node, unschedulable=True, taints=taints)
    kept = tuple(taint for taint in node.taints if taint not in UNREACHABLE)
    return replace(node, ready=False, taints=(*kept, *UNREACHABLE))


def _written(snapshot: Snapshot, writes: t.Sequence[Write], members: t.Collection[Ref]) -> Snapshot:
    if not writes and not members:
        return snapshot
    return _Consequences(snapshot, written(snapshot, writes), members).snapshot()


class _Consequences:
    """What new templates make of the instances: running ones stay as they are, what waits is made
    anew, halted members are to be placed, and self-rolling workloads begin to roll. What rolls by
    itself and has no new template stays as it is: its controller has made by it what is there."""

    def __init__(self, before: Snapshot, after: Snapshot, members: t.Collection[Ref]) -> None:
        self._after = after
        self._displacement = Displacement(after)
        self._touched = touched(before, after)
        self._members = self._touched.union(members)
        self._pods = list(after.pods)
        self._machines = list(after.machine_instances)
        self._controllers = dict(after.controllers)

    def snapshot(self) -> Snapshot:
        running: dict[Ref, list[Instance]] = {ref: [] for ref in self._members}
        for instance in instances(self._after):
            if instance.workload in running:
                running[instance.workload].append(instance)
        for workload in self._after.workloads:
            ref = workload.ref
            if ref in self._touched or (ref in self._members and not workload.kind.self_rolling):
                self._of(workload, running[ref])
        return replace(
            self._after,
            pods=tuple(self._pods),
            machine_instances=tuple(self._machines),
            controllers=self._controllers,
        )

    def _of(self, workload: Workload, running: list[Instance]) -> None:
        if workload.ref.kind == VIRTUAL_MACHINE.name and not running:
            vmi = machine_instance(workload, workload.ref.name)
            self._machines.append(vmi)
            self._pods.append(launcher_pod(vmi))
        rolling = rolls_itself(workload) and not workload.kind.virtual_machines
        for instance in running:
            pod = instance.pod
            if pod is None:
                continue
            if not pod.node_name:
                self._replace(pod, self._displacement.remade(pod, workload, pod.name))
            elif rolling and rollout_room(workload).stops_first:
                self._replace(pod, self._next_revision(pod, workload))
            elif rolling:
                self._pods.append(self._next_revision(pod, workload))

    def _replace(self, old: Pod, new: Pod) -> None:
        place = next(n for n, pod in enumerate(self._pods) if pod is old)
        self._pods[place] = new if old.node_name else replace(new, uid=old.uid)

    def _next_revision(self, pod: Pod, workload: Workload) -> Pod:
        """The pod that takes the place of `pod` in a roll-out, of another ReplicaSet."""
        labels = {**pod.labels, HASH: f"{pod.labels[HASH]}{_NEXT}"} if HASH in pod.labels else None
        model = pod if labels is None else replace(pod, labels=labels)
        made = self._displacement.remade(model, workload)
        if made.owner is None or made.owner.uid not in self._controllers:
            return made
        uid = next_uid(made.owner.uid)
        self._controllers[uid] = workload.ref
        return replace(made, owner=replace(made.owner, uid=uid))


@dataclass(frozen=True, slots=True)
class RolloutRoom:
    """How a self-rolling workload replaces its pods: so many more, so many fewer than wanted at a
    time. `stops_first`: all old ones end before the first new one is made."""

    surge: int
    unavailable: int
    stops_first: bool = False


def rollout_room(workload: Workload) -> RolloutRoom:
    """By the workload's own strategy, with the defaults of Kubernetes (apps/v1): a quarter of the
    replicas, rounded up for the surge and down for what may be unavailable."""
    spec = workload.manifest.get("spec") or {}
    if workload.ref.kind != DEPLOYMENT.name:
        return RolloutRoom(0, 1)
    strategy = spec.get("strategy") or {}
    if strategy.get("type") == "Recreate":
        return RolloutRoom(0, replicas(workload), stops_first=True)
    rolling = strategy.get("rollingUpdate") or {}
    wanted = replicas(workload)
    surge = _share(rolling.get("maxSurge", "25%"), wanted, up=True)
    unavailable = _share(rolling.get("maxUnavailable", "25%"), wanted, up=False)
    return RolloutRoom(surge, unavailable if surge or unavailable else 1)


def _share(value: JSON, of: int, *, up: bool) -> int:
    text = str(value)
    if not text.endswith("%"):
        return int(text)
    hundredfold = int(text[:-1]) * of
    return -(-hundredfold // 100) if up else hundredfold // 100


def _scaled(snapshot: Snapshot, scale: Scale) -> Snapshot:
    workload = next(found for found in snapshot.workloads if found.ref == scale.workload)
    running = [found for found in instances(snapshot) if found.workload == scale.workload]
    spec = {**(workload.manifest.get("spec") or {}), "replicas": scale.replicas}
    manifest = {**workload.manifest, "spec": spec}
    changed = replace(
        snapshot,
        workloads=tuple(
            replace(found, manifest=manifest) if found.ref == scale.workload else found
            for found in snapshot.workloads
        ),
    )
    missing = scale.replicas - len(running)
    if missing < 0:
        return _without(changed, _first_to_go(running)[:-missing])
    return _with_more(changed, workload, running, missing)


def _first_to_go(running: t.Sequence[Instance]) -> list[Instance]:
    """The order in which a controller takes instances away: waiting before running ones
    (Kubernetes, ActivePods); among equals it is free, here the last by name go first."""
    by_name = sorted(running, key=lambda found: found.ref.name, reverse=True)
    return sorted(by_name, key=lambda found: bool(found.node_name))


def surplus_is_free(snapshot: Snapshot, scale: Scale) -> bool:
    """Whether it is the controller's choice which running instances a scale takes away."""
    running = [found for found in instances(snapshot) if found.workload == scale.workload]
    bound = sum(1 for found in running if found.node_name)
    return 0 < scale.replicas < bound


def _without(snapshot: Snapshot, gone: t.Sequence[Instance]) -> Snapshot:
    uids = {found.uid for found in gone}
    pods = {id(found.pod) for found in gone if found.pod is not None}
    return replace(
        snapshot,
        pods=tuple(pod for pod in snapshot.pods if id(pod) not in pods),
        machine_instances=tuple(vmi for vmi in snapshot.machine_instances if vmi.uid not in uids),
    )


def _with_more(
    snapshot: Snapshot, workload: Workload, running: t.Sequence[Instance], missing: int
) -> Snapshot:
    pods: list[Pod] = []
    machines: list[MachineInstance] = []
    controllers: dict[str, Ref] = {}
    model = next((found.pod for found in running if found.pod is not None), None)
    displacement = Displacement(snapshot)
    for number in range(missing):
        name = f"{workload.ref.name}{_NEXT}-{number}"
        if workload.kind.virtual_machines:
            vmi = machine_instance(workload, name)
            machines.append(vmi)
            made = launcher_pod(vmi)
            pods.append(made if model is None else replace(made, requests=model.requests))
        elif model is not None:
            pods.append(displacement.remade(model, workload, name))
        else:
            owner = f"{workload.uid}{_NEXT}"
            kind = "ReplicaSet" if workload.ref.kind == DEPLOYMENT.name else workload.ref.kind
            controllers[owner] = workload.ref
            pods.append(controlled_pod(workload, name, owner, kind))
    return replace(
        snapshot,
        pods=(*snapshot.pods, *pods),
        machine_instances=(*snapshot.machine_instances, *machines),
        controllers={**snapshot.controllers, **controllers},
    )


def _lost(snapshot: Snapshot, lost: frozenset[str], cause: Cause) -> Snapshot:
    unknown = lost - {node.name for node in snapshot.nodes}
    if unknown:
        raise KeyError(f"there is no node {', '.join(sorted(unknown))}")
    displacement = Displacement(snapshot)
    pods: dict[int, tuple[Pod, ...]] = {id(pod): (pod,) for pod in snapshot.pods}
    names = {(pod.namespace, pod.name) for pod in snapshot.pods}
    machines = {vmi.uid: vmi for vmi in snapshot.machine_instances}
    launchers = launcher_pods(snapshot)
    ending = list(snapshot.ending)
    for instance in instances(snapshot):
        pod = instance.pod
        if pod is None or pod.node_name not in lost:
            continue
        found = displacement.of(instance, cause)
        stands = (replace(pod, terminating=True, ready=False),) if cause == "failure" else ()
        if found.fate in (Fate.ROOTED, Fate.BLOCKED):
            continue
        if found.fate is Fate.MIGRATES:
            stands = (pod,)
        else:
            ending.append(pod)
        for target in launchers.get(instance.uid, ()):
            if not target.node_name:
                pods[id(target)] = ()
        made = found.next_pod
        if made is not None and (made.namespace, made.name) not in names:
            stands = (*stands, made)
        pods[id(pod)] = stands
        if instance.vmi is not None and found.fate is not Fate.MIGRATES:
            del machines[instance.uid]
            if found.fate is Fate.REMADE:
                machines[next_uid(instance.uid)] = _next_instance(instance.vmi)
    return replace(
        snapshot,
        nodes=tuple(
            lost_node(node, cause) if node.name in lost else node for node in snapshot.nodes
        ),
        pods=tuple(pod for stands in pods.values() for pod in stands),
        machine_instances=tuple(machines.values()),
        ending=tuple(ending),
    )


def _next_instance(vmi: MachineInstance) -> MachineInstance:
    return replace(
        vmi,
        uid=next_uid(vmi.uid),
        phase="Scheduling",
        node_name="",
        ready=False,
        live_migratable=None,
        migration={},
        active_pods={},
    )


_NEXT = "-next"
