# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Matching with the fewest changes, against brute force, and the proof where there is none."""

from __future__ import annotations

import itertools

from hypothesis import given
from hypothesis import strategies as st

from ansible_collections.virt.placement.plugins.module_utils.planning.matching import assign

PLACES = ["a", "b", "c", "d"]
CASES = st.lists(
    st.tuples(st.frozensets(st.sampled_from(PLACES)), st.sampled_from([*PLACES, ""])),
    min_size=1,
    max_size=5,
)


def test_an_instance_that_may_stay_is_not_moved() -> None:
    found = assign({"x": {"a", "b"}, "y": {"a", "b"}}, {"x": "a", "y": "a"})
    assert sorted(found.placed.values()) == ["a", "b"]
    assert sum(found.placed[item] == "a" for item in "xy") == 1


def test_instance_that_could_stay_moves_for_one_without_another_node() -> None:
    found = assign({"x": {"a", "b"}, "y": {"a"}}, {"x": "a"})
    assert found.placed == {"x": "b", "y": "a"}


def test_the_crowd_is_the_proof() -> None:
    found = assign({"x": {"a"}, "y": {"a"}, "z": {"b"}}, {})
    assert len(found.unplaced) == 1
    assert set(found.crowd) == {"x", "y"}
    assert found.room == ("a",)


@given(CASES)
def test_as_many_as_can_be_and_of_those_as_few_moves(
    case: list[tuple[frozenset[str], str]],
) -> None:
    options = {str(number): places for number, (places, _home) in enumerate(case)}
    stays = {str(n): home for n, (places, home) in enumerate(case) if home in places}

    found = assign(options, stays)

    assert all(found.placed[item] in options[item] for item in found.placed)
    assert len(set(found.placed.values())) == len(found.placed)
    most, fewest = brute_force(options, stays)
    assert len(found.placed) == most
    if not found.unplaced:
        assert sum(stays.get(item) != place for item, place in found.placed.items()) == fewest


@given(CASES)
def test_a_crowd_has_fewer_places_than_members(case: list[tuple[frozenset[str], str]]) -> None:
    options = {str(number): places for number, (places, _home) in enumerate(case)}
    found = assign(options, {})
    if found.unplaced:
        assert len(found.crowd) > len(found.room)
        assert set(found.room) == set().union(*(options[item] for item in found.crowd))


def brute_force(options: dict[str, frozenset[str]], stays: dict[str, str]) -> tuple[int, int]:
    """The most items that can be placed; the fewest moves if all are (else anything)."""
    best = (0, 0)
    choices = [[*options[item], None] for item in options]
    for chosen in itertools.product(*choices):
        placed = [place for place in chosen if place is not None]
        if len(set(placed)) == len(placed):
            moves = sum(
                place is not None and stays.get(item) != place
                for item, place in zip(options, chosen, strict=True)
            )
            best = max(best, (len(placed), -moves))
    return best[0], -best[1]
