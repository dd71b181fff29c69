# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The supervisor alone, with programs that do nothing."""

from __future__ import annotations

import os
import signal
import time
import typing as t
from pathlib import Path

import pytest

from sandbox import processes
from sandbox.processes import PidFile, Supervisor


def until(check: t.Callable[[], object], seconds: float = 60.0) -> None:
    end = time.monotonic() + seconds
    while not check():
        assert time.monotonic() < end, "not in time"
        time.sleep(0.05)


@pytest.fixture
def supervisor(tmp_path: Path) -> t.Iterator[Supervisor]:
    (tmp_path / "log").mkdir()
    started = Supervisor(tmp_path)
    yield started
    started.stop()


def pid(directory: Path, name: str) -> int:
    return int((PidFile(directory).read() or {})["processes"][name]["pid"])


def test_process_of_a_deployment_is_started_again_with_a_line(supervisor: Supervisor) -> None:
    """Number 15 of issue 41: virt-controller ends when the API server does not answer for 30 s."""
    directory = supervisor.directory
    first = supervisor.start("virt-controller", ["sleep", "600"], again=True)
    supervisor.start("kwok", ["sleep", "600"])
    os.kill(first, signal.SIGKILL)
    os.kill(pid(directory, "kwok"), signal.SIGKILL)
    until(lambda: processes.started_again(directory))

    assert processes.started_again(directory) == {"virt-controller": (1, -9)}
    assert processes.ended(directory) == {"kwok": -9}
    assert sorted(processes.running(directory)) == ["supervisor", "virt-controller"]
    assert pid(directory, "virt-controller") != first
    log = directory / "log" / "supervisor.log"
    line = "virt-controller ended with exit code -9: is started again"
    until(lambda: line in log.read_text())


def test_process_that_a_test_has_ended_stays_ended(supervisor: Supervisor) -> None:
    directory = supervisor.directory
    supervisor.start("virt-controller", ["sleep", "600"], again=True)
    processes.end(directory, "virt-controller")
    until(lambda: processes.ended(directory))
    time.sleep(processes._FIRST_PAUSE + 1.0)
    assert processes.running(directory) == ["supervisor"]

    processes.start_again(directory, "virt-controller")
    until(lambda: len(processes.running(directory)) == 2)
    assert processes.ended(directory) == {}
