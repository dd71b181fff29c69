# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""A wait ends with a change, and no later than the output is read."""

from __future__ import annotations

import json
import os
import threading
from pathlib import Path

import pytest

from ansible_collections.virt.placement.plugins.module_utils.api.transport import Deadline
from ansible_collections.virt.placement.plugins.module_utils.moves.state import StepReport
from ansible_collections.virt.placement.plugins.module_utils.moves.watch import (
    SETTLE,
    ReportPipe,
    wait_for,
)
from tests.support.api_server import Clock


def test_wait_ends_with_a_change_and_what_comes_along_with_it(clock: Clock) -> None:
    changed = threading.Event()
    until = Deadline(10, clock=clock, sleep=clock.sleep)
    wait_for(changed, 0.01, until)
    assert clock.waits == []
    changed.set()
    wait_for(changed, 4, until)
    assert clock.waits == [SETTLE]


def test_wait_ends_when_no_process_reads_the_output() -> None:
    wait_for(threading.Event(), 1e9, Deadline(1e9), lambda: False)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "progress"
    os.mkfifo(path)
    return path


def read(descriptor: int) -> list[str]:
    return [json.loads(line) for line in os.read(descriptor, 1 << 16).splitlines()]


def test_pipe_shows_the_lines_that_the_journal_is_as_far_as(path: Path) -> None:
    reader = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    pipe, report = ReportPipe(str(path)), StepReport()
    report.lines += ["cordoned", "two\nlines"]
    report.save()
    report.lines.append("not in the journal yet")

    pipe.show(report)

    assert read(reader) == ["cordoned", "two\nlines"]
    assert report.shown == 2
    report.save()
    pipe.show(report)
    assert read(reader) == ["not in the journal yet"]
    os.close(reader)


@pytest.mark.parametrize("line", ["token s3cret is refused", "x" * 5000])
def test_line_with_a_secret_or_of_excessive_length_comes_with_the_result(
    path: Path, line: str
) -> None:
    reader = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    pipe, report = ReportPipe(str(path)), StepReport()
    report.lines += ["first", line, "last"]
    report.save()

    pipe.show(report, ["s3cret"])

    assert read(reader) == ["first"]
    assert (report.shown, pipe.open) == (1, False)
    os.close(reader)


def test_there_is_no_pipe_where_no_process_reads_it(path: Path, tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.touch()
    for name in (path, file, tmp_path / "missing", ""):
        assert not ReportPipe(str(name)).open
