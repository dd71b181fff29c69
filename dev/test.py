# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Every suite, whatever fails: python -m dev.test [--only STEP,...].

The summary names each test that failed. Its last line counts what passed and failed: each test of
pytest, and each other step as one.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import shutil
import sys
import time
import typing as t
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from dev.commands import CHECKOUT, end_with_us
from dev.matrix import RELEASES
from dev.releases import OLDEST, PAIRS
from dev.steps import (
    PYTHON,
    Counts,
    Result,
    Step,
    counts_of,
    print_line,
    pytest_step,
    retry,
    run_step,
    words,
)
from dev.unit_matrix import REPORTS
from sandbox.releases import UnknownRelease, find
from sandbox.used_rights import DIRECTORY

FAULTS = 12
SEED = "1"
"""The seed of all random cases, unless PLACEMENT_SEED is set. A failure is then about
what was changed. `make forecasts` looks for new ones, and `make faults` tries every fault."""

RIGHTS = REPORTS / "rights"
"""Where each sandbox records which rights were used."""


class Lane(t.NamedTuple):
    """Steps of which `at_once` run at a time, in this order. Lanes run beside each other, with `niceness`."""

    steps: tuple[str, ...]
    at_once: int
    niceness: int = 0


WITH_SANDBOX = Lane(
    (
        "jobs",
        "moves",
        "modules",
        "integration",
        "forecasts",
        "faults",
        "sandbox",
        "molecule",
        "conformance",
        "pairs",
    ),
    at_once=3,
)
"""Steps that mostly wait for their control planes, the longest first."""

WITHOUT_SANDBOX = Lane(("programs", "unit", "sanity", "lint"), at_once=2, niceness=5)
"""Steps that take what the processor has left: they have no deadlines, and at its end each has one process only.
The programs come first, since the last step of the other lane is about them."""

LANES = (WITH_SANDBOX, WITHOUT_SANDBOX)

MODULES = CHECKOUT / "tests" / "modules"
MOVES = ("test_rollout*.py", "test_node_*.py", "test_steering.py")
"""The files of MODULES that are a step of their own, which balances the lane."""


def steps() -> list[Step]:
    """All steps. Those of other pairs of releases are among them unless PAIRS is empty."""
    pairs = [find(name).name for name in os.environ.get(PAIRS, OLDEST).split()]
    releases: list[str | Path] = [PYTHON, "-m", "dev.releases"]
    of_pairs = [
        Step("programs", f"the programs of {', '.join(pairs)}", [*releases, "--build", *pairs]),
        Step(
            "pairs",
            f"a rule, a rollout and a drain on {', '.join(pairs)}",
            [*releases, "--smoke", *pairs],
        ),
    ]
    files = {path.relative_to(CHECKOUT) for path in MODULES.glob("test_*.py")}
    moves = {file for file in files if any(file.match(pattern) for pattern in MOVES)}
    sanity = [f"--core={release.core}" for release in (RELEASES[0], RELEASES[-1])]
    return [
        Step("lint", "all linters", [PYTHON, "-m", "dev.lint"]),
        Step(
            "sanity",
            "ansible-test sanity on the oldest and newest ansible-core, no ignore file; pylint on the newest",
            [PYTHON, "-m", "dev.sanity", *sanity],
        ),
        Step(
            "unit",
            "all on the oldest ansible-core, the edges on the newest, too",
            [PYTHON, "-m", "dev.unit_matrix"],
        ),
        pytest_step("conformance", "the engine against recorded verdicts", "tests/conformance"),
        pytest_step("sandbox", "the control plane of the other steps", "tests/sandbox"),
        pytest_step(
            "modules", "modules in process, on a real API", *sorted(map(str, files - moves))
        ),
        pytest_step(
            "moves", "modules that move VMs, in process, on a real API", *sorted(map(str, moves))
        ),
        pytest_step("forecasts", "forecast, then seen on a real control plane", "tests/forecasts"),
        pytest_step("integration", "roles, on a real API", "tests/integration"),
        pytest_step("jobs", "examples, demos and job templates, on a real API", "tests/jobs"),
        Step(
            "molecule", "scenarios: converge, again, drift, again", [PYTHON, "-m", "dev.molecule"]
        ),
        pytest_step(
            "faults", f"{FAULTS} random faults", "tests/faults", f"--fault-sample={FAULTS}"
        ),
        *(of_pairs if pairs else ()),
        Step("bench", "each row once, small", [PYTHON, "-m", "tests.bench", "--small"]),
        Step(
            "rights",
            "the steps before used each right of rbac/",
            [PYTHON, "-m", "dev.rights", RIGHTS],
        ),
    ]


def main() -> int:
    try:
        known = {step.name: step for step in steps()}
    except UnknownRelease as error:
        sys.exit(f"{PAIRS}: {error}")
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--only", metavar="STEP,...", help=f"some of {', '.join(known)}")
    only = parser.parse_args().only
    names = list(dict.fromkeys(only.split(","))) if only else list(known)
    unknown = sorted(set(names) - set(known))
    if unknown:
        parser.error(f"no step {', '.join(unknown)}; there are {', '.join(known)}")
    end_with_us()
    os.environ.setdefault("PLACEMENT_SEED", SEED)
    os.environ[DIRECTORY] = str(RIGHTS)
    print(f"test: random cases are those of PLACEMENT_SEED={os.environ['PLACEMENT_SEED']}")
    shutil.rmtree(REPORTS, ignore_errors=True)
    REPORTS.mkdir(parents=True)
    started = time.monotonic()
    results: list[Result] = []
    for stage in stages(names):
        results += run_stage([known[name] for name in stage])
    return _summary(results, time.monotonic() - started)


def stages(names: list[str]) -> list[list[str]]:
    """The steps in stages, which run one after the other: those of LANES, then each other one alone."""
    beside = [name for lane in LANES for name in lane.steps if name in names]
    alone = [[name] for name in names if name not in beside]
    return [beside, *alone] if beside else alone


def run_stage(stage: list[Step]) -> list[Result]:
    """Runs the steps of a stage in their lanes. Those that failed beside another step may run once more, alone."""
    if len(stage) == 1:
        return [run_step(stage[0], labelled=False)]
    with contextlib.ExitStack() as pools:
        running = []
        for lane in LANES:
            pool = pools.enter_context(ThreadPoolExecutor(lane.at_once))
            steps = [step for step in stage if step.name in lane.steps]
            nice = ["nice", "-n", str(lane.niceness)] if lane.niceness else []
            commands = [step._replace(arguments=[*nice, *step.arguments]) for step in steps]
            running += [pool.submit(run_step, step, True) for step in commands]
        done = [step.result() for step in running]
    return [retry(result) for result in done]


def _summary(results: list[Result], seconds: float) -> int:
    print("\n== summary")
    total = Counts()
    for result in results:
        total = Counts(*map(sum, zip(total, counts_of(result), strict=True)))
        print_line(result)
    print(f"{words(total)} in {seconds:.0f} s", flush=True)
    return 1 if any(result.status for result in results) else 0


if __name__ == "__main__":
    sys.exit(main())
