# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What is on its way: pods that are about to be gone, and instances that are about to be elsewhere.

Pure. The scheduler counts such pods as long as they stand, so no place is open because of this. But
nobody has to move because of a pod that leaves by itself.
"""

from __future__ import annotations

import typing as t
from dataclasses import dataclass, replace

from ..model.kinds import MACHINE_INSTANCE
from ..model.objects import Pod
from ..model.snapshot import Snapshot
from ..verdicts.instances import launcher_pods


@dataclass(frozen=True, slots=True)
class Transit:
    """`pods` (uids) are leaving. `instances` (uids) migrate to a node that has been found."""

    pods: frozenset[str] = frozenset()
    instances: frozenset[str] = frozenset()


def transit(snapshot: Snapshot, namespaces: t.Collection[str] = ()) -> Transit:
    """Pods that are being deleted, those of machines that are or are gone, a migration's source as
    soon as its target has a node, and whatever a migration that is over has left behind.

    The lists of a snapshot are not of one moment. Where a machine is known to run on another node
    than its pod, the pod's list is the older one. `namespaces` are those whose machines were read,
    so that a launcher pod without a machine is known to be on its way out.
    """
    migrating = {(found.ref.namespace, found.instance) for found in snapshot.migrations}
    machines = {vmi.uid: vmi for vmi in snapshot.machine_instances}
    pods, doubtful = set(), set()
    for pod in snapshot.pods:
        if pod.terminating:
            pods.add(pod.uid)
        owner = pod.owner
        if owner is None:
            continue
        vmi = machines.get(owner.uid)
        if vmi is not None:
            if vmi.terminating or (vmi.node_name and pod.node_name != vmi.node_name):
                doubtful.add(owner.uid)
        elif pod.namespace in namespaces and owner.kind == MACHINE_INSTANCE and _is_alive(pod):
            pods.add(pod.uid)
    instances = set()
    launchers = launcher_pods(snapshot) if doubtful else {}
    for uid in doubtful & launchers.keys():
        alive = [pod for pod in launchers[uid] if _is_alive(pod)]
        vmi = machines[uid]
        elsewhere = {pod.uid for pod in alive if pod.node_name != vmi.node_name}
        here = {pod.uid for pod in alive} - elsewhere
        if vmi.terminating:
            pods |= here | elsewhere
        elif here and elsewhere and (vmi.ref.namespace, vmi.ref.name) in migrating:
            instances.add(uid)
            pods |= here
        else:
            pods |= elsewhere
    return Transit(frozenset(pods), frozenset(instances))


def settled(snapshot: Snapshot, failing: t.Container[str] = ()) -> Snapshot:
    """The snapshot as it will be once migrations that have found their nodes are over, and what
    leaves has gone: that stands in `ending`. A pod that terminates is never gone from a node that does
    not answer or is one of `failing`; nor is it where its machine lives on, who knows how."""
    on_the_way = transit(snapshot)
    dead = {node.name for node in snapshot.nodes if not node.ready or node.name in failing}
    living = {vmi.uid for vmi in snapshot.machine_instances if not vmi.terminating}
    ending = tuple(
        pod
        for pod in snapshot.pods
        if pod.uid in on_the_way.pods
        and not (pod.terminating and (pod.node_name in dead or _machine(pod) in living))
    )
    if not ending:
        return snapshot
    gone = {pod.uid for pod in ending}
    pods = tuple(pod for pod in snapshot.pods if pod.uid not in gone)
    moved = {_machine(x): x for x in pods if _machine(x) in on_the_way.instances and _is_alive(x)}
    arrived = {vmi.ref for vmi in snapshot.machine_instances if vmi.uid in moved}
    return replace(
        snapshot,
        pods=pods,
        machine_instances=tuple(
            replace(vmi, node_name=moved[vmi.uid].node_name, migration={})
            if vmi.uid in moved
            else vmi
            for vmi in snapshot.machine_instances
        ),
        migrations=tuple(
            each
            for each in snapshot.migrations
            if replace(each.ref, kind=MACHINE_INSTANCE, name=each.instance) not in arrived
        ),
        ending=(*snapshot.ending, *ending),
    )


def _machine(pod: Pod) -> str:
    """The uid of the machine that a pod runs."""
    owner = pod.owner
    return owner.uid if owner is not None and owner.kind == MACHINE_INSTANCE else ""


def _is_alive(pod: Pod) -> bool:
    return bool(pod.node_name) and not pod.finished
