# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The fewest moves of a group, against every arrangement there is."""

from __future__ import annotations

import itertools
import random
import typing as t
from collections import Counter

import pytest

from ansible_collections.virt.placement.plugins.module_utils.verdicts import healing
from ansible_collections.virt.placement.plugins.module_utils.verdicts.healing import Member

ZONES = ("a", "b", "c")


def members(homes: str, allowed: t.Iterable[str] = ZONES) -> list[Member]:
    return [Member(home, frozenset(allowed)) for home in homes]


def moves(found: healing.Healing | None) -> int | None:
    return None if found is None else found.moves


@pytest.mark.parametrize(
    ("homes", "needed"),
    [
        pytest.param("abc", 0, id="nothing to heal"),
        pytest.param("aab", 1, id="two affected, one moves"),
        pytest.param("aaa", 2, id="all in one zone"),
        pytest.param("aabc", None, id="more members than zones"),
    ],
)
def test_keep_apart(homes: str, needed: int | None) -> None:
    assert moves(healing.keep_apart(members(homes), ZONES)) == needed


def test_keep_apart_chains_a_move_through_a_member_that_was_well_placed() -> None:
    group = [
        Member("a", frozenset("a")),
        Member("a", frozenset("ab")),
        Member("b", frozenset("bc")),
    ]

    found = healing.keep_apart(group, ZONES)

    assert found == healing.Healing(2, ("a", "b", "c"))


def test_keep_apart_counts_who_must_leave_a_node_within_its_own_zone() -> None:
    group = [Member(None, frozenset("a")), Member("b", frozenset("ab"))]

    assert moves(healing.keep_apart(group, ZONES)) == 1


def test_nodes_without_the_key_take_any_number() -> None:
    group = [Member("a", frozenset({"a", "bare"})) for _number in range(4)]

    assert moves(healing.keep_apart(group, ["a"])) == 3


def test_three_one_one_needs_one_move_though_three_are_affected() -> None:
    assert moves(healing.spread_evenly(members("aaabc"), ZONES, 1)) == 1


def test_spread_counts_pods_that_stay_where_they_are() -> None:
    assert moves(healing.spread_evenly(members("ab"), ZONES, 1, others={"c": 2})) == 0
    assert moves(healing.spread_evenly(members("a"), ZONES, 1, others={"a": 1, "c": 1})) == 1


def test_spread_with_too_few_domains_takes_the_minimum_as_zero() -> None:
    assert moves(healing.spread_evenly(members("aabb", "ab"), ["a", "b"], 1, min_domains=3)) is None
    assert moves(healing.spread_evenly(members("aab"), ["a", "b"], 2, min_domains=3)) == 0


def test_spread_over_no_domain_cannot_be() -> None:
    assert healing.spread_evenly(members("a"), [], 1) is None


def test_keep_together_takes_the_fullest_domain_open_to_all() -> None:
    group = [*members("aab"), Member("c", frozenset("bc"))]

    assert moves(healing.keep_together(group, ZONES)) == 3
    assert moves(healing.keep_together(members("aab"), ZONES)) == 1


def test_keep_from_moves_the_smaller_side_of_each_domain() -> None:
    assert healing.keep_from(members("aab"), members("abb"), ZONES) == 2


def test_a_group_of_a_thousand_is_small_work() -> None:
    hosts = [f"host-{number}" for number in range(2000)]
    crowd = [Member(hosts[n // 2], frozenset(hosts)) for n in range(400)]

    assert moves(healing.keep_apart(crowd, hosts)) == 200
    assert moves(healing.spread_evenly(members("a" * 1000), ZONES, 1)) == 666


@pytest.mark.parametrize("seed", range(300))
def test_agrees_with_trying_every_arrangement(seed: int) -> None:
    rng = random.Random(seed)
    zones = "abcd"[: rng.randint(1, 4)]
    group = [
        Member(
            rng.choice([None, *zones]),
            frozenset(rng.sample(zones, rng.randint(0, len(zones)))),
        )
        for _number in range(rng.randint(1, 5))
    ]
    skew, least = rng.randint(1, 2), rng.randint(1, 4)
    others = {zone: rng.randint(0, 2) for zone in zones}

    def even(counts: Counter[t.Hashable]) -> bool:
        sizes = [counts[zone] + others[zone] for zone in zones]
        return max(sizes) - (min(sizes) if len(zones) >= least else 0) <= skew

    apart = healing.keep_apart(group, zones)
    spread = healing.spread_evenly(group, zones, skew, min_domains=least, others=others)
    together = healing.keep_together(group, zones)

    assert moves(apart) == _fewest(group, zones, lambda c: max(c.values()) <= 1)
    assert moves(spread) == _fewest(group, zones, even)
    assert moves(together) == _fewest(group, zones, lambda c: len(c) == 1)
    for found in (apart, spread, together):
        if found is not None:
            assert all(m.may_be_in(d) for m, d in zip(group, found.domains, strict=True))
            assert found.moves == sum(
                m.stays != d for m, d in zip(group, found.domains, strict=True)
            )
    if spread is not None:
        assert even(Counter(spread.domains))


def _fewest(
    group: list[Member], zones: str, legal: t.Callable[[Counter[t.Hashable]], bool]
) -> int | None:
    costs = [
        sum(member.stays != zone for member, zone in zip(group, zones_of, strict=True))
        for zones_of in itertools.product(zones, repeat=len(group))
        if all(member.may_be_in(zone) for member, zone in zip(group, zones_of, strict=True))
        and legal(Counter(zones_of))
    ]
    return min(costs, default=None)
