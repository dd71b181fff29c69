# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which instances come back to a node that is drained, however often they leave it?

The scheduler may place a pod there that tolerates the cordon. One whose template names the node (nodeName) is seen by
no scheduler. A drain gives up on a workload that has come back `RETURNS` times. Pure.
"""

from __future__ import annotations

import typing as t
from dataclasses import replace

from ..model.objects import Pod, Ref
from ..model.obstacle import CODES, NAMES_NODE, TOLERATES_CORDON, Obstacle
from ..model.plan import Method
from ..model.snapshot import Instance, Workload
from .pods import tolerates_cordon

RETURNS = 3
"""Instances of one workload that come back to a node before the drain leaves them there."""

Returned: t.TypeAlias = dict[str, dict[str, int]]
"""By node and workload (kind/namespace/name): how often an instance came back."""

There: t.TypeAlias = dict[str, dict[str, str]]
"""By node and a digest of the uid, the workload of each instance that was seen on it, and that no return stands for."""


class Present(t.NamedTuple):
    """An instance on a node: its workload, and whether it is leaving already."""

    workload: str
    leaving: bool


def key(workload: Ref) -> str:
    return "/".join(workload)


def count(
    there: There, returned: Returned, present: t.Mapping[str, t.Mapping[str, Present]]
) -> bool:
    """Add to `returned` the instances of `present` (by node and digest) that took the place of one that has left, and
    keep in `there` which were seen. Returns whether there is one. What was bound just before the cordon, and is read
    only now, took no place: nothing of its workload has left."""
    found = False
    for node, instances in present.items():
        seen, counts = there.setdefault(node, {}), returned.setdefault(node, {})
        new = [digest for digest, x in instances.items() if digest not in seen and not x.leaving]
        left = [digest for digest in seen if digest not in instances or instances[digest].leaving]
        for digest in new:
            workload = instances[digest].workload
            gone = next((x for x in left if seen[x] == workload), None)
            if gone is not None and counts.get(workload, 0) < RETURNS:
                counts[workload] = counts.get(workload, 0) + 1
                left.remove(gone)
                del seen[gone]
                found = True
            seen[digest] = workload
    return found


class Returns:
    """The workloads whose instances came back so often that they are not moved again, as an aspect."""

    def __init__(self, returned: t.Mapping[str, t.Mapping[str, int]]) -> None:
        self._returned = returned

    def obstacle(self, instance: Instance, _method: Method) -> Obstacle | None:
        pod, workload = instance.pod, instance.workload
        if pod is None or workload is None:
            return None
        times = self._returned.get(pod.node_name, {}).get(key(workload), 0)
        tolerates = tolerates_cordon(pod)
        why = "it tolerates the cordon" if tolerates else "its controller places it there itself"
        text = f"it came back to node {pod.node_name} {times} times, since {why}"
        stays = _stays(TOLERATES_CORDON if tolerates else NAMES_NODE, text)
        return stays if times >= RETURNS else None


def _stays(code: str, text: str) -> Obstacle:
    return Obstacle(code, text, advice=CODES[code].advice)


def with_advice(obstacle: Obstacle) -> Obstacle:
    """With what to do where the instance must not be on the node during the maintenance."""
    return replace(obstacle, text=f"{obstacle}. {obstacle.advice}")


def names_node(workload: Workload | None, pod: Pod) -> Obstacle | None:
    """That the template of its workload names the node of the pod: no scheduler sees the next one (kubernetes
    pkg/scheduler/eventhandlers.go, assignedPod)."""
    spec = (workload.template.get("spec") or {}) if workload is not None else {}
    if workload is None or not pod.node_name or spec.get("nodeName") != pod.node_name:
        return None
    why = f"the template of {workload.ref} names node {pod.node_name} (nodeName), so each next pod is there again"
    return _stays(NAMES_NODE, why)
