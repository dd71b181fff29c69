# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""kill -9 of a program with all that it has started: Ansible's workers have sessions of their own."""

from __future__ import annotations

import contextlib
import os
import signal
from pathlib import Path


def kill(pid: int) -> None:
    """Each is stopped before its children are looked up, so that none is missed. `pid` leads a process group."""
    tree = [pid]
    for parent in tree:
        with contextlib.suppress(ProcessLookupError):
            os.kill(parent, signal.SIGSTOP)
        for children in Path(f"/proc/{parent}/task").glob("*/children"):
            with contextlib.suppress(OSError):
                tree += map(int, children.read_text().split())
    for process in tree:
        with contextlib.suppress(ProcessLookupError):
            os.kill(process, signal.SIGKILL)
    with contextlib.suppress(ProcessLookupError):
        os.killpg(pid, signal.SIGKILL)  # children of one that has ended
