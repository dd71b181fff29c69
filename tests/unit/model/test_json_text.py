# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Pages whose items are decoded one at a time are those of json.loads, whatever tenants write into their objects."""

from __future__ import annotations

import json
import typing as t

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ansible_collections.virt.placement.plugins.module_utils.model.json_text import (
    CUT,
    TOO_DEEP,
    ListPage,
    cut,
)

TEXTS = st.text(alphabet='[]{},:"\\ aé\ud800', max_size=6) | st.sampled_from(
    ["items", "metadata", '"metadata":{', "continue"]
)
VALUES: st.SearchStrategy[t.Any] = st.recursive(
    st.none() | st.integers(0, 9) | TEXTS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXTS, inner, max_size=3),
    max_leaves=20,
)
FIELDS = st.dictionaries(TEXTS.filter(lambda name: name not in ("items", "metadata")), VALUES)
METADATA = {"continue": "t1", "resourceVersion": "7"}
SEPARATORS = st.sampled_from([(",", ":"), (", ", ": "), (" ,\n", "\t: ")])


def page(value: t.Any, separators: tuple[str, str] = (",", ":")) -> ListPage:
    return ListPage(json.dumps(value, separators=separators).encode())


@given(FIELDS, FIELDS, st.lists(VALUES, max_size=4), st.randoms(use_true_random=False), SEPARATORS)
def test_each_item_and_the_metadata_are_read(
    before: dict[str, t.Any],
    after: dict[str, t.Any],
    items: list[t.Any],
    random: t.Any,
    separators: tuple[str, str],
) -> None:
    fields = [*before.items(), ("items", items), ("metadata", METADATA), *after.items()]
    random.shuffle(fields)

    read = page(dict(fields), separators)

    assert read.metadata == METADATA
    assert read.has_items
    assert list(read.items()) == items


@pytest.mark.parametrize(
    ("value", "has_items"),
    [({}, False), ({"items": None}, True), ({"items": []}, True), ({"items": {}}, False)],
    ids=str,
)
def test_an_empty_list_is_told_from_no_list(value: t.Any, has_items: bool) -> None:
    read = page({"kind": "Status", **value})

    assert (read.has_items, read.kind, read.metadata) == (has_items, "Status", {})
    assert not list(read.items())


def test_an_item_that_is_nested_too_deeply_loses_only_the_part_that_is() -> None:
    deep = b"[" * 100_000 + b"]" * 100_000
    text = b'{"items":[{"a":1},{"b":2,"c":%b},{"d":3}],"metadata":{"continue":"t1"}}' % deep

    read = ListPage(text)
    first, second, third = read.items()

    assert (first, second["b"], third, read.metadata) == ({"a": 1}, 2, {"d": 3}, {"continue": "t1"})
    assert TOO_DEEP in json.dumps(second["c"])


@pytest.mark.parametrize("space", [b"", b" "])
def test_deep_metadata_of_a_template_are_not_those_of_the_page(space: bytes) -> None:
    deep = b'{"a":' * 100_000 + b"1" + b"}" * 100_000
    text = b'{"items":[{"spec":{"metadata":' + deep + b'}}],"metadata":%b{"continue":"t1"}}' % space

    assert ListPage(text).metadata == {"continue": "t1"}
    with pytest.raises(ValueError, match=r"."):
        ListPage(text[:-40])


@pytest.mark.parametrize(
    "text",
    [
        b"",
        b"<html>",
        b"[]",
        b'{"kind":"PodList"',
        b'{"kind":"PodList"}}',
        b'{[]:1,"items":[]}',
        b'{"kind":"PodList",}',
        b'{"metadata":[1],"items":[]}',
        b'{"items":[{"a":1}',
    ],
    ids=str,
)
def test_text_that_is_no_page_is_refused_at_once(text: bytes) -> None:
    with pytest.raises(ValueError, match=r"."):
        ListPage(text)


@pytest.mark.parametrize(
    "items",
    [
        b'[{"a":1}{"a":2}]}',
        b'[{"a":1},{"a"}]}',
        b'[{"a":1}}}',
        b'[{"a":1},]}',
        b'[{"a":1}',
        b'[{"a":1}]}{',
        b'[{"a":1}],"items":[]}',
    ],
)
def test_text_that_turns_out_to_be_no_json_is_an_error(items: bytes) -> None:
    read = ListPage(b'{"metadata":{"continue":""},"items":' + items)

    with pytest.raises(ValueError, match=r"."):
        list(read.items())


@given(st.text(alphabet='a"\\é\ud800', max_size=9), st.integers(0, 20))
def test_text_that_is_cut_has_its_size_and_a_mark(text: str, size: int) -> None:
    """Also where not even the mark has room, as in the mark of a node from which very many VMs do not run."""
    shown = cut(text, size)

    assert len(json.dumps(shown)) - 2 <= size
    assert shown == text or (shown.endswith(CUT[:size]) and len(json.dumps(text)) - 2 > size)
