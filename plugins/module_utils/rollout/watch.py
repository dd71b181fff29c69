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

from ..api.client import ApiClient
from ..api.errors import ApiError, Gone
from ..api.lists import watch
from ..api.transport import Deadline
from ..model.kinds import KUBEVIRT_V1, MIGRATIONS, VMI, instances_path


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
"""Seconds after which the cluster is read again although no watch has reported a change."""

SETTLE = 0.15
"""Seconds to wait for what comes along with a change: one look for all of it."""


class Watcher:
    """Watches lists in threads of its own until `until`. `wait` returns early on any change.

    A watch that fails is not an error: the slow poll goes on.
    """

    def __init__(self, api: ApiClient, until: Deadline) -> None:
        self._api = api
        self._until = until
        self._changed = threading.Event()
        self._watched: set[str] = set()

    def start(self, paths: t.Iterable[str]) -> None:
        """Begin to watch these lists, if they are not watched yet."""
        for path in paths:
            if path not in self._watched:
                self._watched.add(path)
                threading.Thread(target=self._follow, args=(path,), daemon=True).start()

    def forget(self) -> None:
        """Discard reported changes: the next reading contains them."""
        self._changed.clear()

    def wait(self, seconds: float, listening: t.Callable[[], bool] = lambda: True) -> None:
        """Until a change, at most `seconds` and never past the slow poll, nor much longer than
        the output is read."""
        left = min(seconds, SLOW_POLL, self._until.remaining)
        while left > 0 and listening():
            if self._changed.wait(min(left, 1.0)):
                self._until.pause(SETTLE)
                return
            left -= 1.0

    def _follow(self, path: str) -> None:
        while not self._until.expired:
            try:
                version = self._api.get(path, {"limit": "1"})["metadata"]["resourceVersion"]
                for _event in watch(self._api, path, version, until=self._until):
                    self._changed.set()
            except Gone:
                self._changed.set()
            except ApiError:
                self._until.pause(SLOW_POLL)


def paths(namespaces: t.Iterable[str], *, virtual_machines: bool) -> t.Iterator[str]:
    """The lists in which moves show: pods and instances of these namespaces, and migrations."""
    for namespace in namespaces:
        yield instances_path("Pod", namespace)
        if virtual_machines:
            yield instances_path(VMI, namespace)
    if virtual_machines:
        yield f"/apis/{KUBEVIRT_V1}/{MIGRATIONS}"
