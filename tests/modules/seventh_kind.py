# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The modules on one more kind, a ReplicaSet that no Deployment made, with the rights of rbac/: run by
tests/modules/test_seventh_kind.py, in a copy of the checkout that has this kind."""

from __future__ import annotations

import typing as t

from ansible_collections.virt.placement.plugins.modules import (
    forecast_info,
    placement_info,
    rules,
)
from sandbox import Sandbox, objects
from tests.shop import Object, Shop

KIND = "ReplicaSet"


def test_rules_verify_forecast_and_rollout(
    six: Sandbox, namespace: t.Any, run_module: t.Any
) -> None:
    shop = Shop(six, namespace(six, "seventh"), run_module)
    web = {**objects.deployment("web", shop.namespace, replicas=3), "kind": KIND}
    front = objects.deployment("front", shop.namespace, replicas=1)
    shop.start(web, front, nodes=shop.nodes_of("zone1"))
    members = [{"kind": KIND, "labels": {"app": "web"}}]
    wanted = [{"name": "where", "workloads": members, "run_on": {"zone": ["zone2"]}}]

    written = shop.done(rules.main, "mover", namespace=shop.namespace, rules=wanted)

    assert written["changed"]
    node_affinity = shop.api.get(shop.path(KIND, "web"))["spec"]["template"]["spec"]["affinity"]
    assert "zone2" in str(node_affinity)
    assert verdicts(shop) == ["violated"] * 3
    asked = {"namespace": shop.namespace, "rules": wanted}
    for replicas in (3, 5):
        scale = [{"kind": KIND, "name": "web", "replicas": replicas}]
        found = shop.done(forecast_info.main, "reader", scale=scale, **asked)
        answer = found["forecast"], found["instances_to_schedule"]
        assert answer == ("guaranteed", replicas), found
    mark = shop.sandbox.audit.mark()

    result = shop.roll(allow=["recreate"])

    assert not result.get("failed"), result
    assert [move["state"] for move in result["moves"]] == ["moved"] * 3
    assert shop.disruptions(mark, refused=False) == [("create", "pods/eviction")] * 3
    assert verdicts(shop) == []
    pods = shop.api.list(shop.path("Pod"), labelSelector="app=web")
    assert {shop.zone(pod["spec"]["nodeName"]) for pod in pods} == {"zone2"}


def verdicts(shop: Shop) -> list[str]:
    """Of the pods of the ReplicaSet that are not where they should be."""
    found: Object = shop.done(
        placement_info.main,
        "reader",
        namespaces=[shop.namespace],
        workloads=[{"kind": KIND, "name": "web"}],
    )
    return [instance["verdict"] for instance in found["instances"]]
