# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Every suite, whatever fails: python -m dev.test [--only STEP,...] [--share 0.1].

On a machine with much slower processors than usual a share of the test files runs (dev/share.py), and the summary names
each step that was left out: --share 1 runs all. The summary names each test that failed. Its last line counts what
passed and failed: each test of pytest, and each other step as one.
"""

from __future__ import annotations

import argparse
import math
import os
import shutil
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from dev import real
from dev.commands import CHECKOUT, Command, end_with_us, run
from dev.lint import LOADS_ANSIBLE, commands
from dev.matrix import RELEASES
from dev.releases import OLDEST, PAIRS
from dev.share import measure_speed, share_for, share_of
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
from tests.file_share import DRAW, SHARE, draw_files

FAULTS = 12
SEED = "1"
"""The seed of all random cases, unless PLACEMENT_SEED is set. A failure is then about
what was changed. `make forecasts` looks for new ones, and `make faults` tries every fault."""

RIGHTS = REPORTS / "rights"
"""Where each sandbox records which rights were used."""


WITH_UNIT_TESTS = (
    "unit",
    "sanity",
    "ansible-lint",
    "lint",
    "programs",
    "nodes",
    "molecule",
    "sandbox",
)
"""The unit tests, and what takes as long as they do. The programs of other pairs, and of real nodes, are built before
what needs them."""

WITH_SANDBOX = (
    "jobs",
    "modules",
    "moves",
    "integration",
    "forecasts",
    "faults",
    "conformance",
    "pairs",
)
"""Steps that mostly wait for their control planes, the longest first."""

AT_ONCE = {WITH_UNIT_TESTS: 2, WITH_SANDBOX: 3}
"""Steps of each group that run at a time: two of WITH_SANDBOX leave a third of two cores idle."""

SUITES_PER_SHARE = 4
"""A quarter of the test files has files of all suites with control planes, a smaller share of fewer."""

ONLY_WITH_ALL_FILES = (
    "sanity",
    "ansible-lint",
    "programs",
    "nodes",
    "molecule",
    "pairs",
    "real",
    "bench",
    "rights",
)
"""Steps that a share of the test files does not make shorter, or that need what all tests did."""

MODULES = CHECKOUT / "tests" / "modules"
MOVES = ("test_rollout*.py", "test_node_drain.py", "test_steering.py")
"""The files of MODULES that are a step of their own: both halves take equally long."""


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
    faults = math.ceil(FAULTS * _share())
    lint: list[str | Path] = [PYTHON, "-m", "dev.lint"]
    linters = [command.name for command in commands()]
    return [
        Step(
            "lint",
            "linters that load no Ansible",
            [*lint, *(name for name in linters if name not in LOADS_ANSIBLE)],
        ),
        Step("ansible-lint", "linters that load Ansible", [*lint, *LOADS_ANSIBLE]),
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
            "faults",
            f"{faults} random faults",
            "tests/faults",
            f"--fault-sample={faults}",
            variables={SHARE: "1"},
        ),
        Step("nodes", "the programs of real nodes", [PYTHON, "-m", "dev.real"]),
        pytest_step("real", "guests that run and are migrated", "-m", "real_tour", "tests/real"),
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
    parser.add_argument("--share", type=share_of, help="of the test files, 0.1 being a tenth")
    chosen = parser.parse_args()
    only = chosen.only
    names = list(dict.fromkeys(only.split(","))) if only else list(known)
    unknown = sorted(set(names) - set(known))
    if unknown:
        parser.error(f"no step {', '.join(unknown)}; there are {', '.join(known)}")
    end_with_us()
    os.environ.setdefault("PLACEMENT_SEED", SEED)
    os.environ[DIRECTORY] = str(RIGHTS)
    print(f"test: random cases are those of PLACEMENT_SEED={os.environ['PLACEMENT_SEED']}")
    _choose_share(chosen.share, measure=not only)
    known = {step.name: step for step in steps()}  # of which some depend on the share
    shutil.rmtree(REPORTS, ignore_errors=True)
    REPORTS.mkdir(parents=True)
    started = time.monotonic()
    results: list[Result] = []
    for stage in stages(names):
        labelled = len(stage) > 1
        at_once = next((AT_ONCE[group] for group in AT_ONCE if stage[0] in group), 1)
        if _share() < 1 and stage[0] in WITH_SANDBOX:
            at_once = 1  # slow processors have no time left over
        with ThreadPoolExecutor(at_once) as pool:
            running = [pool.submit(run_or_leave_out, known[name], labelled) for name in stage]
        done = [step.result() for step in running]
        results += [retry(result) for result in done] if labelled else done
    return _summary(results, time.monotonic() - started)


def run_or_leave_out(step: Step, labelled: bool) -> Result:
    """The result of a step, or why it was left out."""
    if reason := left_out(step):
        print(f"\n== {step.name}: left out: {reason}", flush=True)
        return Result(step, 0, 0.0, left_out=reason)
    return run_step(step, labelled)


def left_out(step: Step) -> str:
    """Why a step does not run here, in one line; empty where it does."""
    if _share() < 1 and step.name in ONLY_WITH_ALL_FILES:
        return f"{_share():.1%} of the test files run here, and this step runs with all (SHARE=1)"
    if _share() < 1 and step.name in set(WITH_SANDBOX) - _drawn_suites():
        return f"{_share():.1%} of the test files run here, none of this suite (SHARE=1: all)"
    return real.left_out() if step.name == "real" else ""


def _choose_share(share: float | None, *, measure: bool) -> None:
    """Tell all steps which share of the test files runs. The commit draws them, so that a run can be repeated."""
    if share is None and measure:
        speed = measure_speed()
        share = share_for(speed)
        print(f"test: the processors have {speed:.2f} of the usual speed")
    os.environ[SHARE] = str(share or 1.0)
    if _share() < 1:
        draw = os.environ.setdefault(DRAW, _commit())
        print(f"test: {_share():.1%} of the test files run, those of {DRAW}={draw} (SHARE=1: all)")


def _share() -> float:
    return float(os.environ.get(SHARE) or 1)


def _drawn_suites() -> set[str]:
    """Suites of WITH_SANDBOX that run: with a small share not all of them, since each starts control planes."""
    suites = {Path(name) for name in WITH_SANDBOX if name not in ONLY_WITH_ALL_FILES}
    share = min(1.0, SUITES_PER_SHARE * _share())
    return {suite.name for suite in draw_files(suites, share, os.environ.get(DRAW, ""))}


def _commit() -> str:
    return run(Command("commit", ["git", "rev-parse", "--short=12", "HEAD"])).output.strip()


def stages(names: list[str]) -> list[list[str]]:
    """The steps in stages, which run one after the other. A group of AT_ONCE is one stage, in the place of the first of
    its steps that is named."""
    found: list[list[str]] = []
    for name in names:
        group = next((group for group in AT_ONCE if name in group), (name,))
        stage = [step for step in group if step in names]
        if stage not in found:
            found.append(stage)
    return found


def _summary(results: list[Result], seconds: float) -> int:
    print("\n== summary")
    total = Counts()
    for result in results:
        total = Counts(*map(sum, zip(total, counts_of(result), strict=True)))
        print_line(result)
    absent = sum(bool(result.left_out) for result in results)
    part = f", {absent} steps left out" if absent else ""
    part += f", {_share():.1%} of the test files" if _share() < 1 else ""
    print(f"{words(total)} in {seconds:.0f} s{part}", flush=True)
    return 1 if any(result.status for result in results) else 0


if __name__ == "__main__":
    sys.exit(main())
