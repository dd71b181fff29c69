# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Selectors that select nobody, everybody, or not whom they were meant to."""

from __future__ import annotations

import typing as t

import pytest

from ansible_collections.virt.placement.plugins.module_utils.model.snapshot import Platform
from tests.support.cluster import ZONE, Cluster, affinity, anti_affinity, apart, expression, spread
from tests.unit.lint.online_offline import deployment, offline, online


def harvester(cluster: Cluster, *, fixed: bool) -> None:
    """The published test of machine pools: a hard rule over zone, saved without an expression."""
    labels: dict[str, t.Any] = {"harvesterhci.io/machineSetName": "default-rke2-pool1"}
    term = apart(**labels) if fixed else {"topologyKey": ZONE}
    for number, node in enumerate(["n1", "n3", "n5"], 1):
        cluster.run(f"rke2-pool1-{number}", node, anti_affinity(term), **labels)


def test_the_published_harvester_rule_selects_nothing() -> None:
    cluster = Cluster()
    harvester(cluster, fixed=False)

    for found in (online(cluster), offline(cluster)):
        assert set(found) == {"selector_matches_nothing"}
        finding = found["selector_matches_nothing"]
        assert finding.severity == "error"
        assert finding.why == (
            "The pod anti-affinity term over zone has no labelSelector,"
            " which selects no pod, so it has no effect."
        )
        assert [ref.name for ref in finding.objects] == [f"rke2-pool1-{n}" for n in (1, 2, 3)]


def test_the_fixed_harvester_rule_is_fine() -> None:
    cluster = Cluster()
    harvester(cluster, fixed=True)

    assert online(cluster) == {}
    assert offline(cluster) == {}


def test_affinity_to_nothing_leaves_everything_pending() -> None:
    cluster = Cluster()
    cluster.run("app", "n1", affinity({"topologyKey": ZONE}))

    for found in (online(cluster), offline(cluster)):
        assert "Pending" in found["selector_matches_nothing"].why


def test_requirements_that_exclude_each_other_select_nothing() -> None:
    cluster = Cluster()
    parts = [expression("app", "In", "a"), expression("app", "NotIn", "a")]
    term = {"topologyKey": ZONE, "labelSelector": {"matchExpressions": parts}}
    cluster.run("app", "n1", anti_affinity(term), app="a")

    for found in (online(cluster), offline(cluster)):
        assert "app In (a) and app NotIn (a)" in found["selector_matches_nothing"].why


def test_a_selector_of_pods_that_are_not_there_is_known_online_only() -> None:
    cluster = Cluster()
    cluster.run("app", "n1", affinity(apart(tier="db")))

    assert online(cluster)["selector_matches_nothing"].severity == "error"
    assert offline(cluster) == {}


def test_pods_without_owner_are_selected_too() -> None:
    cluster = Cluster()
    cluster.run("app", "n1", affinity(apart(tier="db")))
    cluster.bare_pod("db", "n1", tier="db")

    assert online(cluster) == {}


@pytest.mark.parametrize("spec", [anti_affinity, affinity])
def test_an_empty_selector_selects_everything(spec: object) -> None:
    assert callable(spec)
    cluster = Cluster()
    cluster.run("app", "n1", spec({"topologyKey": ZONE, "labelSelector": {}}))

    for found in (online(cluster), offline(cluster)):
        assert found["selector_matches_everything"].severity == "error"


def test_an_empty_selector_of_a_spread_counts_nothing() -> None:
    cluster = Cluster()
    constraint = spread()["topologySpreadConstraints"][0]
    cluster.run("app", "n1", {"topologySpreadConstraints": [{**constraint, "labelSelector": {}}]})

    for found in (online(cluster), offline(cluster)):
        assert "counts nothing" in found["selector_matches_everything"].why


def test_a_spread_that_does_not_count_its_own_pods() -> None:
    cluster = Cluster()
    deployment(cluster, "web", spread(app="wep"))

    for found in (online(cluster), offline(cluster)):
        finding = found["template_and_selector_disagree"]
        assert "app In (wep)" in finding.why
        assert [str(ref) for ref in finding.objects] == ["Deployment shop/web"]


def test_a_workload_whose_selector_misses_its_own_template() -> None:
    cluster = Cluster()
    deployment(cluster, "web", {}, selector={"matchLabels": {"app": "other"}})

    for found in (online(cluster), offline(cluster)):
        assert found["template_and_selector_disagree"].severity == "error"


def test_a_selector_that_only_just_misses_its_own_template_offline() -> None:
    cluster = Cluster()
    deployment(cluster, "web", anti_affinity(apart(app="wep")))

    assert "same keys with other values" in offline(cluster)["template_and_selector_disagree"].why
    assert online(cluster)["selector_matches_nothing"].severity == "warning"


@pytest.mark.parametrize(("version", "faulty"), [((1, 33), False), ((1, 34), True)])
def test_a_negative_namespace_selector_on_a_faulty_server(
    version: tuple[int, int], faulty: bool
) -> None:
    cluster = Cluster()
    cluster.namespace("other")
    cluster.run("db", "n1", tier="db")
    negative = {"matchExpressions": [expression("team", "DoesNotExist")]}
    cluster.run("app", "n3", affinity({**apart(tier="db"), "namespaceSelector": negative}))
    platform = Platform(kubernetes=version, kubevirt="v1.8.4")

    assert ("negative_namespace_selector" in online(cluster, platform=platform)) is faulty
    assert ("negative_namespace_selector" in offline(cluster, platform=platform)) is faulty
    assert "negative_namespace_selector" in offline(cluster)
