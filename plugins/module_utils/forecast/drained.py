# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The cluster once instances have left their nodes, in a drain or by rules: it is not known where they are then.

So each of these instances needs a node beside what fails, wherever it has moved before: where it is on a node
that does not fail, one order of placements puts it there, too.
"""

from __future__ import annotations

import typing as t
from dataclasses import dataclass, replace

from ..model.snapshot import Snapshot
from ..view.view import view_of
from .admission import PodAdmission
from .change import lost_node
from .conclusion import NO_CERTAINTY, Doubt
from .doubts import doubts_of_pods, of_evicted
from .eviction import DrainOutcome, Evictions
from .simulation import PendingPod


@dataclass(frozen=True, slots=True)
class Drained:
    """`snapshot` is without the instances that leave, `moved` are the next pods of the drained nodes, `by_rules` those
    of the others. `doubts` are about these, as if each of them ended once more."""

    snapshot: Snapshot
    moved: tuple[PendingPod, ...] = ()
    by_rules: tuple[PendingPod, ...] = ()
    doubts: tuple[Doubt, ...] = ()


def drained(
    snapshot: Snapshot, names: t.Collection[str], moving: t.Collection[str] = ()
) -> Drained:
    """`snapshot` while the nodes with these names are drained, and once the instances with the uids `moving` have
    moved. What nothing creates again is gone: a drain ends it. Whether the drain may end at all is a question of its
    own."""
    if not names and not moving:
        return Drained(snapshot)
    evictions = Evictions(snapshot)
    gone: set[int] = set()
    vmis: set[str] = set()
    moved: list[PendingPod] = []
    by_rules: list[PendingPod] = []
    replacing: list[PendingPod] = []
    doubts: list[Doubt] = []
    for instance in view_of(snapshot).instances:
        pod = instance.pod
        if pod is None or not (pod.node_name in names or instance.uid in moving):
            continue
        leaves = evictions.of(instance, "drain")
        if leaves.outcome is DrainOutcome.NODE_BOUND:
            continue
        gone.add(pod.number)
        if instance.vmi is not None:
            vmis.add(instance.vmi.uid)
        again = evictions.of(instance, "failure")
        created = again.next_pod or leaves.next_pod
        if created is None:
            continue
        if again.next_pod is None and leaves.outcome is DrainOutcome.MIGRATES:
            text = f"{instance.ref} is not recreated if the node fails to which the drain moves it"
            doubts.append(Doubt("not_again_after_drain", f"{text}: {again.obstacle}"))
        elif (
            leaves.outcome is DrainOutcome.MIGRATES
            and leaves.next_pod is not None
            and leaves.next_pod.requests != created.requests
        ):
            text = f"the pod to which {instance.ref} migrates differs from the one after a failure"
            doubts.append(Doubt("next_pod_estimated", text, NO_CERTAINTY))
        doubts += [x for x in of_evicted(again) if x.code == "next_pod_estimated"]
        new = PendingPod(created, workload=instance.workload, vmi=instance.vmi)
        (moved if pod.node_name in names else by_rules).append(new)
        replacing.append(replace(new, replaces=pod, reason="recreate"))
    after = replace(
        snapshot,
        nodes=tuple(lost_node(x, "drain") if x.name in names else x for x in snapshot.nodes),
        pods=tuple(pod for pod in snapshot.pods if pod.number not in gone),
        vmis=tuple(vmi for vmi in snapshot.vmis if vmi.uid not in vmis),
    )
    doubts += doubts_of_pods(replacing, snapshot, PodAdmission(snapshot))
    return Drained(after, tuple(moved), tuple(by_rules), tuple(dict.fromkeys(doubts)))
