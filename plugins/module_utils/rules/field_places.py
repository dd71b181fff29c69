# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""A field at the wrong level of a map: where does it belong?

The name is right and the indentation is wrong, so that a suggestion by spelling would lead astray.
"""

from __future__ import annotations

import typing as t

from ..model.json_pointer import JSON

Schema = t.Any
"""A word for a plain value, a list of one for each item, a map for the fields that there are."""

Outer = tuple[str, Schema]
"""A map that is around a value: the field of it where the value is, and its schema."""

_MOST_LEVELS = 3


def misplaced(
    key: str, given: t.Mapping[str, JSON], schema: Schema, around: t.Sequence[Outer] = ()
) -> str | None:
    """Where an unknown field of `given` belongs, as the end of a sentence; None if no level near it has a
    field of that name. `around` are the maps outside, the innermost first."""
    for levels, (inside, outer) in enumerate(around, 1):
        if key in outer:
            return f"it belongs beside {inside}, not into it: move it {_levels(levels)} out"
    inner = _inner(key, schema)
    if not inner:
        return None
    present = [path for path in inner if path[0] in given] or inner
    empty = [path for path in present if path[0] in given and not given[path[0]]]
    chosen = empty or present
    names = " or ".join(dict.fromkeys(_named(path, schema) for path in chosen))
    if empty and len(chosen) == 1:
        return f"it belongs into {names}, which is empty here: indent it"
    if chosen[0][0] not in given:
        return f"it belongs into {names}, which is missing here: add that, and indent the field"
    return f"it belongs into {names}: indent it"


def _levels(count: int) -> str:
    return "one level" if count == 1 else f"{count} levels"


def _fields(schema: Schema) -> t.Mapping[str, Schema]:
    inside = schema[0] if isinstance(schema, list) else schema
    return inside if isinstance(inside, dict) else {}


def _inner(key: str, schema: Schema) -> list[tuple[str, ...]]:
    """The paths of the nearest maps inside that have the field; all have one length."""
    level: list[tuple[tuple[str, ...], Schema]] = [((), schema)]
    for _depth in range(_MOST_LEVELS):
        level = [
            ((*path, name), inner)
            for path, outer in level
            for name, inner in _fields(outer).items()
        ]
        if found := [path for path, inner in level if key in _fields(inner)]:
            return found
    return []


def _named(path: tuple[str, ...], schema: Schema) -> str:
    for name in path:
        schema = _fields(schema)[name]
    place = ".".join(path)
    return f"an entry of {place}" if isinstance(schema, list) else place
