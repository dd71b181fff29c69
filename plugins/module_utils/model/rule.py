# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Rules as they were declared: parsed, with topology names resolved to label keys."""

from __future__ import annotations

import typing as t
from dataclasses import dataclass, field

from .json_pointer import JSON
from .objects import Labels


@dataclass(frozen=True, slots=True, order=True)
class RuleId:
    """Identity of a rule: namespace / set / name."""

    namespace: str
    rule_set: str
    name: str

    def __str__(self) -> str:
        return f"{self.namespace}/{self.rule_set}/{self.name}"

    @property
    def in_namespace(self) -> str:
        """Rule set and name, as messages name a rule."""
        return f"{self.rule_set}/{self.name}"

    @classmethod
    def parse(cls, text: str) -> RuleId:
        namespace, rule_set, name = text.split("/", 2)
        return cls(namespace, rule_set, name)


@dataclass(frozen=True, slots=True)
class WorkloadSelector:
    """Workloads of one kind in one namespace: by `names`, or by template `labels`."""

    kind: str
    namespace: str
    names: tuple[str, ...] = ()
    labels: Labels | None = None

    @property
    def chosen_by(self) -> dict[str, t.Any]:
        """Names or labels as the option `workloads` takes them."""
        if self.labels is not None:
            return {"labels": dict(sorted(self.labels.items()))}
        return {"names": list(self.names)}


@dataclass(frozen=True, slots=True)
class PodSelector:
    """Pods of any owner: by labels, in the given namespaces."""

    labels: Labels
    namespaces: tuple[str, ...]


Target: t.TypeAlias = WorkloadSelector | PodSelector


@dataclass(frozen=True, slots=True)
class RunOn:
    """Only nodes whose label has one of the values, for every key. `nodes` holds (label key, values)."""

    nodes: tuple[tuple[str, tuple[str, ...]], ...]


@dataclass(frozen=True, slots=True)
class Avoid:
    """No nodes that have one of the values of a key; nodes without the key are allowed. `nodes` holds
    (label key, values)."""

    nodes: tuple[tuple[str, tuple[str, ...]], ...]


@dataclass(frozen=True, slots=True)
class KeepApart:
    """No topology domain has two members (`targets` empty), or a member and one of the `targets`."""

    topology_key: str
    targets: tuple[Target, ...] = ()


@dataclass(frozen=True, slots=True)
class KeepTogether:
    """All members in one topology domain (`target` None), or each member where the target runs."""

    topology_key: str
    target: Target | None = None


@dataclass(frozen=True, slots=True)
class Spread:
    topology_key: str
    max_skew: int = 1


@dataclass(frozen=True, slots=True)
class RawTerms:
    """Placement fields of a pod spec as the Kubernetes API has them, for example `tolerations`."""

    fields: t.Mapping[str, JSON]


RuleType: t.TypeAlias = RunOn | Avoid | KeepApart | KeepTogether | Spread | RawTerms

TYPE_NAMES: t.Mapping[type[RuleType], str] = {
    RunOn: "run_on",
    Avoid: "avoid",
    KeepApart: "keep_apart",
    KeepTogether: "keep_together",
    Spread: "spread",
    RawTerms: "terms",
}


@dataclass(frozen=True, slots=True)
class Rule:
    """One declared rule. `index` is its place in the option `rules`. `rule_type` None: the rule only
    sets a label, or is to be removed. Topology keys in it are full label keys."""

    id: RuleId
    index: int
    workloads: tuple[WorkloadSelector, ...]
    rule_type: RuleType | None
    label: tuple[str, str] | None = None
    preferred: bool = False
    weight: int = 100
    allow_findings: frozenset[str] = field(default_factory=frozenset)
    everywhere: bool = False
    """No workloads are named: an absent rule is then removed from every workload that has it."""
    enabled: bool = True
    """False: the rule rests. Its workloads know it, and have none of its terms."""

    @property
    def is_named_alone(self) -> bool:
        """Whether it is a rule that is to rest, by its name: its workloads and its type are those that it has."""
        return (
            not self.enabled and self.everywhere and self.rule_type is None and self.label is None
        )

    @property
    def type_name(self) -> str:
        """The option of its rule type, `label` for a label alone."""
        return "label" if self.rule_type is None else TYPE_NAMES[type(self.rule_type)]

    @property
    def where(self) -> str:
        """For messages: the rule with its index."""
        return f"rules[{self.index}] {self.id.name}".rstrip()
