# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Lists come whole or not at all."""

from __future__ import annotations

import gzip
import json
import typing as t

import pytest
import urllib3

from ansible_collections.virt.placement.plugins.module_utils.api import errors, transport
from ansible_collections.virt.placement.plugins.module_utils.api.client import (
    ApiClient,
)
from ansible_collections.virt.placement.plugins.module_utils.api.lists import (
    Listing,
    list_all,
    list_converted,
)
from ansible_collections.virt.placement.plugins.module_utils.api.transport import (
    Deadline,
    Session,
    Transport,
)
from tests.support.api_server import ApiServer, Clock, Reply, answer, status

NODES = "/api/v1/nodes"


def _page(*names: str, token: str = "", version: str = "7") -> Reply:
    metadata = {"resourceVersion": version, **({"continue": token} if token else {})}
    return answer({"kind": "NodeList", "metadata": metadata, "items": [_item(n) for n in names]})


def _item(name: str) -> dict[str, dict[str, str]]:
    return {"metadata": {"name": name}}


def test_pages_are_put_together(server: ApiServer, api: ApiClient) -> None:
    server.plays(_page("a", "b", token="t/1"), _page("c"))
    listing = list_all(api, NODES, params={"labelSelector": "x in (1,2)"})
    assert listing == Listing((_item("a"), _item("b"), _item("c")), "7")
    selector = "labelSelector=x+in+%281%2C2%29&limit=500"
    assert server.requests == [
        f"GET {NODES}?{selector}",
        f"GET {NODES}?{selector}&continue=t%2F1",
    ]


def test_page_that_is_answered_429_is_asked_for_again(
    server: ApiServer, api: ApiClient, clock: Clock
) -> None:
    """Kubernetes 1.37 may refuse a LIST that is too expensive, and says when to come again."""
    busy = Reply(429, b"Too many requests", {"Retry-After": "4"})
    server.plays(busy, _page("a", token="t"), busy, busy, _page("b"))
    assert list_all(api, NODES).items == (_item("a"), _item("b"))
    first, second = f"GET {NODES}?limit=500", f"GET {NODES}?limit=500&continue=t"
    assert server.requests == [first, first, second, second, second]
    assert clock.waits == [4.0, 4.0, 4.0]


def test_metadata_only_asks_for_no_more(server: ApiServer, api: ApiClient) -> None:
    server.plays(_page("a"))
    list_all(api, NODES, metadata_only=True)
    accept = server.seen[0].headers["Accept"]
    assert accept.startswith("application/json;as=PartialObjectMetadataList;")


def test_an_expired_page_starts_the_list_afresh(server: ApiServer, api: ApiClient) -> None:
    expired = status(410, "Expired", "The provided continue parameter is too old")
    server.plays(_page("a", token="1"), expired, _page("b", token="2"), _page("c"))
    assert list_all(api, NODES).items == (_item("b"), _item("c"))


def test_a_list_that_always_expires_is_an_error(server: ApiServer, api: ApiClient) -> None:
    server.plays(status(410, "Expired"))
    with pytest.raises(errors.Gone):
        list_all(api, NODES)
    assert len(server.seen) == 3


@pytest.mark.parametrize(
    "body", [{}, {"kind": "Status"}, {"items": {}}, {"items": "none"}], ids=str
)
def test_json_that_is_no_list_is_never_an_empty_one(
    server: ApiServer, api: ApiClient, body: object
) -> None:
    server.plays(answer(body))
    with pytest.raises(errors.BadAnswer):
        list_all(api, NODES)


def test_null_items_of_a_list_are_no_items(server: ApiServer, api: ApiClient) -> None:
    server.plays(answer({"kind": "NodeList", "metadata": {}, "items": None}))
    assert list_all(api, NODES) == Listing((), "")


@pytest.mark.parametrize(
    "text",
    [
        b'{"metadata":{},"items":[{"metadata":{"name":"a"}}, oops]}',
        b'{"metadata":{},"items":[{"metadata":{"name":"a"}}',
        b'{"metadata":{},"items":[{"metadata":{"name":"a"}}]}<html>',
    ],
    ids=["broken", "cut off", "followed by more"],
)
def test_items_that_are_no_json_are_read_again_and_never_a_shorter_list(
    server: ApiServer, api: ApiClient, text: bytes
) -> None:
    server.plays(_page("a", token="1"), Reply(200, text), _page("a", token="1"), _page("b"))
    assert list_all(api, NODES).items == (_item("a"), _item("b"))
    server.plays(Reply(200, text))
    with pytest.raises(errors.BadAnswer, match="the items are not JSON"):
        list_all(api, NODES)


def _api(server: ApiServer, clock: Clock) -> ApiClient:
    """A client with a timeout of 10 s, which pages may put off to 50 s."""
    session = Session(urllib3.PoolManager(), server.url, list)
    deadline = Deadline(10, most=50, clock=clock, sleep=clock.sleep)
    return ApiClient(Transport(lambda: session), deadline)


def _list_slowly(api: ApiClient, clock: Clock, *, seconds_an_item: float) -> int:
    """How many items come if each takes this long."""

    def convert(item: object) -> object:
        clock.time += seconds_an_item
        return item

    return len(list_converted(api, NODES, convert).items)


def test_pages_that_arrive_extend_the_deadline_of_a_list(server: ApiServer, clock: Clock) -> None:
    server.plays(*(_page("a", token=str(n)) for n in range(1, 5)), _page("b"))
    assert _list_slowly(_api(server, clock), clock, seconds_an_item=8) == 5
    assert clock.time == 40


def test_list_after_its_deadline_reports_how_many_items_arrived(
    server: ApiServer, clock: Clock
) -> None:
    page = {"resourceVersion": "7", "continue": "1", "remainingItemCount": 900}
    server.plays(answer({"metadata": page, "items": [_item("a"), _item("b")]}))
    with pytest.raises(errors.DeadlineExceeded) as caught:
        _list_slowly(_api(server, clock), clock, seconds_an_item=4)
    assert "not done within 50 s; 14 of about 914 items had arrived" in str(caught.value)
    assert clock.time == 56


def test_requests_without_pages_keep_their_timeout(server: ApiServer, clock: Clock) -> None:
    api = _api(server, clock)
    server.plays(answer(_item("a")))
    for _seconds in range(2):
        api.get(f"{NODES}/a")
        clock.time += 6
    with pytest.raises(errors.DeadlineExceeded, match="not done within 10 s;"):
        api.get(f"{NODES}/a")


@pytest.mark.parametrize("chunked", [True, False])
@pytest.mark.parametrize("compress", [True, False])
def test_server_is_asked_for_gzip_and_its_bytes_are_counted(
    server: ApiServer, compress: bool, chunked: bool
) -> None:
    plain = json.dumps({"metadata": {}, "items": [_item("a")] * 300}).encode()
    body = gzip.compress(plain) if compress else plain
    headers = {"Content-Encoding": "gzip"} if compress else {}
    server.plays(Reply(200, body, headers, chunked=chunked))
    session = Session(urllib3.PoolManager(), server.url, list, compress=compress)
    api = ApiClient(Transport(lambda: session), Deadline(10))
    assert len(list_all(api, NODES).items) == 300
    assert server.seen[0].headers["Accept-Encoding"] == ("gzip" if compress else "identity")
    assert api.counts.bytes_read == len(body)


def test_an_answer_that_is_no_gzip_is_read_again(server: ApiServer, api: ApiClient) -> None:
    server.plays(Reply(200, b"{}", {"Content-Encoding": "gzip"}), _page("a"))
    assert list_all(api, NODES).items == (_item("a"),)


@pytest.mark.parametrize("compress", [True, False])
def test_an_answer_without_end_ends_at_a_size(
    server: ApiServer, api: ApiClient, monkeypatch: pytest.MonkeyPatch, compress: bool
) -> None:
    """Compressed, few bytes may become many. It is not read again."""
    monkeypatch.setattr(transport, "MOST_BYTES", 1 << 20)
    plain = json.dumps({"metadata": {}, "items": [], "more": "x" * (1 << 21)}).encode()
    headers = {"Content-Encoding": "gzip"} if compress else {}
    server.plays(Reply(200, gzip.compress(plain) if compress else plain, headers, chunked=True))
    with pytest.raises(errors.TooLarge, match="the answer did not end after 1 MiB; something"):
        list_all(api, NODES)
    assert len(server.seen) == 1


@pytest.mark.parametrize("item", [{}, {"metadata": {}}, {"metadata": {"name": ""}}, "a", None])
def test_list_with_an_item_without_a_name_is_refused(
    server: ApiServer, api: ApiClient, item: t.Any
) -> None:
    server.plays(answer({"metadata": {}, "items": [_item("a"), item]}))
    with pytest.raises(errors.BadAnswer, match="an item of the list has no name"):
        list_all(api, NODES)
