# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""YAML text from options, surveys and files to data; JSON is YAML."""

from __future__ import annotations

import re
import typing as t

from ansible.module_utils.common.yaml import HAS_YAML, SafeLoader, yaml_load

from ..model.json_pointer import JSON
from ..model.json_text import HALF_A_CHARACTER, is_text


class InvalidYaml(ValueError):
    """Text that is no YAML, and why. `line` counts from 1; None where the parser names no place."""

    def __init__(self, problem: str, line: int | None = None) -> None:
        super().__init__(problem)
        self.line = line


class PyYamlMissing(Exception):
    """There is nothing that could read YAML."""

    def __init__(self) -> None:
        super().__init__("PyYAML is missing that would read it")


MOST_VALUES = 2_000_000
"""Values of one text, counted as often as aliases repeat them: the manifests of some 20,000 VMs."""

TOO_MANY = f"it holds more than {MOST_VALUES:,} values, with its aliases written out: split it, and"

_MOST_BITS = 64
"""Of an integer; those of Kubernetes have as many."""

_LONGEST_INTEGER = 100
"""Characters. Reading integers of base 60 (`1:30`) takes quadratic time."""


class Loader(SafeLoader):  # type: ignore[misc]
    """The loader of ansible-core. Merge keys (`<<`) copy the entries of maps while they are read. Large
    integers can have one hash: as keys they take quadratic time."""

    first_line = 1
    """The line of the file at which the text begins."""

    _merged = 0

    def error(self, node: t.Any, problem: str) -> InvalidYaml:
        line = node.start_mark.line + self.first_line
        return InvalidYaml(f"line {line}: {problem}", line)

    def construct_yaml_int(self, node: t.Any) -> int:
        if len(node.value) <= _LONGEST_INTEGER:
            value: int = super().construct_yaml_int(node)
            if value.bit_length() <= _MOST_BITS:
                return value
        raise self.error(node, f"an integer of more than {_MOST_BITS} bits: quote it if it is text")

    def flatten_mapping(self, node: t.Any) -> None:
        super().flatten_mapping(node)
        self._merged += len(node.value)
        if self._merged > MOST_VALUES:
            raise InvalidYaml(f"{TOO_MANY} look for merge keys (<<) that merge one another")


if HAS_YAML:
    Loader.add_constructor("tag:yaml.org,2002:int", Loader.construct_yaml_int)


def load_yaml(text: str | t.TextIO) -> JSON:
    """The one document in `text`. Raises InvalidYaml, PyYamlMissing, and what reading an open file raises."""
    return loaded(lambda text: yaml_load(text, Loader=Loader), text)


_Loaded = t.TypeVar("_Loaded")


def loaded(load: t.Callable[[t.Any], _Loaded], text: t.Any, first_line: int = 1) -> _Loaded:
    """What `load` makes of the text, whose first line is `first_line` of its file. Raises as `load_yaml`."""
    if not HAS_YAML:
        raise PyYamlMissing()
    try:
        text = text if isinstance(text, str) else text.read()
        _refuse_depth(text)
        value = load(text)
        refuse_endless(value)
        refuse_half_characters(value, text)
        return value
    except (InvalidYaml, OSError, UnicodeDecodeError):
        raise
    except Exception as error:  # the parser's own classes are not part of ansible-core's interface
        raise syntax_error(error, first_line) from error


MOST_DEPTH = 200
"""Lists and maps inside each other. Manifests have some 60; at 1,000 Python's recursion ends."""

_MOST_OPEN = 2_000
"""Brackets without an end, those in texts too. libyaml's composer recurses: at some 30,000 the process
ends."""

TOO_DEEP = f"lists and maps stand more than {MOST_DEPTH} deep in each other"

_ENTRIES = re.compile(r"(?:[-?:][ \t]+)+")
"""Entries inside each other on one line."""


def _refuse_depth(text: str) -> None:
    """Raises InvalidYaml for text that would end the parser's recursion."""
    depth = deepest = 0
    for bracket in re.sub(r"[^][{}]+", "", text):
        depth = depth + 1 if bracket in "[{" else max(0, depth - 1)
        deepest = max(deepest, depth)
    for entries in _ENTRIES.finditer(text):
        deepest = max(deepest, sum(map(entries[0].count, "-?:")))
    if deepest > _MOST_OPEN:
        raise InvalidYaml(TOO_DEEP)


def refuse_endless(value: JSON) -> None:
    """Raises InvalidYaml for values that are too deep or too many: aliases make few lines many values, or a
    value a part of itself."""
    level, count = [value], 0
    for _depth in range(MOST_DEPTH + 1):
        level = [outer for outer in level if isinstance(outer, (dict, list))]
        if not level:
            return
        count += sum(map(len, level))
        if count > MOST_VALUES:
            raise InvalidYaml(f"{TOO_MANY} look for an alias inside of its own anchor")
        level = [
            inner
            for outer in level
            for inner in (outer.values() if isinstance(outer, dict) else outer)
        ]
    raise InvalidYaml(f"{TOO_DEEP}: look for an alias inside of its own anchor")


def refuse_half_characters(value: JSON, text: str) -> None:
    """Raises InvalidYaml for half of a UTF-16 pair, which only an escape in the text can be, and which no server and no
    terminal takes."""
    if ("\\u" in text or "\\U" in text) and not is_text(value):
        raise InvalidYaml(f"it {HALF_A_CHARACTER}")


def syntax_error(error: Exception, first_line: int = 1) -> InvalidYaml:
    """Where it is broken and why, and where that began if that is on another line. `first_line` is the line
    of the file at which the text begins."""
    mark = getattr(error, "problem_mark", None)
    if mark is None:
        return InvalidYaml(next(iter(str(error).splitlines()), type(error).__name__))
    context, began = getattr(error, "context", None), getattr(error, "context_mark", None)
    if context and began is not None and began.line != mark.line:
        context = f"{context} from line {began.line + first_line}"
    problem = ", ".join(filter(None, (context, getattr(error, "problem", None))))
    line = mark.line + first_line
    return InvalidYaml(f"line {line}, column {mark.column + 1}: {problem}", line)
