# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The plan of a maintenance on a real control plane: carried out, or refused before the first write."""

from __future__ import annotations

import json
import typing as t

import pytest

from ansible_collections.virt.placement.plugins.module_utils.maintenance.returned_plan import (
    joined,
)
from sandbox import Sandbox, drain, objects
from tests.maintenance import Maintenance, maintenance, pods_on, vms


@pytest.fixture
def shop(six: Sandbox, namespace: t.Any, run_module: t.Any) -> t.Iterator[Maintenance]:
    with maintenance(six, namespace(six, "planned"), run_module) as shop:
        yield shop


def planned(shop: Maintenance, *nodes: str, **options: t.Any) -> t.Any:
    """The plan of check mode, as a file has it."""
    checked = shop.maintain("drained", *nodes, check=True, **options)
    assert not checked.get("failed"), checked.get("msg")
    return json.loads(json.dumps(checked["plan"]))


def refused(shop: Maintenance, plan: t.Any, *changes: str) -> None:
    mark = shop.sandbox.audit.mark()
    result = shop.maintain("drained", plan=plan)
    assert result["failed"]
    assert "the cluster has changed since it was made, and nothing was done" in result["msg"]
    for change in changes:
        assert change in result["msg"], result["msg"]
    assert shop.sandbox.audit.writes(since=mark) == []


@pytest.mark.tour
def test_plan_is_refused_where_the_cluster_has_changed_and_else_carried_out(
    shop: Maintenance,
) -> None:
    shop.start(*vms(shop, "a", "b", "c"), nodes=["w2"])
    shop.start(objects.deployment("web", shop.namespace, replicas=2), nodes=["w2"])
    plan = planned(shop, "w2")
    assert sorted(move["method"] for move in plan["moves"]) == ["evict"] * 2 + ["migrate"] * 3
    shop.start(*vms(shop, "new"), nodes=["w2"])
    refused(
        shop,
        plan,
        f"VirtualMachine {shop.namespace}/new on node w2: it is not among the moves of the plan",
    )
    shop.api.patch(shop.path("VirtualMachine", "new"), {"spec": {"runStrategy": "Halted"}})
    shop.api.wait_gone(shop.path("VirtualMachineInstance", "new"))

    (pod, *_others) = (name for name in pods_on(shop, "w2") if name.startswith("web-"))
    shop.api.delete(shop.path("Pod", pod))  # its Deployment makes another one
    before = shop.uids()
    made = shop.maintain("drained", plan=plan)
    assert not made.get("failed"), made.get("msg")
    assert pods_on(shop, "w2") == [] and shop.uids() == before

    mark = shop.sandbox.audit.mark()
    again = shop.maintain("drained", plan=plan)
    assert (again["moves"], again["changed"]) == ([], False)
    assert shop.sandbox.audit.writes(since=mark) == []


def test_second_node_accepts_the_vm_that_was_restarted_there(shop: Maintenance) -> None:
    """Only w1 and w2 take pods, so that the VM of w1 is restarted on w2, and then on w1 again."""
    shop.start(*vms(shop, "a"), nodes=["w1"])
    shop.start(*vms(shop, "b"), nodes=["w2"])
    for name in ("w3", "w4", "w5", "w6"):
        drain.cordon(shop.sandbox, name)
    first = planned(shop, "w1", vm_policy=["restart"])
    second = planned(shop, "w2", vm_policy=["restart"], assume_in_service=["w1"])
    plan = joined([first, second])
    uid = shop.instances()["a"]["metadata"]["uid"]

    drained = shop.maintain("drained", "w1", plan=plan)
    assert not drained.get("failed"), drained.get("msg")
    assert shop.nodes() == {"a": "w2", "b": "w2"}
    assert shop.instances()["a"]["metadata"]["uid"] != uid
    assert not shop.maintain("in_service", "w1").get("failed")

    drained = shop.maintain("drained", "w2", plan=plan)
    assert not drained.get("failed"), drained.get("msg")
    assert shop.nodes() == {"a": "w1", "b": "w1"}


def test_killed_task_continues_with_its_plan(shop: Maintenance) -> None:
    slow = {"sandbox.virt/migration-seconds": "8"}
    shop.start(*vms(shop, "a", "b", "c", annotations=slow), nodes=["w2"])
    plan = planned(shop, "w2")
    before = shop.uids()
    shop.maintain_one_step("drained", plan=plan)
    assert shop.cordoned("w2")

    result = shop.maintain("drained", plan=plan)
    assert not result.get("failed"), result.get("msg")
    assert shop.uids() == before and pods_on(shop, "w2") == []
