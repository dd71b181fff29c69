# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Wait for a change that moves in flight may depend on, while a process still reads our output."""

from __future__ import annotations

import contextlib
import os
import select
import signal
import stat
import threading
import typing as t

from ..api.transport import Deadline


def output_is_read(descriptor: int = 1) -> bool:
    """False once the other end of standard output is closed: the task that started this process has ended.

    Poll reports an error on a pipe without a reader, without writing to it. What is
    neither pipe nor socket (a file, a terminal) always listens.
    """
    try:
        mode = os.fstat(descriptor).st_mode
    except OSError:
        return False
    if not (stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode)):
        return True
    poll = select.poll()
    poll.register(descriptor, 0)
    return not any(events & (select.POLLERR | select.POLLHUP) for _fd, events in poll.poll(0))


@contextlib.contextmanager
def until_interrupted() -> t.Iterator[t.Callable[[], bool]]:
    """Yields what is true while the output is read and the task is not interrupted. SIGINT and SIGTERM,
    which the action plugin passes on, end the step in order: it gives the Lease back."""
    interrupted = threading.Event()
    before = {}
    if threading.current_thread() is threading.main_thread():
        for number in (signal.SIGINT, signal.SIGTERM):
            before[number] = signal.signal(number, lambda _number, _frame: interrupted.set())
    try:
        yield lambda: not interrupted.is_set() and output_is_read()
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


SLOW_POLL = 5.0
"""Seconds after which a run reconciles again although nothing changed: clocks go on."""

SETTLE = 0.15
"""Seconds to wait for what comes along with a change: one look for all of it."""


def wait_for(
    changed: threading.Event,
    seconds: float,
    until: Deadline,
    listening: t.Callable[[], bool] = lambda: True,
    settle: float = SETTLE,
) -> None:
    """Until a change and `settle` seconds, at most `seconds` and never past the slow poll, nor much longer
    than the output is read."""
    left = min(seconds, SLOW_POLL, until.remaining)
    while left > 0 and listening():
        if changed.wait(min(left, 1.0)):
            until.pause(settle)
            return
        left -= 1.0
