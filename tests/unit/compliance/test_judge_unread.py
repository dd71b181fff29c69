# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the judge says where something could not be read."""

from __future__ import annotations

import typing as t

from ansible_collections.virt.placement.plugins.module_utils.compliance.judge import judge
from ansible_collections.virt.placement.plugins.module_utils.model.snapshot import (
    Snapshot,
    Unreadable,
)
from ansible_collections.virt.placement.plugins.module_utils.model.verdict import Verdict
from tests.support.cluster import HOST, Cluster, affinity
from tests.unit.compliance.judged import of, rule, three


def blind(cluster: Cluster, resource: str, namespace: str = "", **lost: t.Any) -> Snapshot:
    gap = Unreadable(resource, namespace, "list", "forbidden")
    return cluster.snapshot(unreadable=(gap,), **lost)


def test_with_pods_unread_nothing_that_rests_on_them_is_satisfied() -> None:
    cluster = Cluster()
    three(cluster, ["n1", "n3", "n5"])

    found = judge(blind(cluster, "pods", "other"))

    assert of(found, "db1").verdict is Verdict.UNKNOWN
    assert rule(found, "db1").verdict is Verdict.SATISFIED
    assert rule(found, "db1", "").reason == "cannot list pods in namespace other: forbidden"
    assert found.unreadable[0].resource == "pods"


def test_with_the_groups_own_pods_unread_the_rule_is_unknown() -> None:
    cluster = Cluster()
    three(cluster, ["n1", "n3", "n5"])

    assert rule(judge(blind(cluster, "pods")), "db1").verdict is Verdict.UNKNOWN


def test_vmi_whose_pod_could_not_be_read_is_unknown_and_not_pending() -> None:
    cluster = Cluster()
    three(cluster, ["n1", "n3", "n5"])

    found = judge(blind(cluster, "pods", pods=()))

    assert [v.verdict for v in found.instances] == [Verdict.UNKNOWN] * 3
    assert found.pending == ()


def test_certain_violation_is_reported_despite_a_gap() -> None:
    cluster = Cluster()
    three(cluster, ["n1", "n2", "n5"])
    near = {"labelSelector": {"matchLabels": {"tier": "none"}}, "topologyKey": HOST}
    cluster.run("app", "n2", affinity(near))

    found = judge(blind(cluster, "pods"))

    assert rule(found, "db1").verdict is Verdict.VIOLATED
    assert of(found, "app").verdict is Verdict.UNKNOWN


def test_without_the_workloads_what_is_declared_is_unknown() -> None:
    cluster = Cluster()
    cluster.run("db", "n1")

    found = judge(blind(cluster, "virtualmachines", workloads=()))

    assert of(found, "db").verdict is Verdict.UNKNOWN
    assert "cannot list virtualmachines" in rule(found, "db", "").reason


def test_without_nodes_everything_is_unknown() -> None:
    cluster = Cluster()
    three(cluster, ["n1", "n3", "n5"])

    found = judge(blind(cluster, "nodes", nodes=()))

    assert [v.verdict for v in found.instances] == [Verdict.UNKNOWN] * 3


def test_affinity_is_unknown_beside_a_term_whose_pods_are_unknown() -> None:
    """One pod has to match all terms, so the term that could be checked alone is none that failed."""
    cluster = Cluster()
    db = {"labelSelector": {"matchLabels": {"tier": "db"}}, "topologyKey": HOST}
    anywhere = {**db, "namespaceSelector": {"matchLabels": {"team": "a"}}}
    cluster.namespace("shop", team="a")
    cluster.run("db", "n1", tier="db")
    cluster.run("app", "n1", affinity(db, anywhere))

    found = of(judge(blind(cluster, "namespaces", namespaces=())), "app")

    assert found.verdict is Verdict.UNKNOWN
    assert {each.verdict for each in found.rules} == {Verdict.UNKNOWN}
