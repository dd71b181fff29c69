# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""No test is ended by the clock on the wall, which runs as fast on a machine that has other work.

A test that computes without end fails alone, after the option `processor_seconds` of processor time of this
process. Of one that waits without end, pytest prints where it waits (`faulthandler_timeout`), and the run goes on
waiting. Examples of hypothesis have no deadline, and are bounded by their number.
"""

from __future__ import annotations

import contextlib
import importlib
import importlib.util
import os
import signal
import threading
import types
import typing as t

import pytest


class ProcessorTimeOver(BaseException):
    """The test fails. Hypothesis would take an Exception for a counter-example, and shrink it."""


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addini("processor_seconds", "processor time after which a test fails", default="1500")


@pytest.hookimpl(tryfirst=True)
def pytest_configure(config: pytest.Config) -> None:
    """The examples of hypothesis are those of PLACEMENT_SEED, too: as with its own option, which
    counts for nothing where hypothesis sees that it runs in CI, unless it is told otherwise."""
    if importlib.util.find_spec("hypothesis") is None:
        return
    hypothesis = importlib.import_module("hypothesis")
    chosen: dict[str, t.Any] = {}
    if os.environ.get("PLACEMENT_SEED") and getattr(config.option, "hypothesis_seed", "") is None:
        config.option.hypothesis_seed = os.environ["PLACEMENT_SEED"]
        chosen["derandomize"] = False
    checks = [hypothesis.HealthCheck.too_slow]
    hypothesis.settings.register_profile(
        "tests", deadline=None, suppress_health_check=checks, **chosen
    )
    hypothesis.settings.load_profile("tests")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_setup(item: pytest.Item) -> t.Generator[None, None, None]:
    with _bounded(item):
        return (yield)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> t.Generator[None, None, None]:
    with _bounded(item):
        return (yield)


@contextlib.contextmanager
def _bounded(item: pytest.Item) -> t.Iterator[None]:
    seconds = float(item.config.getini("processor_seconds"))
    if not seconds or threading.current_thread() is not threading.main_thread():
        yield
        return

    def end(_number: int, _frame: types.FrameType | None) -> t.NoReturn:
        raise ProcessorTimeOver(f"{item.name} has computed for {seconds:g} s (processor_seconds)")

    before = signal.signal(signal.SIGPROF, end)
    signal.setitimer(signal.ITIMER_PROF, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, before)
