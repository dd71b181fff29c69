# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""A watch misses nothing, ends in time, and says so when it cannot go on."""

from __future__ import annotations

import itertools
import json
import typing as t

import pytest

from ansible_collections.virt.placement.plugins.module_utils.api import errors
from ansible_collections.virt.placement.plugins.module_utils.api.client import ApiClient
from ansible_collections.virt.placement.plugins.module_utils.api.lists import Event, watch
from tests.support.api_server import RESET, ApiServer, Reply, answer, status

NODES = "/api/v1/nodes"
GONE = {"type": "ERROR", "object": {"kind": "Status", "code": 410, "reason": "Expired"}}


def _node(name: str, version: int) -> dict[str, t.Any]:
    return {"metadata": {"name": name, "uid": f"uid-{name}", "resourceVersion": str(version)}}


def _event(type: str, name: str, version: int) -> dict[str, t.Any]:
    return {"type": type, "object": _node(name, version)}


def _stream(*events: dict[str, t.Any]) -> Reply:
    return Reply(200, b"".join(json.dumps(event).encode() + b"\n" for event in events))


def _list(version: int, *items: dict[str, t.Any]) -> Reply:
    return answer({"metadata": {"resourceVersion": str(version)}, "items": list(items)})


def _names(events: t.Iterable[Event]) -> list[str]:
    return [
        f"{event.type} {event.object['metadata']['name']}" if event.object else event.type
        for event in events
    ]


def test_watch_continues_where_the_last_connection_ended(server: ApiServer, api: ApiClient) -> None:
    server.plays(
        _stream(_event("ADDED", "a", 5), {"type": "BOOKMARK", "object": _node("", 9)}),
        RESET,
        _stream(_event("MODIFIED", "a", 11)),
    )
    events = watch(api, NODES, "3", until=api.deadline.within(50))
    assert _names(itertools.islice(events, 2)) == ["ADDED a", "MODIFIED a"]
    versions = [seen.target.split("resourceVersion=")[1].split("&")[0] for seen in server.seen]
    assert versions == ["3", "9", "9"]


@pytest.mark.parametrize("reply", [_stream(GONE), status(410, "Expired")], ids=["event", "status"])
def test_a_version_that_is_too_old_is_gone(server: ApiServer, api: ApiClient, reply: Reply) -> None:
    server.plays(reply)
    with pytest.raises(errors.Gone):
        list(watch(api, NODES, "3", until=api.deadline.within(50)))


@pytest.mark.parametrize(
    "broken",
    [
        Reply(200, b'{"type": "ADDED", "obj', cut_off=True),
        Reply(200, b"<html>\n"),
        Reply(503),
        Reply(429, b"Too many requests", {"Retry-After": "2"}),
        Reply(503, b'{"kind": "Sta', cut_off=True),
    ],
    ids=["cut off", "HTML", "503", "429", "error that is cut off"],
)
def test_a_broken_stream_is_opened_again(server: ApiServer, api: ApiClient, broken: Reply) -> None:
    server.plays(broken, _stream(_event("ADDED", "a", 5)))
    events = watch(api, NODES, "3", until=api.deadline.within(50))
    assert next(events).object == _node("a", 5)


def test_a_refusal_is_an_error(server: ApiServer, api: ApiClient) -> None:
    server.plays(status(403, "Forbidden"))
    with pytest.raises(errors.Forbidden, match="the verb 'watch' on 'nodes'"):
        list(watch(api, NODES, "3", until=api.deadline.within(50)))


def test_watch_ends_with_the_deadline_and_pauses_between_short_connections(
    server: ApiServer, api: ApiClient
) -> None:
    server.plays(_stream())
    assert list(watch(api, NODES, "3", until=api.deadline.within(10))) == []
    assert len(server.seen) == 10


def test_watch_sends_timeout_seconds(server: ApiServer, api: ApiClient) -> None:
    server.plays(_stream())
    list(watch(api, NODES, "3", until=api.deadline.within(10), params={"fieldSelector": "a=b"}))
    assert server.requests[0] == (
        f"GET {NODES}?fieldSelector=a%3Db&watch=true&allowWatchBookmarks=true"
        "&resourceVersion=3&timeoutSeconds=10"
    )


def test_a_real_silence_ends_in_time(server: ApiServer, api: ApiClient) -> None:
    server.plays(Reply(silent=30))
    real = type(api.deadline)(0.3)
    assert list(watch(api, NODES, "3", until=real)) == []
    assert real.expired


def test_error_of_the_connection_callback_ends_the_watch(server: ApiServer, api: ApiClient) -> None:
    server.plays(_stream(_event("ADDED", "w1", 5)))
    ended = InterruptedError()

    def connection(response: t.Any) -> None:
        if response is None:
            raise ended

    events = watch(api, NODES, "1", until=api.deadline, connection=connection)
    assert next(events).object["metadata"]["name"] == "w1"
    with pytest.raises(InterruptedError):
        events.close()
