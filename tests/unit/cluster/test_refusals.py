# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Why a pod was not created, by the events about the object that needs it."""

from __future__ import annotations

import typing as t

import pytest

from ansible_collections.virt.placement.plugins.module_utils.api.client import ApiClient
from ansible_collections.virt.placement.plugins.module_utils.api.errors import (
    ApiRequest,
    Forbidden,
)
from ansible_collections.virt.placement.plugins.module_utils.api.lists import Listing
from ansible_collections.virt.placement.plugins.module_utils.cluster import refusals
from ansible_collections.virt.placement.plugins.module_utils.cluster.refusals import PodRefusals

API = t.cast(ApiClient, None)


def event(at: str, message: str, **more: t.Any) -> dict[str, t.Any]:
    return {"metadata": {"creationTimestamp": at}, "lastTimestamp": at, "message": message, **more}


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[t.Any]:
    """The requests. The answer is what the last of them has."""
    requests: list[t.Any] = []

    def list_all(_api: ApiClient, path: str, *, params: t.Any) -> Listing[t.Any]:
        requests.append((path, params["fieldSelector"]))
        return Listing(tuple(EVENTS), "1")

    monkeypatch.setattr(refusals, "list_all", list_all)
    return requests


EVENTS: list[dict[str, t.Any]] = [
    event("2026-11-29T10:00:00Z", "an old one"),
    event(
        "2026-11-29T10:05:00Z",
        "an older one",
        series={"lastObservedTime": "2026-11-29T10:20:00.5Z"},
    ),
    event("2026-11-29T10:10:00Z", "the webhook\nsays no"),
]


def test_newest_refusal_is_named(asked: list[t.Any]) -> None:
    assert PodRefusals(API).newest("shop", "u1") == (
        "no pod is created for it (newest event FailedCreate): an older one"
    )
    path, selector = asked[0]
    assert path == "/api/v1/namespaces/shop/events"
    assert selector == "involvedObject.uid=u1,reason=FailedCreate"


def test_each_try_of_a_controller_has_one_text(
    asked: list[t.Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    texts = set()
    for name in ("virt-launcher-p0-x7k2p", "virt-launcher-p0-bcd45"):
        monkeypatch.setitem(EVENTS[1], "message", f'pods "{name}" is forbidden: seccomp')
        texts.add(PodRefusals(API).newest("shop", "u1").partition(": ")[2])
    assert texts == {'pods "virt-launcher-p0-..." is forbidden: seccomp'}


def test_refusal_of_an_earlier_pod_is_not_named(asked: list[t.Any]) -> None:
    assert PodRefusals(API).newest("shop", "u1", "2026-11-29T10:20:01Z") == ""
    assert PodRefusals(API).newest("shop", "u1", "2026-11-29T10:20:00Z") != ""


def test_text_of_an_event_is_one_line_and_bounded(
    asked: list[t.Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(EVENTS[1], "message", "no\n\x1b[31m" + "x" * 5000)
    text = PodRefusals(API).newest("shop", "u1")
    assert text.isprintable()
    assert len(text) < 500


def test_identity_that_may_not_read_events_is_asked_once(monkeypatch: pytest.MonkeyPatch) -> None:
    requests = []

    def refused(_api: ApiClient, path: str, **_more: t.Any) -> t.NoReturn:
        requests.append(path)
        raise Forbidden(ApiRequest("GET", path), "no", status=403)

    monkeypatch.setattr(refusals, "list_all", refused)
    pods = PodRefusals(API)
    assert [pods.newest("shop", uid) for uid in "abc"] == ["", "", ""]
    assert len(requests) == 1
