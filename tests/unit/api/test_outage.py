# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""An API server that is away is named at once, with the time since when, and again when it is back."""

from __future__ import annotations

import threading
import time

import pytest

from ansible_collections.virt.placement.plugins.module_utils.api import transport
from ansible_collections.virt.placement.plugins.module_utils.api.errors import (
    AnswerLost,
    ApiError,
    ApiRequest,
    DeadlineExceeded,
    ServerFault,
    Unreachable,
)
from ansible_collections.virt.placement.plugins.module_utils.api.transport import (
    NOTED_AFTER,
    SILENT_AFTER,
    Outage,
)

REQUEST = ApiRequest("GET", "/api/v1/nodes")
REFUSED = Unreachable(REQUEST, "connection refused")


def test_outage_is_noted_once_and_its_end_once() -> None:
    outage, lines = Outage(), list[str]()
    outage.note = lines.append
    outage.failing(REFUSED, 0.5)
    assert lines == []
    outage.failing(REFUSED, NOTED_AFTER)
    outage.failing(REFUSED, 9.0)
    outage.answered()
    outage.answered()
    first, second = lines
    assert first.startswith("no answer from the API server since ")
    assert "connection refused" in first and first.endswith("; trying again")
    assert second.startswith("the API server, which was away since ")


def test_server_that_answers_with_errors_is_noted_in_other_words() -> None:
    outage, lines = Outage(), list[str]()
    outage.note = lines.append
    outage.failing(ServerFault(REQUEST, "etcd", status=500, is_status=True), 3.0)
    assert lines[0].startswith("only errors from the API server since ")


def test_request_that_fails_while_others_are_answered_is_no_outage() -> None:
    """As the list of a kind whose conversion webhook is down: it would be named as away and as back at each turn."""
    outage, lines = Outage(), list[str]()
    outage.note = lines.append
    for seconds in (3.0, 6.0, 9.0):
        outage.answered()
        outage.failing(ServerFault(REQUEST, "webhook", status=500, is_status=True), seconds)
    assert lines == []


def test_webhook_that_does_not_answer_is_no_outage_of_the_server() -> None:
    """The request is sent again for some seconds, and no other is answered meanwhile."""
    outage, lines = Outage(), list[str]()
    outage.note = lines.append
    fault = 'failed calling webhook "x.example.com": connection refused'
    error = ServerFault(REQUEST, fault, status=500, is_status=True)
    outage.failing(error, 9.0)
    assert lines == [] and not outage.noted
    assert "check its Service" in str(error)
    assert "check its health" not in str(error)


def test_outage_begins_with_the_last_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    """Not with the first failure of a request, where others were answered after it."""
    clock = iter((100.0, 101.0, 103.0))
    monkeypatch.setattr(transport, "uptime", lambda: next(clock))
    monkeypatch.setattr(time, "time", lambda: 1000.0)
    outage, lines = Outage(), list[str]()
    outage.note = lines.append
    outage.answered()
    outage.failing(REFUSED, 20.0)
    assert lines == []
    outage.failing(REFUSED, 22.0)
    since = time.strftime("%H:%M:%S %Z", time.localtime(1000.0 - 3.0))
    assert lines[0].startswith(f"no answer from the API server since {since}: ")


def test_request_that_has_no_answer_is_noted_before_it_fails(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A host that is gone sends nothing, and a list waits for it for a minute."""
    monkeypatch.setattr(transport, "uptime", lambda: 100.0)
    outage, lines = Outage(), list[str]()
    outage.note = lines.append
    with outage.sent(REQUEST):
        outage.note_silence(100.0 + SILENT_AFTER - 0.1)
        assert lines == []
        outage.note_silence(100.0 + SILENT_AFTER)
        outage.failing(AnswerLost(REQUEST, "Read timed out."), 60.0)
    outage.note_silence(1000.0)
    (line,) = lines
    assert line.startswith("no answer from the API server since ")
    assert line.endswith(": list nodes waits for it")
    assert SILENT_AFTER < 15.0, "the longest silence of a job"


def test_silence_of_one_request_beside_answers_is_no_outage(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    now = [100.0]
    monkeypatch.setattr(transport, "uptime", lambda: now[0])
    outage, lines = Outage(), list[str]()
    outage.note = lines.append
    with outage.sent(REQUEST):
        now[0] += SILENT_AFTER
        outage.answered()
        outage.note_silence(now[0] + 1.0)
    assert lines == []


def test_silence_is_noted_by_a_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(transport, "SILENT_AFTER", 0.0)
    noted = threading.Event()
    outage = Outage()
    outage.note = lambda _line: noted.set()
    with outage.sent(REQUEST):
        assert noted.wait(10.0)


def test_nothing_is_noted_where_no_one_listens() -> None:
    outage = Outage()
    outage.failing(REFUSED, 60.0)
    outage.answered()


@pytest.mark.parametrize(
    ("last", "advice"),
    [
        (REFUSED, "check host, port, proxy and network"),
        (ServerFault(REQUEST, "overloaded"), "raise timeout, or check why the API server is slow"),
        (
            AnswerLost(REQUEST, "Read timed out."),
            "raise timeout, or check why the API server is slow",
        ),
        (
            AnswerLost(REQUEST, "Connection reset"),
            "check the network and the API server, and run again",
        ),
        (None, "raise timeout, or check why the API server is slow"),
    ],
)
def test_more_time_is_not_advised_for_a_refused_connection(
    last: ApiError | None, advice: str
) -> None:
    assert DeadlineExceeded(REQUEST, 120, last).advise() == advice
