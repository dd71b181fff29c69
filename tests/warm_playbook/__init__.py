# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""A program ansible-playbook whose playbooks are forks of one process: its start takes four times as long as a role."""

from __future__ import annotations

import contextlib
import shlex
import socket
import subprocess
import sys
import typing as t
from pathlib import Path

_HERE = Path(__file__).parent


@contextlib.contextmanager
def warm_playbook(folder: Path, environment: t.Mapping[str, str]) -> t.Iterator[Path]:
    """The program, in `folder`. All its playbooks have the paths of collections and plugins of `environment`."""
    path, program = folder / "socket", folder / "ansible-playbook"
    command = shlex.join([sys.executable, "-IS", str(_HERE / "client.py"), str(path)])
    program.write_text(f'#!/bin/sh\nexec {command} "$@"\n')
    program.chmod(0o755)
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(path))
        listener.listen()
        server = subprocess.Popen(
            [sys.executable, _HERE / "server.py", str(listener.fileno())],
            env=environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,  # no terminal, whose plays have colors
            pass_fds=[listener.fileno()],
        )
    with server:  # which ends with its standard input
        yield program
