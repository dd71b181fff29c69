# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""A slow machine runs a share of the test files, and says so."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

import pytest

from dev import commands, real, releases, share, steps, test
from tests.file_share import DRAW, SHARE, draw_files

FILES = [Path(f"test_{number}.py") for number in range(40)]
SUITES = {"lint", "unit", "conformance", "sandbox", "modules", "moves", "forecasts", "integration"}


def test_share_is_the_same_for_the_same_draw_and_another_one_for_another() -> None:
    assert len(draw_files(FILES, 0.25, "1")) == 10
    assert draw_files(FILES, 0.25, "1") == draw_files(FILES[::-1], 0.25, "1")
    assert draw_files(FILES, 0.25, "1") != draw_files(FILES, 0.25, "2")
    assert draw_files(FILES, 0.25, "1") < draw_files(FILES, 0.5, "1")


def test_all_files_run_without_a_share_and_one_with_the_smallest() -> None:
    assert draw_files(FILES, 1.0, "1") == set(FILES)
    assert len(draw_files(FILES, 0.001, "1")) == 1
    assert draw_files([], 0.1, "1") == set()


@pytest.mark.parametrize(
    ("speed", "expected"), [(1.2, 1.0), (0.9, 1.0), (0.5, 0.24), (0.2, 0.06), (0.01, 0.01)]
)
def test_share_falls_with_the_speed_of_the_processors(speed: float, expected: float) -> None:
    assert share.share_for(speed) == expected


@pytest.mark.parametrize("text", ["0", "-1", "2", "10%", ""])
def test_share_that_is_none_is_refused(text: str) -> None:
    with pytest.raises(argparse.ArgumentTypeError, match="is no share"):
        share.share_of(text)


@pytest.mark.parametrize("value", ["", "1", "1.0"])
def test_no_step_is_left_out_where_all_files_run(
    value: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(real, "left_out", lambda: "")
    monkeypatch.setenv(SHARE, value)

    assert [step.name for step in test.steps() if test.left_out(step)] == []


def test_share_leaves_out_the_steps_that_it_does_not_make_shorter(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(real, "left_out", lambda: "")
    monkeypatch.delenv(releases.PAIRS, raising=False)
    monkeypatch.setenv(SHARE, "0.25")

    of_share = {step.name for step in test.steps() if not test.left_out(step)}

    assert of_share == {*SUITES, "jobs", "faults"}
    (bench,) = (step for step in test.steps() if step.name == "bench")
    result = test.run_or_leave_out(bench, labelled=False)
    assert "25.0% of the test files" in result.left_out
    assert result.left_out in capsys.readouterr().out


def test_small_share_has_some_of_the_suites_with_control_planes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv(SHARE, "0.07")
    monkeypatch.setenv(DRAW, "a")

    run = {step.name for step in test.steps() if not test.left_out(step)}

    assert {"lint", "unit", "sandbox"} < run
    assert len(run & set(test.WITH_SANDBOX)) == 2


def test_share_of_the_faults_is_a_smaller_sample_and_a_second_run_has_whole_files(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv(SHARE, "0.25")
    (faults,) = (step for step in test.steps() if step.name == "faults")
    assert "--fault-sample=3" in faults.arguments
    assert faults.variables == {SHARE: "1"}

    ran: list[steps.Step] = []

    def run_step(step: steps.Step, labelled: bool) -> steps.Result:
        ran.append(step)
        return steps.Result(step, 0, 1.0)

    monkeypatch.setattr(steps, "run_step", run_step)
    monkeypatch.setattr(steps, "failed_tests", lambda name: ("tests.unit.test_file_share::test_x",))
    (modules,) = (step for step in test.steps() if step.name == "modules")
    steps.retry(steps.Result(modules, 1, 1.0))
    assert ran[0].variables[SHARE] == "1"


def test_share_of_what_the_marks_leave_and_nothing_that_a_test_starts_has_a_share(
    tmp_path: Path,
) -> None:
    for number in range(4):
        (tmp_path / f"test_{number}.py").write_text(
            f"import os, pytest\n"
            f"@pytest.mark.sweep\n"
            f"def test_slow(): print('slow')\n"
            f"def test_here(): print('file {number}', os.environ.get('{SHARE}'))\n"
        )
    arguments = ["-q", "-s", "-m", "not sweep", "-p", "no:cacheprovider", "-p", "tests.conftest"]
    command = [sys.executable, "-m", "pytest", *arguments, str(tmp_path)]
    env = commands.environment(**{SHARE: "0.5", DRAW: "a"})

    outcome = commands.run(commands.Command("a half", command, env))

    assert outcome.status == 0, outcome.output
    lines = [line for line in outcome.output.splitlines() if "file " in line]
    assert len(lines) == 2, outcome.output
    assert all("None" in line for line in lines)
    assert "slow" not in outcome.output
