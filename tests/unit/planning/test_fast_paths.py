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

from ansible_collections.virt.placement.plugins.module_utils.compliance.declared import (
    DeclaredReader,
)
from ansible_collections.virt.placement.plugins.module_utils.compliance.drift import (
    DriftComparison,
    TemplateMatcher,
)
from ansible_collections.virt.placement.plugins.module_utils.compliance.instances import (
    InstanceSelection,
    movable_instances,
)
from ansible_collections.virt.placement.plugins.module_utils.kubevirt.instances import (
    instances,
)
from ansible_collections.virt.placement.plugins.module_utils.kubevirt.next_pod import (
    pod_as_declared,
)
from ansible_collections.virt.placement.plugins.module_utils.model.objects import Node, Pod
from ansible_collections.virt.placement.plugins.module_utils.model.plan import Method, Plan
from ansible_collections.virt.placement.plugins.module_utils.model.snapshot import Snapshot
from ansible_collections.virt.placement.plugins.module_utils.planning import simulation as worlds
from ansible_collections.virt.placement.plugins.module_utils.planning.plan import plan_moves
from ansible_collections.virt.placement.plugins.module_utils.planning.plan_request import (
    PlanRequest,
    Scope,
)
from ansible_collections.virt.placement.plugins.module_utils.planning.simulation import (
    NodeRanking,
    VerifiedIndex,
)
from ansible_collections.virt.placement.plugins.module_utils.scheduler.framework import (
    FilterStatus,
    pod_key,
)
from ansible_collections.virt.placement.plugins.module_utils.scheduler.index import Index
from ansible_collections.virt.placement.plugins.module_utils.scheduler.nodes import NodeTable

from .random_clusters import random_cluster

SHOP = InstanceSelection(namespaces=frozenset({"shop"}))
SCOPES: tuple[Scope, ...] = ("violated", "preference_not_met", "not_enforced", "all")

thorough = settings(max_examples=int(os.environ.get("PLACEMENT_EXAMPLES", "60")))


def indexed(snapshot: Snapshot) -> Index:
    return Index(snapshot.nodes, snapshot.pods, snapshot.namespaces)


def plan(snapshot: Snapshot, scope: Scope, verified: VerifiedIndex | None = None) -> Plan:
    request = PlanRequest(SHOP, scope, frozenset(Method))
    return plan_moves(snapshot, request, movable_instances(snapshot, SHOP), verified=verified)


@thorough
@given(seed=st.integers(0, 10**9), scope=st.sampled_from(SCOPES))
def test_one_index_gives_the_plan_that_two_give(seed: int, scope: Scope) -> None:
    snapshot = random_cluster(seed, rooms=("2", "3", "16")).snapshot()
    quick = plan(snapshot, scope)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(worlds, "MAX_LEAVING", -1)
        assert plan(snapshot, scope) == quick


def all_failures(index: Index) -> dict[str, tuple[FilterStatus, ...]]:
    keys = [pod_key(pod) for pod in index.pods]
    return {key: failures for key in keys if (failures := index.failures_in_place(key))}


@thorough
@given(seed=st.integers(0, 10**9), scope=st.sampled_from(SCOPES))
def test_a_verified_index_gives_the_same_plan_and_is_given_back_as_it_was(
    seed: int, scope: Scope
) -> None:
    snapshot = random_cluster(seed, rooms=("2", "3", "16")).snapshot()
    verified = VerifiedIndex.of(snapshot, movable_instances(snapshot, SHOP))
    index = verified.index
    failures = all_failures(index)
    if verified.failures is not None:
        known = {found.pod.uid for found in movable_instances(snapshot, SHOP)}
        assert verified.failures == {key: x for key, x in failures.items() if key in known}

    assert plan(snapshot, scope, verified) == plan(snapshot, scope)
    assert plan(snapshot, scope, VerifiedIndex(index, failures)) == plan(snapshot, scope)

    fresh = indexed(snapshot)
    assert all_failures(index) == failures
    for pod in fresh.pods:
        key = pod.uid
        assert index.node_of(key) == fresh.node_of(key)
        assert index.feasible_set(pod, without=key) == fresh.feasible_set(pod, without=key)


@thorough
@given(seed=st.integers(0, 10**9))
def test_fast_path_without_drift_agrees_with_the_comparison(seed: int) -> None:
    snapshot = random_cluster(seed).snapshot()
    reader = DeclaredReader()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(TemplateMatcher, "matches", lambda *_given: False)
        closely = DriftComparison(snapshot)
        drifted = {
            found.uid
            for found in movable_instances(snapshot, SHOP)
            if found.workload is not None
            and closely.drift(found.workload, found.pod, found.instance.vmi) is not None
        }
    for found in movable_instances(snapshot, SHOP):
        if found.declared_pod is not found.pod or found.workload is None:
            assert (found.uid in drifted) == (found.drift is not None)
            continue
        declared = reader.declared(found.workload)
        made = pod_as_declared(found.pod, found.instance.vmi, declared.placement, declared.labels)
        assert said(made) == said(found.pod)
        assert found.uid not in drifted
        assert found.drift is None


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
def test_the_movable_instances_do_not_depend_on_the_planned_ones(seed: int) -> None:
    for found in movable_instances(random_cluster(seed).snapshot(), SHOP):
        assert found.can_migrate == (Method.MIGRATE in found.move_options().methods)


@thorough
@given(seed=st.integers(0, 10**9))
def test_instances_with_a_pod_and_a_workload_are_movable(seed: int) -> None:
    snapshot = random_cluster(seed).snapshot()
    known = {workload.ref: workload for workload in snapshot.workloads}
    expected = [
        (instance, known.get(instance.workload), instance.pod)
        for instance in instances(snapshot)
        if instance.pod is not None
        and instance.workload is not None
        and (instance.workload in known or instance.workload == instance.ref)
    ]
    assert [(x.instance, x.workload, x.pod) for x in movable_instances(snapshot, SHOP)] == expected


def test_instance_without_drift_shares_its_pod_object() -> None:
    made = random_cluster(7)
    found = [x for x in movable_instances(made.snapshot(), SHOP) if x.declared_pod is x.pod]
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
    ranking = NodeRanking(table, loads[::-1])
    for n, load in enumerate(loads):
        while ranking.loads[n] < load:
            ranking.record_move(
                max(range(len(loads)), key=lambda x: ranking.loads[x] - loads[x]), n
            )

    def rank(name: str) -> tuple[int, int, str]:
        n = table.numbers[name]
        return sum(weight for weight, bad in disliked if bad >> n & 1), loads[n], name

    assert ranking.first(nodes, disliked, limit) == tuple(
        sorted(table.names_of(nodes), key=rank)[:limit]
    )
