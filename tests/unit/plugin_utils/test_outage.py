# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""A module that found no API server is run again where its job has begun something."""

from __future__ import annotations

import os
import typing as t

import pytest

from ansible_collections.virt.placement.plugins.module_utils.api.progress_pipe import (
    AWAY,
    AWAY_SINCE,
)
from ansible_collections.virt.placement.plugins.plugin_utils.job_record import JobRecord
from ansible_collections.virt.placement.plugins.plugin_utils.outage import Waiting

Result = dict[str, t.Any]
FOUND: Result = {"nodes": []}


class Played:
    """Runs that end one after the other, each after 3 s, and the lines that are shown."""

    def __init__(self, *runs: Result, begun: bool = True, piped: bool = False) -> None:
        self.left = list(runs)
        self.seconds = 0.0
        self.lines: list[str] = []
        self.known: list[str] = []
        self.waiting = Waiting(
            lambda: begun, 300.0, self.lines.append, piped, self.pause, lambda: self.seconds
        )

    def pause(self, seconds: float) -> bool:
        self.seconds += seconds
        return False

    def run(self) -> Result:
        self.seconds += 3.0
        self.known.append(os.environ.get(AWAY_SINCE, ""))
        return dict(self.left.pop(0) if len(self.left) > 1 else self.left[0])

    @property
    def result(self) -> Result:
        return self.waiting.result_of(self.run)


def away(since: str = "", *, noted: bool = False) -> Result:
    return {
        "failed": True,
        "msg": "cannot list nodes: refused",
        AWAY: {"since": since, "noted": noted or bool(since)},
    }


def test_job_that_has_begun_runs_the_module_again_until_the_server_answers() -> None:
    played = Played(away(), away(), FOUND)
    assert played.result == FOUND
    first, last = played.lines
    assert first.startswith("no answer from the API server since ")
    assert first.endswith(": cannot list nodes: refused; trying again")
    assert last.startswith("the API server, which was away since ")
    since = first.split("since ")[1].split(": cannot")[0]
    assert played.known == ["", since, since]
    assert AWAY_SINCE not in os.environ


def test_outage_is_named_each_minute() -> None:
    played = Played(*[away()] * 40, FOUND)
    assert played.result == FOUND
    first, *still, last = played.lines
    assert played.seconds == 40 * 4.0 + 3.0
    assert len(still) == 2
    since = first.split("since ")[1].split(": cannot")[0]
    assert {x.split(":")[0] for x in still} == {
        f"still no answer from the API server since {since.split(':')[0]}"
    }
    assert "answers again" in last


def test_lines_that_the_module_has_shown_are_not_repeated() -> None:
    played = Played(away("10:00:00 UTC"), away("10:00:00 UTC"), FOUND, piped=True)
    assert played.result == FOUND
    assert played.lines == []
    assert played.known == ["", "10:00:00 UTC", "10:00:00 UTC"]


def test_server_that_answers_again_before_the_module_ends_is_not_named_again() -> None:
    played = Played(away(noted=True), FOUND, piped=True)
    assert played.result == FOUND
    assert (played.lines, played.known) == ([], ["", ""])


def test_job_that_has_begun_nothing_ends_at_once() -> None:
    played = Played(away(), begun=False)
    assert played.result == {"failed": True, "msg": "cannot list nodes: refused"}
    assert (played.seconds, played.lines) == (3.0, [])


def test_server_that_stays_away_ends_the_job_with_how_to_continue() -> None:
    played = Played(away())
    assert played.result["msg"] == (
        "no answer for 303 s: cannot list nodes: refused; when it answers, launch the same job again: it continues"
    )
    assert len(played.lines) == 6


def test_other_failures_are_not_waited_for() -> None:
    refused = {"failed": True, "msg": "this identity may not list nodes"}
    played = Played(refused)
    assert played.result == refused
    assert played.seconds == 3.0


@pytest.mark.parametrize(
    ("record", "begun"),
    [
        ({}, False),
        ({"changed": True}, True),
        ({"changed": True, "check_mode": True}, False),
        ({"maintenance": {"begun": False, "continued": ["w1"]}}, True),
        ({"maintenance": {"begun": True, "continued": []}}, True),
        ({"maintenance": {"begun": False, "continued": []}}, False),
    ],
)
def test_when_a_job_has_begun_something(record: Result, begun: bool) -> None:
    assert JobRecord("placement_maintenance", "lab", "play", 0.0, **record).has_begun is begun
