# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which JSON Patches (RFC 6902) change a workload's template, and labels on its VMIs and pods?

The patch of a workload tests every path that was read. A test for null holds where there is nothing,
but only below a parent that exists (so the API server's JSON Patch library reads it), so absence is
tested at the first part that is missing.

KubeVirt does not carry a template's labels over to a running VMI, and a migration makes its target
pod from the labels of the VMI. So a label counts at once, and stays after a migration, only if it is
on the template, on the VMI and on the pod. A Deployment's pods get it by its workload rollout.
"""

from __future__ import annotations

import typing as t

from ..model.findings import InputError, InvalidInput
from ..model.json_pointer import ANNOTATIONS, JSON, LABELS, Pointer
from ..model.json_text import ANNOTATION_SIZE_LIMIT
from ..model.kinds import RULES, UNDO, instance_path
from ..model.objects import Labels, Ref
from ..model.snapshot import Workload
from ..model.write import Operation, Write
from ..view.label_input import is_reserved
from ..view.view import ClusterView
from .ownership import NoRoomForRules, Ownership
from .term_slots import FIELDS, Fingerprint, TermLocation, pair


class Relabel(t.NamedTuple):
    """How the labels of a running object change: those of `removed` are removed before the template
    loses them, those of `added` are set after the template has them."""

    target: Ref
    uid: str
    added: tuple[tuple[str, str], ...] = ()
    removed: tuple[Fingerprint, ...] = ()

    def leave(self, labels: Labels) -> Write | None:
        """The write that removes labels, given those that the object has; None where none is to
        removed. A key that gets another value is removed with the old one: if it is still there
        afterwards, no rule set it."""
        return self._write(labels, set(labels) - set(self.left(labels)), {})

    def left(self, labels: Labels) -> Labels:
        """The labels of the object without those that leave it."""
        if not self.removed:
            return labels
        kept = {}
        for key, value in labels.items():
            fingerprint = pair(TermLocation.LABEL, key, value).fingerprint
            if is_reserved(key) or not any(map(fingerprint.has_same_effect, self.removed)):
                kept[key] = value
        return kept

    def arrive(self, labels: Labels) -> Write | None:
        """The write that sets labels, given those that the object has once others have left it;
        None where all stand. None is ever given another value: see `conflicts`."""
        adding = {key: value for key, value in self.added if key not in labels}
        return self._write(labels, set(), adding)

    def conflicts(self, labels: Labels) -> tuple[tuple[str, str, str], ...]:
        """(key, present value, wanted value) of each label that no rule set and that differs."""
        left = self.left(labels)
        return tuple((k, left[k], v) for k, v in self.added if left.get(k, v) != v)

    def again(self, write: Write, labels: Labels) -> Write | None:
        """`write`, one of the two, for an object that has other labels by now. Raises InvalidInput for conflicts."""
        if conflicts := self.conflicts(labels):
            raise InvalidInput(
                [
                    InputError(str(self.target), f"has the label {key}={present}, and not {wanted}")
                    for key, present, wanted in conflicts
                ]
            )
        return self.arrive(labels) if write.after["labels"] else self.leave(labels)

    def _write(self, labels: Labels, leaving: set[str], adding: Labels) -> Write | None:
        if not leaving and not adding:
            return None
        keys = sorted({*leaving, *adding})
        if labels:
            tests = [Operation("test", LABELS / key, labels.get(key)) for key in keys]
            operations = [_operation(key, labels, adding) for key in keys]
        else:
            tests = [Operation("test", LABELS)]
            operations = [Operation("add", LABELS, dict(sorted(adding.items())))]
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


def relabels(
    workload: Workload,
    view: ClusterView,
    added: t.Sequence[tuple[str, str]],
    removed: t.Sequence[Fingerprint],
) -> tuple[tuple[Relabel, Labels], ...]:
    """For each VMI and each of its pods that runs: what its labels become, and what they are."""
    fingerprints = tuple(
        fingerprint for fingerprint in removed if fingerprint.location is TermLocation.LABEL
    )
    if not workload.runs_vms or not (added or fingerprints):
        return ()
    objects: list[tuple[Ref, str, Labels]] = []
    for vmi in view.vmis_of(workload):
        if not vmi.terminating:
            objects.append((vmi.ref, vmi.uid, vmi.labels))
    for pod in view.pods_of(workload):
        if not pod.terminating:
            objects.append((pod.ref, pod.uid, pod.labels))
    return tuple(
        (Relabel(ref, uid, tuple(added), fingerprints), labels) for ref, uid, labels in objects
    )


def labels_of(manifest: t.Mapping[str, JSON]) -> Labels:
    return manifest["metadata"].get("labels") or {}


def _operation(key: str, labels: Labels, adding: Labels) -> Operation:
    if key not in adding:
        return Operation("remove", LABELS / key)
    return Operation("replace" if key in labels else "add", LABELS / key, adding[key])


_NOTHING: t.Final = object()


def build_write(
    workload: Workload,
    before: t.Mapping[str, JSON],
    after: t.Mapping[str, JSON],
    annotations: t.Mapping[str, str | None],
    rules: tuple[Ownership, Ownership],
) -> Write | None:
    """The write that turns the template's parts `before` into `after` and sets our annotations;
    None where nothing differs. `rules` are the ownership before and after, for the diff. Raises NoRoomForRules."""
    template = Pointer(workload.kind.template)
    tests: list[Operation] = []
    operations: list[Operation] = []
    for name in FIELDS:
        old, new = (side["spec"].get(name, _NOTHING) for side in (before, after))
        _change(template / "spec" / name, old, new, tests, operations)
    old, new = (side.get("metadata", _NOTHING) for side in (before, after))
    _difference(template / "metadata", old, new, tests, operations, depth=2)
    _annotations(workload, annotations, tests, operations)
    if not operations:
        return None
    _check_size(workload, annotations)
    return Write(
        target=workload.ref,
        path=workload.path,
        uid=workload.uid,
        tests=tuple(tests),
        operations=tuple(operations),
        before=_shown(before, after, rules[0]),
        after=_shown(after, before, rules[1]),
    )


def _change(
    pointer: Pointer, old: JSON, new: JSON, tests: list[Operation], operations: list[Operation]
) -> None:
    """Test `old`, and what turns it into `new`, if anything."""
    tests.append(Operation("test", pointer, None if old is _NOTHING else old))
    if old is new or old == new:
        return
    if new is _NOTHING:
        operations.append(Operation("remove", pointer))
    else:
        operations.append(Operation("add" if old is _NOTHING else "replace", pointer, new))


def _difference(
    pointer: Pointer,
    old: JSON,
    new: JSON,
    tests: list[Operation],
    operations: list[Operation],
    depth: int,
) -> None:
    """Change only the keys that differ, `depth` maps deep, and test only those."""
    if old is new or old == new:
        return
    if not depth or not isinstance(old, dict) or not isinstance(new, dict):
        _change(pointer, old, new, tests, operations)
        return
    for key in sorted({*old, *new}):
        sides = [side.get(key, _NOTHING) for side in (old, new)]
        _difference(pointer / key, sides[0], sides[1], tests, operations, depth - 1)


def _annotations(
    workload: Workload,
    annotations: t.Mapping[str, str | None],
    tests: list[Operation],
    operations: list[Operation],
) -> None:
    """Our two annotations; None removes one."""
    there = workload.manifest["metadata"].get("annotations")
    if there is None:
        tests.append(Operation("test", ANNOTATIONS))
        new = {name: text for name, text in annotations.items() if text is not None}
        if new:
            operations.append(Operation("add", ANNOTATIONS, new))
        return
    for name in (RULES, UNDO):
        pointer, old, new_text = ANNOTATIONS / name, there.get(name), annotations[name]
        tests.append(Operation("test", pointer, old))
        if new_text is None and old is not None:
            operations.append(Operation("remove", pointer))
        elif new_text != old:
            operations.append(Operation("replace" if old else "add", pointer, new_text))


def _check_size(workload: Workload, annotations: t.Mapping[str, str | None]) -> None:
    """Raises NoRoomForRules where the API server would refuse all annotations together (apimachinery
    pkg/api/validation/objectmeta.go, ValidateAnnotationsSize), or might refuse the next change or the removal of the
    rules: the undo record has their annotation, and terms of its size."""
    following = {**workload.annotations, **annotations}
    sizes = {
        name: len(name.encode()) + len(text.encode())
        for name, text in following.items()
        if text is not None
    }
    if max(total := sum(sizes.values()), 4 * sizes.get(RULES, 0)) <= ANNOTATION_SIZE_LIMIT:
        return
    largest = sorted(sizes, key=lambda name: (-sizes[name], name))[:3]
    named = ", ".join(f"{name} {sizes[name]}" for name in largest)
    raise NoRoomForRules(
        f"the annotations of {workload.ref} would have {total} bytes together, at most {ANNOTATION_SIZE_LIMIT} are"
        f" possible; the largest: {named}: shorten or remove those of others, or declare shorter rules, of at most"
        f" {ANNOTATION_SIZE_LIMIT // 4} bytes, since the undo record repeats them"
    )


def _shown(
    side: t.Mapping[str, JSON], other: t.Mapping[str, JSON], ownership: Ownership
) -> dict[str, JSON]:
    """One side of the diff: the placement fields and labels that differ, and the rules."""
    shown: dict[str, JSON] = {"rules": sorted(map(str, ownership.rules))}
    if resting := [str(rule) for rule, owned in ownership.rules.items() if not owned.enabled]:
        shown["resting"] = sorted(resting)
    for name in FIELDS:
        if side["spec"].get(name) != other["spec"].get(name) and name in side["spec"]:
            shown[name] = side["spec"][name]
    mine, theirs = ((s.get("metadata") or {}).get("labels") or {} for s in (side, other))
    labels = {key: value for key, value in mine.items() if theirs.get(key) != value}
    return {**shown, "labels": labels} if labels else shown
