# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Random machines on six nodes in three zones: what is forecast of a drain is what becomes of it.

PLACEMENT_RANDOM_MACHINES says how many cases (3), PLACEMENT_SEED with which seed the first one is
made; each test's name holds its own. A node is drained by eviction, so that KubeVirt migrates.
"""

from __future__ import annotations

import random
import typing as t

import pytest

from sandbox import Sandbox, drain, objects
from sandbox.pytest_plugin import MakeNamespace
from tests.conftest import RunModule

from .chance import FIRST, MACHINES, definite
from .test_scenarios import CREATED_BY, HOST, REQUIRED, ZONE, Stage

JSON = t.Any
OUTBOUND = 2
"""Migrations off one node at a time, as KubeVirt ships: no more machines are on the drained one."""


def machines(chance: random.Random) -> list[JSON]:
    """Two to eight machines in one or two groups, each group under a rule."""
    made = []
    for group in "ab"[: chance.randint(1, 2)]:
        placement = _rule(chance, group)
        for number in range(chance.randint(2, 4)):
            spec = {"evictionStrategy": "LiveMigrate", **placement}
            labels = {"g": group}
            made.append(objects.virtual_machine(f"{group}{number}", labels=labels, placement=spec))
    return made


def _rule(chance: random.Random, group: str) -> JSON:
    key = chance.choice([ZONE, ZONE, HOST])
    selected = {"matchLabels": {"g": chance.choice([group, group, "a"])}}
    kind = chance.choice(
        ["none", "apart", "apart", "safe", "spread", "spread", "zone", "near", "near"]
    )
    if kind == "none":
        return {}
    if kind == "zone":
        return {"nodeSelector": {ZONE: chance.choice(["zone1", "zone2"])}}
    if kind == "spread":
        constraint = {
            "topologyKey": key,
            "maxSkew": 1,
            "whenUnsatisfiable": "DoNotSchedule",
            "labelSelector": {"matchLabels": {"g": group}},
            "nodeTaintsPolicy": chance.choice(["Honor", "Ignore"]),
        }
        return {"topologySpreadConstraints": [constraint]}
    term: JSON = {"labelSelector": selected, "topologyKey": key}
    if kind == "safe":
        term["mismatchLabelKeys"] = [CREATED_BY]
    field = "podAffinity" if kind == "near" else "podAntiAffinity"
    return {"affinity": {field: {REQUIRED: [term]}}}


class Drain:
    """A node is drained; what of its machines moved and what could not."""

    def __init__(self, stage: Stage, names: list[str]) -> None:
        self.stage, self.names = stage, names

    def _nodes(self) -> dict[str, str]:
        found = self.stage.api.list(self.stage.path("VirtualMachineInstance"))
        return {
            vmi["metadata"]["name"]: vmi["status"].get("nodeName", "")
            for vmi in found
            if "status" in vmi
        }

    def started(self) -> dict[str, str]:
        """The nodes of the machines that run, once all others were refused."""
        self.stage.placed(len(self.names))
        running = {name: node for name, node in self._nodes().items() if self._has_node(name)}
        return {name: self.stage.node_of(name) for name in running}

    def _has_node(self, name: str) -> bool:
        pods = self.stage.api.list(self.stage.path("Pod"))
        return any(
            pod["spec"].get("nodeName") and pod["metadata"]["labels"]["vm.kubevirt.io/name"] == name
            for pod in pods
        )

    def run(self, node: str) -> set[str]:
        """Evict until each has left the node or has a target that was refused; the latter."""
        for _attempt in range(8):
            try:
                drain.drain(self.stage.sandbox, node, timeout=5)
            except TimeoutError:
                here = {name for name, where in self._nodes().items() if where == node}
                if here <= self._waiting():
                    return here
            else:
                return set()
        raise AssertionError(f"{here} of {node} neither moved nor have a target that waits")

    def _waiting(self) -> set[str]:
        """The machines that have a pod without a node."""
        pods = self.stage.api.list(self.stage.path("Pod"))
        waiting = (pod for pod in pods if not pod["spec"].get("nodeName"))
        return {pod["metadata"]["labels"]["vm.kubevirt.io/name"] for pod in waiting}


@pytest.fixture(scope="module")
def answers() -> list[str]:
    """What was said of the cases of this run."""
    return []


@pytest.mark.parametrize("seed", range(FIRST, FIRST + MACHINES))
def test_a_drain_goes_as_forecast(
    six: Sandbox,
    run_module: RunModule,
    namespace: MakeNamespace,
    seed: int,
    answers: list[str],
) -> None:
    chance = random.Random(seed)
    stage = Stage(six, run_module, namespace(six, "machines"))
    wanted = machines(chance)
    for machine in wanted:
        stage.create(machine)
    names = [machine["metadata"]["name"] for machine in wanted]
    drained = Drain(stage, names)
    try:
        running = drained.started()
        there = {n: [m for m, node in running.items() if node == n] for n in running.values()}
        few = sorted(node for node, found in there.items() if len(found) <= OUTBOUND)
        if not few:
            pytest.skip(f"seed {seed}: no node with few enough machines")
        lost = chance.choice(few)

        found = stage.forecast(unavailable={"nodes": [lost]})
        answers.append(found["forecast"])
        stuck = drained.run(lost)

        print(f"seed {seed}: {lost} with {there[lost]}: {found['forecast']}, stuck {sorted(stuck)}")
        certain = {each["instance"]["name"] for each in found["not_migratable"] if each["certain"]}
        if found["forecast"] == "guaranteed":
            assert not stuck, found
        elif found["forecast"] == "impossible":
            assert stuck, found
        else:
            assert found["forecast"] == "possible", found
            assert found["not_migratable"] or found["reasons"], found
            assert not certain & set(there[lost]), found
            assert stuck <= _may_be_stuck(found, there[lost]), found
        assert certain & set(there[lost]) <= stuck, found
        if len(running) == len(names) and not found["not_migratable"]:
            assert not stuck, found
    finally:
        stage.end()


def test_most_forecasts_of_drains_say_what_will_be(answers: list[str]) -> None:
    definite(answers)


def _may_be_stuck(found: JSON, there: list[str]) -> set[str]:
    """The machines of which the forecast says that they may have to stay; all of the node where it
    gives a reason and no names."""
    named = {each["instance"]["name"] for each in found["not_migratable"]}
    return named & set(there) or set(there)
