# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What does the loss of nodes make of the instances on them: what ends, what is left there, what comes after?

A forecast makes a changed snapshot of it, a drill takes it out of the index and puts it back.
"""

from __future__ import annotations

import contextlib
import typing as t
from dataclasses import dataclass, field, replace

from ..kubevirt.instances import replaced_once_gone
from ..model.objects import Pod, Ref
from ..scheduler.framework import pod_key
from ..scheduler.index import Index
from .eviction import DrainOutcome, EvictedInstance, NodeEvent
from .simulation import PendingPod


@dataclass
class Loss:
    """The instances of lost nodes. Those in `evicted` need another node (`pending` are their next pods, in this
    order), `blocked` cannot leave, `not_recreated` are not created again. `fenced` are pods that terminate
    already and leave once their failed node is fenced, `left_over` such that never do."""

    event: NodeEvent
    evicted: list[EvictedInstance] = field(default_factory=list)
    pending: list[PendingPod] = field(default_factory=list)
    blocked: list[EvictedInstance] = field(default_factory=list)
    not_recreated: list[EvictedInstance] = field(default_factory=list)
    fenced: list[Pod] = field(default_factory=list)
    left_over: list[Pod] = field(default_factory=list)

    def add(self, evicted: EvictedInstance) -> None:
        if evicted.outcome is DrainOutcome.BLOCKED:
            self.blocked.append(evicted)
        elif evicted.outcome is DrainOutcome.GONE:
            self.not_recreated.append(evicted)
        elif evicted.next_pod is not None:
            self.evicted.append(evicted)
            leaving = evicted.instance
            self.pending.append(
                PendingPod(
                    evicted.next_pod,
                    leaving.pod,
                    evicted.why_pending,
                    workload=leaving.workload,
                    vmi=leaving.vmi,
                )
            )

    def left_of(self, evicted: EvictedInstance) -> Pod | None:
        """What is left of the pod of an instance that leaves: all of it until its migration ends. On a failed
        node it terminates until that is fenced, but where the next pod is created only after that."""
        pod = evicted.instance.pod
        if pod is None or evicted.outcome is DrainOutcome.MIGRATES:
            return pod
        if self.event == "failure" and not replaced_once_gone(pod):
            return replace(pod, terminating=True, ready=False)
        return None

    @property
    def ended(self) -> list[Pod]:
        """The pods that end with their node."""
        return [*(x.instance.pod for x in self._ending if x.instance.pod is not None), *self.fenced]

    @property
    def doubtful(self) -> list[EvictedInstance]:
        """Those that a budget holds, and those of which it is not certain what becomes of them."""
        leaving = (*self.evicted, *self.not_recreated)
        return [x for x in leaving if x.held_by or not x.certain]

    @property
    def down_until_fenced(self) -> tuple[Ref, ...]:
        """The VMs that are created again only once their failed node is fenced."""
        if self.event == "drain":
            return ()
        return tuple(x.instance.ref for x in self.evicted if x.instance.vmi is not None)

    @property
    def _ending(self) -> list[EvictedInstance]:
        leaving = (*self.evicted, *self.not_recreated)
        return [x for x in leaving if x.outcome is not DrainOutcome.MIGRATES]

    @contextlib.contextmanager
    def taken_out(self, index: Index) -> t.Iterator[None]:
        """While it lasts, what ends is gone from the index, and what is left is there."""
        ended = self.ended
        left = [*self.left_over, *(pod for x in self._ending if (pod := self.left_of(x)))]
        for pod in ended:
            index.remove(pod_key(pod))
        for pod in left:
            index.place(pod, pod.node_name)
        try:
            yield
        finally:
            for pod in left:
                index.remove(pod_key(pod))
            for pod in ended:
                index.place(pod, pod.node_name)
