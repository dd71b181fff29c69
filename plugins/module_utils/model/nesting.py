# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""JSON that is nested deeper than anything that is read: only the part that is too deep is lost.

The API server takes some 10,000 maps and lists inside each other in a field whose unknown fields are kept
(x-kubernetes-preserve-unknown-fields), such as the metadata of a VM's template. Python's decoder, marshal and
copies end at fewer.
"""

from __future__ import annotations

import json
import re

from .json_pointer import JSON

DEPTH_LIMIT = 100
"""Maps and lists inside each other. The placement fields of a pool are 15 deep."""

TOO_DEEP = f"(nested more than {DEPTH_LIMIT} deep: not read)"
"""Stands for a value that is too deep."""

_TOKENS = re.compile(rb'"[^"\\]*(?:\\.[^"\\]*)*"|[\[\]{}]', re.DOTALL)


def decoded(text: bytes) -> JSON:
    """The value of a JSON text; each part of it that is too deep is TOO_DEEP. Raises ValueError."""
    try:
        return json.loads(text)
    except RecursionError:
        return json.loads(_shallow_text(text))


def shallow(value: JSON) -> JSON:
    """The value with TOO_DEEP for each part that is too deep; the value itself where there is none."""
    return _cut(value, DEPTH_LIMIT) if is_deeper(value, DEPTH_LIMIT) else value


def is_deeper(value: JSON, limit: int) -> bool:
    """Whether more than `limit` maps and lists stand inside each other."""
    level = [value]
    for _depth in range(limit):
        level = [
            inner
            for outer in level
            for inner in (outer.values() if isinstance(outer, dict) else outer)
            if isinstance(inner, (dict, list))
        ]
        if not level:
            return False
    return True


def _cut(value: JSON, levels: int) -> JSON:
    if not isinstance(value, (dict, list)):
        return value
    if not levels:
        return TOO_DEEP
    if isinstance(value, dict):
        return {key: _cut(inner, levels - 1) for key, inner in value.items()}
    return [_cut(inner, levels - 1) for inner in value]


def _shallow_text(text: bytes) -> bytes:
    parts = []
    depth = kept = 0
    for token in _TOKENS.finditer(text):
        character = token[0]
        if character in (b"[", b"{"):
            depth += 1
            if depth == DEPTH_LIMIT + 1:
                parts.append(text[kept : token.start()])
                kept = len(text)
        elif character in (b"]", b"}"):
            if depth == DEPTH_LIMIT + 1:
                parts.append(json.dumps(TOO_DEEP).encode())
                kept = token.end()
            depth -= 1
    return b"".join((*parts, text[kept:]))
