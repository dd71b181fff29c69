# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""May a VM go to its node of a map now, and what would violate a rule after its move?"""

from __future__ import annotations

import typing as t
from functools import cached_property

from ..model.objects import Pod
from ..model.plan import Method, Uid
from ..scheduler.framework import INTER_POD_AFFINITY, POD_TOPOLOGY_SPREAD, FilterReason
from .dependencies import Dependencies
from .repair import PlannedMove, violation_text
from .simulation import ClusterSimulation


class PlaceMoves:
    """The moves of a map in a simulation. `to_do`: the instances that are not in their places yet, with their nodes.
    `pods`: those of the cluster."""

    def __init__(self, simulation: ClusterSimulation, pods: t.Sequence[Pod]) -> None:
        self.simulation = simulation
        self.pods = pods
        self.to_do: dict[Uid, str] = {}

    def is_open(self, uid: Uid, node: str) -> bool:
        nodes = self.simulation.open_set(uid, Method.MIGRATE) & self.simulation.good_set(uid)
        return bool(nodes >> self.simulation.table.numbers[node] & 1)

    def make(self, uid: Uid, node: str) -> PlannedMove:
        source, number = self.simulation.node_of[uid], self.simulation.table.numbers[node]
        reason = f"{node} was asked for"
        if self.simulation.violations(uid):
            violated = violation_text(self.simulation, uid)
            reason = f"{reason}, and until then it violates a rule: {violated}"
        self.simulation.move(uid, node)
        return PlannedMove(uid, Method.MIGRATE, source, node, (node,), reason, 1 << number)

    def obeying(self, uid: Uid) -> set[str]:
        """What is related to an instance and violates nothing: uids of instances, and of pods of others."""
        related = {uid, *self.simulation.dependencies.related(uid)}
        if self.others:
            info = self.simulation.running.placed_info(self.simulation.candidates[uid].pod.uid)
            related |= self._other_dependencies.related_to_pod(info)
        return {x for x in related if not self.violates(x)}

    def violates(self, uid: str) -> bool:
        if uid in self.simulation.candidates:
            return bool(self.simulation.violations(uid))
        return bool(self.violated_by_other(uid))

    def violated_by_other(self, uid: str) -> list[FilterReason]:
        """The affinity and spread constraints that a pod of others does not obey where it is. Its anti-affinity keeps
        the VM that moves away."""
        failures = self.simulation.running.failures_in_place(uid)
        pairwise = (x for x in failures if x.plugin in (INTER_POD_AFFINITY, POD_TOPOLOGY_SPREAD))
        return [
            x for failure in pairwise for x in failure.reasons if x.kind in ("affinity", "skew")
        ]

    @cached_property
    def others(self) -> dict[str, Pod]:
        """Pods that are no candidates, with constraints that the move of another pod may break."""
        ours = {x.pod.uid for x in self.simulation.candidates.values()}
        return {
            pod.uid: pod
            for pod in self.pods
            if (pod.placement.affinity or pod.placement.spread)
            and pod.uid in self.simulation.running
            and pod.uid not in ours
        }

    @cached_property
    def _other_dependencies(self) -> Dependencies:
        others = self.others
        return Dependencies.of(self.simulation.running, {x: x for x in others}, others.items())
