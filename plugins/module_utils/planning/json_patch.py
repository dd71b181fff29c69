# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What an object would be after a write: JSON Patch (RFC 6902) on a value that stays as it is.

Pure. A `test` for null holds where there is nothing, as the API server reads it.
"""

from __future__ import annotations

import typing as t

from ..model.pointer import JSON
from ..model.write import Operation

END_OF_LIST = "-"


class TestFailed(ValueError):
    """A test of the patch does not hold: the object is not the one that the write was made for."""

    __test__ = False


def patched(value: JSON, operations: t.Iterable[Operation]) -> JSON:
    """`value` with the operations made, in their order; what they do not touch is shared.

    Raises TestFailed for a test that does not hold, and ValueError for a path that leads nowhere.
    """
    for each in operations:
        if each.op == "test":
            seen = each.pointer.read(value, None)
            if seen != each.value:
                raise TestFailed(f"{each.pointer} is {seen!r}, not {each.value!r}")
        else:
            value = _changed(value, each.pointer.parts, each)
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
