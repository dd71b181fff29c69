# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the judge says of instances and rules."""

from __future__ import annotations

import enum
import typing as t
from dataclasses import dataclass, field

from .finding import Finding
from .objects import Ref
from .snapshot import Unreadable


class Verdict(str, enum.Enum):
    """From best to worst, in the order in which an instance takes the worst of its rules."""

    SATISFIED = "satisfied"
    PREFERENCE_UNMET = "preference_unmet"
    NOT_IN_EFFECT = "not_in_effect"
    PENDING = "pending"
    UNKNOWN = "unknown"
    VIOLATED = "violated"

    def __str__(self) -> str:
        return self.value


@dataclass(frozen=True, slots=True)
class RuleVerdict:
    """One rule (or, with an empty `rule`, terms that no rule of ours owns) for one instance."""

    rule: str
    verdict: Verdict
    reason: str = ""
    better_nodes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class InstanceVerdict:
    instance: Ref
    uid: str
    workload: Ref | None
    node: str
    domains: t.Mapping[str, str]
    """Topology name to the domain that the node is in."""
    verdict: Verdict
    rules: tuple[RuleVerdict, ...]
    feasible_if_restarted: tuple[str, ...] = ()
    feasible_if_migrated: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Hazard:
    """True today, but no rule is broken: cordon, taint, over-commit, unknown domain."""

    instance: Ref
    node: str
    kind: str
    detail: str


@dataclass(frozen=True, slots=True)
class Pending:
    instance: Ref
    workload: Ref | None
    reason: str


@dataclass(frozen=True, slots=True)
class Verdicts:
    instances: tuple[InstanceVerdict, ...] = ()
    pending: tuple[Pending, ...] = ()
    hazards: tuple[Hazard, ...] = ()
    findings: tuple[Finding, ...] = ()
    unreadable: tuple[Unreadable, ...] = ()
    moves_needed: t.Mapping[str, int] = field(default_factory=dict)
    """Rule to the fewest moves that would heal it."""
