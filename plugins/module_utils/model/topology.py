# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The topology vocabulary: the names that people use for the label keys of nodes."""

from __future__ import annotations

import typing as t
from dataclasses import dataclass

from .findings import near_names
from .rendering import plural

ZONE = "topology.kubernetes.io/zone"
REGION = "topology.kubernetes.io/region"
HOSTNAME = "kubernetes.io/hostname"

DEFAULT_KEYS: t.Mapping[str, str] = {
    "region": REGION,
    "zone": ZONE,
    "node": HOSTNAME,
    "performance": "performance",
}

SYNONYMS: t.Mapping[str, str] = {
    "host": "node",
    "hostname": "node",
    "az": "zone",
    "availability_zone": "zone",
}
"""Words of other platforms for the names, to be hinted at."""

DEPRECATED: t.Mapping[str, str] = {
    "failure-domain.beta.kubernetes.io/zone": ZONE,
    "failure-domain.beta.kubernetes.io/region": REGION,
}
"""Labels that Kubernetes has replaced (since 1.17), with what replaces them."""


class UndeclaredKey(ValueError):
    """A key without a prefix that is not declared. `nearest`: similar declared names."""

    def __init__(self, key: str, nearest: tuple[str, ...]) -> None:
        hint = f"; did you mean {' or '.join(nearest)}?" if nearest else ""
        super().__init__(
            f"topology key '{key}' is not declared: add it to topology_keys or write the full"
            f" label key with its prefix{hint}"
        )


@dataclass(frozen=True)
class Topology:
    """Names to label keys, the defaults merged with what the user declared."""

    keys: t.Mapping[str, str]

    @classmethod
    def of(cls, declared: t.Mapping[str, str] | None = None) -> Topology:
        return cls({**DEFAULT_KEYS, **(declared or {})})

    def resolve(self, name: str) -> str:
        """The label key for `name`. A key with a slash is taken as it is.

        Raises UndeclaredKey for a bare key that is not declared.
        """
        if name in self.keys:
            return self.keys[name]
        if "/" in name:
            return name
        meant = [SYNONYMS[name]] if name in SYNONYMS else near_names(name, self.keys)
        raise UndeclaredKey(name, tuple(meant))

    def name_of(self, key: str) -> str:
        """The short name of a label key, or the key itself: for messages and tables."""
        return next((name for name, full in self.keys.items() if full == key), key)

    def counted(self, key: str, count: int) -> str:
        """`3 zones`, `1 node`, `2 values of example.com/rack`: for messages."""
        name = self.name_of(key)
        if name in ("region", "zone", "node"):
            return plural(count, name)
        return f"{plural(count, 'value')} of {name}"
