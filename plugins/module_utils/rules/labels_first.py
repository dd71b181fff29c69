# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""In which order are workloads written, so that no term selects by a label which is not there yet?

A rule may put a label on workloads and select them by it. A workload with such a term is written after the
workloads that get the label, and not at all if one of them does not get it: required affinity to a label that no
pod has leaves the next pod without a node.
"""

from __future__ import annotations

import typing as t
from collections import defaultdict
from dataclasses import dataclass

from ..model.json_pointer import JSON
from ..model.objects import Ref
from ..model.placement_manifests import selector_from_json
from ..model.rendering import label_text
from ..model.write import Write
from .change import WorkloadChange
from .compile import Compiled
from .term_slots import LISTS, TemplateTerm, TermLocation, terms_of

Label: t.TypeAlias = tuple[str, str, str]
"""Namespace, key and value."""


@dataclass(frozen=True)
class LabelNeeds:
    """`labels` has, for each workload with a term that selects by the label of a rule, the other workloads that
    get the label now, with the label and its rule in words."""

    labels: t.Mapping[Ref, t.Mapping[Ref, str]]

    @property
    def holders(self) -> frozenset[Ref]:
        """The workloads whose labels others wait for."""
        return frozenset(holder for needs in self.labels.values() for holder in needs)

    def levels(self, changes: t.Sequence[WorkloadChange]) -> list[list[WorkloadChange]]:
        """The changes in groups: each after those that it needs. Workloads that need each other are one group."""
        pending = {change.ref: change for change in changes}
        levels = []
        while pending:
            ready = [
                change
                for ref, change in pending.items()
                if not (self.labels.get(ref, {}).keys() & pending.keys()) - {ref}
            ] or list(pending.values())
            levels.append(ready)
            for change in ready:
                del pending[change.ref]
        return levels


@dataclass(frozen=True)
class LabelRequirement:
    """One requirement of a pod term: which pods the term selects depends on the labels with this key, in these
    namespaces (None: in any), with one of these values (None: with any)."""

    namespaces: frozenset[str] | None
    key: str
    operator: str
    values: frozenset[str] | None

    def concerns(self, label: Label) -> bool:
        namespace, key, value = label
        return (
            key == self.key
            and (self.values is None or value in self.values)
            and (self.namespaces is None or namespace in self.namespaces)
        )

    def is_unmet(self, labels: t.Mapping[str, t.Iterable[Label]]) -> bool:
        """Whether it requires a label that is not among `labels`, by key. Pods of unknown namespaces may have it."""
        if self.namespaces is None or self.operator not in ("In", "Exists"):
            return False
        return not any(self.concerns(label) for label in labels.get(self.key, ()))


class _Holders:
    """The workloads that get each label, with the label in words."""

    def __init__(self) -> None:
        self._by_key: dict[str, dict[Label, dict[Ref, str]]] = defaultdict(dict)

    def __bool__(self) -> bool:
        return bool(self._by_key)

    def add(self, label: Label, ref: Ref, text: str) -> None:
        self._by_key[label[1]].setdefault(label, {})[ref] = text

    def needed_by(self, ref: Ref, terms: t.Iterable[TemplateTerm]) -> dict[Ref, str]:
        """The other workloads whose labels decide which pods the terms of a workload select."""
        needed: dict[Ref, str] = {}
        for term in terms:
            value = term.value.get("podAffinityTerm", term.value)
            for requirement in _requirements(value, ref.namespace):
                for label, holders in self._by_key.get(requirement.key, {}).items():
                    if requirement.concerns(label):
                        needed |= holders
        needed.pop(ref, None)
        return needed


def label_needs(compiled: t.Sequence[Compiled], changes: t.Iterable[WorkloadChange]) -> LabelNeeds:
    """A term may select by a label that another rule of the request sets."""
    getting = {
        change.ref
        for change in changes
        if TermLocation.LABEL in change.merged.locations or any(change.stages[3:])
    }
    holders = _Holders()
    for rule in compiled:
        for ref, terms in rule.terms.items():
            for term in terms if ref in getting else ():
                if term.location is TermLocation.LABEL:
                    key, value = term.value["key"], term.value["value"]
                    text = f"{label_text(key, value)} of rule {rule.rule.id.name}"
                    holders.add((ref.namespace, key, value), ref, text)
    needs: dict[Ref, dict[Ref, str]] = defaultdict(dict)
    for rule in compiled if holders else ():
        for ref, terms in rule.terms.items():
            needs[ref] |= holders.needed_by(ref, terms)
    return LabelNeeds(needs)


def needs_of_restored(
    changes: t.Sequence[WorkloadChange], labels: t.Mapping[Ref, t.Iterable[tuple[str, str]]]
) -> LabelNeeds:
    """The same for workloads that get back the labels and terms that they had; `labels` has those of each."""
    holders = _Holders()
    for change in changes:
        for key, value in labels[change.ref]:
            holders.add((change.ref.namespace, key, value), change.ref, label_text(key, value))
    needs: dict[Ref, dict[Ref, str]] = {}
    for change in changes if holders else ():
        terms = terms_of({"spec": change.merged.after})
        needs[change.ref] = holders.needed_by(change.ref, terms)
    return LabelNeeds(needs)


def unmet_requirements(
    template: t.Mapping[str, JSON], namespace: str, labels: t.Mapping[str, t.Iterable[Label]]
) -> list[LabelRequirement]:
    """The requirements of a template's required pod affinity that no label meets; `labels` has them by key. Its next
    pod stays Pending."""
    return [
        requirement
        for term in LISTS[TermLocation.AFFINITY].read(template, None) or ()
        for requirement in _requirements(term, namespace)
        if requirement.is_unmet(labels)
    ]


def _requirements(term: JSON, namespace: str) -> t.Iterator[LabelRequirement]:
    """What decides which pods a pod term selects, in which namespaces."""
    selector = selector_from_json(term.get("labelSelector"))
    namespaces = frozenset(term.get("namespaces") or [namespace])
    for x in selector.requirements if selector is not None else ():
        yield LabelRequirement(
            namespaces if term.get("namespaceSelector") is None else None,
            x.key,
            x.operator,
            frozenset(x.values) if x.operator in ("In", "NotIn") else None,
        )


def label_writes(needs: LabelNeeds, changes: t.Iterable[WorkloadChange]) -> tuple[Write, ...]:
    """The writes that put labels on workloads, VMIs and pods which other workloads wait for."""
    return tuple(
        write
        for change in changes
        if change.ref in needs.holders
        for stage in change.stages[2:]
        for write in stage
    )


def ordered_stages(
    needs: LabelNeeds, changes: t.Sequence[WorkloadChange]
) -> tuple[tuple[Write, ...], ...]:
    """The writes in their order: labels leave, then one level of workloads after the other gets terms and labels."""
    leaving = _staged(changes, range(2))
    arriving = [stage for level in needs.levels(changes) for stage in _staged(level, range(2, 5))]
    return tuple(stage for stage in (*leaving, *arriving) if stage)


def _staged(changes: t.Sequence[WorkloadChange], numbers: range) -> list[tuple[Write, ...]]:
    return [
        tuple(write for change in changes if change.stages for write in change.stages[number])
        for number in numbers
    ]
