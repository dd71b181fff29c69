# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Times whole playbooks: a process from start to end, its time and its peak memory."""

from __future__ import annotations

import os
import pathlib
import resource
import subprocess
import sys
import tempfile
import time
import typing as t
from dataclasses import dataclass

import yaml

PING: tuple[dict[str, t.Any], ...] = ({"ansible.builtin.ping": {}},)


@dataclass(frozen=True)
class Timing:
    """Seconds from start to end, and megabytes of the largest process that ended."""

    seconds: float
    peak_rss_mb: float


def run(tasks: t.Sequence[t.Mapping[str, t.Any]], kubeconfig: pathlib.Path | None = None) -> Timing:
    """A play of `tasks` on localhost. Raises where it fails: a failed run has no speed."""
    play = {
        "hosts": "localhost",
        "connection": "local",
        "gather_facts": False,
        "vars": {"ansible_python_interpreter": "{{ ansible_playbook_python }}"},
        "tasks": [dict(task) for task in tasks],
    }
    with tempfile.TemporaryDirectory(prefix="virt-placement-bench-") as folder:
        file = pathlib.Path(folder, "play.yml")
        file.write_text(yaml.safe_dump([play]))
        environment = {**os.environ, "ANSIBLE_LOCALHOST_WARNING": "false", "TMPDIR": folder}
        if kubeconfig is not None:
            environment["KUBECONFIG"] = str(kubeconfig)
        command = [str(pathlib.Path(sys.executable).with_name("ansible-playbook")), str(file)]
        begun = time.perf_counter()
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
        seconds = time.perf_counter() - begun
    if done.returncode != 0:
        raise RuntimeError(f"playbook ended with rc {done.returncode}:\n{done.stdout}{done.stderr}")
    peak = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1024
    return Timing(seconds, peak)


def best_of(
    times: int, tasks: t.Sequence[t.Mapping[str, t.Any]], kubeconfig: pathlib.Path | None = None
) -> Timing:
    """The fastest of several runs: what is left when the machine's noise is taken out."""
    return min((run(tasks, kubeconfig) for _run in range(times)), key=lambda timing: timing.seconds)
