# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Cluster files and the pool that shares sandboxes between test modules; nothing is started."""

from __future__ import annotations

import pytest

from sandbox import Sandbox, cluster_file, pytest_plugin
from sandbox.releases import RELEASES


@pytest.mark.parametrize("name", cluster_file.known())
def test_every_file_is_understood(name: str) -> None:
    cluster = cluster_file.load(name)
    names = [node.name for node in cluster.nodes]
    assert len(set(names)) == len(names) > 0
    assert all(node.labels["kubernetes.io/hostname"] == node.name for node in cluster.nodes)


def test_article_lacks_topology_and_taints_its_control_plane() -> None:
    cluster = cluster_file.load("article")
    assert [node.name for node in cluster.nodes if node.taints] == ["kni-control-plane"]
    assert not any(key.startswith("topology.") for node in cluster.nodes for key in node.labels)
    assert cluster.configuration == {"evictionStrategy": "LiveMigrate"}


def test_zones_are_filled_in_order() -> None:
    zones = [node.labels[cluster_file.ZONE] for node in cluster_file.load("six").nodes]
    assert zones == ["zone1", "zone1", "zone2", "zone2", "zone3", "zone3"]


def test_null_takes_a_usual_label_away() -> None:
    content = {"nodes": [{"name": "a", "labels": {"kubevirt.io/schedulable": None, "x": 1}}]}
    labels = cluster_file.parse("test", content).nodes[0].labels
    assert "kubevirt.io/schedulable" not in labels
    assert labels["x"] == "1"


def test_an_older_release_gets_what_it_needs_below_what_the_file_says() -> None:
    older = RELEASES["1.31+1.4"]
    configuration = cluster_file.load("mixed", older).configuration
    assert configuration["vmRolloutStrategy"] == "LiveUpdate"
    gates = configuration["developerConfiguration"]["featureGates"]
    assert {"VMLiveUpdateFeatures", "CPUManager"} <= set(gates)
    assert configuration["evictionStrategy"] == "LiveMigrate"


@pytest.mark.parametrize(
    ("cluster", "host_models"),
    [
        ("six", {"Skylake-Server"}),
        ("plain", set()),
        ("mixed", {"Broadwell-noTSX", "Cascadelake-Server", "EPYC-Rome"}),
    ],
)
def test_nodes_have_the_labels_of_virt_handler(cluster: str, host_models: set[str]) -> None:
    """As on each real node: a VM that runs with the host's CPU migrates to nodes that know this model."""
    prefix = "host-model-cpu.node.kubevirt.io/"
    nodes = cluster_file.load(cluster).nodes
    found = [key for node in nodes for key in node.labels if key.startswith(prefix)]
    assert {key.removeprefix(prefix) for key in found} == host_models
    assert len(found) == (len(nodes) if host_models else 0)


def test_node_without_virt_handler_has_none_of_its_labels_and_devices() -> None:
    control_plane, *workers = cluster_file.load("article").nodes
    assert not any("kubevirt.io" in key for key in control_plane.labels)
    assert not any("kubevirt.io" in key for key in control_plane.allocatable)
    assert all(node.labels["machine-type.node.kubevirt.io/pc-q35-10.0"] for node in workers)


@pytest.mark.parametrize(
    "content", [{"nodes": [], "kubvirt": True}, {"nodes": [{"name": "a", "taint": []}]}]
)
def test_unknown_words_are_refused(content: dict[str, object]) -> None:
    with pytest.raises(cluster_file.ClusterFileError, match="unknown"):
        cluster_file.parse("test", content)


def test_unknown_cluster_names_the_known() -> None:
    with pytest.raises(cluster_file.ClusterFileError, match=r"known are article, .*six"):
        cluster_file.load("artikle")


class Started:
    """Stands for a sandbox where only starts and stops are of interest."""

    def __init__(self, cluster: str, log: list[str]) -> None:
        self.cluster, self.log = cluster, log
        log.append(f"start {cluster}")

    def stop(self) -> None:
        self.log.append(f"stop {self.cluster}")


@pytest.fixture
def log(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    happened: list[str] = []
    monkeypatch.setattr(Sandbox, "start", lambda cluster: Started(cluster, happened))
    return happened


def test_pool_reuses_and_stops_the_least_recently_used(log: list[str]) -> None:
    pool = pytest_plugin.SandboxPool()
    for cluster in ("article", "six", "article", "plain", "article"):
        pool.acquire(cluster)
        pool.release(cluster)
    assert log == ["start article", "start six", "stop six", "start plain"]
    pool.stop_all()
    assert sorted(log[-2:]) == ["stop article", "stop plain"]


def test_pool_never_stops_what_a_module_uses(log: list[str]) -> None:
    pool = pytest_plugin.SandboxPool()
    pool.acquire("article")
    pool.acquire("six")
    with pytest.raises(pytest.fail.Exception, match=r"article.*six.*plain"):
        pool.acquire("plain")
    assert log == ["start article", "start six"]
