# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Who would have no place, and whose pods the scheduler would end to make one."""

from __future__ import annotations

import pytest

from ansible_collections.virt.placement.plugins.module_utils.model.objects import (
    NodeTerm,
    Requirement,
)
from ansible_collections.virt.placement.plugins.module_utils.planning.forecast import forecast
from ansible_collections.virt.placement.plugins.module_utils.planning.what_if import what_if
from tests.unit.verdicts.cluster import anti_affinity, apart

from .scenes import (
    HOST,
    JSON,
    ZONE,
    cluster,
    deployment,
    keep_apart,
    lost,
    template_write,
    written,
)


@pytest.mark.parametrize(
    ("priority", "more", "may_end"),
    [(1000, {}, ["low"]), (0, {}, []), (1000, {"preemptionPolicy": "Never"}, [])],
)
def test_whose_pods_would_be_ended_for_one_without_a_place(
    priority: int, more: dict[str, str], may_end: list[str]
) -> None:
    made = cluster("aa")
    spec = {"affinity": keep_apart(over=HOST, team="a")}
    labels = {"team": "a"}
    deployment(made, "high", ["n1"], {**spec, "priority": priority, **more}, labels)
    deployment(made, "low", ["n2"], {**spec, "priority": 0}, labels)

    found = lost(made, "n1")

    (pending,) = found.pending
    assert pending.certain
    assert [ref.name for ref in pending.may_end] == may_end


def test_copies_whose_volumes_are_apart_would_end_different_pods() -> None:
    made = cluster("abab")
    spec = {"affinity": keep_apart(over=HOST, team="a")}
    labels = {"team": "a"}
    high = deployment(made, "high", ["n1", "n2"], {**spec, "priority": 1000}, labels)
    for (_namespace, name), pod in made.pods.items():
        volume = {"name": "d", "persistentVolumeClaim": {"claimName": name}}
        pod["spec"]["volumes"] = [volume]
    for name, node in (("low-a", "n3"), ("low-b", "n4")):
        deployment(made, name, [node], {**spec, "priority": 0}, labels)
    snapshot = made.snapshot(
        claim_terms={
            ("shop", f"{high.name}-{number}"): (NodeTerm((Requirement(ZONE, "In", (zone,)),)),)
            for number, zone in enumerate("ab")
        }
    )

    lost_nodes = ["n1", "n2"]
    found = forecast(snapshot, what_if(snapshot, lost_nodes=lost_nodes), lost_nodes=lost_nodes)

    assert [[ref.name for ref in each.may_end] for each in found.pending] == [["low-a"], ["low-b"]]


def test_an_old_pod_that_goes_first_is_in_nobodys_way() -> None:
    made = cluster("a")
    spec: JSON = {"affinity": keep_apart(over=HOST, plain=True, app="high"), "priority": 1000}
    high = deployment(made, "high", ["n1"], spec)
    made.workloads[high]["spec"]["strategy"] = {
        "rollingUpdate": {"maxSurge": 0, "maxUnavailable": 1}
    }
    deployment(made, "low", ["n1"], {"priority": 0})
    both = anti_affinity(*(apart(HOST, plain=True, app=name) for name in ("high", "low")))

    found = written(made, template_write(high, "affinity", both["affinity"]))

    assert [[ref.name for ref in each.may_end] for each in found.pending] == [["low"]]
