# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Every suite, whatever fails: python -m dev.test [--only STEP,...].

The summary names each test that failed. Its last line counts what passed and failed: each test of
pytest, and each other step as one.
"""

from __future__ import annotations

import argparse
import os
import shutil
import sys
import time
import typing as t
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from xml.etree import ElementTree

from dev.commands import CHECKOUT, Command, end_with_us, print_now, run
from dev.matrix import RELEASES
from dev.releases import PAIRS
from dev.unit_matrix import REPORTS
from sandbox.releases import UnknownRelease, find
from sandbox.used_rights import DIRECTORY

PYTHON = CHECKOUT / ".venv" / "bin" / "python"
FAULTS = 12
SEED = "1"
"""The seed of all random cases, unless PLACEMENT_SEED is set. A failure is then about
what was changed. `make forecasts` looks for new ones, and `make faults` tries every fault."""

RIGHTS = REPORTS / "rights"
"""Where each sandbox records which rights were used."""

STILL = ("sanity", "unit", "lint")
"""Steps without a control plane, the longest first. Alone, each ends with one process on two cores."""

BESIDE = ("modules", "integration", "jobs", "forecasts", "molecule", "sandbox", "faults")
"""Steps that mostly wait for what their control planes do, the longest first."""

LANES = {STILL: 2, BESIDE: 3}
"""How many steps run at a time: two of BESIDE leave a third of two cores idle."""

RETRIED = 3
"""A step beside others with at most so many failed tests runs their files once more, alone: where two control
planes share the processor, a deadline of a test can pass. The summary names the tests."""


class Step(t.NamedTuple):
    name: str
    saying: str
    arguments: t.Sequence[str | Path]


class Result(t.NamedTuple):
    """`retried`: tests that failed beside another step and passed alone."""

    step: Step
    status: int
    seconds: float
    retried: tuple[str, ...] = ()


class Counts(t.NamedTuple):
    """Tests that passed, failed and were skipped."""

    passed: int = 0
    failed: int = 0
    skipped: int = 0


def steps() -> list[Step]:
    """All steps. One for other pairs of releases is among them where PAIRS names some."""
    pairs = [find(name).name for name in os.environ.get(PAIRS, "").split()]
    smoke: list[str | Path] = [PYTHON, "-m", "dev.releases", "--smoke", *pairs]
    of_pairs = [Step("pairs", f"a rule, a rollout and a drain on {', '.join(pairs)}", smoke)]
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
        _pytest("conformance", "the engine against recorded verdicts", "tests/conformance"),
        _pytest("sandbox", "the control plane of the other steps", "tests/sandbox"),
        _pytest("modules", "each module in process, on a real API", "tests/modules"),
        _pytest("forecasts", "forecast, then seen on a real control plane", "tests/forecasts"),
        _pytest("integration", "roles, on a real API", "tests/integration"),
        _pytest("jobs", "examples, demos and job templates, on a real API", "tests/jobs"),
        Step(
            "molecule", "scenarios: converge, again, drift, again", [PYTHON, "-m", "dev.molecule"]
        ),
        _pytest("faults", f"{FAULTS} faults by chance", "tests/faults", f"--fault-sample={FAULTS}"),
        *(of_pairs if pairs else ()),
        Step("bench", "each row once, small", [PYTHON, "-m", "tests.bench", "--small"]),
        Step(
            "rights",
            "the steps before used each right of rbac/",
            [PYTHON, "-m", "dev.rights", RIGHTS],
        ),
    ]


def _pytest(name: str, saying: str, *arguments: str) -> Step:
    report = f"--junitxml={REPORTS / f'{name}.xml'}"
    cache = f"cache_dir={REPORTS / 'cache' / name}"
    return Step(name, saying, [PYTHON, "-m", "pytest", "-q", report, "-o", cache, *arguments])


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
    print(f"test: cases by chance are those of PLACEMENT_SEED={os.environ['PLACEMENT_SEED']}")
    shutil.rmtree(REPORTS, ignore_errors=True)
    REPORTS.mkdir(parents=True)
    started = time.monotonic()
    results: list[Result] = []
    for stage in stages(names):
        labelled = len(stage) > 1
        lanes = next((LANES[group] for group in LANES if stage[0] in group), 1)
        with ThreadPoolExecutor(lanes) as pool:
            running = [pool.submit(_run, known[name], labelled) for name in stage]
        done = [step.result() for step in running]
        results += [_retry(result) for result in done] if labelled else done
    return _summary(results, time.monotonic() - started)


def stages(names: list[str]) -> list[list[str]]:
    """What runs when: stages one after the other. The steps of a group of LANES are one stage, where the first of them
    is named."""
    found: list[list[str]] = []
    for name in names:
        group = next((group for group in LANES if name in group), (name,))
        stage = [each for each in group if each in names]
        if stage not in found:
            found.append(stage)
    return found


def _run(step: Step, labelled: bool) -> Result:
    """Prints the output of the step as it comes, with its name in front if others print too."""
    label = f"{step.name}: " if labelled else ""
    print(f"\n== {step.name}: {step.saying}", flush=True)
    outcome = run(Command(step.name, step.arguments), lambda line: print_now(label + line))
    print(f"== {outcome.line}", flush=True)
    return Result(step, outcome.status, outcome.seconds)


def _retry(result: Result) -> Result:
    """The result after the files of its few failed tests ran once more; as it is if one fails again.
    Whole files, since the tests of some build on each other."""
    failed = _failed_tests(result.step.name)
    if not result.status or not 1 <= len(failed) <= RETRIED:
        return result
    name = result.step.name
    files = dict.fromkeys(filter(None, map(_file_of, failed)))
    arguments = [
        f"--junitxml={REPORTS / f'retried-{name}.xml'}" if "junitxml" in str(argument) else argument
        for argument in result.step.arguments
        if not str(argument).startswith("tests/")
    ]
    again = _run(Step(f"{name} again", f"alone: {', '.join(files)}", [*arguments, *files]), True)
    seconds = result.seconds + again.seconds
    if again.status:
        return result._replace(seconds=seconds)
    return Result(result.step, 0, seconds, failed)


def _file_of(test: str) -> str | None:
    """The file of a test: its name in a report begins with the module and perhaps a class."""
    parts = test.partition("::")[0].split(".")
    paths = ("/".join(parts[:end]) + ".py" for end in range(len(parts), 0, -1))
    return next((path for path in paths if (CHECKOUT / path).is_file()), None)


def _reports(name: str) -> list[Path]:
    """The reports of a step: one, or one for each release of ansible-core."""
    return [*REPORTS.glob(f"{name}.xml"), *REPORTS.glob(f"{name}-*.xml")]


def _failed_tests(name: str) -> tuple[str, ...]:
    """The names of the failed tests in the reports of a step."""
    return tuple(
        f"{case.get('classname')}::{case.get('name')}"
        for report in _reports(name)
        for case in ElementTree.parse(report).iter("testcase")
        if case.find("failure") is not None or case.find("error") is not None
    )


def _summary(results: list[Result], seconds: float) -> int:
    print("\n== summary")
    total = Counts()
    for result in results:
        counts = _counts(result)
        total = Counts(*map(sum, zip(total, counts, strict=True)))
        verdict = "FAILED" if result.status else "ok"
        print(f"{result.step.name:12} {verdict:7} {result.seconds:5.0f} s  {_words(counts)}")
        state = "failed" if result.status else "failed beside another step, passed alone"
        for test in _failed_tests(result.step.name):
            print(f"{'':12} {state}: {test}")
    print(f"{_words(total)} in {seconds:.0f} s", flush=True)
    return 1 if any(result.status for result in results) else 0


def _counts(result: Result) -> Counts:
    """The counts of the step's pytest reports, or one for the step if it has none."""
    name = result.step.name
    reports = _reports(name)
    if not reports:
        return Counts(failed=1) if result.status else Counts(passed=1)
    total = failed = skipped = 0
    for report in reports:
        for suite in ElementTree.parse(report).iter("testsuite"):
            total += int(suite.get("tests", 0))
            failed += int(suite.get("failures", 0)) + int(suite.get("errors", 0))
            skipped += int(suite.get("skipped", 0))
    failed -= len(result.retried)
    if result.status and not failed:  # pytest itself failed, or one of several did not report
        failed, total = 1, total + 1
    return Counts(max(total - failed - skipped, 0), failed, skipped)


def _words(counts: Counts) -> str:
    words = f"{counts.passed} passed, {counts.failed} failed"
    return f"{words}, {counts.skipped} skipped" if counts.skipped else words


if __name__ == "__main__":
    sys.exit(main())
