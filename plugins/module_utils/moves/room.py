# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Has each move that begins room of its own, wherever kube-scheduler puts the pods of the moves in flight?

Pure. A plan counts on one node for each move, and the scheduler chooses another one as it likes. It sees neither a pod
that is not created yet, nor that another pod has only this one node. So until the pod of a move has a node, its room is
counted on each node that it may get, also on those that open once pods have ended that are ending.
"""

from __future__ import annotations

import contextlib
import typing as t
from dataclasses import dataclass, replace

from ..compliance.instances import DeclaredInstance
from ..model.objects import Pod
from ..model.plan import WITHOUT_SUCCESSOR, Method
from ..model.snapshot import Instance
from ..scheduler.index import Index
from ..scheduler.nodes import NodeSet
from ..view.view import ClusterView
from .move import MoveRecord


@dataclass(frozen=True, slots=True)
class NextPod:
    """The pod of a move that has no node yet. `replaces`: the uid of the pod that ends before it; empty for a
    migration, whose source stays until the guest has moved."""

    pod: Pod
    replaces: str = ""


@dataclass(frozen=True, slots=True)
class _Contender:
    """A next pod, the nodes that it may get now, and those that it may get now or later."""

    next_pod: NextPod
    now: NodeSet
    later: NodeSet


class Room:
    """The room that the moves of a run count on, in one reading of the cluster. `successors`: what controllers have
    created for instances that moves have ended, by the uid of these."""

    def __init__(
        self,
        view: ClusterView,
        index: Index,
        movable: t.Mapping[str, DeclaredInstance],
        successors: t.Mapping[str, Instance],
    ) -> None:
        self._view = view
        self._index = index
        self._movable = movable
        self._successors = successors

    def competitor(self, record: MoveRecord, others: t.Iterable[MoveRecord]) -> MoveRecord | None:
        """The move of `others` that has to get its node before this one begins: there may be room for one of the two
        only, or it is not known yet which pod it will have."""
        new = self._next_pod(record)
        waiting = [x for x in others if x.uid != record.uid and not self._has_node(x)]
        if new is None or not waiting:
            return None
        known = list[tuple[MoveRecord, NextPod]]()
        for other in waiting:
            next_pod = self._next_pod(other)
            if next_pod is None:
                return other
            known.append((other, next_pod))
        ending = {new.replaces, *(x.replaces for _other, x in known), *self._view.in_flight.pods}
        contenders = [self._contender(new, ending)]
        for other, next_pod in known:
            contenders.append(self._contender(next_pod, ending))
            if not all(
                self._has_room(x, [y for y in contenders if y is not x])
                for x in contenders
                if x.now  # one that has no node now loses none
            ):
                return other
        return None

    def free_node(self, record: MoveRecord) -> str | None:
        """A node that takes the target pod of a migration now; None where none does, or the pod has one or is not
        created yet."""
        launchers = self._launchers(record)
        waiting = next((pod for pod in launchers if not pod.node_name), None)
        if record.method is not Method.MIGRATE or waiting is None:
            return None
        return min(self._index.table.names_of(self._index.feasible_set(waiting)), default=None)

    def _has_node(self, record: MoveRecord) -> bool:
        """Whether the pod of the move has its node, or there is none to wait for."""
        if record.method in WITHOUT_SUCCESSOR:
            return True
        if record.method is Method.MIGRATE:
            nodes = {pod.node_name for pod in self._launchers(record)}
            return not nodes or bool(nodes - {"", record.source})
        successor = self._successors.get(record.uid)
        return successor is not None and successor.node_name != ""

    def _next_pod(self, record: MoveRecord) -> NextPod | None:
        """The pod of a move that has no node yet, None where it is not known."""
        movable = self._movable.get(record.uid)
        if record.method is Method.MIGRATE:
            launchers = self._launchers(record)
            created = next((pod for pod in launchers if not pod.node_name), None)
            if created is not None:
                return NextPod(created)
            if movable is not None:
                return NextPod(_held(movable.next_pod(record.method), record))
            return NextPod(_held(launchers[0], record)) if launchers else None
        successor = self._successors.get(record.uid)
        if successor is not None:
            return NextPod(successor.pod) if successor.pod is not None else None
        if movable is None:
            return None
        return NextPod(movable.next_pod(record.method), movable.pod.uid)

    def _launchers(self, record: MoveRecord) -> t.Sequence[Pod]:
        return self._view.launcher_pods.get(record.uid, ())

    def _contender(self, next_pod: NextPod, ending: t.Collection[str]) -> _Contender:
        now = self._index.feasible_set(next_pod.pod, without=next_pod.replaces)
        with self._index.without(*ending):
            later = self._index.feasible_set(next_pod.pod)
        return _Contender(next_pod, now, now | later)

    def _has_room(self, one: _Contender, others: t.Sequence[_Contender]) -> bool:
        """Whether it has a node with room for it beside all others that may get the node, too."""
        wanted = 0
        for other in others:
            wanted |= other.later
        if one.now & ~wanted:
            return True
        return any(self._fits(one, node, others) for node in self._index.table.names_of(one.now))

    def _fits(self, one: _Contender, node: str, others: t.Sequence[_Contender]) -> bool:
        number = self._index.table.numbers[node]
        there = [other.next_pod.pod for other in others if other.later >> number & 1]
        with _placed(self._index, there, node):
            next_pod = one.next_pod
            return not self._index.failures(next_pod.pod, node, without=next_pod.replaces)


def _held(pod: Pod, record: MoveRecord) -> Pod:
    """The target pod of a migration, held to the nodes that the move is held to."""
    selector = {**dict(pod.placement.node_selector), **dict(record.node_selector)}
    placement = replace(pod.placement, node_selector=tuple(selector.items()))
    return replace(pod, node_name="", placement=placement)


@contextlib.contextmanager
def _placed(index: Index, pods: t.Sequence[Pod], node: str) -> t.Iterator[None]:
    """In this context, these pods are on the node, too."""
    placed = [replace(x, uid=f"next/{n}", node_name=node) for n, x in enumerate(pods)]
    for pod in placed:
        index.place(pod, node)
    try:
        yield
    finally:
        for pod in placed:
            index.remove(pod.uid)
