# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""A conditional write of one object, and JSON Patch (RFC 6902) applied in memory, to a snapshot too.

Check mode, diff, apply and undo share the same Write. A `test` for null passes at a missing path,
as on the API server. What controllers do after a write: see `forecast/change`.
"""

from __future__ import annotations

import typing as t
from dataclasses import dataclass, replace

from .json_pointer import JSON, Pointer
from .objects import Pod, Ref

if t.TYPE_CHECKING:
    from .snapshot import Snapshot, Vmi, Workload


@dataclass(frozen=True, slots=True)
class Operation:
    """One JSON Patch operation (RFC 6902): `add`, `replace`, `remove` or `test`.

    A `test` for null also passes at a missing path, as on the API server.
    """

    op: t.Literal["add", "replace", "remove", "test"]
    pointer: Pointer
    value: JSON = None

    def as_json(self) -> dict[str, JSON]:
        body: dict[str, JSON] = {"op": self.op, "path": str(self.pointer)}
        if self.op != "remove":
            body["value"] = self.value
        return body


@dataclass(frozen=True, slots=True)
class Write:
    """Patch `target` at `path`, if it still has `uid` and every test holds.

    `before` and `after` are the parts of the object that change, for the diff; they hold no
    more than the paths that we own.
    """

    target: Ref
    path: str
    uid: str
    tests: tuple[Operation, ...]
    operations: tuple[Operation, ...]
    before: JSON = None
    after: JSON = None

    def patch(self) -> list[dict[str, JSON]]:
        """The JSON Patch: the uid, the tests, then the changes."""
        uid = Operation("test", Pointer(("metadata", "uid")), self.uid)
        return [op.as_json() for op in (uid, *self.tests)] + self.changes()

    def changes(self) -> list[dict[str, JSON]]:
        """The JSON Patch without its tests, as shown to people."""
        return [op.as_json() for op in self.operations]


def writes_result(
    writes: t.Sequence[Write],
    *,
    diff: bool,
    elsewhere: t.Container[Ref] = (),
    words: t.Callable[[Write], t.Sequence[str]] = lambda _write: (),
    by_hand: t.Sequence[Write] = (),
) -> dict[str, JSON]:
    """`changed` and `writes`; with `diff` also what changes of each object: in `words` on one line, or before and
    after, with only the fields that this collection manages. Another part of the result has the patches of the objects
    in `elsewhere`: hundreds of them twice would be most of the result. `by_hand`: writes that this identity may not
    make, for the diff alone."""
    result: dict[str, JSON] = {
        "changed": bool(writes),
        "writes": [
            {
                **write.target._asdict(),
                **({"patch": write.changes()} if write.target not in elsewhere else {}),
            }
            for write in writes
        ],
    }
    if diff:
        result["diff"] = [_difference(write, words(write)) for write in (*by_hand, *writes)]
    return result


def _difference(write: Write, words: t.Sequence[str]) -> dict[str, JSON]:
    if words:
        return {"prepared": f"{write.target}: {'; '.join(words)}\n"}
    return {
        "before_header": str(write.target),
        "before": write.before,
        "after_header": str(write.target),
        "after": write.after,
    }


END_OF_LIST = "-"


class PatchTestFailed(ValueError):
    """A test of the patch does not hold: the object differs from the one that the write was made for."""

    __test__ = False


def patched(value: JSON, operations: t.Iterable[Operation]) -> JSON:
    """`value` with the operations made, in their order; what they do not touch is shared.

    Raises PatchTestFailed for a test that does not hold, and ValueError for a path that leads nowhere.
    """
    for operation in operations:
        if operation.op == "test":
            current = operation.pointer.read(value, None)
            if current != operation.value:
                raise PatchTestFailed(
                    f"{operation.pointer} is {current!r}, not {operation.value!r}"
                )
        else:
            value = _changed(value, operation.pointer.parts, operation)
    return value


def _changed(value: JSON, parts: tuple[str, ...], operation: Operation) -> JSON:
    if not parts:
        return None if operation.op == "remove" else operation.value
    part, rest = parts[0], parts[1:]
    if isinstance(value, dict):
        return _in_map(value, part, rest, operation)
    if isinstance(value, list):
        return _in_list(value, part, rest, operation)
    raise ValueError(f"{operation.pointer} leads into {value!r}, which holds nothing")


def _in_map(
    value: dict[str, JSON], part: str, rest: tuple[str, ...], operation: Operation
) -> dict[str, JSON]:
    if part not in value and (rest or operation.op != "add"):
        raise ValueError(f"there is nothing at {operation.pointer}")
    if rest:
        return {**value, part: _changed(value[part], rest, operation)}
    if operation.op == "remove":
        return {key: item for key, item in value.items() if key != part}
    return {**value, part: operation.value}


def _in_list(
    value: list[JSON], part: str, rest: tuple[str, ...], operation: Operation
) -> list[JSON]:
    adding = operation.op == "add" and not rest
    place = len(value) if part == END_OF_LIST and adding else _place(value, part, operation)
    if adding:
        return [*value[:place], operation.value, *value[place:]]
    if place >= len(value):
        raise ValueError(f"there is nothing at {operation.pointer}")
    if rest:
        inner = _changed(value[place], rest, operation)
        return [*value[:place], inner, *value[place + 1 :]]
    if operation.op == "remove":
        return [*value[:place], *value[place + 1 :]]
    return [*value[:place], operation.value, *value[place + 1 :]]


def _place(value: list[JSON], part: str, operation: Operation) -> int:
    if not part.isdigit() or int(part) > len(value):
        raise ValueError(f"{operation.pointer} names no place of a list of {len(value)}")
    return int(part)


def written(snapshot: Snapshot, writes: t.Sequence[Write]) -> Snapshot:
    """The snapshot with the writes applied in their order, to workloads and to labels of pods and VMIs.

    Raises KeyError for a workload that is not there, ValueError for a write that does not fit its
    object.
    """
    by_target: dict[Ref, list[Write]] = {}
    for write in writes:
        by_target.setdefault(write.target, []).append(write)
    if not by_target:
        return snapshot
    from ..kinds.registry import RULE_KINDS  # which nothing needs that only writes

    missing = {ref for ref in by_target if ref.kind in RULE_KINDS}
    missing -= snapshot.workloads_by_ref.keys()
    if missing:
        raise KeyError(f"there is no {', '.join(map(str, sorted(missing)))}")
    return replace(
        snapshot,
        workloads=tuple(
            _patched(workload, by_target.get(workload.ref)) for workload in snapshot.workloads
        ),
        pods=tuple(_relabeled(pod, by_target.get(pod.ref)) for pod in snapshot.pods),
        vmis=tuple(_relabeled(vmi, by_target.get(vmi.ref)) for vmi in snapshot.vmis),
    )


def touched(before: Snapshot, after: Snapshot) -> frozenset[Ref]:
    """The workloads whose templates differ between two snapshots."""
    changed = set()
    for workload in after.workloads:
        previous = before.workloads_by_ref.get(workload.ref)
        if previous is None or (
            workload.manifest is not previous.manifest and workload.template != previous.template
        ):
            changed.add(workload.ref)
    return frozenset(changed)


def _patched(workload: Workload, writes: t.Sequence[Write] | None) -> Workload:
    for write in writes or ():
        operations = (*write.tests, *write.operations)
        workload = replace(workload, manifest=patched(workload.manifest, operations))
    return workload


_Labeled = t.TypeVar("_Labeled", Pod, "Vmi")


def _relabeled(labeled: _Labeled, writes: t.Sequence[Write] | None) -> _Labeled:
    """A pod or VMI with its labels after the writes; no other field of it is written."""
    if not writes:
        return labeled
    labels: JSON = {"metadata": {"labels": dict(labeled.labels)}}
    for write in writes:
        operations = (x for x in write.operations if x.pointer.parts[:2] == ("metadata", "labels"))
        labels = patched(labels, operations)
    return replace(labeled, labels=labels["metadata"].get("labels") or {})
