# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Find the Python interpreters of this machine (PATH and pyenv)."""

from __future__ import annotations

import glob
import os
import shutil
import subprocess
import sys
import typing as t

MINIMUM = (3, 10)
# What the main environment runs on, best first: 3.11 is the newest Python of the ansible-core
# release in the middle of the tested range, and of most execution environments.
PREFERRED = ((3, 11), (3, 13), (3, 12), (3, 14), (3, 10))

NONE_FOUND = (
    "No Python >= 3.10 that can make virtual environments was found on PATH or under pyenv. "
    "Install one; Debian keeps the second half in the package python3-venv."
)

# The base executable: the python3 on PATH may be that of a virtual environment, even of ours.
_QUESTION = (
    "import os, sys, ensurepip, venv; print(sys.version_info[0], sys.version_info[1], "
    "os.path.realpath(getattr(sys, '_base_executable', sys.executable)))"
)


class Python(t.NamedTuple):
    """An interpreter and its version, which the interpreter itself reported."""

    version: tuple[int, int]
    path: str

    @property
    def label(self) -> str:
        return ".".join(str(part) for part in self.version)


def ask(path: str) -> Python | None:
    """The interpreter at `path`; None if it cannot be used: a pyenv shim without a version, or no venv."""
    try:
        answer = subprocess.run(
            [path, "-c", _QUESTION], capture_output=True, text=True, timeout=30, check=True
        ).stdout.split(maxsplit=2)
    except (OSError, subprocess.SubprocessError):
        return None
    return Python((int(answer[0]), int(answer[1])), answer[2].strip())


def find(version: tuple[int, int]) -> Python | None:
    """The first interpreter of exactly this version on PATH or under pyenv."""
    if sys.version_info[:2] == version:
        return ask(sys.executable)
    name = "python{}.{}".format(*version)
    on_path = shutil.which(name)
    pyenv = os.environ.get("PYENV_ROOT") or os.path.expanduser("~/.pyenv")
    under_pyenv = sorted(glob.glob(os.path.join(pyenv, "versions", "*", "bin", name)))
    for path in [on_path, *under_pyenv]:
        python = ask(path) if path else None
        if python and python.version == version:
            return python
    return None


def preferred() -> Python | None:
    """The interpreter for the main environment, None where all are too old."""
    for version in PREFERRED:
        python = find(version)
        if python:
            return python
    python = ask("python3")
    return python if python and python.version >= MINIMUM else None
