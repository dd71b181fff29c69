# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Decoding without field managers gives the same objects, whatever tenants write into theirs."""

from __future__ import annotations

import json
import typing as t

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ansible_collections.virt.placement.plugins.module_utils.model.json_text import (
    decoded,
    decoded_without_managed_fields,
)

NAME = "managedFields"
TEXTS = st.text(alphabet='[]{},:"\\a', max_size=6) | st.sampled_from([NAME, f'"{NAME}":[', "spec"])
VALUES: st.SearchStrategy[t.Any] = st.recursive(
    st.none() | st.integers(0, 9) | TEXTS,
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(TEXTS, inner, max_size=3)
        | st.builds(lambda value: {NAME: value}, inner)
    ),
    max_leaves=20,
)
MANAGERS = st.lists(
    st.fixed_dictionaries({"manager": TEXTS, "fieldsV1": st.dictionaries(TEXTS, st.just({}))})
)


def compact(value: t.Any) -> bytes:
    return json.dumps(value, separators=(",", ":")).encode()


def page(*items: t.Any) -> dict[str, t.Any]:
    return {"apiVersion": "v1", "items": list(items), "kind": "PodList", "metadata": {}}


def without_managers(value: t.Any) -> t.Any:
    """The value without the lists that may be empty."""
    if isinstance(value, list):
        return [without_managers(entry) for entry in value]
    if isinstance(value, dict):
        return {
            name: without_managers(entry)
            for name, entry in value.items()
            if not (name.endswith(NAME) and isinstance(entry, list))
        }
    return value


@given(st.lists(st.tuples(VALUES, MANAGERS), max_size=3))
def test_nothing_but_field_managers_is_left_out(items: list[tuple[t.Any, t.Any]]) -> None:
    listed = page(
        *(
            {"metadata": {"name": "db", NAME: managers}, "spec": spec, "status": {"phase": "a"}}
            for spec, managers in items
        )
    )

    read = decoded_without_managed_fields(compact(listed))

    assert without_managers(read) == without_managers(listed)


def test_field_managers_of_an_object_are_not_decoded() -> None:
    managers = [{"manager": "kubectl", "fieldsV1": {"f:spec": {'k:{"name":"db"}': {}}}}]
    text = compact(page({"metadata": {"name": "db", NAME: managers}, "spec": {}}))

    assert decoded_without_managed_fields(text) == page(
        {"metadata": {"name": "db", NAME: []}, "spec": {}}
    )


@pytest.mark.parametrize(
    "hostile",
    [[[1], 2], ["]", ":{}"], ["],", ":[],", "]}"], [{"manager": "a]"}]],
    ids=["nested list", "bracket", "strings as JSON", "manager"],
)
def test_a_cut_in_the_middle_decodes_the_whole_text(hostile: t.Any) -> None:
    text = compact(page({"metadata": {NAME: hostile}, "spec": {"a": 1}}))

    assert decoded_without_managed_fields(text) == decoded(text)


@pytest.mark.parametrize("text", [b'{"managedFields":[', b'{"managedFields":[]', b"[1"])
def test_text_that_is_not_json_is_an_error(text: bytes) -> None:
    with pytest.raises(json.JSONDecodeError):
        decoded_without_managed_fields(text)
