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
import math
import re
import typing as t
from bisect import bisect_right
from itertools import accumulate

from .json_pointer import JSON

DEPTH_LIMIT = 100
"""Maps and lists inside each other. The placement fields of a pool are 15 deep."""

TOO_DEEP = f"(nested more than {DEPTH_LIMIT} deep: not read)"
"""Stands for a value that is too deep."""

CUT = "..."
"""The mark of a text that goes on."""

ANNOTATION_SIZE_LIMIT = 256 * 1024
"""Characters. The API server takes no more in all annotations of an object
(apimachinery, pkg/api/validation: TotalAnnotationSizeLimitB)."""

ANNOTATION_DEPTH_LIMIT = 32
"""Maps and lists inside each other. The deepest that is written here is the affinity of an undo record: 11."""

_TOKENS = re.compile(r'"[^"\\]*(?:\\.[^"\\]*)*"|[\[\]{}]', re.DOTALL)


HALF_A_CHARACTER = "has half a character, such as \\ud800"


class DamagedAnnotation(ValueError):
    """The text is no JSON object, or one that the collection cannot have written."""


def content_fault(error: Exception) -> str:
    """What is wrong with the content of which reading raised this error, without more of its text than a line holds."""
    if isinstance(error, KeyError):
        return f"its field {error.args[0]!r} is missing"
    return (
        cut(str(error), 200) if isinstance(error, ValueError) else "a value in it has a wrong type"
    )


def read_annotation(text: str) -> dict[str, JSON]:
    """The JSON object in an annotation. Raises DamagedAnnotation, which says what is wrong with it."""
    if len(text) > ANNOTATION_SIZE_LIMIT:
        raise DamagedAnnotation(
            f"it has {len(text)} characters, at most {ANNOTATION_SIZE_LIMIT} are allowed"
        )
    try:
        content = json.loads(text, parse_int=_integer, parse_float=_number, parse_constant=_number)
    except RecursionError:
        raise DamagedAnnotation("its JSON is nested too deeply") from None
    except ValueError as error:
        raise DamagedAnnotation(str(error)) from error
    if not isinstance(content, dict):
        raise DamagedAnnotation("it is no JSON object")
    if "\\u" in text and not is_text(content):
        raise DamagedAnnotation(f"it {HALF_A_CHARACTER}")
    if text.count("{") + text.count("[") > ANNOTATION_DEPTH_LIMIT and _is_deeper(
        content, ANNOTATION_DEPTH_LIMIT
    ):
        raise DamagedAnnotation("its JSON is nested too deeply")
    return content


def _integer(text: str) -> int:
    """Longer ones, which Python reads, are written by no client of the API server, and end Python at 4,300 digits."""
    number = int(text) if len(text) <= 20 else 2**63
    if not -(2**63) <= number < 2**63:
        raise ValueError("a number has more than 64 bits")
    return number


def _number(text: str) -> float:
    number = float(text)
    if not math.isfinite(number):
        raise ValueError("a number is not finite")
    return number


def cut(text: str, size: int) -> str:
    """The text where JSON writes it in at most `size` characters: it writes some as 2, 6 or 12. Else its beginning and
    as much of CUT as there is room for, in that size."""
    ends = list(accumulate(len(json.dumps(character)) - 2 for character in text[: size + 1]))
    if not ends or ends[-1] <= size:
        return text
    return f"{text[: bisect_right(ends, size - len(CUT))]}{CUT[: max(0, size)]}"


def decoded(text: bytes | str) -> JSON:
    """The value of a JSON text; each part of it that is too deep is TOO_DEEP. Raises ValueError."""
    try:
        return json.loads(text)
    except RecursionError:
        return json.loads(_shallow_text(text if isinstance(text, str) else _characters(text)))


def _characters(text: bytes) -> str:
    """The text as json.loads takes it: half of a UTF-16 pair is a character, too."""
    return text.decode("utf-8", "surrogatepass")


class ListPage:
    """A page of a list as the API server sends it: a JSON object with `items`, which are decoded one at a time.

    An item that is freed before the next one is decoded stays in the cache of the processor. That takes half the
    time of decoding the whole page first.
    """

    def __init__(self, text: bytes) -> None:
        """Decode what is before the items, and the metadata. Raises ValueError for a text that is no JSON object as
        far as that."""
        self._text = _characters(text)
        self._fields: dict[str, JSON] = {}
        self._items_begin = self._read_fields(self._after("{", 0))
        if "metadata" not in self._fields and self.has_items:
            self._fields["metadata"] = self._last_metadata()
        self.metadata = self._fields.get("metadata") or {}
        if not isinstance(self.metadata, dict):
            raise ValueError("its metadata are no map")

    @property
    def kind(self) -> JSON:
        """The kind of a page without a list of items."""
        return self._fields.get("kind")

    @property
    def has_items(self) -> bool:
        """Whether it has a list of items, or null for an empty one."""
        return self._items_begin is not None or self._fields.get("items", ...) is None

    def items(self) -> t.Iterator[JSON]:
        """Each item, once. Raises ValueError if one of them, or what follows them, is not JSON."""
        if self._items_begin is None:
            return
        at = self._items_begin
        while self._text[at : at + 1] != "]":
            item, at = self._value(at)
            yield item
            del item
            at = self._next(at, "]")
        if self._read_fields(self._next(at + 1, "}")) is not None:
            raise ValueError("a second list of items")

    def _last_metadata(self) -> JSON:
        """The metadata after the items, where the API server writes those of custom resources: the last map with
        this name, if nothing but the end of the page follows it."""
        begin = self._text.rfind('"metadata":{')
        try:
            return json.loads("{" + self._text[begin:])["metadata"]
        except (ValueError, KeyError, RecursionError):
            return decoded(self._text).get("metadata")

    def _read_fields(self, at: int) -> int | None:
        """Decode fields up to a list of items. Returns where its first item is, None if the page ends without such a
        list."""
        while self._text[at : at + 1] != "}":
            name, at = self._value(at)
            if not isinstance(name, str):
                raise ValueError(f"{name!r} is no name of a field")
            at = self._after(":", at)
            if name == "items" and self._text[at : at + 1] == "[":
                return self._after("[", at)
            self._fields[name], at = self._value(at)
            at = self._next(at, "}")
        if self._after("}", at) != len(self._text):
            raise ValueError("more follows the end")
        return None

    def _next(self, at: int, end: str) -> int:
        """Where the next value of a map or list is, or its end."""
        at = self._after_spaces(at)
        if self._text[at : at + 1] == end:
            return at
        at = self._after(",", at)
        if self._text[at : at + 1] == end:
            raise ValueError(f"{end!r} follows a comma at character {at}")
        return at

    def _after(self, mark: str, at: int) -> int:
        """Where the text goes on after the mark. Raises ValueError if something else is there."""
        at = self._after_spaces(at)
        if not self._text.startswith(mark, at):
            raise ValueError(f"{mark!r} is missing at character {at}")
        return self._after_spaces(at + 1)

    def _after_spaces(self, at: int) -> int:
        while self._text.startswith((" ", "\t", "\n", "\r"), at):
            at += 1
        return at

    def _value(self, at: int) -> tuple[JSON, int]:
        """The value at a position, in which each part that is too deep is TOO_DEEP, and where it ends."""
        try:
            return _DECODER.raw_decode(self._text, at)
        except RecursionError:
            self._text = _shallow_text(self._text[at:])
            return _DECODER.raw_decode(self._text)


_DECODER = json.JSONDecoder()


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


def is_text(content: JSON) -> bool:
    """Whether the content can be sent on: JSON can escape half of a UTF-16 pair, which no UTF-8 has."""
    waiting = [content]
    while waiting:
        value = waiting.pop()
        if isinstance(value, dict):
            waiting += (*value.keys(), *value.values())
        elif isinstance(value, list):
            waiting += value
        elif isinstance(value, str):
            try:
                value.encode()
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


def _shallow_text(text: str) -> str:
    """The text with TOO_DEEP for each part that is too deep."""
    parts = []
    depth = kept = 0
    for token in _TOKENS.finditer(text):
        character = token[0]
        if character in ("[", "{"):
            depth += 1
            if depth == DEPTH_LIMIT + 1:
                parts.append(text[kept : token.start()])
                kept = len(text)
        elif character in ("]", "}"):
            if depth == DEPTH_LIMIT + 1:
                parts.append(json.dumps(TOO_DEEP))
                kept = token.end()
            depth -= 1
    return "".join((*parts, text[kept:]))
