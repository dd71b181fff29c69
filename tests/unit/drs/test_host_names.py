# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Names of rules and labels, made of the names in an export."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ansible_collections.virt.placement.plugins.module_utils.drs.host_groups import FreeNames


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("Müller & Söhne: getrennt", "Muller-Sohne-getrennt"),
        ("Straße für Äpfel", "Strasse-fur-Apfel"),
        ("Œuvre à côté, naïve", "OEuvre-a-cote-naive"),
        ("Łódź Ørsted Đà Nẵng", "Lodz-Orsted-Da-Nang"),
        ("ﬁrst ½ Ⅷ ①", "first-1-2-VIII-1"),
        ("日本 web", "web"),
        ("日本", "rule"),
        ("web apart", "web-apart"),
    ],
)
def test_letters_of_other_alphabets_are_written_with_ascii_where_they_can(
    text: str, name: str
) -> None:
    assert FreeNames("rule").name(text) == name


def test_names_that_become_the_same_get_a_number() -> None:
    names = FreeNames("rule")
    assert [names.name(x) for x in ("Müller", "Muller", "Mu\u0308ller", "日本", "中国")] == [
        "Muller",
        "Muller-2",
        "Muller-3",
        "rule",
        "rule-2",
    ]


@given(st.lists(st.text(max_size=70), max_size=6))
def test_each_name_is_a_label_value_and_given_once(texts: list[str]) -> None:
    names = FreeNames("rule")
    given_names = [names.name(text) for text in texts]
    assert len(set(given_names)) == len(texts)
    for name in given_names:
        assert re.fullmatch(r"[A-Za-z0-9]([A-Za-z0-9_.-]{0,61}[A-Za-z0-9])?", name)
