# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""From what a template was and what it becomes to one conditional JSON Patch (RFC 6902).

The patch tests every path that was read. A test for null holds where there is nothing, but only
below a parent that is there (so the API server's JSON Patch library reads it), so absence is
tested at the first part that is missing.
"""

from __future__ import annotations

import typing as t

from ..model.names import JOURNAL, RULES
from ..model.pointer import JSON, Pointer
from ..model.snapshot import Workload
from ..model.write import Operation, Write
from .ownership import Ownership
from .slots import FIELDS

ANNOTATIONS = Pointer(("metadata", "annotations"))
_NOTHING: t.Final = object()


def build_write(
    workload: Workload,
    before: t.Mapping[str, JSON],
    after: t.Mapping[str, JSON],
    annotations: t.Mapping[str, str | None],
    rules: tuple[Ownership, Ownership],
) -> Write | None:
    """The write that turns the template's parts `before` into `after` and sets our annotations;
    None where nothing differs. `rules` are the ownership before and after, for the diff."""
    template = workload.kind.template
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
    return Write(
        target=workload.ref,
        path=workload.kind.path(workload.ref.namespace, workload.ref.name),
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
    wanted: t.Mapping[str, str | None],
    tests: list[Operation],
    operations: list[Operation],
) -> None:
    """Our two annotations; None removes one."""
    there = workload.manifest["metadata"].get("annotations")
    if there is None:
        tests.append(Operation("test", ANNOTATIONS))
        new = {name: text for name, text in wanted.items() if text is not None}
        if new:
            operations.append(Operation("add", ANNOTATIONS, new))
        return
    for name in (RULES, JOURNAL):
        pointer, old, new_text = ANNOTATIONS / name, there.get(name), wanted[name]
        tests.append(Operation("test", pointer, old))
        if new_text is None and old is not None:
            operations.append(Operation("remove", pointer))
        elif new_text != old:
            operations.append(Operation("replace" if old else "add", pointer, new_text))


def _shown(
    side: t.Mapping[str, JSON], other: t.Mapping[str, JSON], ownership: Ownership
) -> dict[str, JSON]:
    """One side of the diff: the placement fields and labels that differ, and the rules."""
    shown: dict[str, JSON] = {"rules": sorted(map(str, ownership.rules))}
    for name in FIELDS:
        if side["spec"].get(name) != other["spec"].get(name) and name in side["spec"]:
            shown[name] = side["spec"][name]
    mine, theirs = ((s.get("metadata") or {}).get("labels") or {} for s in (side, other))
    labels = {key: value for key, value in mine.items() if theirs.get(key) != value}
    return {**shown, "labels": labels} if labels else shown
