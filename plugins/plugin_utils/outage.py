# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""An API server that is away when a task of a role begins: a job that has begun something waits for it.

A run that holds the Lease waits by itself (`moves/step`). A module that has done nothing yet ends soon, since its
address is probably wrong, and names the outage in its result: then it is run again.
"""

from __future__ import annotations

import contextlib
import os
import time
import typing as t
from dataclasses import dataclass

from ansible_collections.virt.placement.plugins.module_utils.api.progress_pipe import (
    AWAY,
    AWAY_SINCE,
    REMIND_AFTER,
    answers_again,
    no_answer,
)

Result = dict[str, t.Any]

PAUSE = 1.0


@dataclass(frozen=True)
class Waiting:
    """`is_due`: whether a module that found no server is run again. `patience` are seconds. `shows` prints a line,
    `piped` says whether those of the module were read while it ran. `pause` waits, and returns whether to end."""

    is_due: t.Callable[[], bool]
    patience: float
    show: t.Callable[[str], None]
    piped: bool
    pause: t.Callable[[float], bool]
    clock: t.Callable[[], float] = time.monotonic

    def result_of(self, run: t.Callable[[], Result]) -> Result:
        """What `run` returns at last."""
        began, since = self.clock(), ""
        shown_at = began
        while True:
            with _known_since(since):
                ran = run()
            away = ran.pop(AWAY, None)
            if away is None:
                if since and not self.piped:
                    self.show(answers_again(since))
                return ran
            if not self.is_due():
                return ran
            error = str(ran.get("msg", ""))
            shown = self.piped and away["noted"]
            if not since and (away["since"] or not shown):
                since = away["since"] or time.strftime("%H:%M:%S %Z")
                shown_at = self.clock()
                if not shown:
                    self.show(no_answer(since, error))
            elif since and self.clock() - shown_at >= REMIND_AFTER:
                shown_at = self.clock()
                self.show(f"still {no_answer(since, error)}")
            if (waited := self.clock() - began) >= self.patience:
                again = "when it answers, launch the same job again: it continues"
                ran["msg"] = f"no answer for {waited:.0f} s: {error}; {again}"
                return ran
            if self.pause(PAUSE):
                return ran


@contextlib.contextmanager
def _known_since(since: str) -> t.Iterator[None]:
    """The module that runs inside knows since when the server is away, where that was reported."""
    if since:
        os.environ[AWAY_SINCE] = since
    try:
        yield
    finally:
        os.environ.pop(AWAY_SINCE, None)
