# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Integers in selectors, label syntax, and selectors: limits and malformed values."""

from __future__ import annotations

import pytest

from ansible_collections.virt.placement.plugins.module_utils.model.objects import (
    Requirement,
    Selector,
)
from ansible_collections.virt.placement.plugins.module_utils.scheduler.labels import (
    is_label_key,
    is_label_value,
    is_readable,
    matches,
    parse_integer,
)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("7", 7),
        ("007", 7),
        ("-0", 0),
        ("+5", 5),
        ("-5", -5),
        ("0", 0),
        ("", None),
        ("1_000", None),
        ("\u0661", None),
        ("5\n", None),
        ("9223372036854775807", 2**63 - 1),
        ("9223372036854775808", None),
        ("0" * 5000 + "8", 8),
        ("9" * 5000, None),
    ],
)
def test_integer_is_parsed_within_64_bits(text: str, value: int | None) -> None:
    assert parse_integer(text) == value


def test_malformed_label_key_or_value_is_rejected() -> None:
    assert is_label_key("example.com/rack")
    assert not is_label_key("a/b/c")
    assert not is_label_key("/x")
    assert not is_label_key("x/")
    assert not is_label_key("zone\n")
    assert is_label_value("")
    assert not is_label_value("a b")


def test_selector_without_requirements_matches_all_and_none_matches_nothing() -> None:
    assert matches(Selector(), {})
    assert not matches(None, {"a": "b"})
    assert not matches(Selector((Requirement("a", "Like", ("b",)),)), {"a": "b"})
    assert is_readable(Requirement("gen", "Gt", ("1",)), of_nodes=True)
    assert not is_readable(Requirement("gen", "Gt", ("1",)))
    assert not is_readable(Requirement("gen", "In", ()))
