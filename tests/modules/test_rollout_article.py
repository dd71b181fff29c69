# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The article's moves by rollout alone: B3 heals with one deletion, B8 with two moves in order."""

from __future__ import annotations

import typing as t

import pytest

from sandbox import Sandbox, drain, objects
from tests.shop import HOSTNAME, ZONE, Object, Shop

W, W2, W3, W4, W5, W6 = (f"kni-worker{n}" for n in ("", *"23456"))
ZONES = {W: "scu", W2: "scu", W3: "bcn", W4: "bcn", W5: "sab", W6: "sab"}
FAST, SLOW = [W2, W4, W6], [W, W3, W5]
REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"


@pytest.fixture(scope="module")
def labelled(article: Sandbox) -> Sandbox:
    for node, zone in ZONES.items():
        labels = {ZONE: zone, "performance": "high" if node in FAST else None}
        article.api.patch(f"/api/v1/nodes/{node}", {"metadata": {"labels": labels}})
    return article


@pytest.fixture
def shop(labelled: Sandbox, namespace: t.Any, run_module: t.Any) -> t.Iterator[Shop]:
    yield Shop(labelled, namespace(labelled, "article"), run_module)
    for node in ZONES:
        drain.uncordon(labelled, node)


def near(kind: str, label: str, value: str, key: str, **more: t.Any) -> Object:
    """A required pod affinity (kind podAffinity) or anti-affinity term."""
    term = {"labelSelector": {"matchLabels": {label: value}}, "topologyKey": key, **more}
    return {kind: {REQUIRED: [term]}}


def performance(operator: str) -> Object:
    return {"matchExpressions": [{"key": "performance", "operator": operator, "values": ["high"]}]}


MSSQL = {
    "nodeAffinity": {REQUIRED: {"nodeSelectorTerms": [performance("In")]}},
    **near("podAntiAffinity", "kubevirt.io/domain", "mssql2016", ZONE),
}
VARNISH = {
    "nodeAffinity": {PREFERRED: [{"weight": 10, "preference": performance("NotIn")}]},
    **near("podAntiAffinity", "app", "cache", ZONE, matchLabelKeys=["pod-template-hash"]),
}
BLACKBOX = {
    **near("podAffinity", "app", "cache", HOSTNAME),
    **near(
        "podAntiAffinity",
        "kubevirt.io/domain",
        "blackbox",
        ZONE,
        mismatchLabelKeys=["kubevirt.io/created-by"],
    ),
}


def mssql(shop: Shop) -> Object:
    placement = {"nodeSelector": {"performance": "high"}, "terminationGracePeriodSeconds": 0}
    return objects.replica_set("mssql2016", shop.namespace, placement=placement, memory="16Gi")


def stack(shop: Shop) -> None:
    """Cache and application as in B5, running on the slow nodes."""
    cache = objects.deployment(
        "varnish-cache",
        shop.namespace,
        labels={"app": "cache"},
        placement={"affinity": VARNISH},
        memory="2Gi",
    )
    shop.start(cache, nodes=SLOW)
    application = objects.replica_set(
        "blackbox", shop.namespace, placement={"affinity": BLACKBOX}, memory="2Gi"
    )
    shop.start(application)
    shop.wait_ready(6)


@pytest.mark.tour
def test_b3_one_instance_is_deleted_on_the_doubled_node(shop: Shop) -> None:
    shop.start(mssql(shop), nodes=[W4, W6])
    doubled = [node for node in (W4, W6) if list(shop.nodes().values()).count(node) == 2]
    assert len(doubled) == 1
    before = shop.instances()
    spec = {"nodeSelector": None, "affinity": MSSQL}
    shop.patch_template("VirtualMachineInstanceReplicaSet", "mssql2016", spec)
    mark = shop.sandbox.audit.mark()

    planned = shop.roll(check=True, allow=["recreate"])
    result = shop.roll(allow=["recreate"])

    assert not result.get("failed"), result.get("msg")
    assert [(move["from_node"], move["to_node"]) for move in result["moves"]] == [(doubled[0], W2)]
    assert planned["moves"][0]["targets"] == [W2]
    assert shop.disruptions(mark) == [("delete", "virtualmachineinstances")]
    assert sorted(shop.nodes().values()) == FAST
    assert len(set(before) & set(shop.instances())) == 2

    mark = shop.sandbox.audit.mark()
    assert shop.roll(allow=["recreate"])["changed"] is False
    assert shop.sandbox.audit.writes(since=mark) == []


def test_b3_is_left_where_nothing_may_be_recreated(shop: Shop) -> None:
    shop.start(mssql(shop), nodes=[W4])
    spec = {"nodeSelector": None, "affinity": MSSQL}
    shop.patch_template("VirtualMachineInstanceReplicaSet", "mssql2016", spec)
    mark = shop.sandbox.audit.mark()

    result = shop.roll()

    assert len(result["skipped_instances"]) == 3
    assert all("a move needs recreate" in left["reason"] for left in result["skipped_instances"])
    assert shop.sandbox.audit.writes(since=mark) == []


def test_b8_the_cache_moves_before_the_application_and_nothing_else(shop: Shop) -> None:
    stack(shop)
    drain.drain(shop.sandbox, W)
    drain.uncordon(shop.sandbox, W)
    shop.wait_ready(6)
    assert sorted(shop.nodes().values()) == [W2, W3, W5]
    assert shop.roll(allow=["recreate"])["moves"] == []
    mark = shop.sandbox.audit.mark()

    planned = shop.roll(check=True, allow=["recreate"], scope="preference_not_met")
    result = shop.roll(allow=["recreate"], scope="preference_not_met")

    assert not result.get("failed"), result.get("msg")
    assert [m["name"] for m in planned["moves"]] == ["varnish-cache", "blackbox"]
    assert planned["moves"][1]["after"] == [planned["moves"][0]["uid"]]
    made = [(move["name"], move["from_node"], move["to_node"]) for move in result["moves"]]
    assert made == [("varnish-cache", W2, W), ("blackbox", W2, W)]
    assert shop.disruptions(mark) == [
        ("create", "pods/eviction"),
        ("delete", "virtualmachineinstances"),
    ]
    assert sorted(shop.nodes().values()) == SLOW

    mark = shop.sandbox.audit.mark()
    assert shop.roll(allow=["recreate"], scope="preference_not_met")["changed"] is False
    assert shop.sandbox.audit.writes(since=mark) == []


@pytest.mark.tour
def test_b5_pending_instances_are_scheduled_with_their_corrected_terms(shop: Shop) -> None:
    cache = objects.deployment(
        "varnish-cache",
        shop.namespace,
        labels={"app": "cache"},
        placement={"affinity": VARNISH},
        memory="2Gi",
    )
    shop.start(cache, nodes=SLOW)
    misspelt = near("podAffinity", "app", "cache", "topology.kubernetes.io/hostname")
    application = objects.replica_set("blackbox", shop.namespace, placement={"affinity": misspelt})
    shop.api.create(shop.api.collection_of(application), application)
    shop.api.wait_list(
        shop.path("VirtualMachineInstance"),
        lambda found: [i["status"].get("phase") for i in found] == ["Scheduling"] * 3,
    )
    shop.patch_template("VirtualMachineInstanceReplicaSet", "blackbox", {"affinity": BLACKBOX})

    result = shop.roll(allow=["recreate"])

    assert not result.get("failed"), result.get("msg")
    assert [move["state"] for move in result["moves"]] == ["moved"] * 3
    assert sorted(shop.nodes().values()) == SLOW
