# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which workloads of a cluster carry which rules?"""

from __future__ import annotations

import typing as t
from dataclasses import dataclass

from ..kinds.registry import RULE_KINDS
from ..model.objects import Ref
from ..model.rule import RuleId
from ..model.snapshot import Workload
from ..view.view import ClusterView
from .ownership import Ownership, UnreadableAnnotation, read_ownership


@dataclass(frozen=True)
class OwnershipIndex:
    """The annotation of every workload that can carry rules, if it can be read."""

    owned: t.Mapping[Ref, Ownership]
    unreadable: t.Mapping[Ref, UnreadableAnnotation]

    @classmethod
    def of(cls, view: ClusterView) -> OwnershipIndex:
        owned: dict[Ref, Ownership] = {}
        unreadable: dict[Ref, UnreadableAnnotation] = {}
        for ref, workload in view.snapshot.workloads_by_ref.items():
            if ref.kind not in RULE_KINDS:
                continue
            try:
                owned[ref] = read_ownership(workload)
            except UnreadableAnnotation as error:
                unreadable[ref] = error
        return cls(owned, unreadable)

    @property
    def carriers(self) -> t.Mapping[RuleId, frozenset[Ref]]:
        """The workloads that carry each rule."""
        found: dict[RuleId, set[Ref]] = {}
        for ref, ownership in self.owned.items():
            for rule in ownership.rules:
                found.setdefault(rule, set()).add(ref)
        return {rule: frozenset(refs) for rule, refs in found.items()}

    def ownership(self, workload: Workload) -> Ownership:
        """The ownership of a workload; empty if its annotation cannot be read."""
        return self.owned.get(workload.ref) or Ownership(workload.uid)
