# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""A group's label on what runs already: VMIs and their launcher pods.

KubeVirt does not carry a template's labels over to a running VMI, and a migration makes its
target pod from the labels of the VMI. So a label counts at once, and stays after a migration,
only if it stands on the template, on the VMI and on the pod. A Deployment's pods get it by its
own roll-out.
"""

from __future__ import annotations

import typing as t

from ..model.kinds import instance_path
from ..model.objects import Labels, Ref
from ..model.pointer import JSON, Pointer
from ..model.snapshot import Workload
from ..model.write import Operation, Write
from .fingerprint import Fingerprint
from .inventory import Inventory
from .label_input import is_reserved
from .slots import Slot

_LABELS = Pointer(("metadata", "labels"))


class Relabel(t.NamedTuple):
    """What an object's labels are to become: those that `gone` names leave it before the template
    forgets them, those `wanted` reach it after the template has them."""

    target: Ref
    uid: str
    wanted: tuple[tuple[str, str], ...] = ()
    gone: tuple[Fingerprint, ...] = ()

    def leave(self, labels: Labels) -> Write | None:
        """The write that removes labels, given those that the object has; None where none is to
        go. A key that gets another value leaves with the old one: what then still has one was
        given it by somebody else."""
        return self._write(labels, set(labels) - set(self.left(labels)), {})

    def left(self, labels: Labels) -> Labels:
        """The labels of the object without those that leave it."""
        return {key: value for key, value in labels.items() if not self._is_gone(key, value)}

    def arrive(self, labels: Labels) -> Write | None:
        """The write that sets labels, given those that the object has once others have left it;
        None where all stand. None is ever given another value: see `conflicts`."""
        adding = {key: value for key, value in self.wanted if key not in labels}
        return self._write(labels, set(), adding)

    def conflicts(self, labels: Labels) -> tuple[tuple[str, str, str], ...]:
        """(key, value seen, value wanted) of each label that somebody else has set."""
        left = self.left(labels)
        return tuple((k, left[k], v) for k, v in self.wanted if left.get(k, v) != v)

    def again(self, write: Write, labels: Labels) -> Write | None:
        """`write`, one of the two, for an object that has other labels by now."""
        return self.arrive(labels) if write.after["labels"] else self.leave(labels)

    def _write(self, labels: Labels, leaving: set[str], adding: Labels) -> Write | None:
        if not leaving and not adding:
            return None
        keys = sorted({*leaving, *adding})
        if labels:
            tests = [Operation("test", _LABELS / key, labels.get(key)) for key in keys]
            operations = [_operation(key, labels, adding) for key in keys]
        else:
            tests = [Operation("test", _LABELS)]
            operations = [Operation("add", _LABELS, dict(sorted(adding.items())))]
        before = {key: labels[key] for key in keys if key in labels}
        return Write(
            target=self.target,
            path=instance_path(self.target),
            uid=self.uid,
            tests=tuple(tests),
            operations=tuple(operations),
            before={"labels": before},
            after={"labels": dict(sorted(adding.items()))},
        )

    def _is_gone(self, key: str, value: str) -> bool:
        if not self.gone or is_reserved(key):
            return False
        mark = Fingerprint.of(Slot.LABEL, {"key": key, "value": value})
        return any(mark.says_the_same(gone) for gone in self.gone)


def relabels(
    workload: Workload,
    inventory: Inventory,
    wanted: t.Sequence[tuple[str, str]],
    gone: t.Sequence[Fingerprint],
) -> tuple[tuple[Relabel, Labels], ...]:
    """For each VMI and each of its pods that runs: what its labels become, and what they are."""
    marks = tuple(mark for mark in gone if mark.slot is Slot.LABEL)
    if not workload.kind.virtual_machines or not (wanted or marks):
        return ()
    objects: list[tuple[Ref, str, Labels]] = []
    for vmi in inventory.machines_of(workload):
        if not vmi.terminating:
            objects.append((vmi.ref, vmi.uid, vmi.labels))
    for pod in inventory.pods_of(workload):
        if not pod.terminating:
            objects.append((pod.ref, pod.uid, pod.labels))
    return tuple((Relabel(ref, uid, tuple(wanted), marks), labels) for ref, uid, labels in objects)


def labels_of(manifest: t.Mapping[str, JSON]) -> Labels:
    return manifest["metadata"].get("labels") or {}


def _operation(key: str, labels: Labels, adding: Labels) -> Operation:
    if key not in adding:
        return Operation("remove", _LABELS / key)
    return Operation("replace" if key in labels else "add", _LABELS / key, adding[key])
