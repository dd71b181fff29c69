# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Measurements in separate processes, and the memory of a process."""

from __future__ import annotations

import json
import os
import pathlib
import resource
import signal
import subprocess
import sys
import tempfile
import typing as t

_LAUNCHER = """
import json, os, sys, time
begun = time.perf_counter()
pid = os.posix_spawnp(sys.argv[2], sys.argv[2:], os.environ)
_pid, status, usage = os.wait4(pid, 0)
used = [os.waitstatus_to_exitcode(status), time.perf_counter() - begun, usage.ru_maxrss * 1024 / 1e6]
with open(sys.argv[1], "w") as file:
    json.dump(used, file)
"""


class Ended(t.NamedTuple):
    """How a program ended, its seconds from start to end, the megabytes of its largest process, and what it printed."""

    returncode: int
    seconds: float
    peak_rss_mb: float
    output: str


def run(command: t.Sequence[str], environment: t.Mapping[str, str]) -> Ended:
    """A program, measured by a small process that starts it: Linux counts the peak of the process that starts a
    program as the program's own, and a bench is large."""
    with tempfile.TemporaryDirectory(prefix="virt-placement-bench-") as folder:
        used = pathlib.Path(folder, "used")
        launcher = [sys.executable, "-I", "-S", "-c", _LAUNCHER, str(used), *command]
        with pathlib.Path(folder, "told").open("w+", encoding="utf-8") as output:
            process = subprocess.Popen(
                launcher, env=environment, stdout=output, stderr=output, start_new_session=True
            )
            try:
                process.wait()
            except BaseException:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()
                raise
            output.seek(0)
            returncode, seconds, peak_rss_mb = json.loads(used.read_text())
            return Ended(returncode, seconds, peak_rss_mb, output.read())


def run_python(module: str, *arguments: str) -> str:
    """What a module prints. Raises CalledProcessError where it fails."""
    command = [sys.executable, "-m", module, *arguments]
    return subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout


def resident_mb() -> float:
    """Resident memory of this process, in MB."""
    with open("/proc/self/statm", encoding="ascii") as statm:
        return int(statm.read().split()[1]) * resource.getpagesize() / 1e6
