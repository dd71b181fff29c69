# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The index agrees with the plain reference on random clusters."""

from __future__ import annotations

import dataclasses
import os
import typing as t

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ansible_collections.virt.placement.plugins.module_utils.model.manifests import (
    namespace_from_manifest,
    node_from_manifest,
    pod_from_manifest,
)
from ansible_collections.virt.placement.plugins.module_utils.model.objects import (
    Labels,
    Pod,
    PodTerm,
    Requirement,
    Selector,
)
from ansible_collections.virt.placement.plugins.module_utils.scheduler.framework import FilterStatus
from ansible_collections.virt.placement.plugins.module_utils.scheduler.index import Index
from tests.conformance.scorers import score

from . import random_clusters, reference_scores
from .reference import Verdict, World

thorough = settings(
    max_examples=int(os.environ.get("PLACEMENT_EXAMPLES", "50")),
    suppress_health_check=[HealthCheck.data_too_large],
)


def build(cluster: random_clusters.Cluster) -> Index:
    return Index(
        map(node_from_manifest, cluster.nodes),
        map(pod_from_manifest, cluster.pods),
        map(namespace_from_manifest, cluster.namespaces),
    )


def reported(failures: t.Iterable[FilterStatus]) -> dict[str, Verdict]:
    return {
        status.plugin: (str(status.code), frozenset(reason.kind for reason in status.reported))
        for status in failures
    }


def _stored(term: PodTerm, labels: Labels) -> Selector | None:
    """The selector as the API server stores it for an owner with these labels."""
    if not term.differs_in or term.selector is None or term.differs_in not in labels:
        return term.selector
    own = Requirement(term.differs_in, "NotIn", (labels[term.differs_in],))
    return Selector((*term.selector.requirements, own))


def in_full(pod: Pod) -> Pod:
    """The same pod with every own value back in the selectors: as if nothing were shared."""

    def spelled_out(terms: t.Any) -> t.Any:
        return tuple(
            dataclasses.replace(term, selector=_stored(term, pod.labels), differs_in="")
            for term in terms
        )

    placement = dataclasses.replace(
        pod.placement,
        affinity=spelled_out(pod.placement.affinity),
        anti_affinity=spelled_out(pod.placement.anti_affinity),
    )
    return dataclasses.replace(pod, placement=placement)


@thorough
@given(random_clusters.clusters(), random_clusters.pod("new"))
def test_incoming_pod_gets_the_verdicts_of_the_reference(
    cluster: random_clusters.Cluster, manifest: random_clusters.JSON
) -> None:
    index, world, pod = build(cluster), World(*cluster), pod_from_manifest(manifest)
    for name in world.nodes:
        assert reported(index.failures(pod, name)) == world.verdicts(manifest, name)
    assert set(index.feasible_nodes(pod)) == world.feasible(manifest)


@thorough
@given(random_clusters.clusters())
def test_running_pods_get_the_verdicts_of_the_reference(cluster: random_clusters.Cluster) -> None:
    index, world = build(cluster), World(*cluster)
    for manifest in world.pods:
        name = manifest["metadata"]["name"]
        key = f"{manifest['metadata']['namespace']}/{name}"
        alone = world.without(name)
        pod = index.pod(key)
        assert reported(index.failures_in_place(key)) == alone.verdicts(manifest, pod.node_name)
        assert set(index.feasible_nodes(pod, without=key)) == alone.feasible(manifest)
        migrated = index.feasible_nodes(pod, exclude={pod.node_name})
        assert set(migrated) == world.feasible(manifest) - {pod.node_name}


@thorough
@given(random_clusters.clusters(), random_clusters.pod("new"), st.data())
def test_shared_terms_give_the_verdicts_of_full_selectors(
    cluster: random_clusters.Cluster, manifest: random_clusters.JSON, data: st.DataObject
) -> None:
    nodes = list(map(node_from_manifest, cluster.nodes))
    pods = list(map(pod_from_manifest, cluster.pods))
    spaces = list(map(namespace_from_manifest, cluster.namespaces))
    shared = Index(nodes, pods, spaces)
    spelled_out = Index(nodes, map(in_full, pods), spaces)
    pod = pod_from_manifest(manifest)
    name = data.draw(st.sampled_from([node.name for node in nodes]))
    assert reported(shared.failures(pod, name)) == reported(
        spelled_out.failures(in_full(pod), name)
    )


@thorough
@given(random_clusters.clusters(), random_clusters.pod("new"))
def test_scores(cluster: random_clusters.Cluster, manifest: random_clusters.JSON) -> None:
    index, world, pod = build(cluster), World(*cluster), pod_from_manifest(manifest)
    names = [node.name for node in index.nodes][1:] or ["n0"]
    expected = {
        "NodeAffinity": reference_scores.node_affinity_scores(world, manifest),
        "TaintToleration": reference_scores.taint_scores(world, manifest),
        "InterPodAffinity": reference_scores.pod_affinity_scores(world, manifest),
    }
    for plugin, scores in expected.items():
        raw = None if scores is None else {name: scores[name] for name in names}
        assert score(index, pod, plugin, names).raw == raw
    spread = reference_scores.spread_scores(world, manifest, names)
    raw = None if spread is None else {name: spread.get(name, 0) for name in names}
    assert score(index, pod, "PodTopologySpread", names).raw == raw
