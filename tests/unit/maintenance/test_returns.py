# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Instances that come back to a drained node: counted, given up, and named."""

from __future__ import annotations

import typing as t
from dataclasses import replace

import pytest

from ansible_collections.virt.placement.plugins.module_utils.maintenance import returns
from ansible_collections.virt.placement.plugins.module_utils.maintenance.drain_plan import DrainView
from ansible_collections.virt.placement.plugins.module_utils.maintenance.mark import (
    MaintenancePhase,
    Mark,
    decode,
    encode,
)
from ansible_collections.virt.placement.plugins.module_utils.maintenance.preflight import (
    PreflightInput,
    preflight,
)
from tests.support.cluster import Cluster, cluster, deployment, machine

JSON = t.Any
EXISTS = {"tolerations": [{"operator": "Exists"}]}
WEB = "Deployment/shop/web"


def view(made: Cluster, policy: str = "migrate", **changes: t.Any) -> DrainView:
    snapshot = made.snapshot()
    snapshot = replace(snapshot, pods=tuple(replace(pod, ready=True) for pod in snapshot.pods))
    return replace(DrainView(snapshot, frozenset({"n1"}), (policy,)), **changes)


def test_pod_that_comes_back_three_times_is_left_as_pods_of_daemonsets_are() -> None:
    made = cluster("ab")
    web = deployment(made, "web", ["n1"], EXISTS)
    there: returns.There = {}
    returned: returns.Returned = {}
    for times in range(returns.RETURNS + 1):
        name = f"web-{times}"
        if times:
            del made.pods["shop", f"web-{times - 1}"]
            made.start(web, "n1", name)
            made.pods["shop", name]["metadata"]["uid"] = name
        elif ("shop", name) not in made.pods:
            (only,) = made.pods
            made.pods["shop", name] = made.pods.pop(only)
            made.pods["shop", name]["metadata"]["name"] = name
        assert returns.count(there, returned, view(made).present) is bool(times)
        drain = view(made, returned=returned)
        moves = [move.instance.name for move in drain.plan().moves]
        assert moves == ([name] if times < returns.RETURNS else [])
    assert returned == {"n1": {WEB: 3}}
    ((left, stays),) = drain.left_behind
    assert (left.instance.name, left.node, stays.code) == ("web-3", "n1", "tolerates_cordon")
    assert str(left.reason) == (
        "it came back to node n1 3 times, since it tolerates the cordon. Remove the toleration of"
        " node.kubernetes.io/unschedulable from its template, or scale it down."
    )
    assert drain.plan().skipped == () and drain.left == {"n1": 0}


def test_only_what_takes_the_place_of_a_pod_that_left_has_come_back() -> None:
    """Pods that were bound just before the cordon, or that are beside the others, have not."""
    pods = {x: returns.Present(WEB, False) for x in "ab"}
    there: returns.There = {}
    returned: returns.Returned = {}
    assert not returns.count(there, returned, {"n1": pods})
    late = {**pods, "c": returns.Present(WEB, False)}
    assert not returns.count(there, returned, {"n1": late})
    leaving = {**late, "a": returns.Present(WEB, True), "d": returns.Present("Job/shop/x", False)}
    assert not returns.count(there, returned, {"n1": leaving})
    assert returns.count(there, returned, {"n1": {**leaving, "e": returns.Present(WEB, False)}})
    assert returned == {"n1": {WEB: 1}}
    assert not returns.count(there, returned, {"n1": {**leaving, "e": returns.Present(WEB, False)}})


def test_vm_that_is_restarted_on_its_node_again_and_again_fails_the_drain() -> None:
    made = cluster("ab")
    machine(made, "db", "n1", EXISTS)
    drain = view(made, "restart")
    (found,) = [x for x in preflight(PreflightInput(drain)) if x.name == "tolerates_cordon"]
    assert found.why.endswith("If it comes back 3 times, the drain fails.")
    drain = replace(drain, returned={"n1": {"VirtualMachine/shop/db": 3}})
    (skipped,) = drain.plan().skipped
    assert "it came back to node n1 3 times, since it tolerates the cordon" in str(skipped.reason)
    assert not drain.left_behind and not drain.plan().moves


def test_pod_whose_template_names_the_node_is_not_evicted_at_all() -> None:
    made = cluster("ab")
    deployment(made, "web", ["n1"], {"nodeName": "n1"})
    deployment(made, "api", ["n1"], {"nodeName": "n2"})
    drain = view(made)
    assert [move.workload.name for move in drain.plan().moves] == ["api"]
    ((left, stays),) = drain.left_behind
    assert (left.workload, stays.code) == (("Deployment", "shop", "web"), "names_node")
    (finding,) = [x for x in preflight(PreflightInput(drain)) if x.name == "names_node"]
    assert finding.severity == "warning"
    assert "the template of Deployment shop/web names node n1 (nodeName)" in finding.why
    assert finding.advice == "Remove nodeName from its template, or scale it down."


@pytest.mark.parametrize("returned", [{}, {WEB: 2}])
def test_mark_keeps_how_often_instances_came_back(returned: dict[str, int]) -> None:
    mark = Mark("r1", "", MaintenancePhase.DRAINING, "b", True, "2026-01-01T00:00:00Z")
    mark = replace(mark, returned=returned)
    assert ("returned" in encode(mark)) is bool(returned)
    assert decode(encode(mark)) == mark
