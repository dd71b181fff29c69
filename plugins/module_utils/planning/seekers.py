# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which pods of a snapshot look for a place, and what leaves when they have found one.

Pure. A snapshot made by `what_if` says it all: the target of a live migration is a second pod of its
machine, a pod of the next revision stands beside the one that it replaces, and what waits in the
snapshot before as well is only a competitor.
"""

from __future__ import annotations

import typing as t
from dataclasses import dataclass

from ..model.kinds import MACHINE_INSTANCE
from ..model.objects import Pod, Ref
from ..model.snapshot import Instance, MachineInstance, Snapshot, Workload
from ..scheduling.index import pod_key
from ..verdicts.instances import (
    bound_launcher,
    instances,
    launcher_pods,
    machine_workload,
    pod_workload,
)
from ..verdicts.successor import NEXT
from .displaced import comes_late
from .fill import Seeker
from .what_if import rollout_room

Way = t.Literal["new", "migrate", "again", "roll"]
"""new: there was none before. migrate: a live migration. again: it ended on a lost node and is made
again. roll: it takes the place of a pod of the revision before."""


@dataclass(frozen=True, slots=True, eq=False)
class Sought:
    """A seeker with what people know it by. `source` is the pod that it comes after, if any."""

    seeker: Seeker
    instance: Ref
    uid: str
    workload: Ref | None
    way: Way
    source: Pod | None = None
    vmi: MachineInstance | None = None

    @property
    def name(self) -> str:
        return self.instance.name.removesuffix(NEXT)


class Seekers:
    """Finds the seekers of `after`. `touched` are workloads whose templates were changed. Of those in
    `concerned` what waited before is to be placed, too."""

    def __init__(
        self,
        before: Snapshot,
        after: Snapshot,
        touched: t.Collection[Ref],
        concerned: t.Collection[Ref],
    ) -> None:
        self._after = after
        self._touched = touched
        self._concerned = concerned
        self._workloads = {found.ref: found for found in after.workloads}
        self._machines = {vmi.uid: vmi for vmi in after.machine_instances}
        self._launchers = launcher_pods(after)
        self._before = {(pod.namespace, pod.name): pod for pod in before.pods}
        self._there = {(pod.namespace, pod.name): pod for pod in after.pods if pod.node_name}
        self._ending = {(pod.namespace, pod.name): pod for pod in after.ending}

    def find(self) -> list[Sought]:
        return [
            self._sought(pod)
            for pod in self._after.pods
            if not pod.node_name and not pod.finished and not pod.terminating
        ]

    def _sought(self, pod: Pod) -> Sought:
        if pod.owner is not None and pod.owner.kind == MACHINE_INSTANCE:
            return self._launcher(pod, pod.owner.uid, pod.owner.name)
        workload = pod_workload(pod, self._after.controllers)
        previous = (pod.namespace, pod.name.removesuffix(NEXT))
        old = self._there.get(previous) if pod.name.endswith(NEXT) else None
        found = self._workloads.get(workload)
        if old is not None and not old.terminating and found is not None and self._rolls(found):
            room = rollout_room(found)
            seeker = Seeker(pod, pod_key(old), stays=room.unavailable == 0)
            return Sought(seeker, pod.ref, pod_key(pod), workload, "roll", old)
        was = self._before.get(previous) if pod.name.endswith(NEXT) else None
        way: Way = "again" if was is not None and was.node_name else "new"
        seeker = self._made(pod, self._is_goal(pod, workload))
        return Sought(seeker, pod.ref, pod_key(pod), workload, way, was)

    def _made(self, pod: Pod, goal: bool) -> Seeker:
        """A seeker that a controller makes, after one that ends if there is such."""
        name = pod.name.removesuffix(NEXT)
        ending = self._ending.get((pod.namespace, name)) if name != pod.name else None
        if ending is None:
            return Seeker(pod, goal=goal)
        return Seeker(pod, goal=goal, after=pod_key(ending), late=comes_late(ending))

    def _launcher(self, pod: Pod, uid: str, name: str) -> Sought:
        vmi = self._machines.get(uid)
        workload = machine_workload(vmi, self._workloads) if vmi is not None else None
        ref = Ref(MACHINE_INSTANCE, pod.namespace, name)
        source = bound_launcher(self._launchers.get(uid, ()))
        goal = self._is_goal(pod, workload)
        if source is not None:
            seeker = Seeker(pod, pod_key(source), goal=goal)
            return Sought(seeker, ref, uid, workload, "migrate", source, vmi)
        was = self._before.get((pod.namespace, pod.name.removesuffix(NEXT)))
        again = pod.name.endswith(NEXT) and was is not None and bool(was.node_name)
        way: Way = "again" if again else "new"
        seeker = self._made(pod, goal)
        return Sought(seeker, ref, uid, workload, way, was if again else None, vmi)

    def _is_goal(self, pod: Pod, workload: Ref | None) -> bool:
        was = self._before.get((pod.namespace, pod.name))
        waited = was is not None and not was.node_name
        return not waited or workload in self._concerned

    def _rolls(self, workload: Workload) -> bool:
        return workload.ref in self._touched and workload.kind.self_rolling


def remaining(after: Snapshot, lost: t.Container[str], leaving: t.Container[str]) -> list[Instance]:
    """Instances that are still bound to a lost node and do not leave it."""
    return [
        found
        for found in instances(after)
        if found.pod is not None
        and found.pod.node_name in lost
        and pod_key(found.pod) not in leaving
    ]
