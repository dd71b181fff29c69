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
    """From best to worst, in the order in which an instance takes the worst of its rules.

    satisfied: holds where it runs, and is in effect. preference_unmet: a preferred rule does not
    hold where it runs. not_in_effect: the running pod was scheduled without what is declared now,
    and nothing required is broken: the right place by luck. violated: what is declared is broken
    where it runs, in effect or not.
    """

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
    """One rule (or, with an empty `rule`, a term that no rule of ours owns) for one instance."""

    rule: str
    verdict: Verdict
    reason: str = ""
    better_nodes: tuple[str, ...] = ()
    in_effect: bool = True
    """False: the running pod was scheduled without it."""
    as_declared: Verdict | None = None
    """What the declared terms would give where it runs, if that is not `verdict`: satisfied or
    preference_unmet for what is not in effect; satisfied for a rule that a foreign term bypasses
    and that holds all the same."""
    takes_effect: str = ""
    """`migration`, `restart` or `recreation`: what has to happen to the instance before it is in
    effect. Empty where it is, and where only writing the rules again would help."""

    @property
    def placed(self) -> Verdict:
        """The verdict on the place alone, in effect or not: who moves goes by this."""
        return self.as_declared or self.verdict


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

    @property
    def misplaced(self) -> bool:
        """A required rule is broken where it runs: it must move."""
        return any(rule.placed is Verdict.VIOLATED for rule in self.rules)


@dataclass(frozen=True, slots=True)
class Hazard:
    """True today, but no rule is broken: cordon, taint, over-commit, unknown domain.

    Kinds: cordoned, taint, not_ready, not_schedulable_for_kubevirt, resources, too_many_pods,
    ports, unknown_domain.
    """

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
    moves_needed: t.Mapping[str, int | None] = field(default_factory=dict)
    """Violated rule (or the term, where no rule owns it) to the fewest moves that would heal it;
    None: no arrangement would."""
