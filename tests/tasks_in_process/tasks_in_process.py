# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Runs the workers of ansible-playbook in its own process, one after the other. A fork for each task copies the
process, and each fork imports the plugins anew: together half of the time of a play.

A task keeps nothing in Ansible's objects that it would not keep as a fork: the host, the task and the variables of a
worker are copies. What a plugin keeps in a module is there for the next task, other than in a fork: plays of
`ansible-playbook` as it is, which tests/unit and tests/jobs have as well, show that none counts on it."""

from __future__ import annotations

import copy
import os
import signal
import sys
import typing as t

from ansible.executor.process.worker import WorkerProcess
from ansible.plugins.callback import CallbackBase
from ansible.utils.display import Display

SIGNALS = (signal.SIGINT, signal.SIGTERM)


class _Stream:
    """A standard stream on which a worker looks for what a plugin printed without Ansible's display."""

    def __init__(self, stream: t.TextIO) -> None:
        self._stream = stream

    def __getattr__(self, name: str) -> t.Any:
        return getattr(self._stream, name)

    def getvalue(self) -> str:
        return ""


def _start(worker: t.Any) -> None:
    worker._host = copy.copy(worker._host)
    worker._task = worker._task.copy()
    worker._task_vars = dict(worker._task_vars)
    streams = sys.stdout, sys.stderr
    handlers = {number: signal.getsignal(number) for number in SIGNALS}
    with open(os.devnull) as worker._new_stdin:  # of ansible-core 2.16
        try:
            sys.stdout, sys.stderr = map(_Stream, streams)
            worker.run()
        finally:
            sys.stdout, sys.stderr = streams
            for number, handler in handlers.items():
                signal.signal(number, handler)


class CallbackModule(CallbackBase):  # type: ignore[misc]
    """Loaded before the first task."""

    CALLBACK_VERSION = 2.0
    CALLBACK_TYPE = "aggregate"
    CALLBACK_NAME = "tasks_in_process"
    CALLBACK_NEEDS_ENABLED = True

    def v2_playbook_on_start(self, playbook: t.Any) -> None:
        WorkerProcess.start = _start
        WorkerProcess._detach = lambda _worker: None
        Display.set_queue = lambda _display, _queue: None
