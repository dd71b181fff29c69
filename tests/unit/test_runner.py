# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What runs the suites: statuses, output, which steps run side by side, and cases by chance."""

from __future__ import annotations

import os
import pathlib
import signal
import sys
import time

import pytest

from dev import commands, test


def shell(script: str) -> commands.Command:
    return commands.Command("step", ["sh", "-c", script])


def test_run_returns_the_status_and_all_output() -> None:
    shown: list[str] = []

    outcome = commands.run(shell("echo one; echo two >&2; exit 3"), shown.append)

    assert (outcome.status, outcome.output) == (3, "one\ntwo\n")
    assert shown == ["one\n", "two\n"]


def test_run_does_not_wait_for_processes_that_keep_the_output_open(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(commands, "_REST_SECONDS", 0.2)
    began = time.monotonic()

    outcome = commands.run(shell("sleep 60 & echo $!"))

    os.kill(int(outcome.output), signal.SIGTERM)
    assert outcome.status == 0
    assert time.monotonic() - began < 30


def test_a_last_line_without_an_end_gets_one(capsys: pytest.CaptureFixture[str]) -> None:
    commands.print_now("one\n")
    commands.print_now("two")

    assert capsys.readouterr().out == "one\ntwo\n"


def test_each_step_runs_once_and_lanes_run_before_what_measures() -> None:
    names = [step.name for step in test.steps()]

    stages = test.stages(names)

    assert sorted(name for lanes in stages for lane in lanes for name in lane) == sorted(names)
    assert [lanes for lanes in stages if len(lanes) > 1] == [list(map(list, test.LANES))]
    assert stages[-2:] == [[["bench"]], [["rights"]]]


def test_chosen_steps_keep_their_lanes() -> None:
    assert test.stages(["lint", "modules", "integration", "rights"]) == [
        [["lint"]],
        [["modules"], ["integration"]],
        [["rights"]],
    ]
    assert test.stages(["lint", "modules", "faults"]) == [[["lint"]], [["modules", "faults"]]]


DRAWS = """
from hypothesis import given, settings, strategies

@settings(max_examples=5, database=None)
@given(strategies.integers(0, 10**9))
def test_drawn(number):
    print("drawn", number)
"""


def test_another_seed_makes_other_examples_and_the_same_one_the_same(
    tmp_path: pathlib.Path,
) -> None:
    pytest.importorskip("hypothesis")
    (tmp_path / "test_draws.py").write_text(DRAWS)

    first, again, other = (_drawn(tmp_path, seed) for seed in ("1", "1", "7"))

    assert first == again
    assert len({*first, *other}) > len({*first})


def _drawn(folder: pathlib.Path, seed: str) -> list[str]:
    arguments = ["-q", "-s", "-p", "no:cacheprovider", "-p", "tests.conftest", str(folder)]
    env = commands.environment(PLACEMENT_SEED=seed)
    outcome = commands.run(
        commands.Command("draws", [sys.executable, "-m", "pytest", *arguments], env)
    )
    assert outcome.status == 0, outcome.output
    return [line for line in outcome.output.splitlines() if "drawn" in line]
