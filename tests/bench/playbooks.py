# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Times whole playbooks: a process from start to end, its time and its peak memory."""

from __future__ import annotations

import os
import pathlib
import sys
import tempfile
import typing as t
from dataclasses import dataclass

import yaml

from . import processes

PING: tuple[dict[str, t.Any], ...] = ({"ansible.builtin.ping": {}},)


@dataclass(frozen=True)
class Timing:
    """Seconds from start to end, megabytes of its largest process, whether it changed something, and
    how many processes of modules it started, where they were counted."""

    seconds: float
    peak_rss_mb: float
    changed: bool
    modules: int = 0


def run(
    tasks: t.Sequence[t.Mapping[str, t.Any]],
    kubeconfig: pathlib.Path | None = None,
    *,
    count_modules: bool = False,
) -> Timing:
    """A play of `tasks` on localhost. Raises where it fails: a failed run has no speed."""
    play = {
        "hosts": "localhost",
        "connection": "local",
        "gather_facts": False,
        "vars": {"ansible_python_interpreter": "{{ ansible_playbook_python }}"},
        "tasks": [dict(task) for task in tasks],
    }
    with tempfile.TemporaryDirectory(prefix="virt-placement-bench-") as folder:
        started = pathlib.Path(folder, "started")
        started.touch()
        if count_modules:
            play["vars"] = {"ansible_python_interpreter": str(_counting(started))}
        file = pathlib.Path(folder, "play.yml")
        file.write_text(yaml.safe_dump([play]))
        environment = {**os.environ, "ANSIBLE_LOCALHOST_WARNING": "false", "TMPDIR": folder}
        if kubeconfig is not None:
            environment["KUBECONFIG"] = str(kubeconfig)
        command = [str(pathlib.Path(sys.executable).with_name("ansible-playbook")), str(file)]
        ended = processes.run(command, environment)
        modules = len(started.read_text().splitlines())
    if ended.returncode != 0:
        raise RuntimeError(f"playbook ended with rc {ended.returncode}:\n{ended.output}")
    return Timing(ended.seconds, ended.peak_rss_mb, "changed=0" not in ended.output, modules)


def _counting(started: pathlib.Path) -> pathlib.Path:
    """An interpreter for modules that adds a line to a file for each of them."""
    program = started.with_name("python")
    program.write_text(f'#!/bin/sh\necho started >> {started}\nexec {sys.executable} "$@"\n')
    program.chmod(0o700)
    return program


def beyond_start_up(
    tasks: t.Sequence[t.Mapping[str, t.Any]], kubeconfig: pathlib.Path | None = None
) -> float:
    """Seconds that a play takes longer than one with a ping, which is run before it."""
    ping = run(PING).seconds
    return run(tasks, kubeconfig).seconds - ping
