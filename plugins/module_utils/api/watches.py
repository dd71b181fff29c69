# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Changes as they happen.

`watch` goes on from one resource version until it is too old (Gone); `follow` lists, watches and
lists again, so that who consumes it sees one stream that misses nothing.
"""

from __future__ import annotations

import json
import math
import typing as t
from dataclasses import dataclass

from ..model.pointer import JSON
from .deadline import Deadline
from .errors import AnswerLost, ApiError, Gone, Request, Unauthorized, from_answer
from .lists import list_all
from .requests import PLAIN, Api, Params, target

_STRETCH = 25.0
"""Seconds after which the server is asked to end a watch: what a dead connection can cost."""

_SLACK = 5.0

_SHORT = 1.0
"""A watch that ends sooner is not opened again at once."""


@dataclass(frozen=True)
class Event:
    """`type` is ADDED, MODIFIED or DELETED; from `follow` also SYNCED, once after each list."""

    type: str
    object: dict[str, JSON]


def watch(
    api: Api, path: str, resource_version: str, *, until: Deadline, params: Params | None = None
) -> t.Iterator[Event]:
    """Events after `resource_version` until the deadline, over as many connections as it takes.

    Raises Gone when that version is too old: list again. Other errors are those of requests;
    what a read survives is survived.
    """
    request = Request("GET", path, watch=True)
    attempt, failing_since, renewed = 0, until.now(), False
    while until.remaining:
        session, began = api.transport.session, until.now()
        try:
            for event in _stretch(api, request, resource_version, until, params or {}):
                attempt, failing_since, renewed = 0, until.now(), False
                resource_version = event.object["metadata"]["resourceVersion"]
                if event.type != "BOOKMARK":
                    yield event
            attempt, failing_since = 0, until.now()
            if until.now() - began < _SHORT:
                until.pause(_SHORT)
        except Unauthorized:
            if renewed:
                raise
            renewed = True
            api.transport.renew(session)
        except ApiError as error:
            attempt += 1
            delay = api.policy.delay(error, attempt, until.now() - failing_since, True)
            if until.expired:
                return
            if delay is None:
                raise
            until.pause(delay)


def _stretch(
    api: Api, request: Request, resource_version: str, until: Deadline, params: Params
) -> t.Iterator[Event]:
    """The events of one connection."""
    bounded = until.within(min(_STRETCH, api.deadline.remaining))
    query = {
        **params,
        "watch": "true",
        "allowWatchBookmarks": "true",
        "resourceVersion": resource_version,
        "timeoutSeconds": str(max(1, math.ceil(bounded.remaining))),
    }
    api.counts.sent(request, False)
    response = api.transport.start(
        request,
        target(request.path, query),
        until,
        bounded.remaining + _SLACK,
        headers={"Accept": PLAIN},
    )
    try:
        if response.status >= 300:
            raise from_answer(request, response.status, response.headers, response.read())
        for line in _lines(request, response):
            yield _event(request, line)
    finally:
        response.close()


def _lines(request: Request, response: t.Any) -> t.Iterator[bytes]:
    import urllib3.exceptions as seen

    rest = b""
    try:
        for chunk in response.stream(1 << 16):
            *lines, rest = (rest + chunk).split(b"\n")
            yield from filter(None, lines)
    except (seen.HTTPError, OSError) as error:
        raise AnswerLost(request, str(error)) from error
    if rest.strip():
        raise AnswerLost(request, "the watch ended in the middle of an event")


def _event(request: Request, line: bytes) -> Event:
    try:
        found = json.loads(line)
        kind, body = found["type"], found["object"]
    except (ValueError, KeyError, TypeError) as error:
        raise AnswerLost(request, "a line of the watch is no event") from error
    if kind == "ERROR":
        status = int(body.get("code") or 500)
        raise from_answer(request, status, {}, json.dumps({**body, "kind": "Status"}).encode())
    return Event(kind, body)


def follow(
    api: Api, path: str, *, until: Deadline, params: Params | None = None
) -> t.Iterator[Event]:
    """What is there, a SYNCED event, and then every change until the deadline.

    After a relist it gives what has changed since, and DELETED for what is gone, with the last
    state that was seen. The same version of an object comes once.
    """
    known: dict[str, dict[str, JSON]] = {}
    while not until.expired:
        listing = list_all(api, path, params=params)
        yield from _differences(known, listing.items)
        yield Event("SYNCED", {})
        try:
            for event in watch(api, path, listing.resource_version, until=until, params=params):
                if _take(known, event):
                    yield event
        except Gone:
            continue


def _differences(
    known: dict[str, dict[str, JSON]], items: t.Sequence[dict[str, JSON]]
) -> t.Iterator[Event]:
    there = {item["metadata"]["uid"] for item in items}
    for uid in [uid for uid in known if uid not in there]:
        yield Event("DELETED", known.pop(uid))
    for item in items:
        event = Event("MODIFIED" if item["metadata"]["uid"] in known else "ADDED", item)
        if _take(known, event):
            yield event


def _take(known: dict[str, dict[str, JSON]], event: Event) -> bool:
    """Whether the event is news. Keeps `known`, the objects by uid, up to date."""
    metadata = event.object["metadata"]
    uid = metadata["uid"]
    if event.type == "DELETED":
        return known.pop(uid, None) is not None
    before = known.get(uid)
    known[uid] = event.object
    return before is None or before["metadata"]["resourceVersion"] != metadata["resourceVersion"]
