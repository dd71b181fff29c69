# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which instances run on a node that does not meet one of their preferred rules, and what would move them?"""

from __future__ import annotations

import typing as t
from dataclasses import dataclass

from ..compliance.instances import DeclaredInstance
from ..compliance.unmet import unmet_preferences, unmet_text
from ..model.json_pointer import JSON
from ..model.objects import Ref
from ..model.rendering import listed, one_line
from ..model.topology import Topology
from .simulation import ClusterSimulation

NAMED = 3


@dataclass(frozen=True, slots=True)
class MissedPreference:
    """An instance on a node that does not meet one of its preferred terms. `better` are the nodes that are
    feasible now and meet one of them."""

    instance: Ref
    uid: str
    workload: Ref
    node: str
    text: str
    better: tuple[str, ...] = ()

    def __str__(self) -> str:
        """What is not met, and what moves the instance."""
        remedy = "no other node that is feasible now meets it"
        if self.better:
            remedy = f"scope preference_not_met moves it (better: {listed(self.better, NAMED)})"
        return f"not met: {self.text}; {remedy}"

    def as_json(self) -> dict[str, JSON]:
        return {
            "kind": self.workload.kind,
            "namespace": self.workload.namespace,
            "name": self.workload.name,
            "instance": self.instance.name,
            "uid": self.uid,
            "node": self.node,
            "reason": one_line(str(self)),
            "better_nodes": list(self.better),
        }


def missed_preferences(
    cluster: ClusterSimulation, instances: t.Iterable[DeclaredInstance], topology: Topology
) -> tuple[MissedPreference, ...]:
    """Those of `instances` whose node, after the moves of the simulation, does not meet a preferred term that
    their workloads declare."""
    missed = []
    for movable in instances:
        node, placement = cluster.node_of.get(movable.uid), movable.declared_pod.placement
        preferred = (
            placement.preferred_node_terms
            or placement.preferred_affinity
            or placement.preferred_anti_affinity
            or placement.spread
        )
        if node is None or not preferred:
            continue
        unmet = unmet_preferences(cluster.declared, movable.declared_pod, node)
        if unmet:
            workload = movable.workload.ref if movable.workload is not None else None
            missed.append(
                MissedPreference(
                    movable.instance.ref,
                    movable.uid,
                    workload or movable.instance.ref,
                    node,
                    unmet_text(unmet, movable.declared, topology),
                    tuple(dict.fromkeys(name for each in unmet for name in each.better)),
                )
            )
    return tuple(missed)
