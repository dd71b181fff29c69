# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The index beyond the recorded cases and the reference: volumes, hidden and nominated pods."""

from __future__ import annotations

import pytest

from ansible_collections.virt.placement.plugins.module_utils.model.objects import (
    Ref,
    Taint,
    Toleration,
)
from ansible_collections.virt.placement.plugins.module_utils.model.placement_manifests import (
    node_term_from_json,
)
from ansible_collections.virt.placement.plugins.module_utils.scheduler.node_state import (
    tolerates,
)
from ansible_collections.virt.placement.plugins.module_utils.scheduler.nodes import NodeTable

from .builders import HOST, ZONE, apart, index, node, pod

NODES = [node("n1", "a"), node("n2", "b"), node("n3")]
WEB = {"app": "web"}


def test_volume_excludes_nodes_that_cannot_reach_it() -> None:
    expression = {"key": ZONE, "operator": "In", "values": ["b"]}
    field = {"key": "metadata.name", "operator": "In", "values": ["n1"]}
    zonal = (node_term_from_json({"matchExpressions": [expression]}),)
    named = (node_term_from_json({"matchExpressions": [expression], "matchFields": [field]}),)
    terms = {("shop", "zonal"): zonal, ("shop", "named"): named, ("else", "zonal"): ()}
    cluster = index(NODES, claim_terms=terms)
    for claim in ("zonal", "named"):  # the volume filter passes over matchFields
        volume = {"name": "disk", "persistentVolumeClaim": {"claimName": claim}}
        new = pod("new", volumes=[volume])
        assert cluster.feasible_nodes(new) == ("n2",)
        (failure,) = cluster.failures(new, "n1")
        assert (failure.plugin, failure.reasons[0].kind) == ("VolumeBinding", "volume")
    unknown = pod("new", volumes=[{"name": "d", "persistentVolumeClaim": {"claimName": "other"}}])
    assert cluster.feasible_nodes(unknown) == ("n1", "n2", "n3")


def test_gt_toleration_covers_no_taint() -> None:
    toleration = Toleration("sla", "Gt", "900", "NoSchedule")
    assert not tolerates(toleration, Taint("sla", "950", "NoSchedule"))


def test_new_term_checked_while_a_pod_is_hidden_counts_that_pod_later() -> None:
    """The pod that is taken out for the question is selected by the rule that comes with it."""
    cluster = index(NODES, [pod("w1", "n1", labels=WEB)])
    new = pod("w1", labels=WEB, affinity=apart(WEB))
    assert cluster.feasible_nodes(new, without="shop/w1") == ("n1", "n2", "n3")
    assert cluster.feasible_nodes(new) == ("n2", "n3")
    with cluster.without("shop/w1"):
        again = pod("w1", labels=WEB, affinity=apart(WEB, HOST))
        assert cluster.feasible_nodes(again, without="shop/w1") == ("n1", "n2", "n3")
    assert cluster.feasible_nodes(again) == ("n2", "n3")


@pytest.mark.parametrize("owner", ["new pod", "placed pods"])
def test_reason_names_no_pod_that_has_left(owner: str) -> None:
    placed_affinity = {"affinity": apart(WEB)} if owner == "placed pods" else {}
    placed = [pod(name, "n1", labels=WEB, **placed_affinity) for name in ("w1", "w2")]
    new = pod("new", labels=WEB, affinity=apart(WEB) if owner == "new pod" else None)
    cluster = index(NODES, placed)

    def counterparts() -> list[Ref | None]:
        (failure,) = cluster.failures(new, "n1")
        return [reason.counterpart for reason in failure.reasons]

    assert counterparts() == [Ref("Pod", "shop", "w1")]
    cluster.remove("shop/w1")
    assert counterparts() == [Ref("Pod", "shop", "w2")]


def test_moving_a_hidden_pod_raises_value_error() -> None:
    cluster = index(NODES, [pod("w1", "n1")])
    with cluster.without("shop/w1"), pytest.raises(ValueError, match="is away"):
        cluster.move("shop/w1", "n2")
    cluster.move("shop/w1", "n2")
    assert [placed.name for placed in cluster.pods_on("n2")] == ["w1"]
    assert cluster.pods_on("n1") == ()


def test_node_set_has_the_names_of_its_nodes() -> None:
    table = NodeTable(NODES)
    assert table.names_of(table.all) == ("n1", "n2", "n3")
    assert table.names_of(0) == ()
    assert table.names_of(table.with_key(ZONE)) == ("n1", "n2")
    assert table.names_of(table.in_domains(ZONE, ["b", "nowhere"])) == ("n2",)
    assert NodeTable([]).all == 0
    assert NodeTable([]).names_of(0) == ()


def test_nominated_pod_takes_room_from_pods_of_equal_or_lower_priority() -> None:
    coming = pod("coming", cpu="3", priority=5, status={"nominatedNodeName": "n1"})
    cluster = index([node("n1"), node("n2")], [coming])
    assert cluster.feasible_nodes(pod("new", cpu="2", priority=5)) == ("n2",)
    assert cluster.feasible_nodes(pod("new", cpu="2", priority=6)) == ("n1", "n2")
    assert cluster.feasible_nodes(coming) == ("n1", "n2")
    assert cluster.failures(pod("new", cpu="2", priority=0), "n1")
    assert not cluster.pods


def test_pod_must_fit_with_and_without_the_nominated_pod() -> None:
    """The scheduler wants the pod to fit with and without the one that may come."""
    leader = pod("leader", labels={"app": "web"}, status={"nominatedNodeName": "n1"})
    cluster = index([node("n1"), node("n2")], [leader])
    near = {
        "podAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": [
                {"labelSelector": {"matchLabels": {"app": "web"}}, "topologyKey": HOST}
            ]
        }
    }
    assert cluster.feasible_nodes(pod("follower", affinity=near)) == ()
    assert cluster.feasible_nodes(pod("other", affinity=apart({"app": "web"}, HOST))) == ("n2",)
