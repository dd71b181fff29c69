# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Ping, floor, ours and our second run in turns, so that all meet the same machine.

What counts is the median: of the quickest, what takes long would come off worst, since it seldom
finds a quiet moment as long as itself. Ratios are those of each turn.
"""

from __future__ import annotations

import pathlib
import statistics
import typing as t

from . import playbooks


class Turn(t.NamedTuple):
    """Seconds of each, and the memory of ours at its peak."""

    ping: float
    floor: float
    ours: float
    again: float
    peak_rss_mb: float


def take(
    task: t.Sequence[t.Mapping[str, t.Any]],
    kubeconfig: pathlib.Path,
    *,
    bare: t.Callable[[], float],
    look: t.Callable[[], t.Any],
    restore: t.Callable[[], None],
) -> Turn:
    """One turn, which ends with what is there as it was. `bare` makes the patches of the floor and
    says how long they took. Raises RuntimeError where `look` finds something else after ours than
    after them, or where the second run changes something."""
    ping = playbooks.run(playbooks.PING).seconds
    floor = bare()
    wanted = look()
    restore()
    ours = playbooks.run(task, kubeconfig)
    if look() != wanted:
        raise RuntimeError("ours did not write what the bare patches write")
    again = playbooks.run(task, kubeconfig)
    if again.changed:
        raise RuntimeError("the second run changed something")
    restore()
    return Turn(ping, floor, ours.seconds, again.seconds, ours.peak_rss_mb)


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
