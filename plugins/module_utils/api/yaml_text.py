# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""YAML text from options, surveys and files to data; JSON is YAML."""

from __future__ import annotations

import typing as t

from ansible.module_utils.common.yaml import HAS_YAML, yaml_load, yaml_load_all

from ..model.json_pointer import JSON


class NoYaml(ValueError):
    """Text that is no YAML, and why. `line` counts from 1; None where the parser names no place."""

    def __init__(self, problem: str, line: int | None = None) -> None:
        super().__init__(problem)
        self.line = line


class NoReader(Exception):
    """There is nothing that could read YAML."""

    def __init__(self) -> None:
        super().__init__("PyYAML is missing that would read it")


def load_yaml(text: str | t.TextIO) -> JSON:
    """The one document in `text`. Raises NoYaml, NoReader, and what reading an open file raises."""
    load: t.Callable[[t.Any], JSON] = yaml_load
    return _loaded(load, text)


def load_all_yaml(text: str) -> list[JSON]:
    """The documents in `text`, empty ones left out. Raises NoYaml and NoReader."""
    load: t.Callable[[t.Any], t.Iterable[JSON]] = yaml_load_all
    return _loaded(lambda text: [document for document in load(text) if document is not None], text)


_Loaded = t.TypeVar("_Loaded")


def _loaded(load: t.Callable[[t.Any], _Loaded], text: t.Any) -> _Loaded:
    if not HAS_YAML:
        raise NoReader()
    try:
        return load(text)
    except (OSError, UnicodeDecodeError):
        raise
    except Exception as error:  # the parser's own classes are not part of ansible-core's interface
        raise _syntax_error(error) from error


def _syntax_error(error: Exception) -> NoYaml:
    """Where it is broken and why, and where that began if that is on another line."""
    mark = getattr(error, "problem_mark", None)
    if mark is None:
        return NoYaml(next(iter(str(error).splitlines()), type(error).__name__))
    context, began = getattr(error, "context", None), getattr(error, "context_mark", None)
    if context and began is not None and began.line != mark.line:
        context = f"{context} from line {began.line + 1}"
    problem = ", ".join(filter(None, (context, getattr(error, "problem", None))))
    return NoYaml(f"line {mark.line + 1}, column {mark.column + 1}: {problem}", mark.line + 1)
