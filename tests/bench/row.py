# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""One line of the bench: our figure, the peers' and the floor, and the ratios that we hold."""

from __future__ import annotations

import typing as t
from dataclasses import dataclass, field


@dataclass(frozen=True)
class Promise:
    """`ratio` of what was measured against `limit`: at least, or at most."""

    text: str
    ratio: float
    limit: float
    at_least: bool = False

    @property
    def kept(self) -> bool:
        return self.ratio >= self.limit if self.at_least else self.ratio <= self.limit

    def __str__(self) -> str:
        sign = ">=" if self.at_least else "<="
        verdict = "kept" if self.kept else "BROKEN"
        return f"{verdict}: {self.text}: {self.ratio:.2f} ({sign} {self.limit:g})"


@dataclass(frozen=True)
class Row:
    """`ours`, `peers` and `floor` are in `unit`, measured in the same run."""

    name: str
    unit: str
    ours: float
    peers: t.Mapping[str, float] = field(default_factory=dict)
    floor: float | None = None
    peak_rss_mb: float | None = None
    promises: tuple[Promise, ...] = ()
    also: t.Mapping[str, float] = field(default_factory=dict)
    """Other figures of ours, by what they are."""

    def as_json(self) -> dict[str, t.Any]:
        return {
            "name": self.name,
            "unit": self.unit,
            "ours": round(self.ours, 3),
            "peers": {name: round(value, 3) for name, value in self.peers.items()},
            "floor": None if self.floor is None else round(self.floor, 3),
            "peak_rss_mb": None if self.peak_rss_mb is None else round(self.peak_rss_mb, 1),
            "also": {name: round(value, 3) for name, value in self.also.items()},
            "promises": [str(promise) for promise in self.promises],
        }

    def lines(self) -> list[str]:
        """The row for people, each promise on a line of its own below it."""
        floor = "" if self.floor is None else f"{self.floor:.2f}"
        peers = ", ".join(f"{name} {value:.2f}" for name, value in self.peers.items())
        lines = [f"{self.name:44}  {self.ours:>7.2f} {self.unit}  {floor:>9}  {peers}"]
        if self.also:
            figures = ", ".join(f"{value:.2f} {name}" for name, value in self.also.items())
            lines.append(f"    also: {figures}")
        return [*lines, *(f"    {promise}" for promise in self.promises)]


@dataclass(frozen=True)
class LeftOut:
    """A row that was not measured, and why."""

    name: str
    reason: str
    promises: tuple[Promise, ...] = ()

    def as_json(self) -> dict[str, t.Any]:
        return {"name": self.name, "left_out": self.reason}

    def lines(self) -> list[str]:
        return [f"{self.name:44}  left out: {self.reason}"]


def table(rows: t.Sequence[Row | LeftOut]) -> str:
    """Rows for people."""
    title = f"{'':44}  {'ours':>9}  {'floor':>9}  peers"
    return "\n".join([title, *(line for row in rows for line in row.lines())])
