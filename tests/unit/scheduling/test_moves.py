# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""After any moves the index is what building it from the result would give."""

from __future__ import annotations

import dataclasses
import typing as t

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ansible_collections.virt.placement.plugins.module_utils.model.manifest import (
    namespace_from_manifest,
    node_from_manifest,
    pod_from_manifest,
)
from ansible_collections.virt.placement.plugins.module_utils.model.objects import Node, Pod
from ansible_collections.virt.placement.plugins.module_utils.scheduling.index import (
    Index,
    pod_key,
)
from ansible_collections.virt.placement.plugins.module_utils.scheduling.matching import Match

from . import worlds
from .test_against_reference import thorough


def counters(index: Index) -> dict[t.Any, t.Any]:
    """Every counter of what is placed that is not zero."""
    found: dict[t.Any, t.Any] = {}
    for match in index.matching._matches.values():
        for owners in [*match.owners, *match.scored]:
            term = (_name(match), owners.key, owners.differs_in, owners.weight)
            found[term] = dict(owners.counts)
            found[term, "owners"] = {each.key for each in owners.members}
    for n, node in enumerate(index.nodes):
        found["free", node.name] = {k: v for k, v in index.resources.free(n).items() if v}
    for port, nodes in index.ports._used.items():
        found[port] = {n: dict(addresses) for n, addresses in nodes.items()}
    return {name: value for name, value in found.items() if value}


def selections(index: Index) -> dict[t.Any, t.Any]:
    """Who is selected and counted where. An index keeps what it was ever asked about, so two of
    them can be compared in what both know."""
    found: dict[t.Any, t.Any] = {}
    for match in index.matching._matches.values():
        found[_name(match)] = {each.key for each in match.members}
        for key in (worlds.ZONE, worlds.RACK, worlds.HOST):
            found[_name(match), key] = dict(match.by_domain(key))
        for spread in match.spreads:
            name = (_name(match), spread.key, spread.eligible.nodes)
            found[name] = (dict(spread.counts), dict(spread.levels), spread.lowest)
    return found


def _name(match: Match) -> t.Any:
    return frozenset((scope.names, scope.selector, selector) for scope, selector in match.parts)


def verdicts(index: Index, judged: t.Iterable[Pod]) -> dict[t.Any, t.Any]:
    """Everything that can be asked, reasons and counterparts included."""
    found: dict[t.Any, t.Any] = {}
    for pod in index.pods:
        key = pod_key(pod)
        found[key] = (index.node_of(key), index.verify(key), index.feasible(pod, without=key))
    for pod in judged:
        found[pod.name, "new"] = index.feasible(pod)
        for node in index.nodes:
            found[pod.name, node.name] = index.failures(pod, node.name)
    return found


class Changes:
    """Does a random thing to an index, and keeps the result to build a fresh one from."""

    def __init__(self, cluster: worlds.Cluster, spare: list[Pod]) -> None:
        self.nodes: list[Node] = list(map(node_from_manifest, cluster.nodes))
        self.spaces = list(map(namespace_from_manifest, cluster.namespaces))
        self.placed = {pod_key(pod): pod for pod in map(pod_from_manifest, cluster.pods)}
        self.spare = spare
        self.index = self.fresh()

    def fresh(self) -> Index:
        return Index.build(self.nodes, self.placed.values(), self.spaces)

    def apply(self, data: st.DataObject) -> None:
        what = data.draw(st.sampled_from(["take_out", "place", "move", "judge", "swap"]))
        name = data.draw(st.sampled_from([node.name for node in self.nodes]))
        pod = data.draw(st.sampled_from(self.spare))
        if what == "place" and pod_key(pod) not in self.placed:
            self.index.place(pod, name)
            self.placed[pod_key(pod)] = dataclasses.replace(pod, node_name=name)
        elif what == "judge":
            self.index.failures(pod, name, without=self._any(data) if self.placed else None)
            self.index.feasible(pod)
        elif self.placed and what in ("take_out", "move", "swap"):
            key = self._any(data)
            if what == "move":
                self.index.move(key, name)
                self.placed[key] = dataclasses.replace(self.placed[key], node_name=name)
            else:
                taken = self.index.take_out(key)
                del self.placed[key]
                if what == "swap":
                    self.index.feasible(pod)
                    self.index.place(taken, name)
                    self.placed[key] = dataclasses.replace(taken, node_name=name)

    def _any(self, data: st.DataObject) -> str:
        return data.draw(st.sampled_from(sorted(self.placed)))


@thorough
@given(worlds.clusters(), st.lists(worlds.pod("q"), min_size=3, max_size=3), st.data())
def test_incremental_is_fresh(
    cluster: worlds.Cluster, manifests: list[worlds.JSON], data: st.DataObject
) -> None:
    spare = [
        dataclasses.replace(pod_from_manifest(each), name=f"q{n}")
        for n, each in enumerate(manifests)
    ]
    changes = Changes(cluster, spare)
    for _change in range(data.draw(st.integers(1, 8))):
        changes.apply(data)
    fresh = changes.fresh()
    assert verdicts(changes.index, spare) == verdicts(fresh, spare)
    assert counters(changes.index) == counters(fresh)
    known, expected = selections(changes.index), selections(fresh)
    assert set(expected) <= set(known)
    assert {name: known[name] for name in expected} == expected


@pytest.fixture
def index() -> Index:
    nodes = [{"metadata": {"name": name}} for name in ("n1", "n2")]
    pod = {
        "metadata": {"name": "p", "namespace": "blue"},
        "spec": {"nodeName": "n1", "containers": []},
    }
    return Index.build(map(node_from_manifest, nodes), [pod_from_manifest(pod)], [])


def test_a_pod_is_placed_once(index: Index) -> None:
    with pytest.raises(ValueError, match="already placed on n1"):
        index.place(index.pod("blue/p"), "n2")


def test_unknown_nodes_and_pods_are_no_silent_answers(index: Index) -> None:
    pod = index.pod("blue/p")
    with pytest.raises(KeyError):
        index.failures(pod, "n3")
    with pytest.raises(KeyError):
        index.take_out("blue/q")
    with pytest.raises(KeyError):
        index.move("blue/p", "n3")
    assert index.node_of("blue/p") == "n1"


def test_moving_and_taking_out(index: Index) -> None:
    index.move("blue/p", "n2")
    assert index.node_of("blue/p") == "n2"
    taken = index.take_out("blue/p")
    assert "blue/p" not in index
    assert not index.pods
    index.place(taken, "n1")
    assert list(index.pods) == [taken]
