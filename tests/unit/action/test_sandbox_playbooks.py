# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The playbooks sandbox_up and sandbox_down call the command of the package, or say how to install it."""

from __future__ import annotations

import os
import subprocess
import sys
import typing as t
from pathlib import Path

import pytest

from .plays import PLAYBOOK

COMMAND = """#!/bin/sh
echo "$@" >> {log}
test "$1" = down && echo "ended etcd" >&2
{end}
"""


def played(name: str, path: Path, **variables: t.Any) -> subprocess.CompletedProcess[str]:
    """The playbook, where `path` may have the command."""
    options = [option for item in variables.items() for option in ("-e", "{}={}".format(*item))]
    env = {
        **os.environ,
        "PATH": f"{path}:/usr/bin:/bin",
        "MOLECULE_EPHEMERAL_DIRECTORY": "/molecule",
    }
    return subprocess.run(
        [PLAYBOOK, f"virt.placement.{name}", *options],
        env=env,
        capture_output=True,
        text=True,
        check=False,
    )


def stub(path: Path, end: str = "exit 0") -> Path:
    log = path / "log"
    command = path / "virt-placement-sandbox"
    command.write_text(COMMAND.format(log=log, end=end))
    command.chmod(0o755)
    return log


def test_missing_package_is_named_with_its_installation(tmp_path: Path) -> None:
    if Path(sys.executable).with_name("virt-placement-sandbox").exists():
        pytest.skip("the package is installed here")
    done = played("sandbox_up", tmp_path)
    words = " ".join(done.stdout.split())
    assert done.returncode == 2, done.stdout
    assert "virt-placement-sandbox was not found in PATH. This Python package" in words
    assert "-m pip install ./sandbox" in words


def test_broken_package_is_named_with_its_error(tmp_path: Path) -> None:
    stub(tmp_path, "echo \"No module named 'requests'\" >&2; exit 1")
    done = played("sandbox_down", tmp_path)
    words = " ".join(done.stdout.split())
    assert done.returncode == 2, done.stdout
    assert "virt-placement-sandbox cannot be run: No module named 'requests'. This" in words


def test_numbers_and_the_directory_of_molecule_reach_the_command(tmp_path: Path) -> None:
    log = stub(tmp_path)
    done = played("sandbox_up", tmp_path, placement_sandbox_nodes=4, placement_sandbox_zones=2)
    assert done.returncode == 0, done.stdout
    assert log.read_text().splitlines() == [
        "--version",
        "up --nodes 4 --zones 2 --dir /molecule/sandbox",
    ]


def test_end_in_a_named_directory(tmp_path: Path) -> None:
    log = stub(tmp_path)
    done = played("sandbox_down", tmp_path, placement_sandbox_directory="/elsewhere")
    assert done.returncode == 0, done.stdout
    assert log.read_text().splitlines() == ["--version", "down --dir /elsewhere"]
    assert "changed=1" in done.stdout
