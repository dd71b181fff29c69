# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which preferred terms does a node not meet, and which nodes meet them?"""

from __future__ import annotations

from ansible_collections.virt.placement.plugins.module_utils.scheduler.preferences import (
    preferences,
    unmet,
)
from tests.conformance.scorers import score

from .builders import HOST, PREFERRED, ZONE, index, node, pod, term

WEB = {"app": "web"}
NODES = [node("n1", "a"), node("n2", "a"), node("n3", "b"), node("n4", unschedulable=True)]


def prefer(field: str, key: str = ZONE, weight: int = 10) -> dict[str, object]:
    return {field: {PREFERRED: [{"weight": weight, "podAffinityTerm": term(WEB, key)}]}}


def test_unmet_anti_affinity_preference_names_better_nodes() -> None:
    running = pod("w2", "n2", labels=WEB, affinity=prefer("podAntiAffinity"))
    cluster = index(NODES, [pod("w1", "n1", labels=WEB), running])
    ((missed, better_nodes),) = unmet(cluster, running, "n2")
    assert (missed.kind, missed.weight, better_nodes) == ("anti", 10, ("n3",))
    assert unmet(cluster, running, "n3") == ()


def test_running_pod_does_not_count_against_its_own_preference() -> None:
    running = pod("w1", "n1", labels=WEB, affinity=prefer("podAntiAffinity"))
    cluster = index(NODES, [running])
    assert unmet(cluster, running, "n1") == ()


def test_unmet_affinity_preference_names_nodes_with_matched_pods() -> None:
    follower = pod("f", "n3", affinity=prefer("podAffinity", HOST))
    cluster = index(NODES, [pod("w1", "n1", labels=WEB), follower])
    ((_missed, better_nodes),) = unmet(cluster, follower, "n3")
    assert better_nodes == ("n1",)


def test_unmet_node_term_and_soft_spread_name_better_nodes() -> None:
    expression = {"key": ZONE, "operator": "In", "values": ["b"]}
    soft = {
        "labelSelector": {"matchLabels": WEB},
        "maxSkew": 1,
        "topologyKey": ZONE,
        "whenUnsatisfiable": "ScheduleAnyway",
    }
    running = pod(
        "w2",
        "n2",
        labels=WEB,
        affinity={
            "nodeAffinity": {
                PREFERRED: [{"weight": 5, "preference": {"matchExpressions": [expression]}}]
            }
        },
        topologySpreadConstraints=[soft],
    )
    cluster = index(NODES, [pod("w1", "n1", labels=WEB), running])
    assert [preference.kind for preference in preferences(running)] == [
        "node-affinity",
        "skew",
    ]
    missed = unmet(cluster, running, "n2")
    assert [(preference.kind, better_nodes) for preference, better_nodes in missed] == [
        ("node-affinity", ("n3",)),
        ("skew", ("n3",)),
    ]


def test_unreadable_preference_fails_scoring_and_filters_nothing() -> None:
    expression = {"key": ZONE, "operator": "Gt", "values": ["x"]}
    bad = pod(
        "new",
        affinity={
            "nodeAffinity": {
                PREFERRED: [{"weight": 5, "preference": {"matchExpressions": [expression]}}]
            }
        },
    )
    cluster = index(NODES)
    assert score(cluster, bad, "NodeAffinity", ["n1", "n2"]).status == "Error"
    assert cluster.feasible_nodes(bad) == ("n1", "n2", "n3")


def test_migration_source_does_not_count_against_a_term_that_excludes_it() -> None:
    """A migration's source and target share created-by; the term is about others."""
    uid = "0f0f0f0f-0000-4000-8000-000000000001"
    labels = {**WEB, "kubevirt.io/created-by": uid}
    own = {"key": "kubevirt.io/created-by", "operator": "NotIn", "values": [uid]}
    preferred = {
        "weight": 7,
        "podAffinityTerm": {
            "labelSelector": {"matchLabels": WEB, "matchExpressions": [own]},
            "mismatchLabelKeys": ["kubevirt.io/created-by"],
            "topologyKey": ZONE,
        },
    }
    affinity = {"podAntiAffinity": {PREFERRED: [preferred]}}
    source = pod("source", "n1", labels=labels, affinity=affinity)
    target = pod("target", labels=labels, affinity=affinity)
    cluster = index(NODES, [source])
    assert unmet(cluster, target, "n2") == ()
    assert score(cluster, target, "InterPodAffinity", ["n1", "n3"]).status == "Skip"
    cluster.place(pod("other", labels=WEB), "n2")
    assert len(unmet(cluster, target, "n1")) == 1
    assert score(cluster, target, "InterPodAffinity", ["n1", "n3"]).raw == {"n1": -7, "n3": 0}
