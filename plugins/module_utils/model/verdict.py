# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Verdicts of instances and rules, risks, pending instances: what `compliance/judge` returns."""

from __future__ import annotations

import typing as t
from dataclasses import dataclass, field

from .objects import Ref
from .rendering import TextEnum
from .snapshot import Unreadable


class Verdict(TextEnum):
    """From best to worst. The verdict of an instance is the worst of its rules.

    satisfied: the rule holds where the instance runs, and is enforced. preference_not_met: a preferred
    rule does not hold there. not_enforced: the rules changed after the running pod was scheduled
    (one was added, changed or removed), and nothing required is violated. violated: a required rule
    is violated where the instance runs, enforced or not.
    """

    SATISFIED = "satisfied"
    PREFERENCE_NOT_MET = "preference_not_met"
    NOT_ENFORCED = "not_enforced"
    PENDING = "pending"
    UNKNOWN = "unknown"
    VIOLATED = "violated"


@dataclass(frozen=True, slots=True)
class RuleVerdict:
    """One rule (or, with an empty `rule`, a term that no rule of ours owns) for one instance."""

    rule: str
    verdict: Verdict
    reason: str = ""
    better_nodes: tuple[str, ...] = ()
    enforced: bool = True
    """False: the rule is not enforced, since the running pod was scheduled without it."""
    if_enforced: Verdict | None = None
    """What the declared terms would give where it runs, if that is not `verdict`: satisfied or
    preference_not_met for what is not in effect; satisfied for a rule that a foreign term bypasses
    and that holds all the same."""
    takes_effect: str = ""
    """`migration`, `restart` or `recreation`: what has to happen to the instance before it is in
    effect. Empty where it is, and where only writing the rules again would help."""
    constraint_removed: bool = False
    """A constraint of the rule was removed from the workload: no move enforces it."""
    cause: str = ""
    """The reason without what repeats the verdict, where it has that."""

    @property
    def placed(self) -> Verdict:
        """The verdict on the node alone, enforced or not. The planner decides by this what moves."""
        return self.if_enforced or self.verdict


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
    down: bool = False
    """Its node is not Ready. A VM is down until the node is fenced or is back."""

    @property
    def constraint_removed(self) -> bool:
        return any(rule.constraint_removed for rule in self.rules)

    @property
    def misplaced(self) -> bool:
        """Whether the instance violates a required rule where it runs, so that it must move."""
        return any(rule.placed is Verdict.VIOLATED for rule in self.rules)


@dataclass(frozen=True, slots=True)
class Risk:
    """A risk that violates no rule: cordon, taint, over-commit, unknown domain.

    Kinds: cordoned, taint, not_ready, not_schedulable_for_kubevirt, resources, too_many_pods,
    ports, unknown_domain, other_namespace (a pod there has anti-affinity to this one).
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


UNCOUNTED: t.Final = "uncounted"
MoveCount: t.TypeAlias = "int | t.Literal['uncounted'] | None"


@dataclass(frozen=True, slots=True)
class Verdicts:
    instances: tuple[InstanceVerdict, ...] = ()
    pending: tuple[Pending, ...] = ()
    risks: tuple[Risk, ...] = ()
    unreadable: tuple[Unreadable, ...] = ()
    moves_needed: t.Mapping[str, MoveCount] = field(default_factory=dict)
    """Violated rule (or the term, where no rule owns it) to the fewest moves that repair it;
    None: no placement does; UNCOUNTED: unknown, since counting would take too long."""
