# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Who must be near whom."""

from __future__ import annotations

from tests.unit.compliance.cluster import HOST, ZONE, Cluster, affinity
from tests.unit.lint.finds import deployment, offline, online


def near(over: str = HOST, **labels: str) -> dict[str, object]:
    return affinity({"topologyKey": over, "labelSelector": {"matchLabels": labels}})


def test_two_machines_that_need_each_other_never_migrate() -> None:
    cluster = Cluster()
    cluster.run("a", "n1", near(app="b"), app="a")
    cluster.run("b", "n1", near(app="a"), app="b")

    for found in (online(cluster), offline(cluster)):
        assert {name: f.severity for name, f in found.items()} == {"mutual_affinity": "error"}
        assert "{topology_key: node, with: {name: a}}" in found["mutual_affinity"].advice


def test_a_group_with_one_label_needs_each_other_too() -> None:
    cluster = Cluster()
    labels = {"app": "pair"}
    cluster.workload(
        "VirtualMachineInstanceReplicaSet",
        "pair",
        {
            "replicas": 2,
            "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": near(app="pair")},
        },
    )

    for found in (online(cluster), offline(cluster)):
        assert found["mutual_affinity"].severity == "error"
        assert "its replicas need one another" in found["mutual_affinity"].why


def test_over_a_zone_with_several_nodes_machines_stay_in_their_zone() -> None:
    cluster = Cluster()
    labels = {"app": "pair"}
    cluster.run("a", "n1", near(ZONE, **labels), **labels)
    cluster.run("b", "n2", near(ZONE, **labels), **labels)

    for found in (online(cluster), offline(cluster, nodes=True)):
        assert found["mutual_affinity"].severity == "warning"
        assert [ref.name for ref in found["mutual_affinity"].objects] == ["a", "b"]


def test_two_deployments_that_wait_for_each_other_never_start() -> None:
    cluster = Cluster()
    deployment(cluster, "a", near(app="b"))
    deployment(cluster, "b", near(app="a"))

    for found in (online(cluster), offline(cluster)):
        assert {name: f.severity for name, f in found.items()} == {"mutual_affinity": "error"}
        assert "none can be the first" in found["mutual_affinity"].why


def test_a_follower_depends_on_its_leader() -> None:
    cluster = Cluster()
    cluster.run("leader", "n1", app="db")
    cluster.run("app", "n1", near(app="db"))

    for found in (online(cluster), offline(cluster)):
        assert set(found) == {"depends_on_other_workload"}
        finding = found["depends_on_other_workload"]
        assert finding.severity == "info"
        assert "VirtualMachine shop/leader" in finding.why
        assert [ref.name for ref in finding.objects] == ["app"]


def test_a_single_machine_that_matches_its_own_term_needs_nobody() -> None:
    cluster = Cluster()
    cluster.run("app", "n1", near(app="db"), app="db")

    assert online(cluster) == {}
    assert offline(cluster) == {}
