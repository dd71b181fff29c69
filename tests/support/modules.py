# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Runs modules in this process: from their options to the result that Ansible would receive."""

from __future__ import annotations

import contextlib
import functools
import importlib
import itertools
import json
import signal
import time
import typing as t
from unittest import mock

from ansible_collections.virt.placement.plugins.module_utils.cluster.following import (
    FollowedCluster,
)
from ansible_collections.virt.placement.plugins.module_utils.interface import runner
from ansible_collections.virt.placement.plugins.module_utils.moves import step

from .api_server import ApiServer

Result = dict[str, t.Any]

CPU_SECONDS = 30
"""Processor time of this process after which a task is stuck, where a processor does LOOP in a tenth of a second. Most
tasks take less than 0.2 s, and what grows with the square of a hostile list takes minutes."""

LOOP = 1_000_000
"""Products of small numbers. A shared host counts as ours the time in which it gives the processor to others."""

_MODULES = "ansible_collections.virt.placement.plugins.modules"
_FLOWS = "ansible_collections.virt.placement.plugins.module_utils.flows"


class Ended(BaseException):
    """A module ended with a result."""


class Stuck(BaseException):
    """A module used more than CPU_SECONDS of processor time."""


class FakeModule:
    """What modules use of AnsibleModule; `given` are the options of the task."""

    given: t.ClassVar[Result] = {}
    check_mode = False
    _verbosity = 0
    _diff = True

    def __init__(self, argument_spec: t.Mapping[str, t.Any], **_rest: t.Any) -> None:
        self.argument_spec = argument_spec
        self.params = {name: option.get("default") for name, option in argument_spec.items()}
        self.params |= self.given
        for name in ("scale",):
            for entry in self.params.get(name) or ():
                entry.setdefault("namespace", None)
        self.no_log_values: set[str] = set()
        self.warnings: list[str] = []

    def warn(self, text: str) -> None:
        self.warnings.append(text)

    def exit_json(self, **result: t.Any) -> None:
        raise Ended({**result, "warnings": self.warnings})

    def fail_json(self, **result: t.Any) -> None:
        raise Ended({**result, "failed": True, "warnings": self.warnings})


def run(
    name: str, server: ApiServer, options: Result, *, check: bool = False, reconciles: float = 3
) -> Result:
    """The result of a module. Raises what the module does not turn into a result, and Stuck.

    A rollout and a maintenance make so many `reconciles` in a step, at most. There are no watches, so
    that they read the cluster each time.
    """
    module = importlib.import_module(f"{_MODULES}.{name}")
    task = type("Module", (FakeModule,), {"given": dict(options), "check_mode": check})
    with contextlib.ExitStack() as patches:
        for where, what, value in (
            (module, "AnsibleModule", task),
            (runner, "connect", lambda _module: server.client()),
            (step, "wait_for", no_op),
            (FollowedCluster, "follow", no_op),
        ):
            patches.enter_context(mock.patch.object(where, what, value))
        if name in ("rollout", "node_maintenance"):
            listening = functools.partial(_listening, reconciles - 1)
            flow = importlib.import_module(f"{_FLOWS}.{name}")
            patches.enter_context(mock.patch.object(flow, "until_interrupted", listening))
        patches.enter_context(bounded())
        try:
            module.main()
        except Ended as ended:
            result: Result = ended.args[0]
            return t.cast(Result, json.loads(json.dumps(result, allow_nan=False)))
    raise AssertionError("the module ended without a result")


def no_op(*_arguments: t.Any) -> None:
    """Replaces watches: only the run changes the cluster."""


@contextlib.contextmanager
def _listening(times: float) -> t.Iterator[t.Callable[[], bool]]:
    numbers = itertools.count()
    yield lambda: next(numbers) < times


@functools.cache
def slowness() -> float:
    """How much longer this processor takes for LOOP than a tenth of a second, at least 1."""
    began = time.process_time()
    for number in range(LOOP):
        number * number
    return max(1.0, (time.process_time() - began) / 0.1)


@contextlib.contextmanager
def bounded() -> t.Iterator[None]:
    """Raises Stuck inside of it once it has used more than CPU_SECONDS of processor time, or more on a slower
    processor."""
    seconds = CPU_SECONDS * slowness()

    def stop(_number: int, _frame: object) -> None:
        raise Stuck(f"not done within {seconds:.0f} s of processor time")

    before = signal.signal(signal.SIGVTALRM, stop)
    signal.setitimer(signal.ITIMER_VIRTUAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        signal.signal(signal.SIGVTALRM, before)
