# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""VMs of a node that fails: down until the node is fenced, and what is forecast of them afterwards.

The expected values are what the real controllers do: virt-controller, the scheduler, and the garbage collector
of kube-controller-manager. See test_scenarios.py for the other situations.
"""

from __future__ import annotations

import typing as t

import pytest

from sandbox import Sandbox, nodes, objects
from sandbox.control_plane import MANAGED_NODE
from sandbox.pytest_plugin import MakeNamespace
from tests.conftest import RunModule

from .test_scenarios import HOST, ZONE, Stage, anti_affinity
from .test_scenarios_zones import MACHINES, other_of_its_zone

JSON = t.Any
WAYS = ("force", "taint", "delete")
"""The pods are deleted by force, the node gets the out-of-service taint, or the Node is deleted. After the last two the
garbage collector deletes the pods by force, every 20 s; it takes a missing Node for deleted after 40 s."""

OUT_OF_SERVICE = {
    "key": "node.kubernetes.io/out-of-service",
    "value": "nodeshutdown",
    "effect": "NoExecute",
}


class Fleet:
    """Three VMs, one a zone, and the node of the first one, which fails. A plain term keeps each out of the zone
    of the others, also out of the zone of a pod that terminates."""

    def __init__(self, stage: Stage) -> None:
        self.stage, self.api = stage, stage.api
        for name in MACHINES:
            placement = anti_affinity(ZONE, g="web")
            stage.create(objects.virtual_machine(name, labels={"g": "web"}, placement=placement))
        self.node = {name: stage.node_of(name) for name in MACHINES}["web-a"]
        self.beside = other_of_its_zone(stage, self.node)
        self.path = self.api.path("Node", name=self.node)

    def pods(self) -> dict[str, str]:
        """The nodes of the pods by uid."""
        return {
            pod["metadata"]["uid"]: pod["spec"].get("nodeName", "")
            for pod in self.api.list(self.stage.path("Pod"))
        }

    def fail(self) -> None:
        """The node is down until its pods terminate, as they do after five minutes."""
        self.stage.sandbox.node_down(self.node, without_heartbeat=True)
        self.api.wait(_is_given_up, self.path)
        for pod in self.api.list(self.stage.path("Pod")):
            if pod["spec"].get("nodeName") == self.node:
                self.api.delete(self.stage.path("Pod", pod["metadata"]["name"]))

    def fence(self, way: str) -> None:
        """What an administrator does once the node is surely off."""
        if way == "delete":
            self.api.delete(self.path)
        elif way == "taint":
            taints = self.api.get(self.path)["spec"].get("taints") or []
            self.api.patch(self.path, {"spec": {"taints": [*taints, OUT_OF_SERVICE]}})
        else:
            for pod in self.api.list(self.stage.path("Pod")):
                if pod["spec"].get("nodeName") == self.node:
                    path = self.stage.path("Pod", pod["metadata"]["name"])
                    self.api.delete(path, gracePeriodSeconds=0)

    def repair(self) -> None:
        """The node is back; one that was deleted is registered anew by its kubelet."""
        found = self.api.find(self.path)
        if found is None:
            (node,) = (each for each in self.stage.sandbox.cluster.nodes if each.name == self.node)
            self.api.create(self.api.path("Node"), nodes.node_object(node))
        elif MANAGED_NODE not in found["metadata"]["labels"]:
            self.stage.sandbox.node_up(self.node, new_boot=True)
        self.stage.sandbox.restore_nodes()
        self.api.wait(lambda node: not node["spec"].get("taints"), self.path)


@pytest.fixture
def fleet(six: Sandbox, run_module: RunModule, namespace: MakeNamespace) -> t.Iterator[Fleet]:
    """On two nodes in each of three zones."""
    stage = Stage(six, run_module, namespace(six, "fencing"))
    fleet = Fleet(stage)
    yield fleet
    fleet.repair()
    stage.end()


def _is_given_up(node: JSON) -> bool:
    """virt-controller has seen that virt-handler is gone, and Kubernetes that the kubelet is."""
    taints = {taint["key"] for taint in node["spec"].get("taints", ())}
    left = node["metadata"]["labels"].get("kubevirt.io/schedulable") == "false"
    return left and "node.kubernetes.io/unreachable" in taints


@pytest.mark.parametrize("way", WAYS)
def test_vm_is_down_until_its_node_is_fenced_and_then_starts_beside_it(
    fleet: Fleet, way: str
) -> None:
    """The old pod, gone then, keeps it from no node of its zone. A VM that only the failed node can run stays down."""
    pinned = objects.virtual_machine("pinned", placement={"nodeSelector": {HOST: fleet.node}})
    fleet.stage.create(pinned)
    fleet.stage.node_of("pinned")

    found = fleet.stage.forecast(unavailable={"nodes": [fleet.node]}, event="failure")
    drilled = fleet.stage.drill(domains_of=["node"])

    down = {"web-a", "pinned"}
    assert {ref["name"] for ref in found["down_until_fenced"]} == down
    assert (found["forecast"], found["min_unschedulable"]) == ("impossible", 1), found
    assert [pod["instance"]["name"] for pod in found["pending"]] == ["pinned"]
    targets = {move["instance"]: move["targets"] for move in found["moves"]}
    assert targets["web-a"] == [fleet.beside]
    (lost,) = drilled["domains"]
    assert (lost["domain"], lost["forecast"]) == (fleet.node, "impossible")
    assert {ref["name"] for ref in lost["down_until_fenced"]} == down
    assert [ref["name"] for ref in lost["pending"]] == ["pinned"]
    assert "5 of 6 failures: no impact after fencing, not listed above" in drilled["table"]

    before = fleet.pods()
    fleet.fail()
    fleet.stage.create(objects.virtual_machine("later"))
    fleet.stage.node_of("later")
    gone = {uid for uid, node in before.items() if node == fleet.node}
    assert len(gone) == 2
    assert len(fleet.pods().keys() - before) == 1, "only VM later has a new pod before fencing"

    fleet.fence(way)

    fleet.api.wait_list(
        fleet.stage.path("Pod"),
        lambda pods: not gone & {pod["metadata"]["uid"] for pod in pods} and len(pods) == 5,
        timeout=120,
    )
    assert fleet.stage.placed(5).count("") == 1
    assert fleet.stage.node_of("web-a") == fleet.beside
