# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Rules as they were declared, after parsing: names resolved, nothing looked up yet."""

from __future__ import annotations

import typing as t
from dataclasses import dataclass, field

from .objects import Labels
from .pointer import JSON


@dataclass(frozen=True, slots=True, order=True)
class RuleId:
    """Identity of a rule: namespace / set / name."""

    namespace: str
    set: str
    name: str

    def __str__(self) -> str:
        return f"{self.namespace}/{self.set}/{self.name}"

    @classmethod
    def parse(cls, text: str) -> RuleId:
        namespace, set_, name = text.split("/", 2)
        return cls(namespace, set_, name)


@dataclass(frozen=True, slots=True)
class WorkloadSelector:
    """Workloads of one kind in one namespace: by `names`, or by template `labels`."""

    kind: str
    namespace: str
    names: tuple[str, ...] = ()
    labels: Labels | None = None


@dataclass(frozen=True, slots=True)
class PodSelector:
    """Pods that belong to nobody's rule: by labels, in the given namespaces."""

    labels: Labels
    namespaces: tuple[str, ...]


Target: t.TypeAlias = WorkloadSelector | PodSelector


@dataclass(frozen=True, slots=True)
class RunOn:
    """Nodes whose label `key` has one of `values`; all keys must hold."""

    nodes: tuple[tuple[str, tuple[str, ...]], ...]


@dataclass(frozen=True, slots=True)
class Avoid:
    """Not nodes whose label `key` has one of `values`; nodes without the key are allowed."""

    nodes: tuple[tuple[str, tuple[str, ...]], ...]


@dataclass(frozen=True, slots=True)
class KeepApart:
    """`others` empty: the members from each other; else from each of the others."""

    over: str
    others: tuple[Target, ...] = ()
    strict: bool = False


@dataclass(frozen=True, slots=True)
class KeepTogether:
    """With each other (`target` None), with `target`, or as followers of a leader."""

    over: str
    target: Target | None = None
    leader: bool = False


@dataclass(frozen=True, slots=True)
class SpreadOver:
    over: str
    max_skew: int = 1


@dataclass(frozen=True, slots=True)
class Terms:
    """Terms as Kubernetes says them: nodeSelector, affinity, tolerations, spread."""

    fields: t.Mapping[str, JSON]


Verb: t.TypeAlias = RunOn | Avoid | KeepApart | KeepTogether | SpreadOver | Terms


@dataclass(frozen=True, slots=True)
class Rule:
    """One declared rule. `index` is its place in the list it came from. Topology keys in the
    verb are full label keys."""

    id: RuleId
    index: int
    workloads: tuple[WorkloadSelector, ...]
    verb: Verb | None
    label: tuple[str, str] | None = None
    preferred: bool = False
    weight: int = 100
    allow_findings: frozenset[str] = field(default_factory=frozenset)
    everywhere: bool = False
    """No workloads were named. A rule that is to be absent goes from every carrier then."""

    @property
    def where(self) -> str:
        """For messages: the rule with its index."""
        return f"rules[{self.index}] {self.id.name}".rstrip()
