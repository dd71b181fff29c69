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

from ..model.objects import Labels, Placement, Pod
from ..model.snapshot import MachineInstance, Workload
from .declared import Declared, Reader
from .terms import Kind, Term, added_by_platform, terms_of

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
        self._terms: dict[int, tuple[Placement, frozenset[Term]]] = {}
        self._alike: set[tuple[int, int]] = set()

    def gap(
        self, declared: Declared, pod: Pod, vmi: MachineInstance | None, workload: Workload
    ) -> Gap | None:
        """None: in effect, all of it."""
        labels = self.missing_labels(declared.labels, pod.labels)
        pair = id(declared.placement), id(pod.placement)
        if pair in self._alike and not labels:
            return None
        running = self.effective_terms(pod)
        missing = declared.terms - running
        stale = self._stale(declared, running, vmi, workload)
        if missing or stale or labels:
            reached = vmi is not None and self._reached(missing, stale, labels, vmi)
            return Gap(missing, stale, labels, reached)
        if not _has_key_terms(pod.placement):
            self._alike.add(pair)
        return None

    def missing_labels(self, wanted: Labels, carried: Labels) -> tuple[str, ...]:
        return tuple(
            key
            for key, value in wanted.items()
            if carried.get(key) != value and key in self._selecting
        )

    def effective_terms(self, pod: Pod) -> frozenset[Term]:
        """The terms of a running pod. Those of pods with one placement are worked out once."""
        if _has_key_terms(pod.placement):
            return frozenset(terms_of(pod.placement, pod.labels))
        found = self._terms.get(id(pod.placement))
        if found is None:
            found = pod.placement, frozenset(terms_of(pod.placement, pod.labels))
            self._terms[id(pod.placement)] = found
        return found[1]

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
        _placement, kept = self._reader.placement(vmi.spec)
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
        _placement, said = self._reader.placement(vmi.spec)
        return missing <= said and not stale & said and all(key in vmi.labels for key in labels)


def selecting_keys(placements: t.Iterable[Placement]) -> frozenset[str]:
    """The label keys that terms of these placements select pods by."""
    found: set[str] = set()
    for placement in placements:
        pod_terms = (
            *placement.affinity,
            *placement.anti_affinity,
            *(term for _weight, term in placement.preferred_affinity),
            *(term for _weight, term in placement.preferred_anti_affinity),
        )
        for term in (*pod_terms, *placement.spread):
            if term.selector is not None:
                found.update(requirement.key for requirement in term.selector.requirements)
            found.update(term.match_label_keys)
        for term in pod_terms:
            found.update(term.mismatch_label_keys)
    return frozenset(found)


def _has_key_terms(placement: Placement) -> bool:
    """Some term means something else on each pod: matchLabelKeys, mismatchLabelKeys."""
    return any(
        term.match_label_keys or term.mismatch_label_keys
        for terms in (
            placement.anti_affinity,
            placement.affinity,
            (term for _weight, term in placement.preferred_anti_affinity),
            (term for _weight, term in placement.preferred_affinity),
        )
        for term in terms
    ) or any(constraint.match_label_keys for constraint in placement.spread)
