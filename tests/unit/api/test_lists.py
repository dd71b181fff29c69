# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Lists come whole or not at all."""

from __future__ import annotations

import pytest

from ansible_collections.virt.placement.plugins.module_utils.api import errors
from ansible_collections.virt.placement.plugins.module_utils.api.client import ApiClient
from ansible_collections.virt.placement.plugins.module_utils.api.lists import Listing, list_all

from .scripted_server import Reply, ScriptedServer, answer, status

NODES = "/api/v1/nodes"


def _page(*names: str, token: str = "", version: str = "7") -> Reply:
    metadata = {"resourceVersion": version, **({"continue": token} if token else {})}
    return answer({"kind": "NodeList", "metadata": metadata, "items": [_item(n) for n in names]})


def _item(name: str) -> dict[str, dict[str, str]]:
    return {"metadata": {"name": name}}


def test_pages_are_put_together(server: ScriptedServer, api: ApiClient) -> None:
    server.plays(_page("a", "b", token="t/1"), _page("c"))
    listing = list_all(api, NODES, params={"labelSelector": "x in (1,2)"})
    assert listing == Listing((_item("a"), _item("b"), _item("c")), "7")
    selector = "labelSelector=x+in+%281%2C2%29&limit=500"
    assert server.requests == [
        f"GET {NODES}?{selector}",
        f"GET {NODES}?{selector}&continue=t%2F1",
    ]


def test_metadata_only_asks_for_no_more(server: ScriptedServer, api: ApiClient) -> None:
    server.plays(_page("a"))
    list_all(api, NODES, metadata_only=True)
    accept = server.seen[0].headers["Accept"]
    assert accept.startswith("application/json;as=PartialObjectMetadataList;")


def test_an_expired_page_starts_the_list_afresh(server: ScriptedServer, api: ApiClient) -> None:
    expired = status(410, "Expired", "The provided continue parameter is too old")
    server.plays(_page("a", token="1"), expired, _page("b", token="2"), _page("c"))
    assert list_all(api, NODES).items == (_item("b"), _item("c"))


def test_a_list_that_always_expires_is_an_error(server: ScriptedServer, api: ApiClient) -> None:
    server.plays(status(410, "Expired"))
    with pytest.raises(errors.Gone):
        list_all(api, NODES)
    assert len(server.seen) == 3


@pytest.mark.parametrize(
    "body", [{}, {"kind": "Status"}, {"items": {}}, {"items": "none"}], ids=str
)
def test_json_that_is_no_list_is_never_an_empty_one(
    server: ScriptedServer, api: ApiClient, body: object
) -> None:
    server.plays(answer(body))
    with pytest.raises(errors.BadAnswer):
        list_all(api, NODES)


def test_null_items_of_a_list_are_no_items(server: ScriptedServer, api: ApiClient) -> None:
    server.plays(answer({"kind": "NodeList", "metadata": {}, "items": None}))
    assert list_all(api, NODES) == Listing((), "")
