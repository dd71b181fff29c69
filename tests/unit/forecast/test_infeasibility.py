# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""How many pods does a spread constraint admit? Also compared with placing them one by one."""

from __future__ import annotations

import functools
import itertools
import types
import typing as t

import pytest

from ansible_collections.virt.placement.plugins.module_utils.forecast.bounds import reachable_nodes
from ansible_collections.virt.placement.plugins.module_utils.forecast.infeasibility import (
    SpreadGroup,
    examine,
)
from ansible_collections.virt.placement.plugins.module_utils.forecast.simulation import (
    PendingPod,
    PlacementSimulation,
)
from ansible_collections.virt.placement.plugins.module_utils.scheduler.pod_topology_spread import (
    Constraint,
)
from tests.unit.scheduler.builders import apart, index, node, pod

Counts = tuple[int, ...]
Ended = t.Mapping[str, t.Mapping[str, int]]


def spread_group(
    fixed: t.Mapping[str, int],
    members: int,
    *,
    open_to: str = "",
    min_domains: int = 1,
    max_skew: int = 1,
    ended: Ended | None = None,
) -> SpreadGroup:
    """Pending pods that may use the domains `open_to`, or else all. `ended`: `replaced` and `other_ended`."""
    constraint = types.SimpleNamespace(max_skew=max_skew, min_domains=min_domains)
    return SpreadGroup(
        t.cast(Constraint, constraint),
        tuple(range(members)),
        (frozenset(open_to or fixed),) * members,
        fixed,
        **(ended or {}),
    )


def most_placed(group: SpreadGroup) -> int:
    """The exact maximum: kube-scheduler's filter for each pod, ended pods leave at any time, and a pod
    that replaces one of them is created then."""
    names = tuple(group.fixed)
    constraint = group.constraint
    held = len(names) < constraint.min_domains

    @functools.cache
    def most(placed: Counts, replaced: Counts, other_ended: Counts, waiting: int) -> int:
        here = zip(group.fixed.values(), placed, replaced, other_ended, strict=True)
        counts = [sum(numbers) for numbers in here]
        smallest = 0 if held else min(counts)
        best = sum(placed)
        for n, name in enumerate(names):
            fits = name in group.room and counts[n] + 1 - smallest <= constraint.max_skew
            if waiting and fits:
                best = max(best, most(_add(placed, n, 1), replaced, other_ended, waiting - 1))
            if replaced[n]:
                best = max(best, most(placed, _add(replaced, n, -1), other_ended, waiting + 1))
            if other_ended[n]:
                best = max(best, most(placed, replaced, _add(other_ended, n, -1), waiting))
        return best

    replaced = tuple(group.replaced.get(name, 0) for name in names)
    other_ended = tuple(group.other_ended.get(name, 0) for name in names)
    waiting = len(group.members) - sum(replaced)
    return most((0,) * len(names), replaced, other_ended, waiting)


def _add(counts: Counts, n: int, number: int) -> Counts:
    return (*counts[:n], counts[n] + number, *counts[n + 1 :])


def small_groups(ended: Ended | None = None) -> t.Iterator[SpreadGroup]:
    """Up to two pods in each of three domains, of which one, two or three are open."""
    for counts in itertools.product(range(3), repeat=3):
        fixed = dict(zip("abc", counts, strict=True))
        for open_to, max_skew, min_domains in itertools.product(("a", "ab", "abc"), (1, 2), (1, 4)):
            for members in range(sum((ended or {}).get("replaced", {}).values()) or 1, 5):
                yield spread_group(
                    fixed,
                    members,
                    open_to=open_to,
                    max_skew=max_skew,
                    min_domains=min_domains,
                    ended=ended,
                )


def test_bound_is_exact_while_no_pod_ends() -> None:
    for group in small_groups():
        assert group.most == most_placed(group), group


@pytest.mark.parametrize("kind", ["replaced", "other_ended"])
def test_bound_with_ended_pods_is_never_too_low_and_exact_if_all_domains_are_open(
    kind: str,
) -> None:
    for group in small_groups({kind: {"c": 2}}):
        placed = most_placed(group)
        assert group.most >= placed, group
        if len(group.room) == 3:
            assert group.most == placed, group


@pytest.mark.parametrize(
    ("ended", "max_skew", "admitted"),
    [
        ({"replaced": {"c": 1}}, 1, {4: 3, 5: 4, 6: 4, 7: 4}),
        ({"replaced": {"c": 2}}, 1, {4: 3, 5: 4}),
        ({"replaced": {"c": 1}}, 2, {5: 5, 6: 5, 7: 6}),
        ({"other_ended": {"c": 1}}, 1, {4: 4, 5: 4, 7: 4}),
        ({"other_ended": {"c": 2}}, 1, {6: 6, 7: 6}),
        ({"other_ended": {"c": 1}}, 2, {6: 6, 7: 6}),
    ],
)
def test_ended_pods_of_a_closed_domain_admit_a_limited_number_of_pods_more(
    ended: Ended, max_skew: int, admitted: dict[int, int]
) -> None:
    """Domain c is closed, all are empty but for the ended pods."""
    for members, most in admitted.items():
        fixed = dict.fromkeys("abc", 0)
        group = spread_group(fixed, members, open_to="ab", max_skew=max_skew, ended=ended)
        assert (group.most, most_placed(group)) == (most, most)


@pytest.mark.parametrize("domain", ["a", ""], ids=["named", "empty label value"])
def test_every_domain_admits_as_many_pods_as_the_skew_allows(domain: str) -> None:
    empty = {domain: 0}
    assert spread_group(empty, 1, min_domains=2).most == 1
    assert spread_group(empty, 2, min_domains=2).most == 1
    assert spread_group(empty, 3, min_domains=2, max_skew=2).most == 2
    assert spread_group(empty, 3).most == 3


def test_two_domains_admit_any_number_of_pods() -> None:
    assert spread_group({"a": 0, "b": 0}, 5).most == 5


def test_one_more_pod_than_the_skew_above_a_closed_domain_is_not_admitted() -> None:
    assert spread_group({"a": 0, "b": 0}, 2, open_to="a").most == 1
    assert spread_group({"a": 1, "b": 0}, 1, open_to="a").most == 0
    assert spread_group({"a": 1, "b": 1}, 2, open_to="a").most == 1
    assert spread_group({"a": 0, "b": 0}, 3, open_to="a", max_skew=2).most == 2
    assert spread_group({"a": 0, "b": 0, "c": 0}, 3, open_to="ab").most == 2


def test_pods_open_to_different_domains_are_at_least_one_too_many() -> None:
    constraint = types.SimpleNamespace(max_skew=1, min_domains=1)
    allowed = (frozenset("a"), frozenset("ab"), frozenset("ab"), frozenset("ab"))
    group = SpreadGroup(
        t.cast(Constraint, constraint), tuple(range(4)), allowed, dict.fromkeys("abc", 0)
    )
    assert group.most == 3


@pytest.mark.parametrize(("pods", "hinted"), [(1, set()), (2, {0, 1})])
def test_only_pods_that_keep_apart_from_each_other_are_matched_with_domains(
    pods: int, hinted: set[int]
) -> None:
    db = {"app": "db"}
    nodes = [node("n1", "a"), node("n2", "b"), node("n3", "b")]
    pending = [PendingPod(pod(f"db{n}", labels=db, affinity=apart(db))) for n in range(pods)]
    simulation = PlacementSimulation(index(nodes), pending)

    found = examine(simulation, reachable_nodes(simulation))

    assert (found.proofs, set(found.hints)) == ((), hinted)
