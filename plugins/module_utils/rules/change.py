# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a request changes on one workload and on what runs of it."""

from __future__ import annotations

import typing as t
from dataclasses import dataclass

from ..model.finding import Finding
from ..model.kinds import MACHINE_INSTANCE
from ..model.names import JOURNAL, RULES
from ..model.objects import Labels, Ref
from ..model.pointer import JSON
from ..model.snapshot import Workload
from ..model.write import Write
from ..systems.gitops import managed_by
from .claims import Wanted
from .conflicts import label_of_others
from .effect import takes_effect
from .inventory import Inventory
from .labels import Relabel, relabels
from .merge import Merged, merge
from .patch import ANNOTATIONS
from .slots import Slot, pair

_OURS = (ANNOTATIONS, ANNOTATIONS / RULES, ANNOTATIONS / JOURNAL)


@dataclass(frozen=True)
class Change:
    """`stages` are the writes in their order, empty where nothing changes: labels leave pods, then
    VMIs; the workload; labels reach VMIs, then pods."""

    workload: Workload
    merged: Merged
    takes_effect: str
    stages: tuple[tuple[Write, ...], ...]
    relabels: tuple[Relabel, ...]
    findings: tuple[Finding, ...] = ()

    @property
    def ref(self) -> Ref:
        return self.workload.ref

    def as_json(self, made: t.Sequence[Write], *, refused: bool) -> dict[str, JSON]:
        """For the result. `made` are the writes that were made; where none was made to the workload
        the patch is the planned one. Where the request is refused there is none, but for an object that
        somebody else manages: what to commit there, without annotations of this cluster."""
        sent = next((write for write in made if write.target == self.ref), self.merged.write)
        return {
            "kind": self.ref.kind,
            "namespace": self.ref.namespace,
            "name": self.ref.name,
            "changed": bool(made),
            "added": [rule.name for rule in self.merged.added],
            "updated": [rule.name for rule in self.merged.updated],
            "removed": [rule.name for rule in self.merged.removed],
            "takes_effect": self.takes_effect,
            "patch": self._patch(sent, refused=refused) if sent is not None else [],
        }

    def _patch(self, write: Write, *, refused: bool) -> list[dict[str, JSON]]:
        if not refused:
            return write.changes()
        if managed_by(self.workload) is None:
            return []
        return [op.as_json() for op in write.operations if op.pointer not in _OURS]


def change_of(workload: Workload, wanted: Wanted, inventory: Inventory) -> Change:
    """Raises UnreadableAnnotation."""
    merged = merge(workload, wanted)
    labels = labels_of_terms(wanted)
    found = relabels(workload, inventory, labels, merged.gone)
    leaving = list(filter(None, (relabel.leave(seen) for relabel, seen in found)))
    arriving = list(filter(None, (relabel.arrive(relabel.left(seen)) for relabel, seen in found)))
    write = merged.write
    if write is not None and not merged.slots and managed_by(workload) is not None:
        write = None
    stages = (
        tuple(each for each in leaving if each.target.kind != MACHINE_INSTANCE),
        tuple(each for each in leaving if each.target.kind == MACHINE_INSTANCE),
        (write,) if write is not None else (),
        tuple(each for each in arriving if each.target.kind == MACHINE_INSTANCE),
        tuple(each for each in arriving if each.target.kind != MACHINE_INSTANCE),
    )
    return Change(
        workload=workload,
        merged=merged,
        takes_effect=takes_effect(workload, merged, inventory),
        stages=stages if any(stages) else (),
        relabels=tuple(relabel for relabel, _seen in found),
        findings=tuple(_conflicts(wanted, found)),
    )


def _conflicts(wanted: Wanted, found: t.Iterable[tuple[Relabel, Labels]]) -> t.Iterator[Finding]:
    """Labels of running objects that somebody else has set to another value."""
    for relabel, seen in found:
        for key, value, other in relabel.conflicts(seen):
            label = pair(Slot.LABEL, key, other)
            rules = [
                rule for rule, terms in sorted(wanted.listed.items()) if label in (terms or ())
            ]
            yield from label_of_others(rules, relabel.target, key, value, other)


def labels_of_terms(wanted: Wanted) -> tuple[tuple[str, str], ...]:
    """The labels that the listed rules put on the workload."""
    terms = [term for each in wanted.listed.values() for term in each or ()]
    pairs = [(term.value["key"], term.value["value"]) for term in terms if term.slot is Slot.LABEL]
    return tuple(sorted(set(pairs)))
