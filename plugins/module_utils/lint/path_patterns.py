# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Patterns of files and folders, as in a .gitignore file, without negation (gitignore(5)).

A match takes no more steps than characters of the pattern times characters of the path: a regular expression of several
stars takes exponentially many.
"""

from __future__ import annotations

import re
import typing as t
from dataclasses import dataclass


class InvalidPattern(ValueError):
    """Text that is no pattern, and why."""


_Token: t.TypeAlias = "str | re.Pattern[str]"
"""A character, `*` for any number of them, or a set of characters as an expression."""

_STAR = "*"
_SOME, _MORE = (), (_STAR, "/")
"""Parts of a pattern that stand for folders: any number of them, and at least one file or folder below."""


@dataclass(frozen=True, slots=True)
class PathPattern:
    """A pattern that was parsed. It is matched against paths relative to the folder that is searched."""

    text: str
    folders_only: bool
    _parts: tuple[tuple[_Token, ...], ...]

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
        names = text.strip("/").split("/")
        parts = [_part(name, len(names), number) for number, name in enumerate(names)]
        return cls(text, text.endswith("/"), tuple(parts if anchored else [_SOME, *parts]))

    def matches(self, path: str, *, is_folder: bool) -> bool:
        """Whether it is a pattern of this path, whose parts are separated by slashes."""
        if self.folders_only and not is_folder:
            return False
        names = path.split("/")
        reached = {0}
        for part in self._parts:
            if part in (_SOME, _MORE):
                first = min(reached, default=len(names) + 1) + (part == _MORE)
                reached = set(range(first, len(names) + 1))
            else:
                reached = {n + 1 for n in reached if n < len(names) and _matches(part, names[n])}
        return len(names) in reached


def _part(name: str, count: int, number: int) -> tuple[_Token, ...]:
    """Raises InvalidPattern."""
    if name == "**" and count > 1:
        return _MORE if number == count - 1 else _SOME
    return tuple(_tokens(name)) or ("",)


_TOKEN = re.compile(r"\*+|\[[!^]?\]?[^]]*\]|\\.|.", re.DOTALL)
_ANY = re.compile(".", re.DOTALL)


def _tokens(name: str) -> t.Iterator[_Token]:
    """The tokens of a part between slashes. Raises InvalidPattern."""
    for text in _TOKEN.findall(name):
        if text[0] == _STAR:
            yield _STAR
        elif text == "?":
            yield _ANY
        elif text == "[":
            raise InvalidPattern("has a [ without its ]")
        elif text == "\\":
            raise InvalidPattern("ends with a backslash")
        elif text[0] == "[":
            yield _set(text)
        else:
            yield re.compile(r"\*") if text == "\\*" else text[-1]


def _set(token: str) -> re.Pattern[str]:
    inner = token[1:-1]
    negated = inner[:1] in ("!", "^")
    escaped = re.sub(r"([\\\[\]&~|^])", r"\\\1", inner[negated:])
    try:
        return re.compile(f"[{'^' * negated}{escaped}]")
    except re.error as error:
        raise InvalidPattern(f"has a range that is not valid: {token}") from error


def _matches(tokens: t.Sequence[_Token], name: str) -> bool:
    """Whether the tokens are the whole name. Where they are not, the last star takes one character more."""
    at = token = 0
    star, taken = -1, 0
    while at < len(name):
        if token < len(tokens) and tokens[token] == _STAR:
            star, taken = token, at
            token += 1
        elif token < len(tokens) and _is(tokens[token], name[at]):
            at, token = at + 1, token + 1
        elif star >= 0:
            taken += 1
            at, token = taken, star + 1
        else:
            return False
    return all(x == _STAR for x in tokens[token:])


def _is(token: _Token, character: str) -> bool:
    return token == character if isinstance(token, str) else token.match(character) is not None
