# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which share of the test files this machine has time for: all, unless its processors are much slower than usual.

A shared host may give a tenth of a processor. All suites would take half a day there, and say nothing before.
"""

from __future__ import annotations

import argparse
import time
from concurrent.futures import ProcessPoolExecutor

PROCESSORS = 2
"""What the suites keep busy."""

USUAL_LOOPS = 20.0
"""Loops in a second of one processor of the machines on which the seconds below were measured."""

SECONDS_OF_LOOPS = 20.0
"""How long the loops are counted: a processor that was idle is fast for some seconds, on a host that limits it."""

SPEED_FOR_ALL = 0.85
"""The speed from which on all files run."""

SECONDS_OF_A_SHARE = 1500
"""Time in which a share of the files should run on a slower machine. It was 2.5 times as long where it was measured:
suites wait for each other, and the speed of such a machine falls with its load."""

PROCESSOR_SECONDS = 5000
"""Processor time of all test files, at the usual speed."""

FIXED_SECONDS = 300
"""Processor time that no share makes shorter: linters, starts of control planes, collection of tests."""

SMALLEST = 0.01
"""A share that is one file of most suites."""


def share_for(speed: float) -> float:
    """The share of test files for processors of this speed, of which 1.0 is the usual one."""
    if speed >= SPEED_FOR_ALL:
        return 1.0
    seconds = SECONDS_OF_A_SHARE * PROCESSORS * speed - FIXED_SECONDS
    return round(max(seconds / PROCESSOR_SECONDS, SMALLEST), 3)


def share_of(text: str) -> float:
    """The share that an option names: more than 0, at most 1."""
    try:
        share = float(text)
    except ValueError:
        share = 0.0
    if not 0 < share <= 1:
        raise argparse.ArgumentTypeError(f"{text!r} is no share: 0.1 is a tenth, 1 is all")
    return share


def measure_speed() -> float:
    """The speed of a processor while PROCESSORS of them compute: 1.0 is the usual one."""
    with ProcessPoolExecutor(PROCESSORS) as pool:
        loops = sum(pool.map(_count_loops, [SECONDS_OF_LOOPS] * PROCESSORS))
    return loops / SECONDS_OF_LOOPS / PROCESSORS / USUAL_LOOPS


def _count_loops(seconds: float) -> int:
    end = time.monotonic() + seconds
    loops = 0
    while time.monotonic() < end:
        value = 0
        for number in range(500_000):
            value ^= number * number
        loops += 1
    return loops
