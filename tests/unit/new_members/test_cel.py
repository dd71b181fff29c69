# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Texts of tenants stay texts in CEL; the live test tests/modules/test_new_members.py has them compiled."""

from __future__ import annotations

import pytest

from ansible_collections.virt.placement.plugins.module_utils.new_members import cel


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ("a", '"a"'),
        ('" || true || "', r'"\" || true || \""'),
        ("\\", r'"\\"'),
        ("a\nb\x01", r'"a\nb\u0001"'),
        ("\U0001f600", '"\U0001f600"'),
        (1, "1"),
        (True, "true"),
        (None, "null"),
        ({}, "{}"),
        ([], "[]"),
        ({"key": "a", "values": ["b"]}, '{"key": dyn("a"), "values": dyn([dyn("b")])}'),
    ],
)
def test_literal_is_quoted_once(value: object, text: str) -> None:
    assert cel.literal(value) == text


def test_conditions_are_in_brackets_only_where_there_are_several() -> None:
    assert cel.any_of([]) == "false"
    assert cel.any_of(["a", "a"]) == "a"
    assert cel.any_of(["a", "b"]) == "(a || b)"
    assert cel.all_of("a", "b") == "(a && b)"
    assert cel.optional("a", "b") == "?(a ? optional.of(b) : optional.none())"
