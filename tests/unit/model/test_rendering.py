# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""How values look in results and messages."""

from __future__ import annotations

import pytest

from ansible_collections.virt.placement.plugins.module_utils.model.objects import Owner, Ref
from ansible_collections.virt.placement.plugins.module_utils.model.rendering import (
    as_json,
    listed,
    plural,
)


@pytest.mark.parametrize(
    ("names", "text"),
    [
        ("", ""),
        ("abcde", "a, b, c, d, e"),
        ("abcdefgh", "a, b, c, d, e and 3 more"),
    ],
)
def test_a_list_names_five_items_and_counts_the_others(names: str, text: str) -> None:
    assert listed(names) == text


def test_a_list_of_the_first_items_counts_all_that_there_are() -> None:
    assert listed("ab", 2, count=9) == "a, b and 7 more"


def test_one_move_and_two_moves() -> None:
    assert (plural(1, "move"), plural(2, "move")) == ("1 move", "2 moves")


def test_a_reference_is_an_object_and_a_tuple_of_references_a_list_in_json() -> None:
    ref = Ref("VirtualMachine", "shop", "d\nb")
    shown = {"kind": "VirtualMachine", "namespace": "shop", "name": "d b"}
    assert as_json(ref) == shown
    assert as_json((ref, Owner("Pool", "web", "u"))) == [
        shown,
        {"kind": "Pool", "name": "web", "uid": "u", "group": ""},
    ]
