# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Declared against effective: is the running pod there under the terms that its workload declares?

A subset test, since KubeVirt and admission add terms of their own (see platform_terms). What is
compared: template, VirtualMachineInstance, running pod (KubeVirt keeps the spec of an instance and
of a pod as they were made, but for the fields that it updates live).
"""

from __future__ import annotations

import typing as t
from dataclasses import dataclass

from ..model.objects import Labels, Placement, Pod, PodTerm, SpreadConstraint
from ..model.snapshot import MachineInstance, Workload
from .declared import Declared, Reader
from .platform_terms import CREATED_BY, adds_node_key, adds_toleration
from .terms import Kind, Term, added_by_platform, pod_terms_of, terms_of

_FROM_INSTANCE = (Kind.NODE_SELECTOR, Kind.TOLERATION)
"""Kinds that a migration (addedNodeSelector) or admission may add to a pod for its lifetime."""


@dataclass(frozen=True, slots=True)
class Gap:
    """What is declared and not in effect (`missing`, `labels`), and what is in effect and no
    longer declared (`stale`). `reached` is true where the VirtualMachineInstance already says what
    the template says, so that its next pod will too."""

    missing: frozenset[Term] = frozenset()
    stale: frozenset[Term] = frozenset()
    labels: tuple[str, ...] = ()
    reached: bool = False


class Comparison:
    """Compares many instances with their workloads; what is alike is compared once.

    `selecting` are the label keys that some term selects pods by: another label of a template that
    a pod lacks changes nothing about where anything may run.
    """

    def __init__(self, reader: Reader, selecting: frozenset[str]) -> None:
        self._reader = reader
        self._selecting = selecting
        self._own_keys: dict[int, tuple[Placement, tuple[str, ...]]] = {}
        self._terms: dict[t.Hashable, frozenset[Term]] = {}
        self._alike: set[t.Hashable] = set()

    def gap(
        self, declared: Declared, pod: Pod, vmi: MachineInstance | None, workload: Workload
    ) -> Gap | None:
        """None: in effect, all of it."""
        labels = self.missing_labels(declared.labels, pod.labels)
        identity = self._identity(pod)
        pair = id(declared.placement), identity
        if pair in self._alike and not labels:
            return None
        if not labels and plainly_in_effect(declared.placement, pod.placement):
            self._alike.add(pair)
            return None
        running = self._effective_terms(pod, identity)
        missing = declared.terms - running
        stale = self._stale(declared, running, vmi, workload)
        if missing or stale or labels:
            reached = vmi is not None and self._reached(missing, stale, labels, vmi)
            return Gap(missing, stale, labels, reached)
        self._alike.add(pair)
        return None

    def missing_labels(self, wanted: Labels, carried: Labels) -> tuple[str, ...]:
        return tuple(
            key
            for key, value in wanted.items()
            if carried.get(key) != value and key in self._selecting
        )

    def _identity(self, pod: Pod) -> t.Hashable:
        """Equal for pods whose placement says the same: it is the same object, and its
        matchLabelKeys resolve to the same values."""
        placement = pod.placement
        known = self._own_keys.get(id(placement))
        if known is None:
            known = self._own_keys[id(placement)] = placement, _own_keys(placement)
        return id(placement), tuple(pod.labels.get(key) for key in known[1])

    def _effective_terms(self, pod: Pod, identity: t.Hashable) -> frozenset[Term]:
        found = self._terms.get(identity)
        if found is None:
            found = self._terms[identity] = frozenset(terms_of(pod.placement, pod.labels))
        return found

    def _stale(
        self,
        declared: Declared,
        running: frozenset[Term],
        vmi: MachineInstance | None,
        workload: Workload,
    ) -> frozenset[Term]:
        """Only for virtual machines: admission may add anything to other pods, and their
        controllers replace them by themselves."""
        extra = frozenset(x for x in running - declared.terms if not added_by_platform(x))
        if not extra or vmi is None:
            return frozenset()
        kept = self._reader.placement(vmi.spec)[1].terms
        own_keys = "instancetype" not in (workload.manifest.get("spec") or {})
        return frozenset(
            x for x in extra if x.kind not in _FROM_INSTANCE or (own_keys and x in kept)
        )

    def _reached(
        self,
        missing: frozenset[Term],
        stale: frozenset[Term],
        labels: tuple[str, ...],
        vmi: MachineInstance,
    ) -> bool:
        said = self._reader.placement(vmi.spec)[1].terms
        return missing <= said and not stale & said and all(key in vmi.labels for key in labels)


def plainly_in_effect(said: Placement, running: Placement) -> bool:
    """A quick look that needs no canonical terms: all lists are equal, in their order, but for what
    the platform adds. False where that leaves any doubt."""
    return (
        len(said.spread) == len(running.spread)
        and all(map(_same_spread, said.spread, running.spread))
        and _same_lists(said.affinity, running.affinity)
        and _same_lists(said.anti_affinity, running.anti_affinity)
        and _same_weighted(said.preferred_affinity, running.preferred_affinity)
        and _same_weighted(said.preferred_anti_affinity, running.preferred_anti_affinity)
        and said.preferred_node_terms == running.preferred_node_terms
        and set(said.node_selector) <= set(running.node_selector)
        and all(
            adds_node_key(key) for key, _value in _extra(said.node_selector, running.node_selector)
        )
        and set(said.tolerations) <= set(running.tolerations)
        and all(map(adds_toleration, _extra(said.tolerations, running.tolerations)))
        and (said.node_terms == running.node_terms or _only_platform(said, running))
    )


_Item = t.TypeVar("_Item")


def _extra(said: tuple[_Item, ...], running: tuple[_Item, ...]) -> t.Iterator[_Item]:
    return (each for each in running if each not in said)


def _same_lists(said: tuple[PodTerm, ...], running: tuple[PodTerm, ...]) -> bool:
    return len(said) == len(running) and all(map(_same_term, said, running))


def _same_weighted(
    said: tuple[tuple[int, PodTerm], ...], running: tuple[tuple[int, PodTerm], ...]
) -> bool:
    return len(said) == len(running) and all(
        one[0] == other[0] and _same_term(one[1], other[1])
        for one, other in zip(said, running, strict=True)
    )


def _same_term(said: PodTerm, running: PodTerm) -> bool:
    """Equal, created-by apart: a placement of a stored pod holds that beside the selector."""
    return said == running or (
        running.differs_in in said.mismatch_label_keys
        and (said.topology_key, said.selector, said.namespaces, said.namespace_selector)
        == (running.topology_key, running.selector, running.namespaces, running.namespace_selector)
        and (said.match_label_keys, said.mismatch_label_keys)
        == (running.match_label_keys, running.mismatch_label_keys)
    )


def _same_spread(said: SpreadConstraint, running: SpreadConstraint) -> bool:
    return said == running and not said.match_label_keys


def _only_platform(said: Placement, running: Placement) -> bool:
    """Nothing about nodes is declared, and all that the pod asks for is the platform's."""
    return said.node_terms is None and all(
        not term.fields and all(adds_node_key(part.key) for part in term.expressions)
        for term in running.node_terms or ()
    )


def _own_keys(placement: Placement) -> tuple[str, ...]:
    """Keys that mean another value on each pod. Created-by is none: the value stands apart from
    the selector in a placement (PodTerm.differs_in)."""
    keys = [
        key
        for term in pod_terms_of(placement)
        for key in (*term.match_label_keys, *term.mismatch_label_keys)
    ]
    keys += [key for constraint in placement.spread for key in constraint.match_label_keys]
    return tuple(key for key in dict.fromkeys(keys) if key != CREATED_BY)
