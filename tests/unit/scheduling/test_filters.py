# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the recorded cases and the reference do not reach: volumes, options, late questions."""

from __future__ import annotations

import dataclasses

import pytest

from ansible_collections.virt.placement.plugins.module_utils.model.manifest import (
    node_term_from_json,
)
from ansible_collections.virt.placement.plugins.module_utils.model.objects import (
    Owner,
    Requirement,
    Selector,
    Service,
    SpreadConstraint,
    Taint,
    Toleration,
)
from ansible_collections.virt.placement.plugins.module_utils.scheduling.node_table import (
    NodeTable,
)
from ansible_collections.virt.placement.plugins.module_utils.scheduling.options import (
    NODE_RESOURCES_FIT,
    PLUGINS,
    Options,
)
from ansible_collections.virt.placement.plugins.module_utils.scheduling.tolerations import tolerates

from .builders import HOST, ZONE, apart, index, node, pod

NODES = [node("n1", "a"), node("n2", "b"), node("n3")]
WEB = {"app": "web"}


def test_a_volume_that_only_some_nodes_reach_is_a_rule_about_nodes() -> None:
    expression = {"key": ZONE, "operator": "In", "values": ["b"]}
    field = {"key": "metadata.name", "operator": "In", "values": ["n1"]}
    zonal = (node_term_from_json({"matchExpressions": [expression]}),)
    named = (node_term_from_json({"matchExpressions": [expression], "matchFields": [field]}),)
    terms = {("shop", "zonal"): zonal, ("shop", "named"): named, ("else", "zonal"): ()}
    cluster = index(NODES, claim_terms=terms)
    for claim in ("zonal", "named"):  # the volume filter passes over matchFields
        volume = {"name": "disk", "persistentVolumeClaim": {"claimName": claim}}
        new = pod("new", volumes=[volume])
        assert cluster.feasible(new) == ("n2",)
        (failure,) = cluster.failures(new, "n1")
        assert (failure.plugin, failure.reasons[0].kind) == ("VolumeBinding", "volume")
    unknown = pod("new", volumes=[{"name": "d", "persistentVolumeClaim": {"claimName": "other"}}])
    assert cluster.feasible(unknown) == ("n1", "n2", "n3")


def test_a_filter_can_be_switched_off() -> None:
    options = Options(plugins=PLUGINS - {NODE_RESOURCES_FIT})
    new = pod("new", cpu="99")
    assert index(NODES, options=options).feasible(new) == ("n1", "n2", "n3")
    assert index(NODES).feasible(new) == ()


def test_default_constraints_follow_services_and_owners() -> None:
    hard = SpreadConstraint(ZONE, 1, "DoNotSchedule")
    options = Options(default_constraints=(hard,))
    placed = [pod("w1", "n1", labels=WEB)]
    new = pod("new", labels=WEB)
    service = Service("shop", "web", WEB)
    assert index(NODES, placed, options=options).feasible(new) == ("n1", "n2", "n3")
    assert index(NODES, placed, options=options, services=[service]).feasible(new) == ("n2",)
    elsewhere = Service("else", "web", WEB)
    free = index(NODES, placed, options=options, services=[elsewhere])
    assert free.feasible(new) == ("n1", "n2", "n3")
    owned = dataclasses.replace(new, owner=Owner("ReplicaSet", "web", "u"))
    selector = Selector((Requirement("app", "In", ("web",)),))
    by_owner = index(
        NODES,
        placed,
        options=options,
        owner_selectors={("ReplicaSet", "shop", "web"): selector},
    )
    assert by_owner.feasible(owned) == ("n2",)


@pytest.mark.parametrize("comparison", [False, True])
def test_comparing_tolerations_are_behind_a_switch(comparison: bool) -> None:
    toleration = Toleration("sla", "Gt", "900", "NoSchedule")
    taint = Taint("sla", "950", "NoSchedule")
    assert tolerates(toleration, taint, comparison=comparison) is comparison


def test_a_question_about_new_rules_while_a_pod_is_away_forgets_nothing() -> None:
    """The pod that is taken out for the question is selected by the rule that comes with it."""
    cluster = index(NODES, [pod("w1", "n1", labels=WEB)])
    new = pod("w1", labels=WEB, affinity=apart(WEB))
    assert cluster.feasible(new, without="shop/w1") == ("n1", "n2", "n3")
    assert cluster.feasible(new) == ("n2", "n3")
    with cluster.without("shop/w1"):
        again = pod("w1", labels=WEB, affinity=apart(WEB, HOST))
        assert cluster.feasible(again, without="shop/w1") == ("n1", "n2", "n3")
    assert cluster.feasible(again) == ("n2", "n3")


def test_a_pod_that_is_away_cannot_be_moved() -> None:
    cluster = index(NODES, [pod("w1", "n1")])
    with cluster.without("shop/w1"), pytest.raises(ValueError, match="is away"):
        cluster.move("shop/w1", "n2")
    cluster.move("shop/w1", "n2")
    assert [each.name for each in cluster.pods_on("n2")] == ["w1"]
    assert cluster.pods_on("n1") == ()


def test_node_sets_and_names() -> None:
    table = NodeTable(NODES)
    assert table.names_of(table.all) == ("n1", "n2", "n3")
    assert table.names_of(0) == ()
    assert table.names_of(table.carrying(ZONE)) == ("n1", "n2")
    assert table.names_of(table.in_domains(ZONE, ["b", "nowhere"])) == ("n2",)
    assert NodeTable([]).all == 0
    assert NodeTable([]).names_of(0) == ()
