# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""A slow machine runs a share of the test files, and says so."""

from __future__ import annotations

from pathlib import Path

import pytest

from dev import share, test
from tests.file_share import chosen

FILES = [Path(f"test_{number}.py") for number in range(40)]


def test_a_share_is_the_same_for_the_same_seed_and_another_one_for_another() -> None:
    assert len(chosen(FILES, 0.25, "1")) == 10
    assert chosen(FILES, 0.25, "1") == chosen(FILES[::-1], 0.25, "1")
    assert chosen(FILES, 0.25, "1") != chosen(FILES, 0.25, "2")
    assert chosen(FILES, 0.25, "1") < chosen(FILES, 0.5, "1")


def test_all_files_run_without_a_share_and_one_with_the_smallest() -> None:
    assert chosen(FILES, 1.0, "1") == set(FILES)
    assert len(chosen(FILES, 0.001, "1")) == 1
    assert chosen([], 0.1, "1") == set()


@pytest.mark.parametrize(
    ("speed", "expected"), [(1.2, 1.0), (0.9, 1.0), (0.5, 0.47), (0.1, 0.05), (0.01, 0.01)]
)
def test_share_falls_with_the_speed_of_the_processors(speed: float, expected: float) -> None:
    assert share.share_at(speed) == pytest.approx(expected, abs=0.005)


def test_share_that_is_asked_for_needs_no_measurement(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PLACEMENT_SHARE", "0.3")
    monkeypatch.setattr(share, "speed", lambda: pytest.fail("measured"))

    assert share.share() == 0.3


def test_a_step_without_test_files_is_left_out_of_a_share_except_the_linters(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PLACEMENT_SHARE", "0.25")

    left_out = {step.name for step in test.steps() if test.left_out(step)}

    assert left_out >= {
        "sanity",
        "molecule",
        "programs",
        "pairs",
        "nodes",
        "real",
        "bench",
        "rights",
    }
    assert not left_out & {"lint", "unit", "modules", "jobs", "sandbox", "conformance"}
    (bench,) = (step for step in test.steps() if step.name == "bench")
    result = test.run_or_leave_out(bench, labelled=False)
    assert "25.0% of the test files" in result.left_out
    assert result.left_out in capsys.readouterr().out
