# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""One machine a zone, two nodes in each (S11): what a plain rule forbids and the safe form allows.

See test_scenarios.py for the other situations.
"""

from __future__ import annotations

import typing as t

import pytest

from sandbox import Sandbox, drain, objects
from sandbox.pytest_plugin import MakeNamespace
from tests.conftest import RunModule

from .test_scenarios import CREATED_BY, REQUIRED, ZONE, Stage

MACHINES = ("web-a", "web-b", "web-c")


@pytest.fixture
def stage(six: Sandbox, run_module: RunModule, namespace: MakeNamespace) -> t.Iterator[Stage]:
    begun = Stage(six, run_module, namespace(six, "zones"))
    yield begun
    begun.end()


def one_a_zone(stage: Stage, *, plain: bool) -> dict[str, str]:
    """Three machines, and where they run."""
    term: dict[str, t.Any] = {
        "labelSelector": {"matchLabels": {"g": "web"}},
        "topologyKey": ZONE,
    }
    if not plain:
        term["mismatchLabelKeys"] = [CREATED_BY]
    placement = {"affinity": {"podAntiAffinity": {REQUIRED: [term]}}}
    for name in MACHINES:
        stage.create(objects.virtual_machine(name, labels={"g": "web"}, placement=placement))
    return {name: stage.node_of(name) for name in MACHINES}


def zones_of(stage: Stage) -> dict[str, str]:
    """The zone of each node."""
    return {
        each["metadata"]["name"]: each["metadata"]["labels"][ZONE]
        for each in stage.api.list(stage.api.path("Node"))
    }


def other_of_its_zone(stage: Stage, node: str) -> str:
    zones = zones_of(stage)
    (found,) = (name for name, zone in zones.items() if zone == zones[node] and name != node)
    return str(found)


def test_s11_the_plain_form_has_no_target_in_its_own_zone(stage: Stage) -> None:
    nodes = one_a_zone(stage, plain=True)

    found = stage.forecast(unavailable={"nodes": [nodes["web-a"]]})

    assert found["forecast"] == "impossible"
    assert [each["instance"]["name"] for each in found["not_migratable"]] == ["web-a"]
    drain.cordon(stage.sandbox, nodes["web-a"])
    stage.create(objects.migration("web-a"))
    assert stage.placed(4) == ["", *sorted(nodes.values())]


def test_s11_the_safe_form_moves_to_the_other_node_of_its_zone_and_keeps_a_fourth_out(
    stage: Stage,
) -> None:
    nodes = one_a_zone(stage, plain=False)
    other = other_of_its_zone(stage, nodes["web-a"])

    found = stage.forecast(unavailable={"nodes": [nodes["web-a"]]})

    assert found["forecast"] == "guaranteed"
    (move,) = found["moves"]
    assert (move["method"], move["targets"]) == ("migrate", [other])
    drain.drain(stage.sandbox, nodes["web-a"])
    path = stage.path("VirtualMachineInstance", "web-a")
    stage.api.wait(lambda vmi: vmi["status"]["nodeName"] == other, path, timeout=60)

    stage.create(objects.virtual_machine("web-d", labels={"g": "web"}, run_strategy="Halted"))
    rule = {
        "name": "apart",
        "workloads": [{"names": [*MACHINES, "web-d"]}],
        "keep_apart": {"topology_key": "zone"},
    }
    found = stage.forecast(namespace=stage.namespace, rules=[rule])
    assert (found["forecast"], found["min_unschedulable"]) == ("impossible", 1)
    (pending,) = found["pending"]
    assert pending["instance"]["name"].startswith("web-d")
    assert "node(s) didn't match pod anti-affinity rules" in pending["reason"]
    term = {
        "labelSelector": {"matchLabels": {"g": "web"}},
        "topologyKey": ZONE,
        "mismatchLabelKeys": [CREATED_BY],
    }
    affinity = {"podAntiAffinity": {REQUIRED: [term]}}
    stage.api.patch(
        stage.path("VirtualMachine", "web-d"),
        {"spec": {"runStrategy": "Always", "template": {"spec": {"affinity": affinity}}}},
    )
    assert stage.placed(4).count("") == 1
