# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""A job that is killed, as job engines cancel one, leaves no worker in a pause of its tasks."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import time
import typing as t
from pathlib import Path

import pytest

from tests.unit.action.plays import PLAYBOOK, environment, play

SECONDS = 60.0

TASKS: list[dict[str, t.Any]] = [
    {"virt.placement.job": {"role": "placement_rollout", "stage": "show", "lines": ["begun"]}},
    {"ansible.builtin.pause": {"seconds": 300}},
]


def until(found: t.Callable[[], bool]) -> None:
    end = time.monotonic() + SECONDS
    while not found():
        assert time.monotonic() < end
        time.sleep(0.2)


def workers_of(process: int) -> list[int]:
    return [
        int(child)
        for task in Path(f"/proc/{process}/task").iterdir()
        for child in (task / "children").read_text().split()
    ]


def is_there(process: int) -> bool:
    """Not where it has ended and nobody has asked for its exit code."""
    with contextlib.suppress(OSError):
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    return False


@pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="needs /proc")
def test_worker_in_a_pause_ends_with_the_job(tmp_path: Path) -> None:
    (tmp_path / "play.yml").write_text(play(TASKS))
    output = tmp_path / "output"
    with output.open("w") as file:
        job = subprocess.Popen(
            [PLAYBOOK, "play.yml"],
            cwd=tmp_path,
            env=environment(tmp_path),
            stdin=subprocess.DEVNULL,
            stdout=file,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    workers: list[int] = []
    try:
        until(lambda: "Pausing for" in output.read_text() or job.poll() is not None)
        workers = workers_of(job.pid)
        assert workers, output.read_text()
        os.killpg(job.pid, signal.SIGKILL)
        job.wait(SECONDS)
        until(lambda: not any(map(is_there, workers)))
    finally:
        for process in (job.pid, *workers):
            with contextlib.suppress(ProcessLookupError):
                os.kill(process, signal.SIGKILL)
        job.wait(SECONDS)
