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
from .term_slots import LISTS, CompiledTerm, TermLocation, terms_of

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


def label_needs(compiled: t.Sequence[Compiled], changes: t.Iterable[WorkloadChange]) -> LabelNeeds:
    """A term may select by a label that another rule of the request sets."""
    getting = {change.ref for change in changes if _gets_labels(change)}
    holders: dict[Label, dict[Ref, str]] = defaultdict(dict)
    for rule in compiled:
        for ref, terms in rule.terms.items():
            for term in terms if ref in getting else ():
                if term.location is TermLocation.LABEL:
                    key, value = term.value["key"], term.value["value"]
                    text = f"{label_text(key, value)} of rule {rule.rule.id.name}"
                    holders[ref.namespace, key, value][ref] = text
    needs: dict[Ref, dict[Ref, str]] = defaultdict(dict)
    for rule in compiled if holders else ():
        for ref, terms in rule.terms.items():
            for term in terms:
                for label in _selected_labels(term, ref.namespace):
                    needs[ref] |= {r: text for r, text in holders[label].items() if r != ref}
    return LabelNeeds(needs)


def needs_of_restored(
    changes: t.Sequence[WorkloadChange], labels: t.Mapping[Ref, t.Iterable[tuple[str, str]]]
) -> LabelNeeds:
    """The same for workloads that get back the labels and terms that they had; `labels` has those of each."""
    holders: dict[Label, dict[Ref, str]] = defaultdict(dict)
    for change in changes:
        for key, value in labels[change.ref]:
            holders[change.ref.namespace, key, value][change.ref] = label_text(key, value)
    needs: dict[Ref, dict[Ref, str]] = defaultdict(dict)
    for change in changes if holders else ():
        for location, value in terms_of({"spec": change.merged.after}):
            term = CompiledTerm(location, value)
            for label in _selected_labels(term, change.ref.namespace):
                needs[change.ref] |= {
                    ref: text for ref, text in holders.get(label, {}).items() if ref != change.ref
                }
    return LabelNeeds(needs)


def unmet_labels(
    template: t.Mapping[str, JSON], namespace: str, labels: t.AbstractSet[Label]
) -> frozenset[Label]:
    """The labels by which the required pod affinity of a template selects, and that are not among `labels`: its next
    pod stays Pending. One of several values is enough."""
    unmet: set[Label] = set()
    for value in LISTS[TermLocation.AFFINITY].read(template, None) or ():
        if value.get("namespaceSelector") is not None:
            continue
        for alternatives in _requirements(value, namespace):
            if not alternatives & labels:
                unmet |= alternatives
    return frozenset(unmet)


def _selected_labels(term: CompiledTerm, namespace: str) -> t.Iterator[Label]:
    """Each label by which a term selects."""
    for alternatives in _requirements(term.value.get("podAffinityTerm", term.value), namespace):
        yield from alternatives


def _requirements(term: JSON, namespace: str) -> t.Iterator[frozenset[Label]]:
    """For each requirement of a pod term the labels that satisfy it, as far as it names values."""
    selector = selector_from_json(term.get("labelSelector"))
    namespaces = term.get("namespaces") or [namespace]
    for requirement in selector.requirements if selector is not None else ():
        if requirement.operator == "In":
            yield frozenset(
                (name, requirement.key, value)
                for name in namespaces
                for value in requirement.values
            )


def _gets_labels(change: WorkloadChange) -> bool:
    return TermLocation.LABEL in change.merged.locations or bool(_arriving(change))


def _arriving(change: WorkloadChange) -> tuple[Write, ...]:
    return tuple(write for stage in change.stages[3:] for write in stage)


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
