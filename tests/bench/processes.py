# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Measurements in separate processes, and the memory of a process."""

from __future__ import annotations

import resource
import subprocess
import sys


def run_python(module: str, *arguments: str) -> str:
    """What a module prints. Raises CalledProcessError where it fails."""
    command = [sys.executable, "-m", module, *arguments]
    return subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout


def resident_mb() -> float:
    """Resident memory of this process, in MB."""
    with open("/proc/self/statm", encoding="ascii") as statm:
        return int(statm.read().split()[1]) * resource.getpagesize() / 1e6
