# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Patterns of files and folders, as in a .gitignore file, without negation (gitignore(5))."""

from __future__ import annotations

import re
from dataclasses import dataclass


class InvalidPattern(ValueError):
    """Text that is no pattern, and why."""


@dataclass(frozen=True, slots=True)
class PathPattern:
    """A pattern that was parsed. It is matched against paths relative to the folder that is searched."""

    text: str
    folders_only: bool
    _expression: re.Pattern[str]

    @classmethod
    def parse(cls, text: str) -> PathPattern:
        """Raises InvalidPattern."""
        if not text.strip("/"):
            raise InvalidPattern("is empty: name a file or a folder")
        if text.startswith("!"):
            raise InvalidPattern("begins with !, and no pattern can include files again")
        if {".", ".."} & set(text.split("/")):
            raise InvalidPattern("has . or .. in it: a pattern is relative to the folder in files")
        anchored = "/" in text.rstrip("/")
        expression = _translated(text.strip("/"))
        if not anchored:
            expression = f"(?:.*/)?{expression}"
        return cls(text, text.endswith("/"), re.compile(expression, re.DOTALL))

    def matches(self, path: str, *, is_folder: bool) -> bool:
        """Whether it is a pattern of this path, whose parts are separated by slashes."""
        if self.folders_only and not is_folder:
            return False
        return self._expression.fullmatch(path) is not None


_TOKEN = re.compile(r"\*\*/|/\*\*$|\*+|\?|\[[!^]?\]?[^]/]*\]|\\.|[\[\\]|[^*?\[\\/]+|/")


def _translated(text: str) -> str:
    """The pattern as a regular expression. Raises InvalidPattern."""
    parts = []
    for token in _TOKEN.findall(text):
        if token == "**/":
            parts.append("(?:.*/)?")
        elif token == "/**":
            parts.append("/.+")
        elif token[0] == "*":
            parts.append("[^/]*")
        elif token == "?":
            parts.append("[^/]")
        elif token[0] == "[" and len(token) > 1:
            parts.append(_set(token))
        elif token == "[":
            raise InvalidPattern("has a [ without its ]")
        elif token == "\\":
            raise InvalidPattern("ends with a backslash")
        else:
            parts.append(re.escape(token[1:] if token[0] == "\\" else token))
    return "".join(parts)


def _set(token: str) -> str:
    inner = token[1:-1]
    negated = inner[:1] in ("!", "^")
    escaped = re.sub(r"([\\\[\]&~|^])", r"\\\1", inner[negated:])
    expression = f"(?!/)[{'^' * negated}{escaped}]"
    try:
        re.compile(expression)
    except re.error as error:
        raise InvalidPattern(f"has a range that is not valid: {token}") from error
    return expression
