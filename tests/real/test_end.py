# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Nothing is left of a sandbox with real nodes, however it ends."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
import typing as t
from pathlib import Path

import pytest

from sandbox import Sandbox
from sandbox.processes import PidFile, Record, alive, record
from sandbox.real_nodes import control_groups
from sandbox.real_nodes.cluster import groups_of
from tests.shop import PATIENCE

CHECKOUT = Path(__file__).resolve().parents[2]
CLUSTER = "1-real-nodes-0-zones"
STARTER = f"""
import sys
from pathlib import Path
from sandbox import Sandbox
Sandbox.start({CLUSTER!r}, Path(sys.argv[1]), detached=sys.argv[2] == "detached")
print("up", flush=True)
sys.stdin.read()
"""


class Started(t.NamedTuple):
    """A sandbox that another process has started; `inside` are the processes of its nodes."""

    directory: Path
    starter: subprocess.Popen[str]
    groups: str
    supervisor: Record
    inside: list[Record]


def start(directory: Path, how: str) -> Started:
    command = [sys.executable, "-c", STARTER, str(directory), how]
    starter = subprocess.Popen(
        command, cwd=CHECKOUT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert starter.stdout is not None and starter.stdout.readline() == "up\n"
    groups = groups_of(directory)
    supervisor = (PidFile(directory).read() or {})["supervisor"]
    top = next(x.path for x in control_groups.hierarchies() if "memory" in x.controllers)
    files = (top / groups).rglob("cgroup.procs")
    pids = [int(pid) for file in files for pid in file.read_text().split()]
    return Started(directory, starter, groups, supervisor, [x for x in map(record, pids) if x])


def left(started: Started) -> list[str]:
    """What is still there of its processes and control groups."""
    processes = [str(entry) for entry in (started.supervisor, *started.inside) if alive(entry)]
    places = [hierarchy.path / started.groups for hierarchy in control_groups.hierarchies()]
    return [*processes, *(str(place) for place in places if place.exists())]


def wait_for_nothing(started: Started) -> None:
    deadline = time.monotonic() + PATIENCE
    while found := left(started):
        assert time.monotonic() < deadline, found
        time.sleep(0.2)


def test_killed_starter_leaves_nothing(real: Sandbox, tmp_path: Path) -> None:
    """Its supervisor notices, ends all processes, and removes the control groups."""
    started = start(tmp_path / "sandbox", "attached")
    assert len(started.inside) > 5

    started.starter.kill()
    started.starter.wait()

    wait_for_nothing(started)
    assert real.running(), "another sandbox goes on"


def test_killed_supervisor_leaves_no_process_and_down_the_rest(
    real: Sandbox, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    started = start(tmp_path / "sandbox", "detached")
    started.starter.kill()
    started.starter.wait()
    assert alive(started.supervisor), "a detached sandbox goes on without its starter"

    os.kill(started.supervisor["pid"], signal.SIGKILL)
    down = [sys.executable, "-m", "sandbox", "down", "--dir", str(started.directory)]
    assert subprocess.run(down, cwd=CHECKOUT, check=False).returncode == 0

    wait_for_nothing(started)
    assert not started.directory.exists()
    assert real.running(), "another sandbox goes on"
