# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Why a pod may not run on a node, as one filter of kube-scheduler sees it."""

from __future__ import annotations

import enum
import typing as t
from dataclasses import dataclass

from ..model.objects import Ref

Kind = t.Literal[
    "node-name",
    "cordoned",
    "taint",
    "node-affinity",
    "enforced-node-affinity",
    "name-conflict",
    "ports",
    "resources",
    "too-many-pods",
    "volume",
    "missing-label",
    "skew",
    "affinity",
    "anti",
    "existing-anti",
    "invalid",
]


class Code(str, enum.Enum):
    """The scheduler's outcome codes (kube-scheduler, framework.Code)."""

    UNSCHEDULABLE = "Unschedulable"
    """Other pods stand in the way: it may fit when some of them leave."""

    UNRESOLVABLE = "UnschedulableAndUnresolvable"
    """No other pod's leaving helps: only a change of the node or of the rule does."""

    ERROR = "Error"
    """The scheduler cannot even try: the pod carries something that it cannot parse."""

    def __str__(self) -> str:
        return self.value


@dataclass(frozen=True, slots=True)
class Reason:
    """One check that did not hold.

    `term` is what was checked, as a value of model.objects: NodeTerm or Requirement (node
    affinity), PodTerm, SpreadConstraint, Taint, or the name of a resource. For `existing-anti`
    the term belongs to `counterpart`; for `anti` the counterpart is a pod that it matches.
    `text` is for people: no decision may rest on it.
    """

    kind: Kind
    text: str
    term: object = None
    topology_key: str = ""
    counterpart: Ref | None = None


@dataclass(frozen=True, slots=True)
class Failure:
    """One filter's refusal. `code` and the first reason are what the scheduler reports; further
    reasons are checks of the same filter that the scheduler no longer makes after the first."""

    plugin: str
    code: Code
    reasons: tuple[Reason, ...]

    @property
    def reported(self) -> tuple[Reason, ...]:
        """The reasons that the scheduler gives: the first, or every resource that is short."""
        if self.plugin == "NodeResourcesFit":
            return self.reasons
        return self.reasons[:1]
