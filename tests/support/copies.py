# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Copies of the checkout that a test has changed, and the tests that run in them."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import typing as t
from pathlib import Path

from tests.unit.test_imports import CHECKOUT, COLLECTION

FOLDERS = ("plugins", "dev", "sandbox", "tests/support", "tests/unit", "tests/warm_playbook")
"""What every test of the core reads."""


def copy_checkout(root: Path, *more: str, left_out: t.Sequence[str] = ()) -> None:
    """Copy these folders and FOLDERS to `root`, without files of names `left_out`; and what pytest and Ansible read."""
    ignored = shutil.ignore_patterns("exports", "__pycache__", *left_out)
    for folder in (*FOLDERS, *more):
        shutil.copytree(CHECKOUT / folder, root / folder, ignore=ignored)
    own = (CHECKOUT / "pyproject.toml", CHECKOUT / "galaxy.yml")
    for path in [*CHECKOUT.glob("tests/*.py"), *own]:
        shutil.copy2(path, root / path.relative_to(CHECKOUT))


def run_tests(root: Path, *paths: str) -> subprocess.CompletedProcess[str]:
    """Run these tests of a copy of the checkout at `root`."""
    trees = os.environ.get("ANSIBLE_COLLECTIONS_PATH", "").split(os.pathsep)
    # Python would find the files of the checkout, too: both collections are one namespace package.
    others = [x for x in trees if x and not Path(x, *COLLECTION.split(".")).exists()]
    environment = {
        **os.environ,
        "PLACEMENT_EXAMPLES": "5",
        "ANSIBLE_COLLECTIONS_PATH": os.pathsep.join(others),
    }
    environment.pop("PYTHONDONTWRITEBYTECODE", None)
    return subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-x", "--tb=short", *paths],
        cwd=root,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
