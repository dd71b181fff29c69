# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a report is about: the results of placement_info, drill_info and rollout as one value."""

from __future__ import annotations

import typing as t
from dataclasses import dataclass

from .drill import DrillContent
from .moves import MovesContent

VERDICTS = (
    "violated",
    "pending",
    "unknown",
    "preference_not_met",
    "not_enforced",
    "satisfied",
)
"""The worst first, as a reader has to act on them."""


class AppliedRule(t.NamedTuple):
    """A rule, or with an empty name a constraint that no rule owns, and its verdict for one instance."""

    rule: str
    verdict: str
    reason: str = ""
    better_nodes: tuple[str, ...] = ()
    takes_effect: str = ""
    constraint_removed: bool = False


@dataclass(frozen=True, slots=True)
class ReportedInstance:
    """A VMI or pod. `workload` is kind, namespace and name."""

    kind: str
    namespace: str
    name: str
    uid: str
    workload: tuple[str, str, str]
    node: str
    verdict: str
    rules: tuple[AppliedRule, ...]
    down: bool = False
    constraint_removed: bool = False

    @property
    def has_problem(self) -> bool:
        return self.down or self.constraint_removed or self.verdict != "satisfied"


@dataclass(frozen=True, slots=True)
class ReportedNode:
    """A node and what runs on it. `states` as placement_info has them."""

    name: str
    zone: str
    states: tuple[str, ...] = ()
    maintenance: str = ""
    instances: tuple[ReportedInstance, ...] = ()

    @property
    def has_problem(self) -> bool:
        return bool(self.states) or any(instance.has_problem for instance in self.instances)


@dataclass(frozen=True, slots=True)
class ReportedRule:
    """A rule with the number of its instances by verdict and by zone (empty: no zone, or no node). Of a violated one,
    `moves` is the fewest that repair it; None where no moves do (not `satisfiable`), or the number is unknown. `before`
    and `after` are the numbers by zone around the moves of the rollout; None without such moves."""

    name: str
    verdicts: t.Mapping[str, int]
    zones: t.Mapping[str, int]
    affected: int | None = None
    violated: bool = False
    satisfiable: bool = True
    moves: int | None = None
    before: t.Mapping[str, int] | None = None
    after: t.Mapping[str, int] | None = None

    @property
    def has_problem(self) -> bool:
        return self.violated or any(self.verdicts.get(x, 0) for x in VERDICTS[:-1])


@dataclass(frozen=True, slots=True)
class ReportedFinding:
    name: str
    severity: str
    why: str
    advice: str
    objects: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class ReportedRisk:
    """What may go wrong on one node, and for which instances."""

    kind: str
    node: str
    detail: str
    instances: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Content:
    """All that a report shows, whatever its format."""

    cluster: str
    api: str
    uid: str
    time: str
    counts: t.Mapping[str, int]
    """Those of placement_info's summary; without those that are unknown."""
    instances: tuple[ReportedInstance, ...]
    nodes: tuple[ReportedNode, ...]
    rules: tuple[ReportedRule, ...]
    findings: tuple[ReportedFinding, ...]
    risks: tuple[ReportedRisk, ...]
    kept: tuple[str, ...]
    """Instances that no module moves, with the reason."""
    waiting: tuple[str, ...]
    """Migrations whose target pod has no node, with the reason."""
    gaps: tuple[str, ...]
    """What could not be read."""
    resting: tuple[str, ...]
    """Rules that are not enabled, with their types."""
    new_members: tuple[str, ...]
    """How workloads that are created later get each rule, where they do or that is unknown."""
    fewest_moves: int | None
    """So many moves are needed at least; None where that is not known, or no moves help."""
    drill: DrillContent | None = None
    moves: MovesContent | None = None

    @property
    def zones(self) -> tuple[str, ...]:
        """Names of zones in order; the empty one, of nodes without a zone, is the last."""
        return tuple(sorted({node.zone for node in self.nodes}, key=lambda zone: (not zone, zone)))

    @property
    def without_node(self) -> tuple[ReportedInstance, ...]:
        return tuple(instance for instance in self.instances if not instance.node)


def by_problem(instance: ReportedInstance) -> tuple[bool, int, str, str]:
    """Sorts the worst first, then by name."""
    return (
        not instance.has_problem,
        VERDICTS.index(instance.verdict),
        instance.namespace,
        instance.name,
    )
