# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Who has no place when a course is over, why, and whom the scheduler would end to make one."""

from __future__ import annotations

import typing as t

from ..model.objects import Pod, Ref
from ..model.snapshot import Snapshot
from ..model.topology import Topology
from ..scheduling.candidate import pod_key
from ..scheduling.index import Index
from ..scheduling.priority import preemption_nodes, victims
from ..verdicts.instances import instances
from ..verdicts.waiting import Waiting
from .changed_machines import NAMED
from .displaced import Displacement
from .fill import Filling, Seeker
from .foreseen import Stuck, Unplaced
from .seekers import Sought
from .what_if import rollout_room


class StayBehind:
    """`touched` are workloads whose templates were changed. Of use as long as the index stays as it is."""

    def __init__(
        self,
        after: Snapshot,
        touched: t.Collection[Ref],
        sought: t.Sequence[Sought],
        displacement: Displacement,
        index: Index,
        topology: Topology,
    ) -> None:
        self._after = after
        self._touched = touched
        self._sought = sought
        self._index = index
        self._waiting = Waiting(index, topology)
        self._displacement = displacement
        self._lowest = min((pod.priority for pod in after.pods), default=0)
        self._ended: dict[t.Hashable, tuple[Ref, ...]] = {}
        self._owners: dict[str, Ref] = {}

    def of(self, filling: Filling, never: t.Container[int]) -> tuple[list[Unplaced], list[Stuck]]:
        """Those without a place as the filling stands; `never` are those of whom that is sure."""
        pending: list[Unplaced] = []
        stuck: list[Stuck] = []
        in_flight = self._in_flight()
        for number in sorted(filling.waiting):
            found = self._sought[number]
            if not found.seeker.goal:
                continue
            if found.way == "roll" and found.workload is not None:
                in_flight[found.workload] -= 1
                if in_flight[found.workload] < 0:
                    continue
            reason, certain = self._waiting.reason(found.seeker.pod), number in never
            if found.way == "migrate" and found.source is not None:
                restarted = self._if_restarted(found)
                node = found.source.node_name
                entry = Stuck(found.instance, found.workload, node, reason, restarted, certain)
                stuck.append(entry)
            else:
                ended = self._may_end(found.seeker, filling.kinds[number])
                pending.append(Unplaced(found.instance, found.workload, reason, certain, ended))
        return pending, stuck

    def _in_flight(self) -> dict[Ref, int]:
        """How many new pods a roll-out makes before old ones have to be gone."""
        rooms = {
            found.ref: rollout_room(found)
            for found in self._after.workloads
            if found.ref in self._touched and found.kind.self_rolling
        }
        return {ref: max(1, room.surge + room.unavailable) for ref, room in rooms.items()}

    def _if_restarted(self, found: Sought) -> tuple[str, ...]:
        if found.vmi is None or found.source is None:
            return ()
        workload = self._displacement.workload(found.workload)
        pod = self._displacement.renewed(found.source, found.vmi, workload)
        return self._index.feasible(pod, without=found.seeker.source)[:NAMED]

    def _may_end(self, seeker: Seeker, kind: int) -> tuple[Ref, ...]:
        """The workloads of the pods on whose nodes this one would make itself room. Asked once of
        seekers of one kind (see Filling.kinds) and priority."""
        pod = seeker.pod
        if not pod.may_preempt or pod.priority <= self._lowest:
            return ()
        identity = kind, pod.priority
        if identity not in self._ended:
            leaves = None if seeker.stays else seeker.source
            ended = [
                each
                for node in preemption_nodes(self._index, pod, without=leaves)
                for each in victims(self._index, pod, node)
                if pod_key(each) != leaves
            ]
            self._ended[identity] = tuple(sorted({self._owner(each) for each in ended}))[:NAMED]
        return self._ended[identity]

    def _owner(self, pod: Pod) -> Ref:
        if not self._owners:
            known = [(each.pod, each.workload or each.ref) for each in instances(self._after)]
            sought = [(each.seeker.pod, each.workload or each.instance) for each in self._sought]
            self._owners = {pod_key(each): ref for each, ref in [*known, *sought] if each}
        return self._owners.get(pod_key(pod), pod.ref)
