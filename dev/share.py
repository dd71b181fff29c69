# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which share of the test files this machine has time for: all, unless its processors are much slower than usual.

A shared host may give a tenth of a processor. All suites would take half a day there, and say nothing before.
"""

from __future__ import annotations

import os
import time
from concurrent.futures import ProcessPoolExecutor

from tests.file_share import SHARE

PROCESSORS = 2
"""What the suites keep busy."""

USUAL_LOOPS = 20.0
"""Loops in a second of one processor of the machines that the costs below were measured on."""

SECONDS = 5.0
"""How long the loops are counted: a shared processor's speed changes from second to second."""

ENOUGH = 0.85
"""The speed from which on all files run."""

TIME = 3000
"""Seconds that a share of the files may take on a slower machine, whose speed may halve meanwhile."""

ALL = 6000
"""Processor time of all suites, in seconds of a usual processor."""

FIXED = 300
"""The part of it that no share makes shorter: linters, the starts of control planes, the collection of tests."""

LEAST = 0.01
"""At least one file of a suite runs, whatever its share."""


def share() -> float:
    """The share of test files, 1.0 for all: what PLACEMENT_SHARE says, or what this machine's speed allows."""
    asked = os.environ.get(SHARE)
    return float(asked) if asked else share_at(speed())


def share_at(speed: float) -> float:
    """The share of test files that fits TIME where processors have this speed, 1.0 being the usual one."""
    if speed >= ENOUGH:
        return 1.0
    return max((TIME * PROCESSORS * speed - FIXED) / (ALL - FIXED), LEAST)


def speed() -> float:
    """The speed of a processor while PROCESSORS of them compute: 1.0 is the usual one."""
    with ProcessPoolExecutor(PROCESSORS) as pool:
        loops = sum(pool.map(_loops, [SECONDS] * PROCESSORS))
    return loops / SECONDS / PROCESSORS / USUAL_LOOPS


def _loops(seconds: float) -> int:
    end = time.monotonic() + seconds
    loops = 0
    while time.monotonic() < end:
        value = 0
        for number in range(500_000):
            value ^= number * number
        loops += 1
    return loops
