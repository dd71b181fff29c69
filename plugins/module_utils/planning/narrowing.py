# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Why a seeker has no node, filter by filter: how many nodes each one leaves of those before.

Pure. It costs a handful of set operations, where asking each node for its reasons would cost as
much as there are nodes.
"""

from __future__ import annotations

from ..scheduling.options import (
    INTER_POD_AFFINITY,
    NODE_AFFINITY,
    NODE_NAME,
    NODE_PORTS,
    NODE_RESOURCES_FIT,
    NODE_UNSCHEDULABLE,
    POD_TOPOLOGY_SPREAD,
    TAINT_TOLERATION,
    VOLUME_BINDING,
)
from .fill import Filling

_WORDS = (
    ((NODE_NAME, NODE_UNSCHEDULABLE, TAINT_TOLERATION), "take it (cordons, taints)"),
    ((NODE_AFFINITY,), "satisfy its node terms"),
    ((VOLUME_BINDING,), "reach its volumes"),
    ((NODE_PORTS,), "have its host ports free"),
    ((NODE_RESOURCES_FIT,), "have room"),
    ((POD_TOPOLOGY_SPREAD,), "keep its spread"),
    ((INTER_POD_AFFINITY,), "obey what is to be near and what apart"),
)


def narrowing(filling: Filling, number: int) -> str:
    """The filters that take nodes away, up to the one that leaves none."""
    seeker = filling.seekers[number]
    candidate = filling.candidate(number)
    left = filling.table.all & ~filling.closed(seeker.pod)
    said = [f"of {left.bit_count()} nodes that are left"]
    for plugins, words in _WORDS:
        if not left:
            break
        kept = left & filling.index.feasible_set(candidate, plugins)
        if kept != left:
            said.append(f"{kept.bit_count() or 'none'} {words}")
        left = kept
    return ", ".join(said)
