# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Ping, floor, ours and our second run in turns, so that all meet the same machine.

What counts is the median: of the quickest, what takes long would come off worst, since it seldom
finds a quiet moment as long as itself. Ratios are those of each turn.
"""

from __future__ import annotations

import statistics
import typing as t


class Turn(t.NamedTuple):
    """Seconds of each, and the memory of ours at its peak."""

    ping: float
    floor: float
    ours: float
    again: float
    peak_rss_mb: float


def usual(turns: t.Sequence[Turn]) -> Turn:
    """The medians, and the highest peak."""
    medians = Turn(*map(statistics.median, zip(*turns, strict=True)))
    return medians._replace(peak_rss_mb=max(turn.peak_rss_mb for turn in turns))


def beside_floor(turns: t.Sequence[Turn]) -> float:
    """How many times as long as the floor with the start-up of a playbook ours takes."""
    return statistics.median(turn.ours / (turn.floor + turn.ping) for turn in turns)


def beside_ping(turns: t.Sequence[Turn]) -> float:
    """How many times as long as a playbook with one ping our second run takes."""
    return statistics.median(turn.again / turn.ping for turn in turns)
