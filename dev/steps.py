# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""A step of a verb: its command, its reports, and the second run of failed tests that ran beside another step."""

from __future__ import annotations

import typing as t
from pathlib import Path
from types import MappingProxyType
from xml.etree import ElementTree

from dev.commands import CHECKOUT, Command, environment, print_now, run
from dev.unit_matrix import REPORTS
from tests.file_share import SHARE

PYTHON = CHECKOUT / ".venv" / "bin" / "python"

RETRIED = 3
"""A step that ran beside others runs the files of its failed tests once more, alone, if at most this many failed: a
deadline of a test can pass where control planes share the processor. The summary names the tests."""


class Step(t.NamedTuple):
    """`title` is printed when the step begins. `variables` are added to the environment."""

    name: str
    title: str
    arguments: t.Sequence[str | Path]
    variables: t.Mapping[str, str] = MappingProxyType({})


class Result(t.NamedTuple):
    """`retried`: tests that failed beside another step and passed alone. `left_out`: why it did not run."""

    step: Step
    status: int
    seconds: float
    retried: tuple[str, ...] = ()
    left_out: str = ""


class Counts(t.NamedTuple):
    """Tests that passed, failed and were skipped."""

    passed: int = 0
    failed: int = 0
    skipped: int = 0


def pytest_step(
    name: str, title: str, *arguments: str, variables: t.Mapping[str, str] = MappingProxyType({})
) -> Step:
    """A step of tests, with a report and a cache of its own."""
    report = f"--junitxml={REPORTS / f'{name}.xml'}"
    cache = f"cache_dir={REPORTS / 'cache' / name}"
    command: list[str | Path] = [PYTHON, "-m", "pytest", "-q", report, "-o", cache, *arguments]
    return Step(name, title, command, variables)


def run_step(step: Step, labelled: bool) -> Result:
    """Runs a step and prints each line of its output; labelled, with the name of the step in front."""
    label = f"{step.name}: " if labelled else ""
    print(f"\n== {step.name}: {step.title}", flush=True)
    command = Command(step.name, step.arguments, environment(**step.variables))
    outcome = run(command, lambda line: print_now(label + line))
    print(f"== {outcome.line}", flush=True)
    return Result(step, outcome.status, outcome.seconds)


def retry(result: Result) -> Result:
    """The result after the files of its failed tests ran once more, if these are few. It stays failed if one fails
    again. Whole files run, since the tests of some build on each other."""
    failed = failed_tests(result.step.name)
    if not result.status or not 1 <= len(failed) <= RETRIED:
        return result
    name = result.step.name
    files = dict.fromkeys(filter(None, map(_file_of, failed)))
    arguments = [
        f"--junitxml={REPORTS / f'retried-{name}.xml'}" if "junitxml" in str(argument) else argument
        for argument in result.step.arguments
        if not str(argument).startswith("tests/")
    ]
    second_run = result.step._replace(
        name=f"{name} again",
        title=f"alone: {', '.join(files)}",
        arguments=[*arguments, *files],
        variables={**result.step.variables, SHARE: "1"},
    )
    again = run_step(second_run, labelled=True)
    seconds = result.seconds + again.seconds
    if again.status:
        return result._replace(seconds=seconds)
    return Result(result.step, 0, seconds, failed)


def _file_of(test: str) -> str | None:
    """The file of a test: its name in a report begins with the module and perhaps a class."""
    parts = test.partition("::")[0].split(".")
    paths = ("/".join(parts[:end]) + ".py" for end in range(len(parts), 0, -1))
    return next((path for path in paths if (CHECKOUT / path).is_file()), None)


def reports_of(name: str) -> list[Path]:
    """The reports of a step: one, or one for each release of ansible-core."""
    return [*REPORTS.glob(f"{name}.xml"), *REPORTS.glob(f"{name}-*.xml")]


def failed_tests(name: str) -> tuple[str, ...]:
    """The names of the failed tests in the reports of a step."""
    return tuple(
        f"{case.get('classname')}::{case.get('name')}"
        for report in reports_of(name)
        for case in ElementTree.parse(report).iter("testcase")
        if case.find("failure") is not None or case.find("error") is not None
    )


def counts_of(result: Result) -> Counts:
    """The counts of the step's pytest reports, or one for the step if it has none."""
    if result.left_out:
        return Counts()
    name = result.step.name
    reports = reports_of(name)
    if not reports:
        return Counts(failed=1) if result.status else Counts(passed=1)
    total = failed = skipped = 0
    for report in reports:
        for suite in ElementTree.parse(report).iter("testsuite"):
            total += int(suite.get("tests", 0))
            failed += int(suite.get("failures", 0)) + int(suite.get("errors", 0))
            skipped += int(suite.get("skipped", 0))
    failed -= len(result.retried)
    if result.status and not failed:  # pytest itself failed, or one of several wrote no report
        failed, total = 1, total + 1
    return Counts(max(total - failed - skipped, 0), failed, skipped)


def words(counts: Counts) -> str:
    """Such as `12 passed, 0 failed`."""
    text = f"{counts.passed} passed, {counts.failed} failed"
    return f"{text}, {counts.skipped} skipped" if counts.skipped else text


def print_line(result: Result, text: str = "") -> None:
    """The line of a step in a summary, and one for each failed test."""
    if result.left_out:
        print(f"{result.step.name:12} left out: {result.left_out}")
        return
    verdict = "FAILED" if result.status else "ok"
    print(
        f"{result.step.name:12} {verdict:7} {result.seconds:5.0f} s  {text or words(counts_of(result))}"
    )
    state = "failed" if result.status else "failed beside another step, passed alone"
    for test in failed_tests(result.step.name):
        print(f"{'':12} {state}: {test}")
