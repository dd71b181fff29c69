# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The line that a waiting run prints each minute: what it waits for, and since when. Pure."""

from __future__ import annotations

import time
import typing as t

from ..api.errors import ApiError
from ..api.progress_pipe import REMIND_AFTER, no_answer
from . import report
from .move import MoveRecord
from .state import RunState, StepReport


def time_of_day(seconds_ago: float) -> str:
    """As in the lines about an API server that is away."""
    return time.strftime("%H:%M:%S %Z", time.localtime(time.time() - seconds_ago))


class Reminder:
    """Of one step. When the last line was printed is known from step to step."""

    def __init__(self, state: RunState, lines: StepReport) -> None:
        self._state, self._report = state, lines
        self._printed = 0

    def remind(
        self, elapsed: float, clock: float, records: t.Sequence[MoveRecord], waiting: str
    ) -> None:
        """Add the line if it is due. `elapsed` are the seconds of the task, `clock` is that of the run, by which the
        moves in flight began. `waiting` is why the next move has not begun."""
        lines, state = self._report.lines, self._state
        if len(lines) == self._printed and elapsed - state.printed_at < REMIND_AFTER:
            return
        if len(lines) == self._printed:
            moves = [
                (time_of_day(clock - record.begun), record)
                for record in sorted(records, key=lambda record: record.begun)
            ]
            since = time_of_day(elapsed - state.waiting_since)
            if line := report.still_waiting(moves, waiting, since):
                lines.append(line)
        self._printed, state.printed_at = len(lines), elapsed

    def remind_of_outage(self, elapsed: float, error: ApiError, *, begins: bool) -> None:
        """The same while the API server is away: each step of the run ends without an answer. Its beginning is printed
        in another line (`begins`)."""
        state = self._state
        if not begins and elapsed - state.printed_at < REMIND_AFTER:
            return
        if not begins:
            since = time_of_day(elapsed - state.failing_since)
            self._report.lines.append(f"still {no_answer(since, error)}")
        state.printed_at = elapsed
