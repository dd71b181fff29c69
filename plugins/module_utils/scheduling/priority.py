# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Where the scheduler would make room by ending pods of lower priority.

Such a place is none: `Index.feasible` never names it. But a pod that finds no other place takes
one by force, so whoever lets it become pending must know.
Source: scheduler plugin defaultpreemption.
"""

from __future__ import annotations

from ..model.objects import Pod
from .candidate import pod_key
from .failure import Code
from .index import Index


def victims(index: Index, pod: Pod, node_name: str) -> tuple[Pod, ...]:
    """The pods of a node that the scheduler may end for the sake of this one; it spares those
    that it need not end. Raises KeyError for an unknown node."""
    if not pod.may_preempt:
        return ()
    return tuple(
        each
        for each in index.pods_on(node_name)
        if each.priority < pod.priority and pod_key(each) != pod_key(pod)
    )


def preemption_nodes(index: Index, pod: Pod, *, without: str | None = None) -> tuple[str, ...]:
    """The nodes that are closed to a pod now, and open once its victims are gone. Nothing where a
    node is open: then the scheduler preempts nobody."""
    with index.without(without):
        if index.feasible(pod):
            return ()
        return tuple(name for name in index.table.names if _opens(index, pod, name))


def _opens(index: Index, pod: Pod, node_name: str) -> bool:
    ended = victims(index, pod, node_name)
    if not ended:
        return False
    if index.failures(pod, node_name)[0].code is not Code.UNSCHEDULABLE:
        return False
    with index.without(*map(pod_key, ended)):
        return not index.failures(pod, node_name)
