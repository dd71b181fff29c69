# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""VMs that require each other on one node: no rule of them is enforced from a next migration."""

from __future__ import annotations

import typing as t

import pytest

from ansible_collections.virt.placement.plugins.module_utils.compliance.instances import (
    InstanceSelection,
    movable_instances,
)
from ansible_collections.virt.placement.plugins.module_utils.compliance.judge import judge
from ansible_collections.virt.placement.plugins.module_utils.model.plan import Plan
from ansible_collections.virt.placement.plugins.module_utils.planning.simulation import (
    ClusterSimulation,
)
from ansible_collections.virt.placement.plugins.module_utils.rollout.not_enforced import (
    well_placed,
    why_tied,
)
from ansible_collections.virt.placement.plugins.module_utils.rules.term_slots import TermLocation
from tests.support.cluster import HOST, ZONE, Cluster, affinity, selector

Object = dict[str, t.Any]
TIED = (
    "no live migration is possible, since it and shop/web require each other on one node; make these terms preferred"
    " to migrate them"
)


def near(over: str = HOST, **labels: str) -> Object:
    return {"labelSelector": selector(**labels), "topologyKey": over}


def pair(web_needs: Object | None, over: str = HOST, zones: str = "aabbcc") -> Cluster:
    """The VM db got the term and runs without it; web runs beside it, with what it needs."""
    cluster = Cluster(zones)
    db = cluster.run("db", "n1", app="db")
    cluster.run("web", "n1", affinity(web_needs) if web_needs else None, app="web")
    cluster.write(db, "new", (TermLocation.AFFINITY, near(over, app="web")))
    cluster.propagate(db)
    return cluster


def answers(cluster: Cluster) -> list[tuple[str, str]]:
    """What has to happen, and the reason, as verify and as a rollout have it."""
    snapshot = cluster.snapshot()
    (db,) = [x for x in judge(snapshot).instances if x.workload and x.workload.name == "db"]
    (rule,) = [x for x in db.rules if x.rule == "shop/default/new"]
    candidates = movable_instances(snapshot, InstanceSelection(namespaces=frozenset({"shop"})))
    (movable,) = [x for x in candidates if x.instance.ref.name == "db"]
    tied = why_tied(ClusterSimulation(snapshot, candidates), movable)
    placed = well_placed(movable, Plan((), ()), obstacle=tied)
    return [(rule.takes_effect, rule.reason), (placed["takes_effect"], placed["reason"])]


def test_pair_on_one_node_needs_a_restart_and_is_told_why() -> None:
    for takes_effect, reason in answers(pair(near(app="db"))):
        assert takes_effect == "restart"
        assert TIED in reason
        assert "next migration" not in reason
        assert "next restart" in reason


@pytest.mark.parametrize(
    "cluster",
    [
        pytest.param(pair(None), id="web may go first"),
        pytest.param(pair(near(ZONE, app="db"), ZONE), id="other nodes of the zone"),
        pytest.param(pair(near(ZONE, app="db")), id="web may go to another node of the zone"),
    ],
)
def test_vm_that_may_migrate_is_not_tied(cluster: Cluster) -> None:
    for takes_effect, reason in answers(cluster):
        assert takes_effect == "migration"
        assert "require each other" not in reason


def test_pair_is_tied_to_a_zone_of_one_node_and_not_where_another_web_runs() -> None:
    assert [x for x, _reason in answers(pair(near(ZONE, app="db"), ZONE, "abc"))] == ["restart"] * 2
    cluster = pair(near(app="db"))
    cluster.run("web2", "n3", app="web")
    assert [x for x, _reason in answers(cluster)] == ["migration"] * 2
