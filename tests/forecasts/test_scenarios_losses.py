# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""A node that fails and a zone that is drained, forecast and then carried out.

See test_scenarios.py for the other situations.
"""

from __future__ import annotations

import typing as t

import pytest

from ansible_collections.virt.placement.plugins.module_utils.kubevirt.instance_types import (
    InstanceType,
)
from ansible_collections.virt.placement.plugins.module_utils.model.quantity import parse_quantity
from sandbox import Sandbox, drain, objects
from sandbox.pytest_plugin import MakeNamespace
from tests.conftest import RunModule

from .test_scenarios import HOST, ZONE, Stage, anti_affinity, spread, web
from .test_scenarios_zones import MACHINES, zones_of

JSON = t.Any


@pytest.fixture
def three_nodes(
    small: Sandbox, run_module: RunModule, namespace: MakeNamespace
) -> t.Iterator[Stage]:
    """In three zones."""
    begun = Stage(small, run_module, namespace(small, "losses"))
    yield begun
    begun.end()


@pytest.fixture
def six_nodes(six: Sandbox, run_module: RunModule, namespace: MakeNamespace) -> t.Iterator[Stage]:
    """Two in each of three zones."""
    begun = Stage(six, run_module, namespace(six, "losses"))
    yield begun
    begun.end()


@pytest.fixture
def dead_node(three_nodes: Stage) -> t.Iterator[str]:
    """w3 is dead at the end of the test, and is back after it."""
    yield "w3"
    three_nodes.sandbox.node_up("w3", new_boot=True)
    three_nodes.sandbox.restore_nodes()
    three_nodes.api.wait(_is_reachable, three_nodes.api.path("Node", name="w3"))


def _is_reachable(node: JSON) -> bool:
    return not node["spec"].get("taints")


@pytest.mark.parametrize("alone", [True, False], ids=["one a host", "any number a host"])
def test_a_failed_node_keeps_its_place(three_nodes: Stage, dead_node: str, alone: bool) -> None:
    """Its pod is deleted and cannot end, so that the next one is made beside it."""
    made = web(3, anti_affinity(app="web") if alone else spread("Honor"))
    made["spec"]["template"]["spec"]["terminationGracePeriodSeconds"] = 30
    three_nodes.create(made)
    assert three_nodes.placed(3) == ["w1", "w2", "w3"]

    found = three_nodes.forecast(unavailable={"nodes": [dead_node]}, event="failure")

    assert found["forecast"] == ("impossible" if alone else "guaranteed"), found
    assert (found["instances_to_schedule"], found["min_unschedulable"]) == (1, int(alone))
    capacity = three_nodes.capacity(room_for={"cores": 1, "memory": "1Gi"})
    assert capacity["capacity"] == ("red" if alone else "green"), capacity
    assert capacity["counts"]["domains"] == 3
    assert bool(capacity["room_for"]["at_least"]) is not alone
    three_nodes.sandbox.node_down(dead_node)
    three_nodes.api.wait(_is_unreachable, three_nodes.api.path("Node", name=dead_node))
    (lost,) = (p for p in three_nodes.api.list(three_nodes.path("Pod")) if _node_of(p) == dead_node)
    three_nodes.api.delete(three_nodes.path("Pod", lost["metadata"]["name"]))
    nodes = three_nodes.placed(3)
    if alone:
        assert nodes == ["", "w1", "w2"]
    else:
        (move,) = found["moves"]
        assert (move["from_node"], set(move["targets"])) == (dead_node, {"w1", "w2"})
        assert set(nodes) == {"w1", "w2"}
    pods = three_nodes.api.list(three_nodes.path("Pod"))
    assert [_node_of(p) for p in pods if "deletionTimestamp" in p["metadata"]] == [dead_node]


def _is_unreachable(node: JSON) -> bool:
    return "node.kubernetes.io/unreachable" in {x["key"] for x in node["spec"].get("taints", ())}


def _node_of(pod: JSON) -> str:
    return str(pod["spec"].get("nodeName", ""))


TYPES = "/apis/instancetype.kubevirt.io/v1beta1/virtualmachineclusterinstancetypes"
BIG = {"cpu": {"guest": 2}, "memory": {"guest": "22Gi", "overcommitPercent": 15}}


@pytest.fixture
def instance_type(three_nodes: Stage) -> t.Iterator[str]:
    """Of the cluster; a node of 64 GiB has room for three of its VMs."""
    name = three_nodes.namespace
    kind = {
        "apiVersion": "instancetype.kubevirt.io/v1beta1",
        "kind": "VirtualMachineClusterInstancetype",
    }
    three_nodes.api.create(TYPES, {**kind, "metadata": {"name": name}, "spec": BIG})
    yield name
    three_nodes.api.delete(f"{TYPES}/{name}")


def test_as_many_vms_of_an_instance_type_start_as_are_counted(
    three_nodes: Stage, instance_type: str
) -> None:
    """They are on all three nodes then, and w3 may still fail."""
    asked = {"tolerate": ["node=w3"], "room_for": {"instance_type": instance_type}}

    room = three_nodes.capacity(**asked)["room_for"]

    assert (room["instance_type"], room["at_least"], room["at_most"]) == (instance_type, 6, 6)
    names = [f"vm-{number}" for number in range(6)]
    for name in names:
        vm = objects.virtual_machine(name)
        for field in ("resources", "memory", "cpu"):
            vm["spec"]["template"]["spec"]["domain"].pop(field, None)
        vm["spec"]["instancetype"] = {"name": instance_type}
        three_nodes.create(vm)
    assert "" not in three_nodes.placed(6)
    full = three_nodes.capacity(**asked)
    assert (full["capacity"], full["room_for"]["at_least"]) == ("green", 0), full
    vm = three_nodes.api.get(three_nodes.path("VirtualMachineInstance", "vm-0"))
    made = InstanceType(instance_type, spec=BIG).template["spec"]["domain"]["resources"]["requests"]
    requested = vm["spec"]["domain"]["resources"]["requests"]
    assert parse_quantity(requested["memory"]) == parse_quantity(made["memory"])


@pytest.mark.parametrize("over", [ZONE, HOST], ids=["one a zone", "one a host"])
def test_a_zone_is_drained(six_nodes: Stage, over: str) -> None:
    """One a zone: it has nowhere to go. One a host: one of two hosts in another zone takes it."""
    for name in MACHINES:
        placement = anti_affinity(over, g="web") | _spread_over_zones()
        six_nodes.create(objects.virtual_machine(name, labels={"g": "web"}, placement=placement))
    nodes = {name: six_nodes.node_of(name) for name in MACHINES}
    zones = zones_of(six_nodes)
    lost = zones[nodes["web-a"]]
    inside = {name for name, zone in zones.items() if zone == lost}

    found = six_nodes.forecast(unavailable={"zone": lost})

    apart = over == ZONE
    assert found["forecast"] == ("impossible" if apart else "guaranteed"), found
    stuck = [each["instance"]["name"] for each in found["not_migratable"]]
    assert stuck == (["web-a"] if apart else [])
    for node in sorted(inside):
        drain.cordon(six_nodes.sandbox, node)
    if apart:
        six_nodes.create(objects.migration("web-a"))
        assert six_nodes.placed(4) == ["", *sorted(nodes.values())]
        return
    (move,) = found["moves"]
    assert (move["method"], move["from_node"]) == ("migrate", nodes["web-a"])
    assert set(move["targets"]) == set(zones) - inside - set(nodes.values())
    for node in sorted(inside):
        drain.drain(six_nodes.sandbox, node)
    path = six_nodes.path("VirtualMachineInstance", "web-a")
    six_nodes.api.wait(lambda vmi: vmi["status"]["nodeName"] in move["targets"], path, timeout=60)
    assert {six_nodes.node_of(name) for name in MACHINES[1:]} == set(nodes.values()) - {
        nodes["web-a"]
    }


def _spread_over_zones() -> dict[str, t.Any]:
    """A wish that is strong enough for machines of one size on empty nodes."""
    constraint = {
        "topologyKey": ZONE,
        "maxSkew": 1,
        "whenUnsatisfiable": "ScheduleAnyway",
        "labelSelector": {"matchLabels": {"g": "web"}},
    }
    return {"topologySpreadConstraints": [constraint]}
