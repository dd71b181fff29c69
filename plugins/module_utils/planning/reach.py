# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Nodes that a seeker could come to in any course of a filling: what is not among them never opens.

Pure. More pods only close nodes, but for affinity, which they may open, and for spread, whose
smallest count they may raise. So affinity counts here only where no seeker matches it, spread not
at all, and sources count as gone but for a seeker's own.
"""

from __future__ import annotations

import typing as t
from dataclasses import replace

from ..model.objects import Pod
from ..scheduling.candidate import Candidate
from ..scheduling.node_table import NodeSet
from ..scheduling.options import PLUGINS, POD_TOPOLOGY_SPREAD
from .fill import Filling

MONOTONE = PLUGINS - {POD_TOPOLOGY_SPREAD}


def reach(filling: Filling) -> list[NodeSet]:
    """For each seeker the nodes that could ever be open to it; the others are shut for good."""
    index = filling.index
    with filling.standing():
        near = _near(filling)
    taken = []
    for seeker in filling.seekers:
        if seeker.source is not None and seeker.source in index:
            taken.append((index.node_of(seeker.source), index.take_out(seeker.source)))
    back = {pod.uid or f"{pod.namespace}/{pod.name}": (pod, node) for node, pod in taken}
    try:
        return [_reach(filling, number, near[number], back) for number in range(len(near))]
    finally:
        for node, pod in taken:
            index.place(pod, node)


def _reach(
    filling: Filling, number: int, near: NodeSet, sources: t.Mapping[str, tuple[Pod, str]]
) -> NodeSet:
    seeker, index = filling.seekers[number], filling.index
    own = sources.get(seeker.source or "") if seeker.stays else None
    if own is not None:
        index.place(*own)
    try:
        candidate = index.candidate(_without_affinity(seeker.pod))
        found = index.feasible_set(candidate, MONOTONE)
    finally:
        if own is not None:
            index.take_out(t.cast("str", seeker.source))
    return found & near & ~filling.closed(seeker.pod)


def _near(filling: Filling) -> list[NodeSet]:
    """Where affinity alone could ever let each seeker be; all that leaves is there for this."""
    seekers = [filling.candidate(number) for number in range(len(filling.seekers))]
    matched = {id(match) for each in seekers for match in each.matches}
    return [_near_one(filling, each, matched) for each in seekers]


def _near_one(filling: Filling, candidate: Candidate, matched: t.Container[int]) -> NodeSet:
    table, together = filling.table, candidate.spec.rules.together
    if together is None:
        return table.all
    if together.match is None:
        return 0
    found = table.all
    for key, counts in together.counted:
        found &= table.carrying(key)
        if id(together.match) not in matched:
            found &= table.in_domains(key, counts)
    return found


def _without_affinity(pod: Pod) -> Pod:
    if not pod.placement.affinity:
        return pod
    return replace(pod, placement=replace(pod.placement, affinity=()))
