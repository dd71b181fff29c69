# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The result of a forecast, and remediation for a deadlock."""

from __future__ import annotations

import typing as t
from dataclasses import dataclass

from ..kubevirt.moving import chooses_target
from ..model.findings import Finding
from ..model.objects import Ref
from ..model.obstacle import Obstacle
from ..model.plan import Move, SkippedInstance
from ..model.rendering import listed
from ..model.snapshot import Platform, Unreadable
from ..planning.missed_preferences import MissedPreference
from .conclusion import WORSE, Evidence, ForecastResult

NAMED = 20
"""Nodes or workloads named at most in a list."""


@dataclass(frozen=True, slots=True)
class UnschedulableInstance:
    """An instance that would have no node. `certain` is false where that depends on what the scheduler
    chooses. `preemption_candidates` are workloads of lower priority whose pods the scheduler may preempt for it."""

    instance: Ref
    workload: Ref | None
    reason: Obstacle
    certain: bool = True
    preemption_candidates: tuple[Ref, ...] = ()


@dataclass(frozen=True, slots=True)
class NotMigratableInstance:
    """An instance that cannot be live-migrated then: it keeps running on `node`. `if_restarted` are nodes
    that would be open to it if it were restarted. `certain` as in UnschedulableInstance."""

    instance: Ref
    workload: Ref | None
    node: str
    reason: Obstacle
    if_restarted: tuple[str, ...] = ()
    certain: bool = True


@dataclass(frozen=True, slots=True)
class Deadlock:
    """A placement that satisfies all rules may exist, but no single move leads towards it. `remediation`
    is for people to choose from."""

    instances: tuple[Ref, ...]
    reason: str
    remediation: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Forecast:
    """`instances_to_schedule` counts the instances that need a node, `min_unschedulable` how many of
    them have none whatever the scheduler chooses. `moves` are in their order, `optional_moves` counts those
    that only the scope asks for, and no required rule. `preferences_not_met` is after the moves. `codes` are those of
    `conclusion.CODES` that made the answer, `evidence` is what they were concluded from. `explained` are the instances
    that have a reason of their own among `reasons`, `proven` all that a proof there is about."""

    answer: ForecastResult
    reasons: tuple[str, ...] = ()
    pending: tuple[UnschedulableInstance, ...] = ()
    not_migratable: tuple[NotMigratableInstance, ...] = ()
    moves: tuple[Move, ...] = ()
    optional_moves: int = 0
    preferences_not_met: tuple[MissedPreference, ...] = ()
    skipped: tuple[SkippedInstance, ...] = ()
    deadlock: Deadlock | None = None
    findings: tuple[Finding, ...] = ()
    unreadable: tuple[Unreadable, ...] = ()
    instances_to_schedule: int = 0
    min_unschedulable: int = 0
    down_until_fenced: tuple[Ref, ...] = ()
    codes: tuple[str, ...] = ()
    evidence: tuple[Evidence, ...] = ()
    explained: frozenset[Ref] = frozenset()
    proven: frozenset[Ref] = frozenset()

    @property
    def without_remedy(self) -> frozenset[Ref]:
        """The instances that have no node whatever the scheduler chooses, or that should move and cannot."""
        pending = (x.instance for x in self.pending if x.certain)
        return frozenset((*pending, *(x.instance for x in self.skipped)))


def is_worse(after: Forecast, before: Forecast) -> bool:
    """Whether the answer of `after` is a worse one or, where both are impossible, whether it has instances
    without remedy that `before` does not have."""
    if after.answer is before.answer is ForecastResult.IMPOSSIBLE:
        return not after.without_remedy <= before.without_remedy
    return WORSE.index(before.answer) < WORSE.index(after.answer)


def remediation(
    instances: t.Sequence[Ref], platform: Platform, *, rollout: bool, mutual: bool = False
) -> tuple[str, ...]:
    """Ways out of a deadlock of these instances; of pods of a rollout, or of VMs. `mutual`: some of these
    VMs have affinity to each other."""
    if rollout:
        return (
            "set maxSurge 0 and maxUnavailable 1 for the rollout, and reset them afterwards",
            "add matchLabelKeys: [pod-template-hash] to the term, so that it is about new pods only",
            "add a topology domain that the pods can use",
        )
    names = listed([ref.name for ref in instances])
    prefer = "make the rule preferred, move the VMs, and make the rule required again"
    if mutual:
        return ("let the VMs follow one of them: `with` of keep_together", prefer)
    pin = "pin each migration target with a temporary node label and addedNodeSelector"
    return (
        f"free capacity, or add a node, in a topology domain that {names} may use",
        f"stop {names} and start them again (downtime)",
        prefer,
        *([pin] if chooses_target(platform) else ()),
    )
