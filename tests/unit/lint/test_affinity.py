# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Findings about required affinity between workloads."""

from __future__ import annotations

import contextlib
import typing as t
from unittest import mock

import pytest

from ansible_collections.virt.placement.plugins.module_utils.model.objects import Ref
from tests.support.cluster import HOST, ZONE, Cluster, affinity
from tests.unit.lint.online_offline import deployment, offline, online


def affinity_to(topology_key: str = HOST, **labels: str) -> dict[str, object]:
    return affinity({"topologyKey": topology_key, "labelSelector": {"matchLabels": labels}})


def test_two_vms_with_affinity_to_each_other_never_migrate() -> None:
    cluster = Cluster()
    cluster.run("a", "n1", affinity_to(app="b"), app="a")
    cluster.run("b", "n1", affinity_to(app="a"), app="b")

    for findings in (online(cluster), offline(cluster)):
        assert {name: f.severity for name, f in findings.items()} == {"mutual_affinity": "error"}
        assert "{topology_key: node, with: {name: a}}" in findings["mutual_affinity"].advice


def test_vm_with_affinity_to_itself_can_be_the_first_of_two() -> None:
    cluster = Cluster()
    cluster.run("a", "n1", affinity_to(ZONE, app="b"), app="a", tier="db")
    cluster.run("b", "n1", affinity_to(ZONE, tier="db"), app="b", tier="db")

    finding = online(cluster)["mutual_affinity"]

    assert finding.severity == "warning"
    assert "can never be live-migrated to another zone" in finding.why


def test_replicas_with_affinity_to_each_other_never_migrate() -> None:
    cluster = Cluster()
    labels = {"app": "pair"}
    cluster.workload(
        "VirtualMachineInstanceReplicaSet",
        "pair",
        {
            "replicas": 2,
            "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": affinity_to(app="pair")},
        },
    )

    for findings in (online(cluster), offline(cluster)):
        assert findings["mutual_affinity"].severity == "error"
        assert "its replicas need one another" in findings["mutual_affinity"].why


def test_vms_with_affinity_to_each_other_by_zone_cannot_leave_the_zone() -> None:
    cluster = Cluster()
    labels = {"app": "pair"}
    cluster.run("a", "n1", affinity_to(ZONE, **labels), **labels)
    cluster.run("b", "n2", affinity_to(ZONE, **labels), **labels)

    for findings in (online(cluster), offline(cluster, nodes=True)):
        assert findings["mutual_affinity"].severity == "warning"
        assert [ref.name for ref in findings["mutual_affinity"].objects] == ["a", "b"]


def test_vms_with_affinity_to_each_other_by_zones_of_one_node_never_migrate() -> None:
    cluster = Cluster("abc")
    labels = {"app": "pair"}
    for name in ("a", "b"):
        cluster.run(name, "n1", affinity_to(ZONE, **labels), **labels)

    for findings in (online(cluster), offline(cluster, nodes=True)):
        assert findings["mutual_affinity"].severity == "error"


def test_two_deployments_with_affinity_to_each_other_never_start() -> None:
    cluster = Cluster()
    deployment(cluster, "a", affinity_to(app="b"))
    deployment(cluster, "b", affinity_to(app="a"))

    for findings in (online(cluster), offline(cluster)):
        assert {name: f.severity for name, f in findings.items()} == {"mutual_affinity": "error"}
        assert "none can be the first" in findings["mutual_affinity"].why


def test_affinity_to_another_workload_depends_on_it() -> None:
    cluster = Cluster()
    cluster.run("leader", "n1", app="db")
    cluster.run("app", "n1", affinity_to(app="db"))

    for findings in (online(cluster), offline(cluster)):
        assert set(findings) == {"depends_on_other_workload"}
        finding = findings["depends_on_other_workload"]
        assert finding.severity == "info"
        assert "VirtualMachine shop/leader" in finding.why
        assert [ref.name for ref in finding.objects] == ["app"]


@pytest.mark.parametrize(("leader_on", "swaps"), [({}, True), ({HOST: "n3"}, False)])
def test_leader_that_may_run_where_its_follower_cannot(
    leader_on: dict[str, str], swaps: bool
) -> None:
    """The app leads, and its database has to run on licensed hosts: with the database as leader both have a node."""
    cluster = Cluster()
    for name in ("n1", "n2"):
        cluster.nodes[name]["metadata"]["labels"]["licensed.example.com/db"] = "true"
    licensed = {"nodeSelector": {"licensed.example.com/db": "true"}}
    cluster.run("app", "n3", {"nodeSelector": leader_on}, app="app")
    cluster.run("db", "n1", {**licensed, **affinity_to(app="app")})

    for findings in (online(cluster), offline(cluster, nodes=True)):
        finding = findings["depends_on_other_workload"]
        assert finding.severity == "warning"
        others = "n3" if leader_on else "n3, n4, n5, n6"
        assert finding.why == (
            f"It follows VirtualMachine shop/app, which may run in node {others}, where its own node terms allow none"
            " of its pods: then it has no node."
        )
        assert finding.advice.startswith("Let VirtualMachine shop/app follow it instead") is swaps

    cluster = Cluster()
    cluster.run("app", "n1", {"nodeSelector": {HOST: "n1"}}, app="app")
    cluster.run("db", "n1", {"nodeSelector": {HOST: "n1"}, **affinity_to(app="app")})
    assert online(cluster)["depends_on_other_workload"].severity == "info"


def test_vm_whose_affinity_selects_itself_depends_on_no_other_workload() -> None:
    cluster = Cluster()
    cluster.run("app", "n1", affinity_to(app="db"), app="db")

    assert online(cluster) == {}
    assert offline(cluster) == {}


def looks(count: int, labels: t.Mapping[str, str], running: bool) -> int:
    """How often references of VMs are hashed and compared, if each VM has affinity to all that have the
    labels."""
    cluster = Cluster()
    for number in range(count):
        spec = affinity_to(ZONE, **labels)
        app = "web" if number % 2 else "db"
        if running:
            cluster.run(f"vm{number}", "n1", spec, all="yes", app=app)
        else:
            cluster.vm(f"vm{number}", spec, all="yes", app=app)
    calls = 0

    def counted(name: str) -> t.Callable[..., t.Any]:
        method = getattr(Ref, name)

        def call(*refs: Ref) -> t.Any:
            nonlocal calls
            calls += 1
            return method(*refs)

        return call

    with contextlib.ExitStack() as patches:
        for name in ("__hash__", "__eq__", "__lt__"):
            patches.enter_context(mock.patch.object(Ref, name, counted(name)))
        online(cluster)
    return calls


@pytest.mark.parametrize("running", [False, True], ids=["halted", "running"])
@pytest.mark.parametrize("labels", [{"all": "yes"}, {"app": "db"}, {"app": "none"}])
def test_lint_looks_at_each_vm_a_few_times(labels: dict[str, str], running: bool) -> None:
    assert looks(200, labels, running) < 2.5 * looks(100, labels, running)
