# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Text of people to data: YAML, and JSON with it."""

from __future__ import annotations

import typing as t

from ansible.module_utils.common.yaml import HAS_YAML, yaml_load, yaml_load_all

from ..model.pointer import JSON


class NoYaml(ValueError):
    """The text cannot be read. `line` counts from 1; it is None where the parser names no place."""

    def __init__(self, problem: str, line: int | None = None, column: int | None = None) -> None:
        place = "" if line is None else f"line {line}, column {column}: "
        super().__init__(f"{place}{problem}")
        self.line = line


def load_yaml(text: t.Any) -> JSON:
    """The one document in `text`, which may also be an open file. Raises NoYaml."""
    load: t.Callable[[t.Any], JSON] = yaml_load
    return _loaded(load, text)


def load_all_yaml(text: str) -> list[JSON]:
    """The documents in `text`, empty ones left out. Raises NoYaml."""
    load: t.Callable[[str], t.Iterable[JSON]] = yaml_load_all
    return _loaded(lambda text: [each for each in load(text) if each is not None], text)


_Loaded = t.TypeVar("_Loaded")


def _loaded(load: t.Callable[[t.Any], _Loaded], text: t.Any) -> _Loaded:
    if not HAS_YAML:
        raise NoYaml("PyYAML is missing that would read it")
    try:
        return load(text)
    except (OSError, UnicodeDecodeError):
        raise
    except Exception as error:  # the parser's own classes are not part of ansible-core's interface
        mark = getattr(error, "problem_mark", None)
        if mark is None:
            raise NoYaml(str(error).splitlines()[0]) from error
        said = (getattr(error, name, None) for name in ("context", "problem"))
        raise NoYaml(", ".join(filter(None, said)), mark.line + 1, mark.column + 1) from error
