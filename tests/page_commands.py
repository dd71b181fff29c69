# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The commands of a page of docs/, run as they are printed."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from sandbox import Sandbox, binaries


def run_as_printed(
    sandbox: Sandbox, command: str, identity: str, folder: Path | None = None
) -> subprocess.CompletedProcess[str]:
    """What the command prints, and its status. Playbooks are run by this identity, which may not change a VM or a node
    itself, and kubectl by an administrator."""
    programs = [Path(sys.executable).parent, binaries.directory(sandbox.versions)]
    runs_as = "admin" if command.startswith("kubectl ") else identity
    return subprocess.run(
        ["bash", "-c", command],
        cwd=folder,
        env={
            **os.environ,
            "PATH": os.pathsep.join([*map(str, programs), os.environ["PATH"]]),
            "KUBECONFIG": str(sandbox.kubeconfig(runs_as)),
            "ANSIBLE_NOCOLOR": "1",
        },
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=600,
        check=False,
    )
