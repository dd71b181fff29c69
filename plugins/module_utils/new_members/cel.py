# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""How are values, conditions and optional entries written in the Common Expression Language (CEL)?

Names and labels of tenants are in these texts: `literal` alone quotes them. The API server compiles an expression of at
most 100,000 characters and 250 levels (cel-go, parser/options.go), so entries of a list are optional elements
(`[?a, ?b]`) and not a chain of `+`.
"""

from __future__ import annotations

import json
import typing as t

from ..model.json_pointer import JSON, Pointer

MOST_CHARACTERS = 100_000
"""Of one expression (cel-go, parser/options.go, ExpressionSizeCodePointLimit)."""

NEVER = "false"
NULL = "dyn(null)"


def literal(value: JSON) -> str:
    """A JSON value. Values in maps and lists are dyn, since the API server takes only literals of one type
    (apiserver, pkg/cel/environment/base.go, HomogeneousAggregateLiterals)."""
    if isinstance(value, dict):
        return f"{{{', '.join(f'{literal(key)}: {_dyn(inner)}' for key, inner in value.items())}}}"
    if isinstance(value, list):
        return list_of(map(_dyn, value))
    # JSON escapes characters beyond U+FFFF as two halves, which CEL refuses.
    return json.dumps(value, ensure_ascii=False)


def _dyn(value: JSON) -> str:
    return f"dyn({literal(value)})"


def variable(name: str) -> str:
    """The value of a variable of the policy."""
    return f"variables.{name}"


def any_of(conditions: t.Iterable[str]) -> str:
    """Whether one of the conditions holds."""
    listed = list(dict.fromkeys(conditions))
    return f"({' || '.join(listed)})" if len(listed) > 1 else "".join(listed) or NEVER


def all_of(*conditions: str) -> str:
    """Whether all of them hold."""
    return f"({' && '.join(conditions)})" if len(conditions) > 1 else conditions[0]


def either(condition: str, value: str, otherwise: str) -> str:
    """One of two values."""
    return f"({condition} ? {value} : {otherwise})"


def optional(condition: str, value: str) -> str:
    """An entry that a list has where the condition holds."""
    return f"?{either(condition, f'optional.of({value})', 'optional.none()')}"


def list_of(entries: t.Iterable[str]) -> str:
    """A list of entries, optional ones among them."""
    return f"[{', '.join(entries)}]"


def joined(entries: t.Sequence[str]) -> str:
    """Texts with a comma between each two."""
    return f'{list_of(entries)}.join(",")' if entries else '""'


def entry(map_: str, key: str) -> str:
    """The value of a key; null where it is missing."""
    return f"{map_}[?{literal(key)}].orValue({NULL})"


def has_pair(map_: str, key: str, value: str) -> str:
    """Whether a map has this value of a key."""
    return all_of(f"{literal(key)} in {map_}", f"{map_}[{literal(key)}] == {literal(value)}")


def part_of_object(parts: t.Iterable[str]) -> str:
    """A part of the new object that each object of its kind has; the parts are identifiers."""
    return ".".join(("dyn(object)", *parts))


def add(base: str, pointer: Pointer, value: str) -> str:
    """A JSON Patch operation (RFC 6902) that sets what is at a pointer below the path `base`, an expression."""
    return f'JSONPatch{{op: "add", path: {base} + {literal(str(pointer))}, value: {value}}}'
