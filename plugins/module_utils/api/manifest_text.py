# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Manifests as text to data, as kubectl reads them.

kubectl (k8s.io/apimachinery, pkg/util/yaml, decoder.go) takes text that begins with `{` for a stream of JSON
values. It splits other text at the lines `---`, and reads each part with sigs.k8s.io/yaml (goyaml.v2,
resolve.go and decode.go). That is YAML 1.1 with differences from PyYAML: `y` is true, `=`, dates and `1:30`
are text, `1e3` is a number, each key is text, an anchor may be defined twice, and the last of equal keys
counts. What stands after the first value of a part counts for nothing.

CustomResourceDefinitions are not parsed, only named: they are most of the text of many repositories, and
nothing here reads them.
"""

from __future__ import annotations

import base64
import binascii
import json
import re
import typing as t
from dataclasses import dataclass, field

from ansible.module_utils.common.yaml import HAS_YAML, SafeLoader

from ..model.json_pointer import JSON
from .yaml_text import (
    MOST_DEPTH,
    MOST_VALUES,
    TOO_DEEP,
    TOO_MANY,
    InvalidYaml,
    PyYamlMissing,
    refuse_endless,
    refuse_half_characters,
    syntax_error,
)


@dataclass(frozen=True, slots=True)
class Part:
    """One document of a text. `fault` says why it could not be read; then `value` is null."""

    text: str
    value: JSON = None
    fault: InvalidYaml | None = None


def decode(content: bytes) -> str:
    """The text of a file. Raises InvalidYaml for what is not UTF-8."""
    if content.startswith((b"\xff\xfe", b"\xfe\xff")):
        raise InvalidYaml("it is UTF-16, which kubectl does not read: save it as UTF-8")
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise InvalidYaml(f"it is not UTF-8: {error.reason} at byte {error.start}") from error


def read_parts(text: str) -> list[Part]:
    """The documents of a text, empty ones left out. One that is broken does not hide the others. Raises
    PyYamlMissing if the text is not JSON."""
    parts: list[Part] = []
    start = _read_json(text, parts)
    first_line = text.count("\n", 0, start) + 1
    for piece in _pieces(text[start:]):
        try:
            parts.append(_part(piece, _document(piece, first_line)))
        except InvalidYaml as error:
            parts.append(Part(piece, fault=error))
        first_line += piece.count("\n")
    return [part for part in parts if part.value is not None or part.fault]


_SPACE = re.compile(r"\s*")


def _read_json(text: str, parts: list[Part]) -> int:
    """Adds the JSON values that a text begins with. Returns the position after the last one."""
    end = 0
    while True:
        start = t.cast(re.Match[str], _SPACE.match(text, end)).end()
        if not text.startswith(("{", "["), start):
            return start if start == len(text) else end
        try:
            value, stop = _DECODER.raw_decode(text, start)
            refuse_endless(value)
        except (ValueError, RecursionError):  # InvalidYaml is a ValueError
            return end
        parts.append(_part(text[start:stop], value))
        end = stop


def _part(text: str, value: JSON) -> Part:
    try:
        refuse_half_characters(value, text)
    except InvalidYaml as error:
        return Part(text, fault=error)
    return Part(text, value)


_LONGEST_INTEGER = 100


def _json_integer(digits: str) -> JSON:
    return int(digits) if len(digits) <= _LONGEST_INTEGER else _number(digits)


_DECODER = json.JSONDecoder(parse_int=_json_integer)

_SEPARATOR = re.compile(r"^(?=---[ \t\r]*(?:#.*)?$)", re.MULTILINE)
_DIRECTIVES = re.compile(r"(?:[ \t\r]*(?:[#%].*)?\n)*")


def _pieces(text: str) -> t.Iterator[str]:
    """The text, cut before each line `---`. Directives stay with what follows."""
    if not text.endswith("\n"):
        text += "\n"
    directives = ""
    for piece in _SEPARATOR.split(text):
        if "%" in piece and _DIRECTIVES.fullmatch(piece):
            directives = piece
        else:
            yield directives + piece
            directives = ""


_DEFINITION = re.compile(r"^kind: CustomResourceDefinition[ \t\r]*$", re.MULTILINE)
"""A line of a map that is not inside of another: of a text of several lines it could be no part."""

_NO_SEPARATOR = re.compile(r"^---[ \t\r]*[^\s#].*$", re.MULTILINE)


def _document(piece: str, first_line: int) -> JSON:
    if not HAS_YAML:
        raise PyYamlMissing()
    if _DEFINITION.search(piece):
        return {"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition"}
    if wrong := _NO_SEPARATOR.search(piece):
        line = first_line + piece.count("\n", 0, wrong.start())
        raise InvalidYaml(f"line {line}: kubectl takes no more than a comment after ---", line)
    try:
        parser = SafeLoader(piece)
        try:
            value = _Builder(first_line).document(parser)
        finally:
            parser.dispose()
        refuse_endless(value)
        return value
    except InvalidYaml:
        raise
    except Exception as error:  # the parser's own classes are not part of ansible-core's interface
        raise syntax_error(error, first_line) from error


_MERGE = object()
"""The key `<<` of a map, when it is plain."""
_NO_KEY = object()
_YAML = "tag:yaml.org,2002:"


@dataclass(slots=True)
class _Open:
    """A map or a list that is being read."""

    value: t.Any
    is_map: bool
    key: t.Any = _NO_KEY


@dataclass(slots=True)
class _Builder:
    """Makes values of the parser's events. `first_line` is the line of the file at which the text begins."""

    first_line: int
    anchors: dict[str, JSON] = field(default_factory=dict)
    unfinished: set[str] = field(default_factory=set)
    merged: int = 0

    def document(self, parser: t.Any) -> JSON:
        """The first document. Null if there is none."""
        value: t.Any = None
        stack: list[_Open] = []
        names: list[str | None] = []
        while (event := parser.get_event()) is not None:
            kind = type(event).__name__
            if kind == "ScalarEvent":
                if event.anchor is None and not event.tag and stack and event.implicit[0]:
                    value = self._plain(event.value, stack[-1])
                else:
                    value = self._scalar(event, stack)
                    if event.anchor is not None:
                        self.anchors[event.anchor] = value
            elif kind in ("MappingStartEvent", "SequenceStartEvent"):
                if len(stack) > MOST_DEPTH:
                    raise InvalidYaml(TOO_DEEP)
                is_map = kind == "MappingStartEvent"
                stack.append(_Open({} if is_map else [], is_map))
                names.append(event.anchor)
                if event.anchor is not None:
                    self.anchors[event.anchor] = stack[-1].value
                    self.unfinished.add(event.anchor)
                continue
            elif kind in ("MappingEndEvent", "SequenceEndEvent"):
                value = stack.pop().value
                self.unfinished.discard(names.pop() or "")
            elif kind == "AliasEvent":
                value = self._alias(event)
            elif kind == "DocumentEndEvent":
                break
            else:
                continue
            if stack:
                self._add(stack[-1], value, event)
        return value

    def _plain(self, text: str, outer: _Open) -> t.Any:
        if text == "<<":
            return _MERGE if outer.is_map and outer.key is _NO_KEY else text
        return resolved(text)

    def _scalar(self, event: t.Any, stack: t.Sequence[_Open]) -> t.Any:
        tag, text = event.tag, event.value
        if not tag:
            if not event.implicit[0]:
                return text
            return self._plain(text, stack[-1]) if stack else resolved(text)
        if tag == f"{_YAML}binary":
            try:
                return base64.b64decode(text).decode("utf-8", "replace")
            except binascii.Error as error:
                raise self._error(event, f"!!binary is not base64: {error}") from error
        if tag in (f"{_YAML}{name}" for name in ("int", "float", "bool", "null")):
            return resolved(text)
        return text

    def _alias(self, event: t.Any) -> JSON:
        if event.anchor not in self.anchors:
            raise self._error(event, f"there is no anchor {event.anchor!r}")
        if event.anchor in self.unfinished:
            raise self._error(event, "look for an alias inside of its own anchor")
        return self.anchors[event.anchor]

    def _add(self, outer: _Open, value: t.Any, event: t.Any) -> None:
        if not outer.is_map:
            outer.value.append(value)
        elif outer.key is _NO_KEY:
            outer.key = (
                value if value is _MERGE or isinstance(value, str) else self._key(value, event)
            )
        else:
            if outer.key is _MERGE:
                self._merge(outer.value, value, event)
            else:
                outer.value[outer.key] = value
            outer.key = _NO_KEY

    def _key(self, value: JSON, event: t.Any) -> str:
        """A key as text (sigs.k8s.io/yaml, convertToJSONableObject)."""
        if isinstance(value, bool):
            return str(value).lower()
        if isinstance(value, (int, float)):
            return str(value)
        raise self._error(event, "a key must be text: quote it, or render the template")

    def _merge(self, into: dict[str, JSON], value: JSON, event: t.Any) -> None:
        """In the order of the text: a later key counts, and of a list the first map."""
        maps = value[::-1] if isinstance(value, list) else [value]
        for merged in maps:
            if not isinstance(merged, dict):
                raise self._error(event, "a merge key (<<) needs a map, or a list of maps")
            self.merged += len(merged)
            if self.merged > MOST_VALUES:
                raise InvalidYaml(f"{TOO_MANY} look for merge keys (<<) that merge one another")
            into.update(merged)

    def _error(self, event: t.Any, problem: str) -> InvalidYaml:
        line = event.start_mark.line + self.first_line
        return InvalidYaml(f"line {line}, column {event.start_mark.column + 1}: {problem}", line)


_WORDS: t.Mapping[str, JSON] = {
    **dict.fromkeys(("", "~", "null", "Null", "NULL")),
    **dict.fromkeys(
        ("y", "Y", "yes", "Yes", "YES", "true", "True", "TRUE", "on", "On", "ON"), True
    ),
    **dict.fromkeys(
        ("n", "N", "no", "No", "NO", "false", "False", "FALSE", "off", "Off", "OFF"), False
    ),
}
_INTEGER = re.compile(r"[-+]?(?:0[xX][0-9a-fA-F]+|0[oO]?[0-7]+|0[bB][01]+|[1-9][0-9]*|0)", re.ASCII)
_FLOAT = re.compile(r"[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?", re.ASCII)
_NO_NUMBER = re.compile(r"[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN)")


def resolved(text: str) -> JSON:
    """The value of a plain scalar (goyaml.v2, resolve.go)."""
    if text in _WORDS:
        return _WORDS[text]
    return _number(text) if text[0] in "+-.0123456789" else text


def _number(text: str) -> JSON:
    plain = text.replace("_", "")
    if len(plain) <= _LONGEST_INTEGER and _INTEGER.fullmatch(plain):
        digits = plain.lstrip("+-")
        if len(digits) > 1 and digits[0] == "0" and digits[1].isdigit():
            plain = plain.replace("0", "0o", 1)
        value = int(plain, 0)
        if -(2**63) <= value < 2**64:
            return value
    elif not _FLOAT.fullmatch(plain):
        if _NO_NUMBER.fullmatch(text):
            raise InvalidYaml(f"{text} has no form in JSON: quote it if it is text")
        return text
    number = float(plain)
    if number in (float("inf"), float("-inf")):
        raise InvalidYaml("a number is too large: quote it if it is text")
    return int(number) if number.is_integer() and abs(number) < 1e21 else number
