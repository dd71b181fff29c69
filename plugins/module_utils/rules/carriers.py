# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Who carries which rule, and who is to: membership is exact in every namespace that was read."""

from __future__ import annotations

import typing as t
from dataclasses import dataclass

from ..model.finding import Fault, Finding
from ..model.objects import Ref
from ..model.rule import RuleId, WorkloadSelector
from ..model.snapshot import Workload
from . import workload_findings
from .claims import Wanted
from .compile import Compiled
from .inventory import Inventory, plural
from .ownership import Ownership, UnreadableAnnotation, read_ownership
from .references import SUPPORTED
from .selector_findings import unchecked
from .slots import CompiledTerm

if t.TYPE_CHECKING:
    from .request import RulesRequest


@dataclass(frozen=True)
class Book:
    """The annotation of every workload that can carry rules, as far as it can be read."""

    owned: t.Mapping[Ref, Ownership]
    unreadable: t.Mapping[Ref, UnreadableAnnotation]

    @classmethod
    def of(cls, inventory: Inventory) -> Book:
        owned: dict[Ref, Ownership] = {}
        unreadable: dict[Ref, UnreadableAnnotation] = {}
        for ref, workload in inventory.workloads.items():
            if ref.kind not in SUPPORTED:
                continue
            try:
                owned[ref] = read_ownership(workload)
            except UnreadableAnnotation as error:
                unreadable[ref] = error
        return cls(owned, unreadable)

    def ownership(self, workload: Workload) -> Ownership:
        """What a workload carries of ours; nothing where that cannot be read."""
        return self.owned.get(workload.ref) or Ownership(workload.uid)

    def is_copy(self, workload: Workload) -> bool:
        return self.ownership(workload).uid != workload.uid


Listed = dict[RuleId, "tuple[CompiledTerm, ...] | None"]


def wanted_of(
    request: RulesRequest,
    compiled: t.Sequence[Compiled],
    inventory: Inventory,
    book: Book,
    faults: list[Fault],
    findings: list[Finding],
) -> dict[Ref, Wanted]:
    """What is wanted of each workload that the request is about, whether that changes it or not."""
    prune = (request.namespace, request.set) if request.prune else None
    wanted: dict[Ref, Wanted] = {}
    for ref, workload in sorted(inventory.workloads.items()):
        if ref.kind not in SUPPORTED:
            continue
        members = {each.rule.id: each.terms[ref] for each in compiled if ref in each.terms}
        if ref in book.unreadable:
            error = book.unreadable[ref]
            faults += [Fault(_where(request, rule), str(error)) for rule in members]
            findings += [] if members else [workload_findings.unreadable_ownership(ref, error)]
            continue
        listed = _listed(request, members, workload, book)
        ownership = book.ownership(workload)
        pruned = ownership.of_set(*prune) if prune else ()
        if book.is_copy(workload):
            findings += _of_copy(request, members, workload, ownership)
            if not members:
                continue
        if listed or pruned:
            wanted[ref] = Wanted(listed, prune, request.adopt)
    return wanted


def _listed(
    request: RulesRequest,
    members: t.Mapping[RuleId, tuple[CompiledTerm, ...]],
    workload: Workload,
    book: Book,
) -> Listed:
    listed: Listed = dict(members)
    carried = book.ownership(workload).rules
    for rule in request.rules:
        if rule.id in members or rule.id not in carried:
            continue
        absent = request.state == "absent"
        if not absent or rule.everywhere or is_named(rule.workloads, workload):
            listed[rule.id] = None
    return listed


def is_named(references: t.Iterable[WorkloadSelector], workload: Workload) -> bool:
    """Whether one of the references leads to the workload."""
    ref = workload.ref
    for reference in references:
        if (reference.kind, reference.namespace) != (ref.kind, ref.namespace):
            continue
        if reference.labels is None and ref.name in reference.names:
            return True
        labels = dict(workload.template_labels).items()
        if reference.labels is not None and reference.labels.items() <= labels:
            return True
    return False


def _of_copy(
    request: RulesRequest,
    members: t.Mapping[RuleId, tuple[CompiledTerm, ...]],
    workload: Workload,
    ownership: Ownership,
) -> list[Finding]:
    if members:
        return workload_findings.copy_of_another(workload, ownership, members)
    of_set = ownership.of_set(request.namespace, request.set)
    listed = {rule.id for rule in request.rules}
    concerned = [rule for rule in of_set if request.prune or rule in listed]
    return workload_findings.copied_rules(workload, ownership, concerned)


def unread_carriers(
    request: RulesRequest, inventory: Inventory, faults: list[Fault], findings: list[Finding]
) -> None:
    """A kind that could not be listed may hide carriers. That spoils a promise to remove a rule
    from all of them; for one that is written it is worth a warning."""
    gaps = inventory.gaps(map(plural, SUPPORTED), request.namespace)
    removing = request.prune or request.state == "absent"
    for gap in gaps:
        if removing:
            faults.append(Fault("state" if request.state == "absent" else "prune", str(gap)))
        elif request.rules:
            findings.append(unchecked(gap, "Whether others still carry the rules"))


def _where(request: RulesRequest, rule: RuleId) -> str:
    return next((each.where for each in request.rules if each.id == rule), str(rule))
