# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a step gathers, and what of it is taken back."""

from __future__ import annotations

from ansible_collections.virt.placement.plugins.module_utils.moves.state import (
    MoveCount,
    RunState,
    StepReport,
)


def test_lines_about_moves_that_the_journal_lacks_are_reverted() -> None:
    report = StepReport(MoveCount(3))
    report.lines += ["planned"]
    report.moves.append({"uid": "a"})
    report.save()
    lines = report.lines
    report.lines += ["began", "waiting: soak"]
    report.moves.append({"uid": "b"})
    report.count = MoveCount(4)

    assert report.revert(report.saved) == ["began", "waiting: soak"]
    assert report.lines is lines, "the result of the step holds the very list"
    assert lines == ["planned"]
    assert report.moves == [{"uid": "a"}]
    assert report.count == MoveCount(3)
    assert report.revert(report.saved) == []


def test_reason_for_waiting_is_reported_once_and_not_as_its_seconds_pass() -> None:
    state, report = RunState(), StepReport()
    for reason, left in (("soaking after a", 9), ("soaking after a", 8), ("", 0), ("after b", 8)):
        state.waits(reason, f"{reason}, {left} s left", report, 0.0)
    assert report.lines == ["soaking after a, 9 s left", "after b, 8 s left"]
