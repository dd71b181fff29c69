# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""tests/unit on the releases of dev/matrix.py: python -m dev.unit_matrix [pytest arguments].

The oldest release runs all pure code, since what runs on the oldest Python runs on the newer ones. The oldest and the
newest run what depends on Ansible, the client library or the system, which the runs do not. The newest, with the
fastest Python, runs the sweeps and what is the same on each. On those between, the suites with a control plane run,
and what each ansible-core does in its own way.
"""

from __future__ import annotations

import os
import sys
import typing as t
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from dev import house, matrix
from dev.commands import CHECKOUT, Command, Outcome, end_with_us, environment, finish, run

REPORTS = CHECKOUT / "build" / "reports"

CAPABILITIES = tuple(
    name for name in house.CAPABILITIES if (house.PLUGINS / "module_utils" / name).is_dir()
)
"""Folders of module_utils that nothing imports but flows, modules and registries: tests/unit/test_deletion.py."""

WITH_EFFECTS = ("approval", "holds")
"""Capabilities that are part of a run: they import the runs, and what reads and writes."""

PURE = (
    *(name for name in CAPABILITIES if name not in WITH_EFFECTS),
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
    "kinds",
)
"""The layers of module_utils that import the standard library alone, outermost first; tests/unit has a folder each."""

RUNS = (*WITH_EFFECTS, "maintenance", "rollout", "moves")
"""Layers that read and write through `cluster` alone: neither Ansible nor the client library changes what they do."""

_SWEEPS = (
    "tests/unit/test_deletion.py",
    "tests/unit/test_hostile_objects.py",
    "tests/unit/test_layout.py",
    "tests/unit/test_seventh_kind.py",
    "tests/unit/test_structure.py",
)
"""Tests that run whole tasks many times, or read the sources: on the newest release alone."""

_ONE_RELEASE = tuple(
    f"tests/unit/action/test_{name}.py"
    for name in (
        "interrupted_steps",  # an action whose steps are played
        "lint_offline",  # one module and an assert; test_crashed_modules.py packs it on each release
        "outage_lines",  # pipes and threads
        "rollout_plan",  # an action that refuses before its first step
        "rules_forecast",  # which modules an action runs, and functions of one
        "sandbox_playbooks",  # playbooks that call a command
    )
)
"""Tests of actions and playbooks in which nothing differs between releases of ansible-core: on the newest alone. The
other plays of tests/unit/action have templates, check mode, logs, signals or failures, which do."""

_EVERY_RELEASE = ("tests/unit/action/test_crashed_modules.py",)
"""Tests of what each ansible-core does in a way of its own."""


class Part(t.NamedTuple):
    """Unit tests that one process runs on one release."""

    prepared: matrix.Prepared
    name: str
    arguments: tuple[str, ...]
    left_out: tuple[str, ...]


def main(pytest_arguments: list[str]) -> int:
    end_with_us()
    ready, skipped = matrix.prepare()
    for release in skipped:
        print(f"unit: {release.label} skipped, no Python {release.python_label} here")
    with ThreadPoolExecutor(max_workers=3) as pool:  # the edges wait for playbooks most of the time
        outcomes = list(pool.map(check, parts(ready, tuple(pytest_arguments))))
    return finish(outcomes)


def parts(ready: list[matrix.Prepared], asked: tuple[str, ...]) -> list[Part]:
    """What runs where. What is asked for runs on each release."""
    if asked:
        return [Part(each, "", asked, ()) for each in ready]
    pure = tuple(f"tests/unit/{layer}" for layer in PURE)
    oldest, newest = matrix.RELEASES[0], matrix.RELEASES[-1]
    found = [Part(each, "-pure", pure, ()) for each in ready if each.release == oldest]
    for each in (each for each in ready if each.release in (oldest, newest)):
        runs = tuple(f"tests/unit/{layer}" for layer in RUNS)
        once = runs if each.release == newest else (*_SWEEPS, *_ONE_RELEASE)
        found.append(Part(each, "", ("tests/unit",), (*pure, *once)))
    between = (each for each in ready if each.release not in (oldest, newest))
    return [*found, *(Part(each, "", _EVERY_RELEASE, ()) for each in between)]


def check(part: Part) -> Outcome:
    """Run some unit tests on one release, with the dependencies of its time."""
    release, prepared = part.prepared.release, part.prepared
    trees = [CHECKOUT / "build" / "collections", prepared.collections]
    env = environment(ANSIBLE_COLLECTIONS_PATH=os.pathsep.join(map(str, trees)))
    env["PATH"] = f"{prepared.venv / 'bin'}{os.pathsep}{env['PATH']}"
    if release != matrix.RELEASES[0]:
        # A second Python finds no more counter-examples: a few are enough to show that it runs.
        env.setdefault("PLACEMENT_EXAMPLES", "10")
    report = f"--junitxml={REPORTS / f'unit-{release.core}{part.name}.xml'}"
    arguments: list[str | Path] = [
        prepared.venv / "bin" / "python",
        "-m",
        "pytest",
        "-q",
        "--tb=short",
        "-p",
        "no:cacheprovider",
        report,
    ]
    arguments += [f"--ignore={path}" for path in part.left_out]
    arguments += part.arguments
    outcome = run(Command(f"unit{part.name}, {release.label}", arguments, env))
    lines = outcome.output.rstrip().splitlines() or ["no output"]
    print(f"{outcome.line}: {lines[-1].strip('= ')}", flush=True)
    if outcome.status:
        print("\n".join(lines), flush=True)
    return outcome


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
