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

from ansible_collections.virt.placement.plugins.plugin_utils import orphans
from ansible_collections.virt.placement.plugins.plugin_utils.ansible_internals import PAUSE
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


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_pause_that_begins_once_the_job_is_gone_ends_too(monkeypatch: pytest.MonkeyPatch) -> None:
    """A worker may be killed between its fork and its pause."""
    monkeypatch.setattr(orphans, "POLL", 0.05)
    gone = os.getpid()
    worker = os.fork()
    if not worker:
        orphans.when_parent_is_gone(gone + 1, orphans._end_in_pause)
        time.sleep(0.3)
        exec(compile("import time; time.sleep(20)", f"/ansible/{PAUSE}", "exec"))
        os._exit(7)
    try:
        ended: list[int] = []

        def has_ended() -> bool:
            process, status = os.waitpid(worker, os.WNOHANG)
            ended.extend([os.waitstatus_to_exitcode(status)] if process else [])
            return bool(process)

        until(has_ended)
        assert ended == [1]
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.kill(worker, signal.SIGKILL)
