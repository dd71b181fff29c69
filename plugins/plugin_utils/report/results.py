# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Read values out of the result of a module, which may be damaged or of another module. Pure."""

from __future__ import annotations

import typing as t


class DamagedResult(ValueError):
    """A result is not what its module returns. The text names the option, what was seen and what to do."""


class ResultMap:
    """A map of a result, and where it is: `placement.instances[3]`."""

    __slots__ = ("_advice", "_content", "where")

    def __init__(self, content: object, where: str, advice: str) -> None:
        self._advice = advice
        self.where = where
        if not isinstance(content, dict):
            raise self.damaged(f"{where} is {_kind(content)}, not a map")
        self._content: dict[str, t.Any] = content

    def __contains__(self, key: str) -> bool:
        return key in self._content

    def has(self, key: str) -> bool:
        """Whether the key is there, with another value than null."""
        return self._content.get(key) is not None

    def text(self, key: str) -> str:
        """The text of a key. Null is empty."""
        return self._typed(key, "a text", str, type(None)) or ""

    def number(self, key: str) -> int:
        return int(self._typed(key, "a number", int))

    def number_or_none(self, key: str) -> int | None:
        return None if self._typed(key, "a number", int, type(None)) is None else self.number(key)

    def seconds(self, key: str) -> float | None:
        """A duration; None where there is none."""
        return self._typed(key, "a number", int, float, type(None)) if key in self else None

    def flag(self, key: str) -> bool:
        return bool(self._typed(key, "true or false", bool))

    def texts(self, key: str) -> tuple[str, ...]:
        value = self._typed(key, "a list of texts", list)
        if not all(isinstance(entry, str) for entry in value):
            raise self._unfit(key, "a list of texts")
        return tuple(value)

    def map(self, key: str) -> ResultMap:
        return ResultMap(self._typed(key, "a map", object), f"{self.where}.{key}", self._advice)

    def maps(self, key: str) -> list[ResultMap]:
        return [
            ResultMap(entry, f"{self.where}.{key}[{number}]", self._advice)
            for number, entry in enumerate(self._typed(key, "a list", list))
        ]

    def length(self, key: str) -> int:
        return len(self._typed(key, "a list", list))

    def damaged(self, what: str) -> DamagedResult:
        return DamagedResult(f"{what}; {self._advice}")

    def _typed(self, key: str, wanted: str, *types: type) -> t.Any:
        if key not in self:
            raise self.damaged(f"{self.where} has no {key}")
        value = self._content[key]
        if not isinstance(value, types) or (isinstance(value, bool) and int in types):
            raise self._unfit(key, wanted)
        return value

    def _unfit(self, key: str, wanted: str) -> DamagedResult:
        return self.damaged(f"{self.where}.{key} is {_kind(self._content[key])}, not {wanted}")


def _kind(value: object) -> str:
    if value is None:
        return "null"
    if isinstance(value, str):
        return f"the text {value if len(value) <= 40 else value[:37] + '...'!r}"
    kinds = {bool: "a boolean", int: "a number", float: "a number", list: "a list", dict: "a map"}
    return kinds.get(type(value), f"a {type(value).__name__}")
