# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What may keep an instance from its move, whichever run plans it? Each run has a list of aspects, and asks them all.

Here are the label do-not-move and nodes that are not Ready. Disruption budgets are in `disruption`. Pure.
"""

from __future__ import annotations

import typing as t

from ..model.kinds import DO_NOT_MOVE
from ..model.objects import Ref
from ..model.obstacle import Obstacle
from ..model.plan import Method
from ..model.snapshot import Instance, Snapshot, Workload


class Aspect(t.Protocol):
    """One thing that may keep instances from their moves. It knows the reading that a run plans from."""

    def obstacle(self, instance: Instance, method: Method) -> Obstacle | None:
        """Why no plan of this reading moves the instance by the method."""


class LateAspect(Aspect, t.Protocol):
    """One of a single plan that is asked for a move once it has a node: its answer costs a request, or is about the
    moves of the plan. What it does not permit has an obstacle from then on, so that the plan goes on without it."""

    def permits(self, instance: Instance, method: Method) -> bool:
        """Whether the plan may have this move."""


def first_obstacle(
    aspects: t.Iterable[Aspect], instance: Instance, method: Method
) -> Obstacle | None:
    """The obstacle of the first aspect that has one."""
    return next(filter(None, (x.obstacle(instance, method) for x in aspects)), None)


class DoNotMove:
    """The label that keeps an instance where it is, by whichever method: of its workload, of its VM where that is one
    of a pool, or of the VMI or pod itself."""

    def __init__(self, workloads: t.Mapping[Ref, Workload]) -> None:
        self._workloads = workloads

    def obstacle(self, instance: Instance, _method: Method) -> Obstacle | None:
        pod, vmi, nouns = instance.pod, instance.vmi, dict[Ref, str]()
        if instance.workload is not None:
            nouns[instance.workload] = "its workload"
        if vmi is not None and vmi.owner is not None:
            nouns.setdefault(Ref(vmi.owner.kind, vmi.ref.namespace, vmi.owner.name), "its VM")
        objects = self._workloads
        labelled = [(noun, objects[ref].labels) for ref, noun in nouns.items() if ref in objects]
        if vmi is not None:
            labelled.append(("its VMI", vmi.labels))
        elif pod is not None:
            labelled.append(("the pod", pod.labels))
        for noun, labels in labelled:
            if labels.get(DO_NOT_MOVE, "false") != "false":
                text = f"{noun} has the label {DO_NOT_MOVE}"
                return Obstacle("do_not_move", text, advice="remove the label")
        return None


class NotReady:
    """Nodes that are not Ready: virt-handler of the source carries out a migration, and no pod there is seen to end."""

    def __init__(self, snapshot: Snapshot) -> None:
        self._nodes = snapshot.not_ready_nodes

    def obstacle(self, instance: Instance, _method: Method) -> Obstacle | None:
        node = instance.pod.node_name if instance.pod is not None else ""
        return node_not_ready(node) if node in self._nodes else None


def node_not_ready(node: str) -> Obstacle:
    text = f"its node {node} is NotReady: wait until the node is Ready, or fence it"
    return Obstacle("node_not_ready", text)


def aspects_of_instances(snapshot: Snapshot) -> tuple[Aspect, ...]:
    """Those that keep an instance where it is in every rollout, whatever its options are."""
    return DoNotMove(snapshot.workloads_by_ref), NotReady(snapshot)
