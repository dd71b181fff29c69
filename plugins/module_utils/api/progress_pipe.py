# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""A named pipe on which the action plugin reads lines while the module runs."""

from __future__ import annotations

import contextlib
import json
import os
import select
import stat
import typing as t

PROGRESS = "VIRT_PLACEMENT_PROGRESS"
"""Environment variable with the path of the pipe, for a module that is not run in steps."""

AWAY_SINCE = "VIRT_PLACEMENT_AWAY_SINCE"
"""Environment variable with the time of day since which the API server is away, where that was reported."""

PATIENCE = 300.0
"""Seconds for which what has begun waits for an API server that is away: a run, or a job between two tasks."""

REMIND_AFTER = 60.0
"""Seconds after which an outage, and what a run waits for, is named again."""

AWAY = "_away"
"""In the result of a module that found no API server, and has done nothing: `since` when, empty where it is not noted
or the server answers again, and whether the outage was `noted`."""


def no_answer(since: str, error: object) -> str:
    """The line about an API server that is away `since` this time of day."""
    return f"no answer from the API server since {since}: {error}; trying again"


def answers_again(since: str) -> str:
    """The line about its end."""
    return f"the API server, which was away since {since}, answers again"


class ProgressPipe:
    """Closed where there is no pipe, since the module runs on another host or as another user."""

    def __init__(self, path: str) -> None:
        self._descriptor = -1
        with contextlib.suppress(OSError):
            if path and stat.S_ISFIFO(os.stat(path).st_mode):
                self._descriptor = os.open(path, os.O_WRONLY | os.O_NONBLOCK)

    @property
    def open(self) -> bool:
        return self._descriptor >= 0

    def note(self, line: str, secrets: t.Iterable[str] = ()) -> None:
        """Write a line at once. Nothing where it cannot be written, or has a secret: Ansible filters results alone."""
        sent = f"{json.dumps(line)}\n".encode()
        if self.open and len(sent) <= select.PIPE_BUF and not any(x in line for x in secrets):
            with contextlib.suppress(OSError):
                os.write(self._descriptor, sent)
