# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""JSON Pointer (RFC 6901) and reading along one."""

from __future__ import annotations

import typing as t
from dataclasses import dataclass

JSON = t.Any
"""A value as json.loads makes it. Treated as immutable everywhere."""

Object = t.Mapping[str, JSON]
"""A map of JSON, such as an object of the API."""

MISSING: t.Final = object()
"""A default for `Pointer.read` that tells a missing value from null."""


@dataclass(frozen=True)
class Pointer:
    """A path into a JSON value, as its unescaped parts."""

    parts: tuple[str, ...] = ()

    def __truediv__(self, part: str | int) -> Pointer:
        return Pointer((*self.parts, str(part)))

    def __str__(self) -> str:
        return "".join("/" + p.replace("~", "~0").replace("/", "~1") for p in self.parts)

    def read(self, value: JSON, default: JSON = MISSING) -> JSON:
        """The value at this path, or `default` where a part is missing."""
        for part in self.parts:
            if isinstance(value, dict) and part in value:
                value = value[part]
            elif isinstance(value, list) and part.isdigit() and int(part) < len(value):
                value = value[int(part)]
            else:
                return default
        return value


ANNOTATIONS: t.Final = Pointer(("metadata", "annotations"))
UPDATE_STRATEGY: t.Final = Pointer(("spec", "updateStrategy"))
LABELS: t.Final = Pointer(("metadata", "labels"))
