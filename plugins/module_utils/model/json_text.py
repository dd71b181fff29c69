# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Decode JSON texts from the cluster, which may be nested too deeply, and bound those written to it.

Of an object only the part that is nested too deeply is dropped. An annotation is read in full or not at all.
The API server takes some 10,000 maps and lists inside each other in a field whose unknown fields are kept
(x-kubernetes-preserve-unknown-fields), such as the metadata of a VM's template. Python's decoder, marshal and
copies end at fewer.
"""

from __future__ import annotations

import json
import re
from bisect import bisect_right
from itertools import accumulate

from .json_pointer import JSON

DEPTH_LIMIT = 100
"""Maps and lists inside each other. The placement fields of a pool are 15 deep."""

TOO_DEEP = f"(nested more than {DEPTH_LIMIT} deep: not read)"
"""Stands for a value that is too deep."""

ANNOTATION_SIZE_LIMIT = 256 * 1024
"""Characters. The API server takes no more in all annotations of an object
(apimachinery, pkg/api/validation: TotalAnnotationSizeLimitB)."""

ANNOTATION_DEPTH_LIMIT = 32
"""Maps and lists inside each other. The deepest that is written here is the affinity of an undo record: 11."""

_TOKENS = re.compile(rb'"[^"\\]*(?:\\.[^"\\]*)*"|[\[\]{}]', re.DOTALL)


class DamagedAnnotation(ValueError):
    """The text is no JSON object, or one that the collection cannot have written."""


def read_annotation(text: str) -> dict[str, JSON]:
    """The JSON object in an annotation. Raises DamagedAnnotation, which says what is wrong with it."""
    if len(text) > ANNOTATION_SIZE_LIMIT:
        raise DamagedAnnotation(
            f"it has {len(text)} characters, at most {ANNOTATION_SIZE_LIMIT} are allowed"
        )
    try:
        content = json.loads(text)
    except RecursionError:
        raise DamagedAnnotation("its JSON is nested too deeply") from None
    except ValueError as error:
        raise DamagedAnnotation(str(error)) from error
    if not isinstance(content, dict):
        raise DamagedAnnotation("it is no JSON object")
    if "\\u" in text and not _is_text(content):
        raise DamagedAnnotation("it has half a character, such as \\ud800")
    if text.count("{") + text.count("[") > ANNOTATION_DEPTH_LIMIT and _is_deeper(
        content, ANNOTATION_DEPTH_LIMIT
    ):
        raise DamagedAnnotation("its JSON is nested too deeply")
    return content


def cut(text: str, size: int) -> str:
    """The beginning of a text that JSON writes in at most `size` characters: it writes some as 2, 6 or 12."""
    ends = accumulate(len(json.dumps(character)) - 2 for character in text[:size])
    return text[: bisect_right(list(ends), size)]


def decoded(text: bytes) -> JSON:
    """The value of a JSON text; each part of it that is too deep is TOO_DEEP. Raises ValueError."""
    try:
        return json.loads(text)
    except RecursionError:
        return json.loads(_shallow_text(text))


_MANAGED_FIELDS = b'"managedFields":['


def decoded_without_managed_fields(text: bytes) -> JSON:
    """As `decoded`, but lists with the name `managedFields` may be empty: the field managers of an object take
    as long to decode as all the rest of it. Raises ValueError, but not for each text that is not JSON inside of
    these lists.

    Each list is cut at its first bracket. That is its end, because field managers hold no lists, unless the
    bracket is inside a string or tenants gave the name to a list of lists. The text with such a cut is not
    JSON, and all of it is decoded.
    """
    parts = []
    kept = 0
    while (found := text.find(_MANAGED_FIELDS, kept)) >= 0:
        begin = found + len(_MANAGED_FIELDS)
        parts.append(text[kept:begin])
        kept = text.find(b"]", begin)
        if kept < 0:
            return decoded(text)
    if not parts:
        return decoded(text)
    try:
        return json.loads(b"".join((*parts, text[kept:])))
    except (ValueError, RecursionError):
        return decoded(text)


def shallow(value: JSON) -> JSON:
    """The value with TOO_DEEP for each part that is too deep; the value itself where there is none."""
    return _cut(value, DEPTH_LIMIT) if _is_deeper(value, DEPTH_LIMIT) else value


def _is_deeper(value: JSON, limit: int) -> bool:
    """Whether more than `limit` maps and lists stand inside each other."""
    level: list[JSON] = [[value]]
    for _depth in range(limit + 1):
        level = [
            inner
            for outer in level
            for inner in (outer.values() if isinstance(outer, dict) else outer)
            if isinstance(inner, (dict, list))
        ]
        if not level:
            return False
    return True


def _is_text(content: JSON) -> bool:
    """Whether the content can be sent on: JSON can escape half of a UTF-16 pair, which no UTF-8 has."""
    try:
        json.dumps(content, ensure_ascii=False).encode()
    except UnicodeEncodeError:
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
