# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""A conditional write of one object, and JSON Patch (RFC 6902) applied in memory.

Check mode, diff, apply and undo share the same Write. A `test` for null passes at a missing path,
as on the API server.
"""

from __future__ import annotations

import typing as t
from dataclasses import dataclass

from .json_pointer import JSON, Pointer
from .objects import Ref


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
