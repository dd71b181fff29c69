# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""After any changes the index equals one built from the result."""

from __future__ import annotations

import dataclasses
import typing as t

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ansible_collections.virt.placement.plugins.module_utils.model.manifests import (
    namespace_from_manifest,
    node_from_manifest,
    pod_from_manifest,
)
from ansible_collections.virt.placement.plugins.module_utils.model.objects import Node, Pod
from ansible_collections.virt.placement.plugins.module_utils.scheduler.framework import pod_key
from ansible_collections.virt.placement.plugins.module_utils.scheduler.index import Index
from ansible_collections.virt.placement.plugins.module_utils.scheduler.selector_index import (
    SelectorCount,
)

from . import random_clusters
from .test_against_reference import thorough


def counters(index: Index) -> dict[t.Any, t.Any]:
    """Every counter of what is placed that is not zero."""
    counts: dict[t.Any, t.Any] = {}
    for selector_count in index.selectors._selector_counts.values():
        for existing in [*selector_count.anti_affinity, *selector_count.weighted]:
            term = (_name(selector_count), existing.key, existing.differs_in, existing.weight)
            counts[term] = dict(existing.counts)
            counts[term, "owners"] = {pod_info.key for pod_info in existing.owners}
    for n, node in enumerate(index.nodes):
        counts["free", node.name] = {k: v for k, v in index.resources.free(n).items() if v}
    for port, nodes in index.ports._used.items():
        counts[port] = {n: dict(addresses) for n, addresses in nodes.items()}
    return {name: value for name, value in counts.items() if value}


def selections(index: Index) -> dict[t.Any, t.Any]:
    """Which pods each selector matches, by domain. An index keeps each selector it has seen, so two of
    them are compared in the selectors that both have."""
    selected: dict[t.Any, t.Any] = {}
    for selector_count in index.selectors._selector_counts.values():
        selected[_name(selector_count)] = {pod_info.key for pod_info in selector_count.members}
        for key in (random_clusters.ZONE, random_clusters.RACK, random_clusters.HOST):
            selected[_name(selector_count), key] = dict(selector_count.by_domain(key))
        for spread in selector_count.spread_counts:
            name = (_name(selector_count), spread.key, spread.eligible.nodes)
            selected[name] = (dict(spread.counts), dict(spread.levels), spread.lowest)
    return selected


def _name(selector_count: SelectorCount) -> t.Any:
    return frozenset(
        (scope.names, scope.selector, selector) for scope, selector in selector_count.parts
    )


def verdicts(index: Index, judged: t.Iterable[Pod]) -> dict[t.Any, t.Any]:
    """Everything that can be asked, reasons and counterparts included."""
    results: dict[t.Any, t.Any] = {}
    for pod in index.pods:
        key = pod_key(pod)
        results[key] = (
            index.node_of(key),
            index.failures_in_place(key),
            index.feasible_nodes(pod, without=key),
        )
    for pod in judged:
        results[pod.name, "new"] = index.feasible_nodes(pod)
        for node in index.nodes:
            results[pod.name, node.name] = index.failures(pod, node.name)
    return results


class Changes:
    """Does a random thing to an index, and keeps the result to build a fresh one from."""

    def __init__(self, cluster: random_clusters.Cluster, spare: list[Pod]) -> None:
        self.nodes: list[Node] = list(map(node_from_manifest, cluster.nodes))
        self.spaces = list(map(namespace_from_manifest, cluster.namespaces))
        self.placed = {pod_key(pod): pod for pod in map(pod_from_manifest, cluster.pods)}
        self.spare = spare
        self.index = self.fresh()

    def fresh(self) -> Index:
        return Index(self.nodes, self.placed.values(), self.spaces)

    def apply(self, data: st.DataObject) -> None:
        action = data.draw(st.sampled_from(["take_out", "place", "move", "judge", "swap"]))
        name = data.draw(st.sampled_from([node.name for node in self.nodes]))
        pod = data.draw(st.sampled_from(self.spare))
        if action == "place" and pod_key(pod) not in self.placed:
            self.index.place(pod, name)
            self.placed[pod_key(pod)] = dataclasses.replace(pod, node_name=name)
        elif action == "judge":
            self.index.failures(pod, name, without=self._any(data) if self.placed else None)
            self.index.feasible_nodes(pod)
        elif self.placed and action in ("take_out", "move", "swap"):
            key = self._any(data)
            if action == "move":
                self.index.move(key, name)
                self.placed[key] = dataclasses.replace(self.placed[key], node_name=name)
            else:
                taken = self.index.remove(key)
                del self.placed[key]
                if action == "swap":
                    self.index.feasible_nodes(pod)
                    self.index.place(taken, name)
                    self.placed[key] = dataclasses.replace(taken, node_name=name)

    def _any(self, data: st.DataObject) -> str:
        return data.draw(st.sampled_from(sorted(self.placed)))


@thorough
@given(
    random_clusters.clusters(),
    st.lists(random_clusters.pod("q"), min_size=3, max_size=3),
    st.data(),
)
def test_index_after_changes_equals_a_new_index(
    cluster: random_clusters.Cluster, manifests: list[random_clusters.JSON], data: st.DataObject
) -> None:
    spare = [
        dataclasses.replace(pod_from_manifest(manifest), name=f"q{n}")
        for n, manifest in enumerate(manifests)
    ]
    changes = Changes(cluster, spare)
    for _change in range(data.draw(st.integers(1, 8))):
        changes.apply(data)
    fresh = changes.fresh()
    assert verdicts(changes.index, spare) == verdicts(fresh, spare)
    assert counters(changes.index) == counters(fresh)
    selected, expected = selections(changes.index), selections(fresh)
    assert set(expected) <= set(selected)
    assert {name: selected[name] for name in expected} == expected


@pytest.fixture
def index() -> Index:
    nodes = [{"metadata": {"name": name}} for name in ("n1", "n2")]
    pod = {
        "metadata": {"name": "p", "namespace": "blue"},
        "spec": {"nodeName": "n1", "containers": []},
    }
    return Index(map(node_from_manifest, nodes), [pod_from_manifest(pod)], [])


def test_placing_a_placed_pod_raises_value_error(index: Index) -> None:
    with pytest.raises(ValueError, match="already placed on n1"):
        index.place(index.pod("blue/p"), "n2")


def test_unknown_node_or_pod_raises_key_error(index: Index) -> None:
    pod = index.pod("blue/p")
    with pytest.raises(KeyError):
        index.failures(pod, "n3")
    with pytest.raises(KeyError):
        index.remove("blue/q")
    with pytest.raises(KeyError):
        index.move("blue/p", "n3")
    assert index.node_of("blue/p") == "n1"


def test_moved_and_removed_pod_is_where_it_was_put_last(index: Index) -> None:
    index.move("blue/p", "n2")
    assert index.node_of("blue/p") == "n2"
    taken = index.remove("blue/p")
    assert "blue/p" not in index
    assert not index.pods
    index.place(taken, "n1")
    assert list(index.pods) == [taken]
