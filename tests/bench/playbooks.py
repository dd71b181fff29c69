# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Times whole playbooks: a process from start to end, its time and its peak memory."""

from __future__ import annotations

import os
import pathlib
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
    """Seconds from start to end, megabytes of its largest process, and whether it changed
    something."""

    seconds: float
    peak_rss_mb: float
    changed: bool


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
        with pathlib.Path(folder, "told").open("w+", encoding="utf-8") as told:
            begun = time.perf_counter()
            process = subprocess.Popen(command, env=environment, stdout=told, stderr=told)
            try:
                _pid, status, usage = os.wait4(process.pid, 0)
            except BaseException:
                process.kill()
                raise
            seconds = time.perf_counter() - begun
            process.returncode = os.waitstatus_to_exitcode(status)
            told.seek(0)
            text = told.read()
    if process.returncode != 0:
        raise RuntimeError(f"playbook ended with rc {process.returncode}:\n{text}")
    return Timing(seconds, usage.ru_maxrss / 1024, "changed=0" not in text)


def beyond_start_up(
    tasks: t.Sequence[t.Mapping[str, t.Any]], kubeconfig: pathlib.Path | None = None
) -> float:
    """Seconds that a play takes longer than one with a ping, which is run before it."""
    ping = run(PING).seconds
    return run(tasks, kubeconfig).seconds - ping
