# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Whole lists, page by page, and changes of a list as they happen."""

from __future__ import annotations

import contextlib
import functools
import json
import math
import typing as t
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from ..model.gc import collector_paused
from ..model.json_pointer import JSON
from ..model.json_text import ListPage, decoded
from .client import METADATA, METADATA_LIST, PLAIN, ApiClient, Params, target
from .errors import (
    AnswerLost,
    ApiError,
    ApiRequest,
    BadAnswer,
    BrokenPage,
    DeadlineExceeded,
    Gone,
    Unauthorized,
    from_answer,
)
from .transport import MOST_BYTES, Deadline, classify_errors, too_large

PAGE = 500

_RESTARTS = 3
"""How often a list is started. A page token expires after about five minutes; a list that is too slow, or broken,
three times will not be better."""


_Item = t.TypeVar("_Item")


@dataclass(frozen=True)
class Listing(t.Generic[_Item]):
    """All items of a list as of `resource_version`. Items of a list do not name their kind."""

    items: tuple[_Item, ...]
    resource_version: str


def list_all(
    api: ApiClient, path: str, *, params: Params | None = None, metadata_only: bool = False
) -> Listing[dict[str, JSON]]:
    """Every item at `path` as JSON: see `list_converted`."""
    return list_converted(api, path, lambda item: item, params=params, metadata_only=metadata_only)


def list_converted(
    api: ApiClient,
    path: str,
    convert: t.Callable[[dict[str, JSON]], _Item],
    *,
    params: Params | None = None,
    metadata_only: bool = False,
) -> Listing[_Item]:
    """The result of `convert` for every item at `path`. Pages have 500 items. In memory are the texts of at most two
    pages and one item. With `metadata_only` the server sends only `metadata` of each item.

    Each page extends the deadline, if it may be extended (see Deadline.progress). If the deadline passes, the
    error has the number of items that arrived. After an expired page token (410), and after items that are not
    JSON, the list starts again.
    Raises ApiError; BadAnswer if the answer is JSON but no list, which must not be taken for an empty one.
    """
    accept = METADATA_LIST if metadata_only else PLAIN
    get = functools.partial(api.get_page, path, accept=accept)
    for restarts_left in reversed(range(_RESTARTS)):
        try:
            with collector_paused():
                return _pages(get, path, convert, params or {})
        except (Gone, BrokenPage):
            if not restarts_left:
                raise
    raise AssertionError("unreachable")


def _pages(
    get: t.Callable[[Params], ListPage],
    path: str,
    convert: t.Callable[[dict[str, JSON]], _Item],
    params: Params,
) -> Listing[_Item]:
    items: list[_Item] = []
    remaining: int | None = None
    params = {**params, "limit": str(PAGE)}
    with ThreadPoolExecutor(1, "page") as pool:  # the next page comes while one is converted
        fetch: t.Callable[[], ListPage] = functools.partial(get, params)
        while True:
            try:
                page = fetch()
            except DeadlineExceeded as error:
                raise error.after(len(items), remaining) from error.last
            if not page.has_items:
                raise BadAnswer(ApiRequest("GET", path), f"no list but a {page.kind!r}")
            remaining = page.metadata.get("remainingItemCount")
            if token := page.metadata.get("continue"):
                fetch = pool.submit(get, {**params, "continue": token}).result
            for item in _items(page, path):
                if not _name_of(item):
                    raise BadAnswer(ApiRequest("GET", path), "an item of the list has no name")
                items.append(convert(item))
            if not token:
                return Listing(tuple(items), str(page.metadata.get("resourceVersion") or ""))


def _name_of(item: JSON) -> JSON:
    """Its name; nothing of what is no object."""
    metadata = item.get("metadata") if isinstance(item, dict) else None
    return metadata.get("name") if isinstance(metadata, dict) else None


def _items(page: ListPage, path: str) -> t.Iterator[dict[str, JSON]]:
    try:
        yield from page.items()
    except ValueError as error:
        raise BrokenPage(ApiRequest("GET", path), f"the items are not JSON: {error}") from error


_CONNECTION_SECONDS = 10.0
"""Seconds after which the server ends a connection of a watch (`timeoutSeconds`)."""

_SLACK = 3.0
"""Seconds that a connection may last longer. After the sum of both, a dead connection is noticed."""

_SHORT = 1.0
"""Seconds. After a connection that ended sooner, the next one waits so long."""


@dataclass(frozen=True)
class Event:
    """`type` is ADDED, MODIFIED or DELETED."""

    type: str
    object: dict[str, JSON]


def watch(
    api: ApiClient,
    path: str,
    resource_version: str,
    *,
    until: Deadline,
    params: Params | None = None,
    metadata_only: bool = False,
    connection: t.Callable[[t.Any], None] = lambda _response: None,
) -> t.Generator[Event, None, None]:
    """Events after `resource_version` until the deadline, over several connections.

    `connection` is called with the response of each connection that the server accepts, and with None
    when that ends; an error of it ends the watch. Raises Gone if the version is too old: list again.
    Raises the other ApiErrors of a read, after the same retries.
    """
    request = ApiRequest("GET", path, watch=True)
    accept = METADATA if metadata_only else PLAIN
    attempt, failing_since, renewed = 0, until.now(), False
    while until.remaining:
        session, began = api.transport.session, until.now()
        try:
            events = _events_of_connection(
                api, request, resource_version, until, params or {}, accept, connection
            )
            with contextlib.closing(events):
                for event in events:
                    attempt, failing_since, renewed = 0, until.now(), False
                    resource_version = event.object["metadata"]["resourceVersion"]
                    if event.type != "BOOKMARK":
                        yield event
            attempt, failing_since = 0, until.now()
            if until.now() - began < _SHORT:
                until.pause(_SHORT)
        except Unauthorized as refused:
            if renewed:
                raise
            renewed = True
            api.transport.renew(session, refused)
        except ApiError as error:
            attempt += 1
            delay = api.policy.delay(error, attempt, until.now() - failing_since, True)
            if until.expired:
                return
            if delay is None:
                raise
            until.pause(delay)


def _events_of_connection(
    api: ApiClient,
    request: ApiRequest,
    resource_version: str,
    until: Deadline,
    params: Params,
    accept: str,
    connection: t.Callable[[t.Any], None],
) -> t.Generator[Event, None, None]:
    bounded = until.within(min(_CONNECTION_SECONDS, api.deadline.remaining))
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
        headers={"Accept": accept},
    )
    try:
        if response.status >= 300:
            with classify_errors(request):
                body = response.read(MOST_BYTES)
            raise from_answer(request, response.status, response.headers, body)
        connection(response)
        for line in _lines(request, response):
            api.counts.received(len(line) + 1)
            yield _event(request, line)
    finally:
        response.close()
        connection(None)


def _lines(request: ApiRequest, response: t.Any) -> t.Iterator[bytes]:
    rest = b""
    with classify_errors(request):
        for chunk in response.stream(1 << 16):
            *lines, rest = (rest + chunk).split(b"\n")
            if len(rest) > MOST_BYTES:
                raise too_large(request)
            yield from filter(None, lines)
    if rest.strip():
        raise AnswerLost(request, "the watch ended in the middle of an event")


def _event(request: ApiRequest, line: bytes) -> Event:
    try:
        event = decoded(line)
        kind, body = event["type"], event["object"]
    except (ValueError, KeyError, TypeError) as error:
        raise AnswerLost(request, "a line of the watch is no event") from error
    if kind == "ERROR":
        status = int(body.get("code") or 500)
        raise from_answer(request, status, {}, json.dumps({**body, "kind": "Status"}).encode())
    return Event(kind, body)
