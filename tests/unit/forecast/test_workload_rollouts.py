# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What forecasts say of a Deployment's own rollout, by its strategy and beside pods that wait, and of its scale."""

from __future__ import annotations

import typing as t

import pytest

from ansible_collections.virt.placement.plugins.module_utils.forecast.change import what_if
from ansible_collections.virt.placement.plugins.module_utils.forecast.conclusion import (
    ForecastResult,
)
from ansible_collections.virt.placement.plugins.module_utils.forecast.doubts import doubts_of_change
from ansible_collections.virt.placement.plugins.module_utils.forecast.forecast import forecast
from ansible_collections.virt.placement.plugins.module_utils.forecast.scaling import Scale
from ansible_collections.virt.placement.plugins.module_utils.model.objects import Ref
from tests.support.cluster import (
    HOST,
    ZONE,
    Cluster,
    affinity,
    anti_affinity,
    cluster,
    deployment,
    keep_apart,
    node_affinity,
    selector,
    spread,
)
from tests.support.cluster import expression as expr
from tests.unit.planning.scenes import pinned, template_write, written

JSON = t.Any
BIG: JSON = {
    "containers": [{"name": "c", "resources": {"requests": {"cpu": "2", "memory": "1Gi"}}}]
}


def strategy(made: Cluster, ref: Ref, surge: int, unavailable: int) -> None:
    rolling = {"maxSurge": surge, "maxUnavailable": unavailable}
    made.workloads[ref]["spec"]["strategy"] = {"type": "RollingUpdate", "rollingUpdate": rolling}


def waiting(made: Cluster, name: str) -> None:
    """One more pod of a Deployment, which has no node."""
    (ref,) = [ref for ref in made.workloads if ref.name == name]
    made.start(ref, "")
    made.workloads[ref]["spec"]["replicas"] += 1


def of_zone(*zones: str) -> JSON:
    return node_affinity({"matchExpressions": [expr(ZONE, "In", *zones)]})


def sizes(made: Cluster, **cpu: str) -> None:
    for name, amount in cpu.items():
        made.nodes[name]["status"]["allocatable"]["cpu"] = amount


def test_waiting_pod_is_of_the_new_revision_too() -> None:
    """Both new pods have to share a node, and either node has room for one."""
    made = cluster("ab")
    sizes(made, n1="3", n2="3")
    web = deployment(made, "web", ["n1"], {**BIG, **of_zone("z")})
    waiting(made, "web")
    term = {
        "labelSelector": selector(app="web"),
        "topologyKey": HOST,
        "matchLabelKeys": ["pod-template-hash"],
    }

    found = written(made, template_write(web, "affinity", affinity(term)["affinity"]))

    assert found.answer is ForecastResult.IMPOSSIBLE


@pytest.mark.parametrize("replicas", [1, 2, 3, 5])
@pytest.mark.parametrize("zone", ["c", "x"])
@pytest.mark.parametrize("kind", ["Deployment", "StatefulSet"])
def test_rule_beside_a_scale_is_about_each_pod_that_is_wanted(
    kind: str, zone: str, replicas: int
) -> None:
    """The new pods of the rollout were counted as pods beside the old ones, which scaling ends first."""
    made = cluster("abc")
    nodes = ["n1", "n1", "n2"]
    if kind == "Deployment":
        web = deployment(made, "web", nodes, {})
    else:
        template = {"metadata": {"labels": {"app": "web"}}, "spec": {}}
        web = made.workload(kind, "web", {"replicas": 3, "template": template})
        for number, node in enumerate(nodes):
            made.start(web, node, f"web-{number}")
    writes = [pinned(web, zone)]

    change = what_if(made.snapshot(), writes=writes, scale=[Scale(web, replicas)])

    found = forecast(change)
    expected = ForecastResult.GUARANTEED if zone == "c" else ForecastResult.IMPOSSIBLE
    assert (found.answer, found.instances_to_schedule) == (expected, replicas)


@pytest.mark.parametrize(
    ("replicas", "answer"), [(2, ForecastResult.GUARANTEED), (3, ForecastResult.IMPOSSIBLE)]
)
def test_pods_of_a_scale_beside_a_rule_are_of_the_new_revision(
    replicas: int, answer: ForecastResult
) -> None:
    """Of the old one, they would not be kept apart from the new pods, which were guaranteed to share two nodes."""
    made = cluster("ab")
    web = deployment(made, "web", ["n1", "n2"], {})
    term = {
        "labelSelector": selector(app="web"),
        "topologyKey": HOST,
        "matchLabelKeys": ["pod-template-hash"],
    }
    writes = [template_write(web, "affinity", anti_affinity(term)["affinity"])]

    change = what_if(made.snapshot(), writes=writes, scale=[Scale(web, replicas)])

    assert forecast(change).answer is answer


def test_waiting_pod_of_the_old_revision_may_take_the_node_that_becomes_free() -> None:
    made = cluster("a")
    sizes(made, n1="2")
    web = deployment(made, "web", [], BIG)
    waiting(made, "web")
    strategy(made, web, surge=1, unavailable=0)
    ends = made.bare_pod("ends", "n1", {"containers": BIG["containers"]})
    ends["metadata"]["deletionTimestamp"] = "2026-05-01T08:00:00Z"

    found = written(made, pinned(web, "a", "b"))

    assert found.answer is ForecastResult.POSSIBLE
    assert [(x.instance.name, x.certain) for x in found.pending] == [("web-0-next", False)]


def test_waiting_pod_of_the_old_revision_may_let_new_ones_in_before_it_ends() -> None:
    """New ones are to be near any. The one that runs is on a full node, the waiting one finds room for all."""
    made = cluster("ab")
    sizes(made, n1="2", n2="4")
    web = deployment(made, "web", ["n1"], BIG)
    waiting(made, "web")
    near = affinity({"labelSelector": selector(app="web"), "topologyKey": HOST})
    made.nodes["n1"]["spec"]["unschedulable"] = True

    found = written(made, template_write(web, "affinity", near["affinity"]))

    assert found.answer is ForecastResult.UNKNOWN


def test_rollout_with_a_waiting_pod_ends_no_running_pod_before_a_new_one_takes_its_place() -> None:
    """With the first new pod, two of two run again, and the old one of them leaves no room for the second."""
    made = cluster("a")
    sizes(made, n1="4")
    web = deployment(made, "web", ["n1"], {**BIG, **of_zone("z")})
    waiting(made, "web")
    strategy(made, web, surge=1, unavailable=0)

    found = written(made, pinned(web, "a"))

    assert (found.answer, found.min_unschedulable) == (ForecastResult.IMPOSSIBLE, 1)


def test_rollout_without_surge_ends_no_running_pod_while_the_first_new_one_waits() -> None:
    """The waiting pod ends first. Then one of two is unavailable, which is all that may be, and the running pod
    keeps the new one away."""
    made = cluster("a")
    apart = keep_apart(over=HOST, plain=True, app="web")
    web = deployment(made, "web", ["n1"], {"affinity": {**apart, **of_zone("z")["affinity"]}})
    waiting(made, "web")
    strategy(made, web, surge=0, unavailable=1)

    found = written(made, pinned(web, "a"))

    assert (found.answer, found.min_unschedulable) == (ForecastResult.IMPOSSIBLE, 1)


def test_rollout_after_one_that_is_stuck_creates_as_many_pods_as_are_wanted() -> None:
    """The new pod of the stuck rollout waits for a third node."""
    made = cluster("ab")
    apart = keep_apart(over=HOST, plain=True, app="web")
    web = deployment(made, "web", ["n1", "n2"], {"affinity": apart})
    made.start(web, "")
    strategy(made, web, surge=0, unavailable=1)

    found = written(made, template_write(web, "nodeSelector", {"kubevirt.io/schedulable": "true"}))

    assert (found.answer, found.instances_to_schedule) == (ForecastResult.POSSIBLE, 2)


def test_rollout_counts_the_pods_that_it_has_at_a_time() -> None:
    """Without a surge the waiting pod ends first. Only the pod after it is created."""
    made = cluster("ab")
    web = deployment(made, "web", ["n1", "n2"], {})
    waiting(made, "web")
    strategy(made, web, surge=0, unavailable=1)

    found = written(made, pinned(web, "z"))

    assert (found.answer, found.min_unschedulable) == (ForecastResult.IMPOSSIBLE, 1)


def test_rollout_with_surge_and_unavailable_pods_may_place_new_pods_beside_all_old_ones() -> None:
    """The old pods in zone b let two new ones into zone a. If they end before, it is one."""
    made = cluster("bba")
    sizes(made, n1="2", n2="2")
    web = deployment(made, "web", ["n1", "n2"], BIG)
    strategy(made, web, surge=2, unavailable=1)
    made.nodes["n1"]["spec"]["unschedulable"] = made.nodes["n2"]["spec"]["unschedulable"] = True

    field = "topologySpreadConstraints"
    found = written(made, template_write(web, field, spread(app="web")[field]))

    assert found.answer is not ForecastResult.IMPOSSIBLE


def test_pod_with_affinity_to_those_that_a_scale_ends_may_be_placed_first() -> None:
    made = cluster("ab")
    db = deployment(made, "db", ["n1"], {})
    web = deployment(
        made, "web", [], affinity({"labelSelector": selector(app="db"), "topologyKey": ZONE})
    )

    found = forecast(what_if(made.snapshot(), scale=[Scale(db, 0), Scale(web, 1)]))

    assert found.answer is ForecastResult.POSSIBLE


@pytest.mark.parametrize(("host_network", "answer"), [(False, "guaranteed"), (True, "impossible")])
def test_ports_in_the_network_of_the_host_are_host_ports_of_the_first_pods_too(
    host_network: bool, answer: str
) -> None:
    made = cluster("a")
    container = {"name": "c", "ports": [{"containerPort": 8080}]}
    web = deployment(made, "web", [], {"hostNetwork": host_network, "containers": [container]})

    assert forecast(what_if(made.snapshot(), scale=[Scale(web, 2)])).answer.value == answer


def test_first_pod_of_a_deployment_is_apart_from_its_own_revision_only() -> None:
    """The other pod has no pod-template-hash, so it may be on the same node."""
    made = cluster("aa")
    sizes(made, n1="2", n2="0")
    term = {
        "labelSelector": selector(app="db"),
        "topologyKey": HOST,
        "matchLabelKeys": ["pod-template-hash"],
    }
    db = deployment(made, "db", [], anti_affinity(term))
    made.bare_pod("other", "n1", app="db")

    found = forecast(what_if(made.snapshot(), scale=[Scale(db, 1)]))

    assert found.answer is ForecastResult.GUARANTEED


def test_it_is_an_estimate_which_pods_end_that_are_more_than_wanted() -> None:
    made = cluster("ab")
    web = deployment(made, "web", ["n1", "n2"], {})
    made.workloads[web]["spec"]["replicas"] = 1
    write = pinned(web, "a", "b")

    doubts = doubts_of_change(what_if(made.snapshot(), writes=[write]))

    texts = [doubt.text for doubt in doubts]
    assert texts == ["the controller chooses which instances of Deployment shop/web end"]


@pytest.mark.parametrize(("paused", "answer"), [(False, "impossible"), (True, "guaranteed")])
def test_pods_of_a_paused_deployment_are_created_from_the_template_before(
    paused: bool, answer: str
) -> None:
    """One waits, and one is evicted at the same time."""
    made = cluster("aab")
    web = deployment(made, "web", ["n1"], of_zone("a"))
    waiting(made, "web")
    made.workloads[web]["spec"]["paused"] = paused

    found = written(made, pinned(web, "z"), lost_nodes=["n1"])

    assert found.answer.value == answer


def test_it_is_no_estimate_that_a_paused_deployment_has_more_pods_than_wanted() -> None:
    made = cluster("ab")
    web = deployment(made, "web", ["n1", "n2"], {})
    made.workloads[web]["spec"] |= {"replicas": 1, "paused": True}

    assert not doubts_of_change(what_if(made.snapshot(), writes=[pinned(web, "a", "b")]))


@pytest.mark.parametrize(("nodes", "answer"), [((), "possible"), (("n1",), "guaranteed")])
def test_first_pod_of_a_runtime_class_is_an_estimate(nodes: tuple[str, ...], answer: str) -> None:
    """The API server adds the overhead of the class to a pod. The next ones are like one that there is."""
    made = cluster("a")
    web = deployment(made, "web", nodes, {"runtimeClassName": "kata"})
    scale = [Scale(web, 2)]

    change = what_if(made.snapshot(), scale=scale)

    assert forecast(change, doubts=doubts_of_change(change, scale)).answer.value == answer


def near(app: str, *keys: str) -> JSON:
    """Affinity on a host to pods with this label, and of the same revision by `keys`."""
    term = {"labelSelector": selector(app=app), "topologyKey": HOST, "matchLabelKeys": [*keys]}
    return affinity(term)["affinity"]


def test_new_pod_may_be_placed_beside_one_that_is_replaced_at_the_same_time() -> None:
    """Seen on a real control plane: the new front pod is placed beside the old cache, which then ends, and the new
    cache is elsewhere."""
    made = cluster("abc")
    front, cache = deployment(made, "front", ["n1"], {}), deployment(made, "cache", ["n2"], {})
    of_front = template_write(front, "affinity", near("cache"))
    of_cache = template_write(cache, "affinity", of_zone("a", "b", "c")["affinity"])

    both, alone = written(made, of_front, of_cache), written(made, of_front)

    assert both.answer is ForecastResult.POSSIBLE
    assert [doubt.code for x in both.evidence for doubt in x.doubts] == ["beside_replaced"]
    (reason,) = both.reasons
    assert reason.startswith(
        f"not guaranteed: a pod of {front} may be placed beside a pod that is replaced"
    )
    assert alone.answer is ForecastResult.GUARANTEED


@pytest.mark.parametrize(
    ("nodes", "keys", "answer"),
    [
        (["n1", "n1"], (), "guaranteed"),  # each new pod is beside both old ones
        (["n1", "n2"], (), "possible"),  # the new ones may be beside one old one each
        (["n1", "n2"], ("pod-template-hash",), "guaranteed"),  # of the new revision only
    ],
)
def test_new_pods_with_affinity_to_their_own_workload(
    nodes: list[str], keys: tuple[str, ...], answer: str
) -> None:
    made = cluster("abc")
    web = deployment(made, "web", nodes, {})

    found = written(made, template_write(web, "affinity", near("web", *keys)))

    assert str(found.answer) == answer


def test_rollout_that_waits_has_a_pod_without_a_node() -> None:
    """One of three has a node. The rollout creates the second one, which waits, and no third one."""
    made = cluster("ab")
    made.nodes["n1"]["status"]["allocatable"]["cpu"] = "1"
    container = {"name": "web", "resources": {"requests": {"cpu": "1"}}}
    web = deployment(made, "web", ["n2", "n2", "n2"], {"containers": [container]})

    found = written(made, pinned(web, "a"))

    assert (found.answer.value, found.min_unschedulable) == ("impossible", 1)
