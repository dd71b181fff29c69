# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""How far a node falls short of what a pod prefers.

Pure. A preferred term is unmet where the same term, if it were required, would refuse the node.
"""

from __future__ import annotations

import functools
from dataclasses import replace

from ..model.objects import Placement, Pod
from ..scheduling.index import Index
from ..scheduling.options import INTER_POD_AFFINITY, NODE_AFFINITY, POD_TOPOLOGY_SPREAD

SPREAD_WEIGHT = 1
"""A ScheduleAnyway constraint has no weight of its own: the least counts as much as a term can."""

_PLUGINS = frozenset({INTER_POD_AFFINITY, NODE_AFFINITY, POD_TOPOLOGY_SPREAD})


def unmet_weight(index: Index, pod: Pod, node: str, *, without: str | None = None) -> int:
    """The sum of the weights of `pod`'s preferred terms that do not hold on `node`.

    `without`: a placed pod that is taken out first, the pod itself where it is placed already.
    """
    return sum(
        weight
        for weight, required in hardened(pod.placement)
        if index.failures(replace(pod, placement=required), node, without=without, plugins=_PLUGINS)
    )


@functools.lru_cache(maxsize=4096)
def hardened(placement: Placement) -> tuple[tuple[int, Placement], ...]:
    """Each preferred term with its weight, as the only required one of a placement."""
    return (
        *(
            (weight, Placement(node_terms=(term,)))
            for weight, term in placement.preferred_node_terms
        ),
        *((weight, Placement(affinity=(term,))) for weight, term in placement.preferred_affinity),
        *(
            (weight, Placement(anti_affinity=(term,)))
            for weight, term in placement.preferred_anti_affinity
        ),
        *(
            (SPREAD_WEIGHT, Placement(spread=(replace(soft, when_unsatisfiable="DoNotSchedule"),)))
            for soft in placement.spread
            if soft.when_unsatisfiable == "ScheduleAnyway"
        ),
    )
