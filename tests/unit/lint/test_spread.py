# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Spread constraints that do not mean what they seem to, and roll-outs that stand still."""

from __future__ import annotations

import typing as t

import pytest

from ansible_collections.virt.placement.plugins.module_utils.repository.offline import (
    lint_manifests,
)
from tests.support.cluster import (
    HOST,
    REQUIRED,
    SCHEDULABLE,
    ZONE,
    Cluster,
    anti_affinity,
    apart,
    spread,
)
from tests.unit.lint.online_offline import deployment, manifests, offline, online


def honoured(**labels: t.Any) -> dict[str, t.Any]:
    (constraint,) = spread(**labels)["topologySpreadConstraints"]
    return {"topologySpreadConstraints": [{**constraint, "nodeTaintsPolicy": "Honor"}]}


def test_skew_of_one_with_more_copies_than_domains_is_no_maximum() -> None:
    cluster = Cluster()
    deployment(cluster, "web", honoured(app="web"), replicas=4)

    for found in (online(cluster), offline(cluster)):
        assert {name: f.severity for name, f in found.items()} == {"max_skew_misread": "info"}


def test_skew_of_one_with_as_many_domains_is_fine() -> None:
    cluster = Cluster()
    deployment(cluster, "web", honoured(app="web"), replicas=3)

    assert online(cluster) == {}
    assert offline(cluster, nodes=True) == {}


def test_skew_beside_anti_affinity_is_meant_as_it_is() -> None:
    cluster = Cluster()
    both = {**honoured(app="web"), **anti_affinity(apart(ZONE, app="web"))}
    deployment(cluster, "web", both, replicas=3, strategy={"type": "Recreate"})

    assert "max_skew_misread" not in offline(cluster)


def test_a_spread_that_counts_drained_domains_strands_a_drain() -> None:
    cluster = Cluster()
    deployment(cluster, "web", spread(app="web"), replicas=3)

    for found in (online(cluster), offline(cluster)):
        assert found["spread_blocks_drain"].severity == "warning"
        assert "nodeTaintsPolicy: Honor" in found["spread_blocks_drain"].advice


@pytest.mark.parametrize(
    ("zones", "replicas", "rolling", "stands"),
    [
        pytest.param("abc", 3, None, True, id="the default strategy, as many copies as zones"),
        pytest.param("abcd", 3, None, False, id="a zone is free"),
        pytest.param("abc", 3, {"maxSurge": 0, "maxUnavailable": 1}, False, id="old ones go first"),
        pytest.param("abc", 3, {"maxSurge": 1, "maxUnavailable": 0}, True, id="new ones first"),
        pytest.param("abcd", 4, None, False, id="a quarter of four may be missing"),
    ],
)
def test_rollout_deadlock_depends_on_strategy_and_number_of_zones(
    zones: str, replicas: int, rolling: dict[str, int] | None, stands: bool
) -> None:
    cluster = Cluster(zones)
    strategy = {"strategy": {"type": "RollingUpdate", "rollingUpdate": rolling}} if rolling else {}
    term = {"labelSelector": {"matchLabels": {"app": "web"}}, "topologyKey": ZONE}
    deployment(cluster, "web", anti_affinity(term), replicas=replicas, **strategy)

    assert ("rollout_deadlock" in online(cluster)) is stands
    assert ("rollout_deadlock" in offline(cluster, nodes=True)) is stands
    if stands:
        assert online(cluster)["rollout_deadlock"].severity == "error"
        assert offline(cluster)["rollout_deadlock"].severity == "warning"


@pytest.mark.parametrize(
    ("key", "redis", "checkout", "stands"),
    [
        pytest.param(HOST, 1, 1, True, id="as the workshop has it"),
        pytest.param(HOST, 2, 1, False, id="another node has a redis"),
        pytest.param(HOST, 2, 2, True, id="each redis has its checkout"),
        pytest.param(ZONE, 1, 1, False, id="another node of the zone is free"),
        pytest.param(HOST, None, 1, False, id="the redis is not among the manifests"),
    ],
)
def test_rollout_deadlock_where_pods_have_to_run_beside_others(
    key: str, redis: int | None, checkout: int, stands: bool
) -> None:
    cluster = Cluster("aabbcc")
    beside = {"podAffinity": {REQUIRED: [apart(key, plain=True, app="redis")]}}
    alone = {"podAntiAffinity": {REQUIRED: [apart(HOST, plain=True, app="checkout")]}}
    deployment(cluster, "checkout", {"affinity": {**beside, **alone}}, replicas=checkout)
    if redis is not None:
        deployment(cluster, "redis", {}, replicas=redis)

    for found in (online(cluster), offline(cluster, nodes=True)):
        assert ("rollout_deadlock" in found) is stands
        if stands:
            assert found["rollout_deadlock"].severity == "warning"
            assert f"at most {redis} can have a pod" in found["rollout_deadlock"].why


def test_with_match_label_keys_old_and_new_pods_do_not_meet() -> None:
    cluster = Cluster("abc")
    term = {
        "labelSelector": {"matchLabels": {"app": "web"}},
        "topologyKey": ZONE,
        "matchLabelKeys": ["pod-template-hash"],
    }
    deployment(cluster, "web", anti_affinity(term))

    assert online(cluster) == {}
    assert offline(cluster) == {}


def test_a_deployment_that_stops_everything_first_never_waits() -> None:
    cluster = Cluster("abc")
    term = {"labelSelector": {"matchLabels": {"app": "web"}}, "topologyKey": ZONE}
    deployment(cluster, "web", anti_affinity(term), strategy={"type": "Recreate"})

    assert online(cluster) == {}
    assert offline(cluster) == {}


TAINT = {"key": "node-role.kubernetes.io/control-plane", "effect": "NoSchedule"}


def with_tainted_zone() -> Cluster:
    cluster = Cluster("ab")
    cluster.node("boss", {ZONE: "c"}, taints=[TAINT])
    return cluster


def test_pods_that_run_in_a_tainted_zone_leave_room_in_the_others() -> None:
    """They were placed before the taint. The emptiest domain has one, so two may run in each other one."""
    cluster = with_tainted_zone()
    deployment(cluster, "web", spread(app="web"), replicas=6)
    (ref,) = cluster.workloads
    cluster.start(ref, "boss")

    assert "at most 2 can run in each of the other 2 zones, so 5 of 6 pods" in (
        online(cluster)["spread_counts_unusable_domain"].why
    )
    cluster.workloads[ref]["spec"]["replicas"] = 5
    assert set(online(cluster)) == {"max_skew_misread", "spread_blocks_drain"}


def test_vms_with_a_constraint_over_a_node_without_kubevirt() -> None:
    """A launcher pod asks for the label of virt-handler, and node affinity is honored by default."""
    cluster = with_tainted_zone()
    for name in ("a", "b", "c"):
        ref = cluster.vm(name, spread(tier="web"), tier="web")
        cluster.workloads[ref]["spec"]["runStrategy"] = "Always"

    finding = offline(cluster, nodes=True)["spread_counts_unusable_domain"]
    assert "so 2 of 3 pods" in finding.why
    assert [ref.name for ref in finding.objects] == ["a", "b", "c"]
    del cluster.nodes["boss"]["metadata"]["labels"][SCHEDULABLE]
    assert "spread_counts_unusable_domain" not in offline(cluster, nodes=True)


def test_node_without_the_key_of_another_constraint_does_not_count() -> None:
    cluster = with_tainted_zone()
    (over_zone,) = spread(app="web")["topologySpreadConstraints"]
    (over_host,) = spread(HOST, max_skew=3, app="web")["topologySpreadConstraints"]
    spec = {"topologySpreadConstraints": [over_zone, over_host]}
    deployment(cluster, "web", spec, replicas=3)

    assert "spread_counts_unusable_domain" in offline(cluster, nodes=True)
    del cluster.nodes["boss"]["metadata"]["labels"][HOST]
    found = {finding.name for finding in lint_manifests(manifests(cluster, nodes=True))}
    assert "spread_counts_unusable_domain" not in found
