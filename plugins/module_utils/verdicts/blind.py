# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which verdicts rest on something that could not be read: those are unknown, never satisfied."""

from __future__ import annotations

import typing as t

from ..model.kinds import KINDS
from ..model.objects import PodTerm, SpreadConstraint
from ..model.snapshot import Instance, Unreadable
from .cases import Case
from .terms import Kind, Term

_POD_KINDS = (
    Kind.AFFINITY,
    Kind.ANTI_AFFINITY,
    Kind.PREFERRED_AFFINITY,
    Kind.PREFERRED_ANTI_AFFINITY,
)


class Blind:
    """Answers with the gap that a judgement rests on, or None. False where nothing is missing."""

    def __init__(self, unreadable: t.Iterable[Unreadable]) -> None:
        self._gaps: dict[str, list[Unreadable]] = {}
        for gap in unreadable:
            self._gaps.setdefault(gap.resource.partition(".")[0], []).append(gap)

    def __bool__(self) -> bool:
        return bool(self._gaps)

    def gap(self, resource: str, namespaces: t.Collection[str] | None = None) -> Unreadable | None:
        """A gap in `resource`, in one of `namespaces` or (None) in any."""
        for gap in self._gaps.get(resource, ()):
            if namespaces is None or not gap.namespace or gap.namespace in namespaces:
                return gap
        return None

    def of_term(self, term: Term, namespace: str) -> Unreadable | None:
        """What a term of a pod in `namespace` rests on: pods, and the labels of namespaces."""
        said = term.said
        if isinstance(said, SpreadConstraint):
            return self.gap("nodes") or self.gap("pods", (namespace,))
        if isinstance(said, PodTerm) and term.kind in _POD_KINDS:
            return self.gap("nodes") or self._of_pod_term(said, namespace)
        return self.gap("nodes")

    def of_symmetry(self) -> Unreadable | None:
        """Any pod anywhere may have a term against this one."""
        return self.gap("nodes") or self.gap("pods") or self.gap("namespaces")

    def of_workload(self, case: Case) -> Unreadable | None:
        """What is declared for an instance, and whose it is."""
        namespace = (case.instance.ref.namespace,)
        if case.declared is not None:
            return None
        if case.instance.vmi is None and case.instance.ref.kind != "Pod":
            return self.gap("virtualmachineinstances", namespace)
        workload = case.instance.workload
        if workload is not None and workload.kind in KINDS:
            return self.gap(KINDS[workload.kind].plural, namespace)
        return self.gap("replicasets", namespace)

    def of_volumes(self, case: Case) -> Unreadable | None:
        """Volumes that only some nodes reach."""
        return self.gap("persistentvolumes") if case.pod.claims else None

    def of_waiting(self, instance: Instance) -> Unreadable | None:
        """Whether an instance really has no pod, and no node."""
        if instance.pod is None:
            return self.gap("pods", (instance.ref.namespace,))
        return self.gap("nodes")

    def _of_pod_term(self, said: PodTerm, namespace: str) -> Unreadable | None:
        chosen = said.namespace_selector
        if chosen is None:
            return self.gap("pods", said.namespaces or (namespace,))
        if chosen.requirements and (gap := self.gap("namespaces")) is not None:
            return gap
        return self.gap("pods")
