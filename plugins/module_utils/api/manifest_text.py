# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Manifests as text to data, as kubectl reads them.

kubectl (k8s.io/apimachinery, pkg/util/yaml, decoder.go) takes text that begins with `{` for a stream of JSON
values. It splits other text at the lines `---`, and reads each part with sigs.k8s.io/yaml (goyaml.v2,
resolve.go and decode.go). That is YAML 1.1 as PyYAML has it, but `=`, dates and `1:30` are text, each key is text,
and an anchor may be defined twice. What stands after the first value of a part counts for nothing. Differences that
are left: `y` and `1e3` are text here, and PyYAML lets a key of a map count, and never the same key of a map that `<<`
merges into it below.

CustomResourceDefinitions are not parsed, only named: they are most of the text of many repositories, and
nothing here reads them.
"""

from __future__ import annotations

import json
import math
import re
import typing as t
from dataclasses import dataclass

from ansible.module_utils.common.yaml import HAS_YAML

from ..model.json_pointer import JSON
from .yaml_text import (
    MOST_DEPTH,
    TOO_DEEP,
    InvalidYaml,
    Loader,
    PyYamlMissing,
    loaded,
    refuse_endless,
    refuse_half_characters,
)

try:
    from yaml.composer import Composer, ComposerError
except ImportError:  # `object` is no base beside another class
    Composer, ComposerError = type("Composer", (), {}), Exception  # type: ignore[assignment, misc]


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
    if len(digits) > _LONGEST_INTEGER:
        raise InvalidYaml("a number is too large: quote it if it is text")
    return int(digits)


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
    return loaded(lambda text: _first_value(text, first_line), piece, first_line)


def _first_value(text: str, first_line: int) -> JSON:
    try:
        return _first_value_by(_ManifestLoader, text, first_line)
    except ComposerError:  # perhaps an anchor that is defined twice
        return _first_value_by(_AnchorsAnewLoader, text, first_line)


def _first_value_by(loader: type[_ManifestLoader], text: str, first_line: int) -> JSON:
    parser = loader(text)
    parser.first_line = first_line
    try:
        return parser.get_data() if parser.check_data() else None
    finally:
        parser.dispose()


_YAML = "tag:yaml.org,2002:"
_OF_JSON = (*(f"{_YAML}{x}" for x in ("null", "bool", "int", "float", "str", "seq", "map")), None)
_NO_KEY = "a key must be text: quote it, or render the template"
_PLAIN = (*_OF_JSON, f"{_YAML}merge")
_TIMES = re.compile(r"[-+]?[0-9][0-9_]*(?::[0-9]+)+(?:\.[0-9_]*)?$|=$", re.ASCII)


class _ManifestLoader(Loader):
    """Keys as text, and no values that JSON lacks."""

    def construct_mapping(self, node: t.Any, deep: bool = False) -> dict[str, JSON]:
        for key, _value in node.value:
            if not isinstance(key.value, str):  # a list or a map
                raise self.error(key, _NO_KEY)
        value = super().construct_mapping(node, deep)
        if all(isinstance(key, str) for key in value):
            return t.cast("dict[str, JSON]", value)
        return {self._key(key, node): item for key, item in value.items()}

    def _key(self, key: JSON, node: t.Any) -> str:
        """A key as text (sigs.k8s.io/yaml, convertToJSONableObject)."""
        if isinstance(key, bool):
            return str(key).lower()
        if isinstance(key, (str, int, float)):
            return str(key)
        raise self.error(node, _NO_KEY)

    def construct_yaml_float(self, node: t.Any) -> JSON:
        number = super().construct_yaml_float(node)
        if not math.isfinite(number):
            raise self.error(node, f"{node.value:.20} is too large, or no number: quote it")
        return int(number) if number.is_integer() and abs(number) < 1e21 else number


class _AnchorsAnewLoader(Composer, _ManifestLoader):
    """An anchor may be defined twice: from there on it is the second one. Composed by Python: slower."""

    _depth = 0

    def __init__(self, text: str) -> None:
        _ManifestLoader.__init__(self, text)  # type: ignore[call-arg]
        self.anchors: dict[str, t.Any] = {}

    def compose_node(self, parent: t.Any, index: t.Any) -> t.Any:
        event = self.peek_event()
        if hasattr(event, "tag"):  # an alias has none
            self.anchors.pop(event.anchor, None)
        if self._depth > MOST_DEPTH:
            raise InvalidYaml(TOO_DEEP)
        self._depth += 1
        node = super().compose_node(parent, index)
        self._depth -= 1
        return node


if HAS_YAML:
    _ManifestLoader.yaml_constructors = {
        tag: make for tag, make in Loader.yaml_constructors.items() if tag in _OF_JSON
    }
    _ManifestLoader.add_constructor(f"{_YAML}float", _ManifestLoader.construct_yaml_float)
    _ManifestLoader.yaml_implicit_resolvers = {
        first: [(tag, pattern) for tag, pattern in resolvers if tag in _PLAIN]
        for first, resolvers in Loader.yaml_implicit_resolvers.items()
    }
    for _character in "=-+0123456789":
        _ManifestLoader.yaml_implicit_resolvers.setdefault(_character, []).insert(
            0, (f"{_YAML}str", _TIMES)
        )
