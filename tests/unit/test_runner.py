# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What runs the suites: statuses, output, and which steps run side by side."""

from __future__ import annotations

import os
import signal
import time

import pytest

from dev import commands, test


def shell(script: str) -> commands.Command:
    return commands.Command("step", ["sh", "-c", script])


def test_the_status_and_all_output_come_back() -> None:
    shown: list[str] = []

    outcome = commands.run(shell("echo one; echo two >&2; exit 3"), shown.append)

    assert (outcome.status, outcome.output) == (3, "one\ntwo\n")
    assert shown == ["one\n", "two\n"]


def test_what_holds_the_output_open_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
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


def test_steps_keep_their_order_and_each_runs_once() -> None:
    names = [step.name for step in test.steps()]

    groups = test.groups(names)

    assert [name for group in groups for name in group] == names
    assert [group for group in groups if len(group) > 1] == list(map(list, test.SIDE_BY_SIDE))
    assert test.groups(["modules", "lint", "integration"]) == [
        ["modules"],
        ["lint"],
        ["integration"],
    ]
