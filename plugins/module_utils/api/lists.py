# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Whole lists, page by page."""

from __future__ import annotations

import typing as t
from dataclasses import dataclass

from ..model.collector import collector_paused
from ..model.pointer import JSON
from .errors import BadAnswer, Gone, Request
from .requests import METADATA_LIST, PLAIN, Api, Params

PAGE = 500

_RESTARTS = 3
"""A page token lives about five minutes; a list that is too slow three times will not be faster."""


@dataclass(frozen=True)
class Listing:
    """All items of a list as of `resource_version`. Items of a list do not name their kind."""

    items: tuple[dict[str, JSON], ...]
    resource_version: str


def list_all(
    api: Api, path: str, *, params: Params | None = None, metadata_only: bool = False
) -> Listing:
    """Every item at `path`, in pages of 500; with `metadata_only` no more than `metadata` of each.

    A page token that has expired (410) starts the list afresh. Raises ApiError; BadAnswer where
    the answer is JSON and no list, which must never pass for an empty one.
    """
    for left in reversed(range(_RESTARTS)):
        try:
            with collector_paused():
                return _pages(api, path, params or {}, METADATA_LIST if metadata_only else PLAIN)
        except Gone:
            if not left:
                raise
    raise AssertionError("unreachable")


def _pages(api: Api, path: str, params: Params, accept: str) -> Listing:
    items: list[dict[str, JSON]] = []
    token = ""
    while True:
        page = {**params, "limit": str(PAGE), **({"continue": token} if token else {})}
        answer = api.get(path, page, accept=accept)
        if not isinstance(answer.get("items"), list) and answer.get("items", ...) is not None:
            raise BadAnswer(Request("GET", path), f"no list but a {answer.get('kind')!r}")
        items += answer["items"] or ()
        metadata = answer.get("metadata") or {}
        token = t.cast(str, metadata.get("continue") or "")
        if not token:
            return Listing(tuple(items), str(metadata.get("resourceVersion") or ""))
