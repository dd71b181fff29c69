# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The fewest moves of a group, against every arrangement there is."""

from __future__ import annotations

import itertools
import random
import typing as t
from collections import Counter

import pytest

from ansible_collections.virt.placement.plugins.module_utils.planning import moves_needed
from ansible_collections.virt.placement.plugins.module_utils.planning.matching import (
    GroupMember,
    Repair,
)

ZONES = ("a", "b", "c")


def members(homes: str, allowed: t.Iterable[str] = ZONES) -> list[GroupMember]:
    return [GroupMember(home, frozenset(allowed)) for home in homes]


def moves(found: Repair | None) -> int | None:
    return None if found is None else found.moves


@pytest.mark.parametrize(
    ("homes", "needed"),
    [
        pytest.param("abc", 0, id="nothing to repair"),
        pytest.param("aab", 1, id="two affected, one moves"),
        pytest.param("aaa", 2, id="all in one zone"),
        pytest.param("aabc", None, id="more members than zones"),
    ],
)
def test_keep_apart(homes: str, needed: int | None) -> None:
    assert moves(moves_needed.keep_apart(members(homes), ZONES)) == needed


def test_keep_apart_chains_a_move_through_a_member_that_was_well_placed() -> None:
    group = [
        GroupMember("a", frozenset("a")),
        GroupMember("a", frozenset("ab")),
        GroupMember("b", frozenset("bc")),
    ]

    found = moves_needed.keep_apart(group, ZONES)

    assert found == Repair(2, ("a", "b", "c"))


def test_keep_apart_counts_the_instances_that_leave_a_node_within_its_zone() -> None:
    group = [GroupMember(None, frozenset("a")), GroupMember("b", frozenset("ab"))]

    assert moves(moves_needed.keep_apart(group, ZONES)) == 1


def test_nodes_without_the_key_take_any_number() -> None:
    group = [GroupMember("a", frozenset({"a", "bare"})) for _number in range(4)]

    assert moves(moves_needed.keep_apart(group, ["a"])) == 3


def test_three_one_one_needs_one_move_though_three_are_affected() -> None:
    assert moves(moves_needed.spread_evenly(members("aaabc"), ZONES, 1)) == 1


def test_spread_with_too_few_domains_takes_the_minimum_as_zero() -> None:
    assert (
        moves(moves_needed.spread_evenly(members("aabb", "ab"), ["a", "b"], 1, min_domains=3))
        is None
    )
    assert moves(moves_needed.spread_evenly(members("aab"), ["a", "b"], 2, min_domains=3)) == 0


def test_spread_over_no_domain_cannot_be() -> None:
    assert moves_needed.spread_evenly(members("a"), [], 1) is None


def test_keep_from_moves_the_smaller_side_of_each_domain() -> None:
    assert moves_needed.keep_from(members("aab"), members("abb"), ZONES) == 2


def test_a_group_of_a_thousand_is_small_work() -> None:
    hosts = [f"host-{number}" for number in range(1000)]
    crowd = [GroupMember(hosts[n // 2], frozenset(hosts)) for n in range(200)]

    assert moves(moves_needed.keep_apart(crowd, hosts)) == 100
    assert moves(moves_needed.spread_evenly(members("a" * 1000), ZONES, 1)) == 666


@pytest.mark.parametrize("seed", range(300))
def test_agrees_with_trying_every_arrangement(seed: int) -> None:
    rng = random.Random(seed)
    zones = "abcd"[: rng.randint(1, 4)]
    group = [
        GroupMember(
            rng.choice([None, *zones]),
            frozenset(rng.sample(zones, rng.randint(0, len(zones)))),
        )
        for _number in range(rng.randint(1, 5))
    ]
    skew, least = rng.randint(1, 2), rng.randint(1, 4)

    def even(counts: Counter[t.Hashable]) -> bool:
        sizes = [counts[zone] for zone in zones]
        return max(sizes) - (min(sizes) if len(zones) >= least else 0) <= skew

    apart = moves_needed.keep_apart(group, zones)
    spread = moves_needed.spread_evenly(group, zones, skew, min_domains=least)

    assert moves(apart) == _fewest(group, zones, lambda c: max(c.values()) <= 1)
    assert moves(spread) == _fewest(group, zones, even)
    for found in (apart, spread):
        if found is not None:
            assert all(m.may_be_in(d) for m, d in zip(group, found.domains, strict=True))
            assert found.moves == sum(
                m.stays != d for m, d in zip(group, found.domains, strict=True)
            )
    if spread is not None:
        assert even(Counter(spread.domains))


def _fewest(
    group: list[GroupMember], zones: str, legal: t.Callable[[Counter[t.Hashable]], bool]
) -> int | None:
    costs = [
        sum(member.stays != zone for member, zone in zip(group, zones_of, strict=True))
        for zones_of in itertools.product(zones, repeat=len(group))
        if all(member.may_be_in(zone) for member, zone in zip(group, zones_of, strict=True))
        and legal(Counter(zones_of))
    ]
    return min(costs, default=None)
