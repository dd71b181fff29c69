# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What makes plans quick changes none of them: one index instead of two, an index that was verified
before, and instances that are only looked at where they matter."""

from __future__ import annotations

import os
import typing as t
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ansible_collections.virt.placement.plugins.module_utils.model.objects import Node, Pod
from ansible_collections.virt.placement.plugins.module_utils.model.plan import Method, Plan
from ansible_collections.virt.placement.plugins.module_utils.model.snapshot import Snapshot
from ansible_collections.virt.placement.plugins.module_utils.planning import world as worlds
from ansible_collections.virt.placement.plugins.module_utils.planning.candidates import (
    Wanted,
    as_declared,
    candidates,
)
from ansible_collections.virt.placement.plugins.module_utils.planning.moves import (
    Request,
    Scope,
    plan_moves,
)
from ansible_collections.virt.placement.plugins.module_utils.planning.ranking import Ranking
from ansible_collections.virt.placement.plugins.module_utils.planning.running import (
    Running,
    instance,
)
from ansible_collections.virt.placement.plugins.module_utils.planning.world import Verified
from ansible_collections.virt.placement.plugins.module_utils.scheduling.index import Index
from ansible_collections.virt.placement.plugins.module_utils.scheduling.node_table import NodeTable
from ansible_collections.virt.placement.plugins.module_utils.verdicts.declared import Reader
from ansible_collections.virt.placement.plugins.module_utils.verdicts.effective import Comparison
from ansible_collections.virt.placement.plugins.module_utils.verdicts.instances import instances
from ansible_collections.virt.placement.plugins.module_utils.verdicts.terms import selecting_keys

from .random_clusters import random_cluster

SHOP = Wanted(namespaces=frozenset({"shop"}))
SCOPES: tuple[Scope, ...] = ("violating", "unmet", "outdated", "all")

thorough = settings(max_examples=int(os.environ.get("PLACEMENT_EXAMPLES", "60")), deadline=None)


def indexed(snapshot: Snapshot) -> Index:
    return Index.build(snapshot.nodes, snapshot.pods, snapshot.namespaces)


def plan(snapshot: Snapshot, scope: Scope, verified: Verified | None = None) -> Plan:
    request = Request(SHOP, scope, frozenset(Method))
    return plan_moves(snapshot, request, verified=verified)


@thorough
@given(seed=st.integers(0, 10**9), scope=st.sampled_from(SCOPES))
def test_one_index_gives_the_plan_that_two_give(seed: int, scope: Scope) -> None:
    snapshot = random_cluster(seed, rooms=("2", "3", "16")).snapshot()
    quick = plan(snapshot, scope)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(worlds, "GONE_AT_MOST", -1)
        assert plan(snapshot, scope) == quick


@thorough
@given(seed=st.integers(0, 10**9), scope=st.sampled_from(SCOPES))
def test_a_verified_index_gives_the_same_plan_and_is_given_back_as_it_was(
    seed: int, scope: Scope
) -> None:
    snapshot = random_cluster(seed, rooms=("2", "3", "16")).snapshot()
    verified = Verified.of(snapshot, candidates(snapshot, SHOP))
    index = verified.index
    failures = index.verify_all()
    if verified.failures is not None:
        known = {found.pod.uid for found in candidates(snapshot, SHOP)}
        assert verified.failures == {key: x for key, x in failures.items() if key in known}

    assert plan(snapshot, scope, verified) == plan(snapshot, scope)
    assert plan(snapshot, scope, Verified(index, failures)) == plan(snapshot, scope)

    fresh = indexed(snapshot)
    assert index.verify_all() == failures
    for pod in fresh.pods:
        key = pod.uid
        assert index.node_of(key) == fresh.node_of(key)
        assert index.open_nodes(pod, without=key) == fresh.open_nodes(pod, without=key)


@thorough
@given(seed=st.integers(0, 10**9))
def test_what_a_quick_look_takes_for_equal_is_equal(seed: int) -> None:
    snapshot = random_cluster(seed).snapshot()
    reader = Reader()
    compare = Comparison(reader, selecting_keys(pod.placement for pod in snapshot.pods))
    for found in candidates(snapshot, SHOP):
        if found.wanted is not found.pod or found.workload is None:
            continue
        declared = reader.declared(found.workload)
        assert said(as_declared(found.pod, declared)) == said(found.pod)
        assert compare.gap(declared, found.pod, found.instance.vmi, found.workload) is None
        assert not found.outdated


def said(pod: Pod) -> t.Any:
    """What matters of a pod, without the order in which lists say it."""
    placement = pod.placement
    terms = placement.node_terms
    return (
        pod.labels,
        set(placement.node_selector),
        terms and [(set(term.expressions), term.fields) for term in terms],
        set(placement.tolerations),
        replace(placement, node_selector=(), node_terms=None, tolerations=()),
    )


@thorough
@given(seed=st.integers(0, 10**9))
def test_who_can_migrate_is_told_without_what_else_there_would_be(seed: int) -> None:
    for found in candidates(random_cluster(seed).snapshot(), SHOP):
        assert found.migrates == (Method.MIGRATE in found.effect.methods)


@thorough
@given(seed=st.integers(0, 10**9))
def test_what_runs_is_what_the_judge_sees_run(seed: int) -> None:
    snapshot = random_cluster(seed).snapshot()
    known = {found.ref: found for found in snapshot.workloads}
    expected = [
        (found, known.get(found.workload) if found.workload else None, found.pod)
        for found in instances(snapshot)
        if found.pod is not None
    ]
    found = Running(snapshot, frozenset({"shop"})).found()
    assert [(instance(vmi, ref, pod), known, pod) for vmi, ref, known, pod in found] == expected


def test_machines_that_run_by_their_terms_are_not_read_any_closer() -> None:
    made = random_cluster(7)
    found = [x for x in candidates(made.snapshot(), SHOP) if x.wanted is x.pod]
    assert found, "nothing would be saved"


@thorough
@given(
    loads=st.lists(st.integers(0, 4), min_size=1, max_size=9),
    disliked=st.lists(st.tuples(st.integers(1, 3), st.integers(0, 511)), max_size=3),
    nodes=st.integers(0, 511),
    limit=st.integers(1, 9),
    sort=st.booleans(),
)
def test_the_first_nodes_are_those_that_sorting_puts_first(
    loads: list[int], disliked: list[tuple[int, int]], nodes: int, limit: int, sort: bool
) -> None:
    names = [f"n{n}" for n in range(len(loads))]
    table = NodeTable(map(Node, names if sort else reversed(names)))
    nodes &= table.all
    ranking = Ranking(table, loads[::-1])
    for n, load in enumerate(loads):
        while ranking.loads[n] < load:
            ranking.moved(max(range(len(loads)), key=lambda x: ranking.loads[x] - loads[x]), n)

    def rank(name: str) -> tuple[int, int, str]:
        n = table.numbers[name]
        return sum(weight for weight, bad in disliked if bad >> n & 1), loads[n], name

    assert ranking.first(nodes, disliked, limit) == tuple(
        sorted(table.names_of(nodes), key=rank)[:limit]
    )
