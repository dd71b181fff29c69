# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""A change of one object, decided before it is made. Check mode, diff, apply and undo share it."""

from __future__ import annotations

import typing as t
from dataclasses import dataclass

from .objects import Ref
from .pointer import JSON, Pointer


@dataclass(frozen=True, slots=True)
class Operation:
    """One JSON Patch operation (RFC 6902): `add`, `replace`, `remove` or `test`.

    A `test` for null also passes where there is nothing: so the API server reads it.
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
        """The JSON Patch without its tests, as people are told it."""
        return [op.as_json() for op in self.operations]
