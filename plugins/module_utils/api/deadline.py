# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""How much time is left, on the monotonic clock."""

from __future__ import annotations

import math
import time
import typing as t


class Deadline:
    """A point in time that every call under it is bounded by. Safe to share between threads.

    `clock` gives seconds and `sleep` waits: tests put their own in.
    """

    def __init__(
        self,
        seconds: float = math.inf,
        *,
        clock: t.Callable[[], float] = time.monotonic,
        sleep: t.Callable[[float], None] = time.sleep,
    ) -> None:
        self.seconds = seconds
        self._clock = clock
        self._sleep = sleep
        self._end = clock() + seconds

    @property
    def remaining(self) -> float:
        """Seconds left, never below zero."""
        return max(0.0, self._end - self._clock())

    @property
    def expired(self) -> bool:
        return self._clock() >= self._end

    def now(self) -> float:
        """The clock that this deadline goes by, for durations."""
        return self._clock()

    def within(self, seconds: float) -> Deadline:
        """A deadline in `seconds` from now, or this one where it comes first."""
        return Deadline(min(seconds, self.remaining), clock=self._clock, sleep=self._sleep)

    def pause(self, seconds: float) -> None:
        """Sleeps for `seconds`, but not past the end."""
        self._sleep(min(seconds, self.remaining))
