# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""How long a step waits for a change that moves in flight may depend on, and when it ends."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import os
import select
import signal
import stat
import threading
import typing as t
from dataclasses import dataclass

from ..api.client import ApiClient
from ..api.errors import ApiError
from ..api.progress_pipe import ProgressPipe
from ..api.transport import Deadline, computing_bounded, no_request_under_way, uptime
from ..cluster.reading import ListQuery
from ..model.rendering import one_line
from .state import StepReport

STEP_SECONDS = 10.0
"""A step begins no reconcile after this, if it has read the cluster in a fraction of it."""

LONG_STEP_SECONDS = 60.0
"""As STEP_SECONDS, for a step whose lines are read while it runs."""

REPORT_AFTER = 2.0
"""A step with something to report ends after this, so that a line is read soon after it was true."""

YOUNG = 2.0
"""A migration takes longer than this. A step with something to report ends at once where all moves in flight are
younger: the next step has begun when they end."""

READINGS = 3.0
"""A step lasts that many times as long as its reading of the cluster."""

STEP_LIMIT = 300.0
"""Nothing in a step takes longer: reading a very large cluster, an API server that is slow."""

OVERTIME = 10.0
"""Seconds past the run's timeout in which a step may still read, cancel and report."""


@dataclass(slots=True)
class StepTime:
    """When a step that began at a time should end. `reading` are the seconds that its first reading of the
    cluster took."""

    began: float
    long: bool = False
    reading: float = 0.0
    _reports_by: float = 0.0

    def report(self, unread: bool, *, young: bool) -> None:
        """Whether the step has something to report that was not read. `young`: all moves in flight have just
        begun."""
        if not unread:
            self._reports_by = 0.0
        elif young and not self.long:
            self._reports_by = self.began
        elif not self._reports_by:
            self._reports_by = uptime() + max(REPORT_AFTER, self.reading)

    @property
    def ends(self) -> float:
        seconds = LONG_STEP_SECONDS if self.long else STEP_SECONDS
        limit = self.began + max(seconds, READINGS * self.reading)
        return min(limit, self._reports_by) if self._reports_by else limit


class ReportPipe(ProgressPipe):
    """The pipe of a step."""

    def show(self, report: StepReport, secrets: t.Iterable[str] = ()) -> None:
        """Write the lines about what the journal on the Lease has. Where one cannot be written, or has a
        secret, the pipe is closed: the rest comes with the result, which Ansible filters."""
        for line in report.lines[report.shown : report.saved.lines] if self.open else ():
            sent = f"{json.dumps(line)}\n".encode()
            try:
                if len(sent) > select.PIPE_BUF or any(secret in line for secret in secrets):
                    raise OSError
                os.write(self._descriptor, sent)
            except OSError:
                os.close(self._descriptor)
                self._descriptor = -1
                return
            report.shown += 1


class OutageReport:
    """Lines about an API server that does not answer, and that answers again: at once where they are read while the
    step runs. If not, `Outage.unread` has them for the result of the step, and a request that fails is not sent again
    for longer than a step lasts. `away_since` is what the step before knew; `begun` whether the run is to go on."""

    def __init__(self, api: ApiClient, pipe: ReportPipe, away_since: str, *, begun: bool) -> None:
        self._api, self._pipe = api, pipe
        self._outage = api.transport.outage
        self._outage.since = away_since or self._outage.since
        self._outage.note = self._note
        if begun and not pipe.open:
            patience = min(api.policy.patience, STEP_SECONDS)
            api.policy = dataclasses.replace(api.policy, patience=patience)

    @property
    def since(self) -> str:
        """The time of day since which there is no answer, as it was reported; else empty."""
        return self._outage.since

    def begin(self, error: ApiError, seconds: float) -> None:
        """A step ends since a request was not answered for so many seconds."""
        self._outage.begin(error, seconds)

    def _note(self, line: str) -> None:
        """At once, since the step may wait for a minute."""
        if self._pipe.open:
            self._pipe.note(one_line(line), self._api.secrets)
        else:
            self._outage.unread.append(line)


Listening = t.Callable[[], bool]


def step_bounded(deadline: Deadline, *, begun: bool) -> contextlib.AbstractContextManager[None]:
    """A step ends in time, however much the tenants of the cluster give it to compute. `begun`: the run holds the
    Lease."""
    raising = "" if begun else ", or raise timeout and run_timeout"
    return computing_bounded(
        deadline,
        f"not done within {deadline.total:.0f} s: the cluster was read, and evaluating it takes longer;"
        f" select fewer workloads or nodes{raising}",
        no_request_under_way,
    )


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
    """Yields a function that tells whether the output is read and the task is not interrupted. SIGINT and SIGTERM,
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


def wakes_on(
    namespaces: t.Collection[str], waits_for: t.Container[str] = ()
) -> t.Callable[[ListQuery, str], bool]:
    """Whether a change in a list, of an object of a namespace, is a reason to reconcile: pods, VMIs and
    disruption budgets of these namespaces, by default of all, migrations, and workloads of the kinds that the run
    `waits_for`."""

    def wakes(query: ListQuery, namespace: str) -> bool:
        if query.what in ("pods", "instances", "budgets"):
            return not namespaces or namespace in namespaces
        if query.what in waits_for:
            return namespace in namespaces
        return query.what == "migrations"

    return wakes


SLOW_POLL = 5.0
"""Seconds after which a run reconciles again although nothing changed: clocks go on."""

SETTLE = 0.15
"""Seconds to wait for what comes along with a change: one look for all of it."""


def wait_for(
    changed: threading.Event,
    seconds: float,
    until: Deadline,
    listening: Listening = lambda: True,
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
