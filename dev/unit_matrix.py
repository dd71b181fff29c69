# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""tests/unit on the releases of dev/matrix.py: python -m dev.unit_matrix [pytest arguments].

The oldest release runs all pure code, since what runs on the oldest Python runs on the newer ones. Each release runs
what depends on Ansible, the client library or the system. The newest one, with the fastest Python, runs the sweeps.
"""

from __future__ import annotations

import os
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from dev import matrix
from dev.commands import CHECKOUT, Command, Outcome, end_with_us, environment, finish, run

REPORTS = CHECKOUT / "build" / "reports"

PURE = (
    "lint",
    "forecast",
    "planning",
    "compliance",
    "node_labels",
    "rules",
    "view",
    "kubevirt",
    "scheduler",
    "model",
)
"""The layers of module_utils that import the standard library alone, outermost first; tests/unit has a folder each."""

_SWEEPS = (
    "tests/unit/test_hostile_objects.py",
    "tests/unit/test_layout.py",
    "tests/unit/test_structure.py",
    "tests/unit/maintenance/test_kills.py",
)
"""Tests that run whole tasks many times, or read the sources: on one release."""


def main(pytest_arguments: list[str]) -> int:
    end_with_us()
    ready, skipped = matrix.prepare()
    for release in skipped:
        print(f"unit: {release.label} skipped, no Python {release.python_label} here")
    with ThreadPoolExecutor(max_workers=len(matrix.RELEASES)) as pool:
        outcomes = list(pool.map(lambda prepared: check(prepared, pytest_arguments), ready))
    return finish(outcomes)


def check(prepared: matrix.Prepared, pytest_arguments: list[str]) -> Outcome:
    """Run the unit tests on one release, with the dependencies of its time."""
    release = prepared.release
    trees = [CHECKOUT / "build" / "collections", prepared.collections]
    env = environment(ANSIBLE_COLLECTIONS_PATH=os.pathsep.join(map(str, trees)))
    env["PATH"] = f"{prepared.venv / 'bin'}{os.pathsep}{env['PATH']}"
    env["PYTHONDONTWRITEBYTECODE"] = "1"  # several Pythons read the same checkout at once
    left_out: list[str] = []
    if release != matrix.RELEASES[0]:
        # A second Python finds no more counter-examples: a few are enough to show that it runs.
        env.setdefault("PLACEMENT_EXAMPLES", "10")
        left_out += [f"tests/unit/{layer}" for layer in PURE]
    if release != matrix.RELEASES[-1]:
        left_out += _SWEEPS
    arguments: list[str | Path] = [
        prepared.venv / "bin" / "python",
        "-m",
        "pytest",
        "-q",
        "--tb=short",
        "--override-ini=faulthandler_timeout=300",
    ]
    arguments += [f"--ignore={path}" for path in left_out]
    arguments += ["-p", "no:cacheprovider", f"--junitxml={REPORTS / f'unit-{release.core}.xml'}"]
    outcome = run(
        Command(f"unit, {release.label}", [*arguments, *(pytest_arguments or ["tests/unit"])], env)
    )
    lines = outcome.output.rstrip().splitlines() or ["no output"]
    print(f"{outcome.line}: {lines[-1].strip('= ')}", flush=True)
    if outcome.status:
        print("\n".join(lines), flush=True)
    return outcome


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
