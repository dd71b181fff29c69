# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The own rollout of a Deployment, held by the write of rules and released within the limits of a rollout, on a real
control plane. A watch of all pods and the audit log are the witnesses."""

from __future__ import annotations

import threading
import time
import typing as t

import pytest

from ansible_collections.virt.placement.plugins.modules import placement_info, rules
from sandbox import Sandbox, objects
from tests.held_deployment import (
    APART,
    HOLD,
    WEB,
    hold,
    pods_by_uid,
    spec_without_template,
)
from tests.shop import Object, Shop
from tests.witness import fewest_available, watching


@pytest.fixture
def shop(six: Sandbox, namespace: t.Any, run_module: t.Any) -> Shop:
    return Shop(six, namespace(six, "held"), run_module)


def start(shop: Shop, replicas: int = 6, **spec: t.Any) -> Object:
    """The Deployment `web` as it runs."""
    web = objects.deployment("web", shop.namespace, replicas=replicas)
    web["spec"] |= spec
    shop.start(web)
    return shop.api.get(shop.path("Deployment", "web"))


@pytest.mark.tour
@pytest.mark.parametrize("surges", [True, False])
def test_held_deployment_with_as_many_pods_as_nodes_is_replaced_one_by_one(
    shop: Shop, surges: bool
) -> None:
    """Where a node has no room for a second pod, none is added: with the declared surge it would wait for ever."""
    cpu = int(shop.api.get("/api/v1/nodes/w1")["status"]["allocatable"]["cpu"])
    request = "500m" if surges else str(cpu // 2 + 1)
    shop.start(objects.deployment("web", shop.namespace, replicas=6, cpu=request))
    path = shop.path("Deployment", "web")
    before, pods = shop.api.get(path), pods_by_uid(shop)
    mark = shop.sandbox.audit.mark()

    with watching(shop.sandbox, shop.namespace) as history:
        written = hold(shop)
        held = shop.api.get(path)
        may_not = shop.roll(fail_on_skipped=False)
        kept = pods_by_uid(shop)
        planned = shop.roll(check=True, allow=["recreate"])
        unwritten = shop.api.get(path)
        result = shop.roll(allow=["recreate"])
        replaced = pods_by_uid(shop)
    after = shop.api.get(path)
    end = shop.sandbox.audit.mark()
    again = shop.roll(allow=["recreate"])
    rewritten = hold(shop)

    assert written["held"], written
    assert held["spec"]["paused"] is True
    assert kept == pods
    assert "stays held: 6 of 6 replicas" in str(may_not["warnings"]), str(may_not)
    assert unwritten["spec"] == held["spec"]
    assert planned["changed"]
    (release,) = planned["releases"]
    assert (release["max_surge"], release["max_unavailable"]) == ((2, 1) if surges else (0, 1))
    assert not result.get("failed"), result.get("msg")
    assert not set(pods) & set(replaced)
    assert sorted(replaced.values()) == ["w1", "w2", "w3", "w4", "w5", "w6"]
    fewest = fewest_available(history)
    assert fewest in (5, 6) if surges else fewest == 5, "a surge may be available before one ends"
    assert spec_without_template(after) == spec_without_template(before)
    assert HOLD not in after["metadata"]["annotations"]
    assert shop.disruptions(mark) == []
    assert (again["changed"], rewritten["writes"]) == (False, [])
    assert shop.sandbox.audit.writes("mover", end) == []
    assert pods_by_uid(shop) == replaced


def test_budget_limits_the_release(shop: Shop) -> None:
    """It does not bind the controller, so the strategy has to keep it."""
    start(shop, 4, strategy={"rollingUpdate": {"maxSurge": 0, "maxUnavailable": 4}})
    budget = {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": {"name": "web", "namespace": shop.namespace},
        "spec": {"minAvailable": 2, "selector": {"matchLabels": {"app": "web"}}},
    }
    shop.api.create(shop.api.collection_of(budget), budget)
    hold(shop)

    with watching(shop.sandbox, shop.namespace) as history:
        result = shop.roll(allow=["recreate"], max_unavailable=3)

    assert not result.get("failed"), result.get("msg")
    assert fewest_available(history) == 2
    strategy = shop.api.get(shop.path("Deployment", "web"))["spec"]["strategy"]
    assert strategy["rollingUpdate"] == {"maxSurge": 0, "maxUnavailable": 4}


def test_undo_of_a_held_deployment_resumes_it_and_replaces_no_pod(shop: Shop) -> None:
    before = start(shop, 3)
    pods = pods_by_uid(shop)
    hold(shop)

    undone = hold(shop, state="reverted")
    result = shop.roll(allow=["recreate"])

    after = shop.api.get(shop.path("Deployment", "web"))
    assert undone["held"] == []
    assert after["spec"] == before["spec"]
    assert HOLD not in after["metadata"]["annotations"]
    assert (result["changed"], result.get("failed", False)) == (False, False)
    assert pods_by_uid(shop) == pods


def test_deployment_that_was_paused_before_stays_paused(shop: Shop) -> None:
    start(shop, 3, paused=False)
    path = shop.path("Deployment", "web")
    shop.api.patch(path, {"spec": {"paused": True}})
    pods = pods_by_uid(shop)
    written = hold(shop)
    result = shop.roll(allow=["recreate"], scope="not_enforced", fail_on_skipped=False)
    after = shop.api.get(path)
    assert written["held"] == []
    assert after["spec"]["paused"] is True
    assert HOLD not in after["metadata"]["annotations"]
    assert {x["reason"] for x in result["skipped_instances"]} == {
        "its pod was scheduled before the rules changed; the rollout of its workload is paused (spec.paused):"
        " resume it first"
    }
    assert pods_by_uid(shop) == pods


def test_held_deployment_is_a_finding(shop: Shop) -> None:
    start(shop, 3)
    hold(shop)
    found = shop.done(placement_info.main, "reader", namespaces=[shop.namespace])
    (finding,) = [x for x in found["findings"] if x["name"] == "workload_rollout_held"]
    assert "it is paused (spec.paused)" in str(finding)
    assert APART["workloads"] == WEB


def roll_and(shop: Shop, act: t.Callable[[], object]) -> Object:
    """A rollout, with what another client does while the Deployment replaces its pods."""
    path = shop.path("Deployment", "web")

    def once_released() -> None:
        while shop.api.get(path)["spec"].get("paused"):
            time.sleep(0.05)
        act()

    thread = threading.Thread(target=once_released)
    thread.start()
    result = shop.roll(allow=["recreate"])
    thread.join()
    assert not result.get("failed"), result.get("msg")
    return result


AT_ONCE = {"rollingUpdate": {"maxSurge": 0, "maxUnavailable": 4}}
SLOW = {"minReadySeconds": 1, "strategy": AT_ONCE}


def change_image(shop: Shop) -> None:
    path = shop.path("Deployment", "web")
    (container,) = shop.api.get(path)["spec"]["template"]["spec"]["containers"]
    template = {"spec": {"containers": [{**container, "image": "other:2"}]}}
    shop.api.patch(path, {"spec": {"template": template}})


def undo(shop: Shop) -> None:
    hold(shop, state="reverted")


@pytest.mark.parametrize("other", [change_image, undo])
def test_template_that_changes_during_the_release_is_replaced_within_the_limits(
    shop: Shop, other: t.Callable[[Shop], None]
) -> None:
    """An undo holds the Deployment again, and the same run releases it."""
    before = start(shop, 4, **SLOW)
    hold(shop)
    with watching(shop.sandbox, shop.namespace) as history:
        roll_and(shop, lambda: other(shop))
    after = shop.api.get(shop.path("Deployment", "web"))
    assert fewest_available(history) == 3
    assert spec_without_template(after) == spec_without_template(before)
    assert HOLD not in after["metadata"]["annotations"]
    if other is undo:
        assert after["spec"]["template"] == before["spec"]["template"]
    assert after["status"]["updatedReplicas"] == 4
    assert not shop.roll(allow=["recreate"])["changed"]


@pytest.mark.parametrize("replicas", [6, 2, 0])
@pytest.mark.parametrize("released", [False, True], ids=["held", "released"])
def test_deployment_that_is_scaled_gets_its_strategy_back(
    shop: Shop, replicas: int, released: bool
) -> None:
    start(shop, 4, **SLOW)
    hold(shop)
    path = shop.path("Deployment", "web")

    def scale() -> None:
        shop.api.patch(path, {"spec": {"replicas": replicas}})

    if released:
        roll_and(shop, scale)
    else:
        scale()
        roll_and(shop, lambda: None)
    after = shop.api.get(path)
    assert after["spec"]["replicas"] == after["status"].get("updatedReplicas", 0) == replicas
    assert after["spec"]["strategy"]["rollingUpdate"] == AT_ONCE["rollingUpdate"]
    assert not after["spec"].get("paused")
    assert HOLD not in after["metadata"]["annotations"]


def test_deployment_that_is_deleted_during_the_release_ends_the_run(shop: Shop) -> None:
    start(shop, 4, **SLOW)
    hold(shop)
    roll_and(shop, lambda: shop.api.delete(shop.path("Deployment", "web")))
    assert shop.lease_is_free()


@pytest.mark.parametrize("changed", [False, True], ids=["as before", "new image"])
def test_removed_rule_resumes_a_held_deployment_whose_pods_are_of_its_template(
    shop: Shop, changed: bool
) -> None:
    """With a new image meanwhile it stays held: its pods would be replaced."""
    before, pods = start(shop, 4), pods_by_uid(shop)
    hold(shop)
    if changed:
        change_image(shop)
    wanted = {"namespace": shop.namespace, "rules": [{"name": "apart"}], "state": "absent"}
    shop.done(rules.main, "mover", **wanted)
    after = shop.api.get(shop.path("Deployment", "web"))
    assert pods_by_uid(shop) == pods
    assert bool(after["spec"].get("paused")) == changed
    if not changed:
        assert after["spec"] == before["spec"]
        return
    roll_and(shop, lambda: None)
    assert not set(pods_by_uid(shop)) & set(pods)


def test_approved_plan_releases_what_it_has_and_is_refused_after_another_change(shop: Shop) -> None:
    before, pods = start(shop, 4), pods_by_uid(shop)
    hold(shop)
    plan = shop.roll(check=True, allow=["recreate"])["plan"]
    assert shop.roll(check=True, plan=plan)["releases"]
    made = shop.roll(plan=plan)
    mark = shop.sandbox.audit.mark()
    again = shop.roll(plan=plan)
    assert not made.get("failed"), made.get("msg")
    assert not set(pods_by_uid(shop)) & set(pods)
    after = shop.api.get(shop.path("Deployment", "web"))
    assert spec_without_template(after) == spec_without_template(before)
    assert (again.get("failed", False), again["changed"]) == (False, False)
    assert shop.sandbox.audit.writes("mover", mark) == []

    hold(shop, {"name": "away", "workloads": WEB, "avoid": {"zone": "zone1"}})
    refused = shop.roll(plan=plan)
    assert "its template was changed after the plan was made" in refused["msg"]
