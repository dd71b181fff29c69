# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Patterns of files and folders: names as `fnmatch` matches them, in paths as in a .gitignore file (gitignore(5))."""

from __future__ import annotations

from dataclasses import dataclass
from fnmatch import fnmatchcase


class InvalidPattern(ValueError):
    """Text that is no pattern, and why."""


_FOLDERS, _BELOW = "**", ""
"""Parts of a pattern that stand for any number of folders, and for all that is below a folder."""


@dataclass(frozen=True, slots=True)
class PathPattern:
    """A pattern that was parsed. It is matched against paths relative to the folder that is searched."""

    text: str
    folders_only: bool
    _parts: tuple[str, ...]

    @classmethod
    def parse(cls, text: str) -> PathPattern:
        """Raises InvalidPattern."""
        if not text.strip("/"):
            raise InvalidPattern("is empty: name a file or a folder")
        if text.startswith("!"):
            raise InvalidPattern("begins with !, and no pattern can include files again")
        if "\\" in text or "[^" in text:
            raise InvalidPattern(
                "has a backslash or [^: write [*], [?], [[] for the characters, [!a] for all but a"
            )
        names = text.strip("/").split("/")
        if {".", ".."}.intersection(names):
            raise InvalidPattern("has . or .. in it: a pattern is relative to the folder in files")
        if names[1:] and names[-1] == _FOLDERS:
            names[-1] = _BELOW
        anchored = "/" in text.rstrip("/")
        return cls(text, text.endswith("/"), tuple(names if anchored else [_FOLDERS, *names]))

    def matches(self, path: str, *, is_folder: bool) -> bool:
        """Whether it is a pattern of this path, whose parts are separated by slashes."""
        if self.folders_only and not is_folder:
            return False
        names = path.split("/")
        reached = {0}
        for part in self._parts:
            if part in (_FOLDERS, _BELOW):
                first = min(reached, default=len(names) + 1) + (part == _BELOW)
                reached = set(range(first, len(names) + 1))
            else:
                reached = {n + 1 for n in reached if n < len(names) and fnmatchcase(names[n], part)}
        return len(names) in reached
