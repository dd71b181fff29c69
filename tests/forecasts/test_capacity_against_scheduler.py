# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Random small clusters: where capacity_info says green, each failure that it tolerates is played.

Twice PLACEMENT_RANDOM_CLUSTERS are drawn, or two where that is 10 or fewer, the first one with PLACEMENT_SEED. A failed
node is down with all that runs on it: its pods are ended as the node controller ends them, and stay where they are
while they cannot end. After a green answer each of them needs another node and gets one. Then the node is replaced, and
the next failure follows on another answer, about the cluster as it is then. After a red answer the worst failure is
played, and at least as many pods wait as it says: where pods have no time to end, they leave a failed node at once, and
it is not played.

The first answer is about more pods of a Deployment, a rule for one, or a node that is drained meanwhile. That is done
before the failure.
"""

from __future__ import annotations

import contextlib
import random
import typing as t

import pytest

from ansible_collections.virt.placement.plugins.modules import capacity_info
from sandbox import Sandbox, drain, nodes
from tests.conftest import RunModule

from .random_cases import BATCH, CAPACITIES, CLUSTERS, FIRST_SEED
from .random_cluster import (
    NAMESPACE,
    Case,
    Stage,
    all_at_once,
    is_free,
    make_priority_classes,
    preempted,
)

JSON = t.Any
FEW = 2
"""Clusters where the run is no full one. One failure of each is played then."""
FULL = CLUSTERS > BATCH


class RoomyCase(Case):
    """A cluster with room for a failure, in many cases. Pods of every second one take their time to end, so that
    they stay on a failed node."""

    cpus = ("2", "3", "4")
    sizes = (4, 6)
    replicas = (1, 3)

    def __init__(self, seed: int) -> None:
        super().__init__(seed)
        self.tolerate = self.chance.choice([["node"], ["zone"], ["node", "zone"]])
        self.at_once = self.chance.random() < 0.5
        self.lingers = seed % 2 == 1
        if self.lingers:
            for deployment in self.deployments:
                deployment["spec"]["template"]["spec"]["terminationGracePeriodSeconds"] = 30


class Failures:
    """Fails nodes of a case, and replaces them."""

    def __init__(self, stage: Stage) -> None:
        self.stage, self.api, self.sandbox = stage, stage.api, stage.sandbox

    def fail(self, names: t.Sequence[str]) -> int:
        """How many pods are left over on these nodes, since they cannot end."""
        for name in names:
            self.sandbox.node_down(name)
        for name in names:
            self.api.wait(_is_unreachable, self.api.path("Node", name=name))
        with all_at_once(self.sandbox) if self.stage.case.at_once else contextlib.nullcontext():
            for name in names:
                self.api.delete(self._pods_on(name))
        pods = self.api.list(self.stage.pods)
        return sum("deletionTimestamp" in pod["metadata"] for pod in pods)

    def replace(self, names: t.Sequence[str]) -> None:
        """New nodes with the same names."""
        for name in names:
            self.api.delete(self._pods_on(name), gracePeriodSeconds=0)
            self.api.delete(self.api.path("Node", name=name))
        made = [node for node in self.stage.case.nodes if node.name in names]
        self.api.create_all([nodes.node_object(node) for node in made])
        for name in names:
            self.api.wait(is_free, self.api.path("Node", name=name))

    def _pods_on(self, name: str) -> str:
        return f"{self.stage.pods}?fieldSelector=spec.nodeName={name}"


def _is_unreachable(node: JSON) -> bool:
    effects = [
        taint["effect"]
        for taint in node["spec"].get("taints", ())
        if taint["key"] == "node.kubernetes.io/unreachable"
    ]
    return len(effects) == 2


@pytest.fixture(scope="module")
def cordoned(plain: Sandbox) -> t.Iterator[Sandbox]:
    """Its own nodes take no pods: each case brings its own."""
    for node in plain.cluster.nodes:
        drain.cordon(plain, node.name)
    plain.api.create(plain.api.path("Namespace"), {"metadata": {"name": NAMESPACE}})
    make_priority_classes(plain)
    yield plain
    plain.restore_nodes()
    plain.api.delete("/apis/scheduling.k8s.io/v1/priorityclasses/urgent")
    plain.api.delete("/apis/scheduling.k8s.io/v1/priorityclasses/patient")
    plain.api.delete(plain.api.path("Namespace", name=NAMESPACE))


@pytest.mark.parametrize(
    "seed", range(FIRST_SEED, FIRST_SEED + (2 * CLUSTERS if FULL else min(CLUSTERS, FEW)))
)
@pytest.mark.tour
def test_after_a_green_answer_each_failure_leaves_every_pod_with_a_node(
    cordoned: Sandbox, run_module: RunModule, seed: int
) -> None:
    case = RoomyCase(seed)
    stage = Stage(cordoned, case)
    failures = Failures(stage)
    chance = random.Random(seed)
    try:
        waiting = stage.begin()
        played: list[str] = []
        changed = case.question
        while True:
            found = _ask(cordoned, run_module, case, changed)
            print(f"seed {seed}: {found['table']}")
            CAPACITIES[found["capacity"]] += 1
            if found["capacity"] == "red" and case.lingers and not case.urgent and not changed:
                _play_the_worst(found, failures, waiting)
            own = {node.name for node in case.nodes}
            left = [
                x
                for x in found["without_impact"]
                if own >= {*x["nodes"]}
                and (x["instances_to_schedule"] or changed)
                and x["domain"] not in played
            ]
            if found["capacity"] != "green" or not left:
                return
            domain = chance.choice(left)
            played.append(domain["domain"])
            CAPACITIES[f"failures after green{' and a ' + case.change if changed else ''}"] += 1
            if changed:
                stage.change(run_module, [])
                stage.settle()
                changed = {}
            left_over = failures.fail(domain["nodes"])
            new = stage.settle(placed=not waiting, left_over=left_over) - waiting
            assert not new, (domain, new, found)
            assert not preempted(cordoned) & stage.owners().keys(), found
            if not FULL:
                return
            failures.replace(domain["nodes"])
            waiting = stage.settle()
    finally:
        stage.end()


def _ask(sandbox: Sandbox, run_module: RunModule, case: RoomyCase, changed: JSON) -> JSON:
    params = {"kubeconfig": str(sandbox.kubeconfig("reader")), "tolerate": case.tolerate}
    found = run_module(capacity_info.main, {**params, **changed})
    assert not found.get("failed"), found
    return found


def _play_the_worst(found: JSON, failures: Failures, waiting: set[str]) -> None:
    worst = found["domains"][0]
    left_over = failures.fail(worst["nodes"])
    new = failures.stage.settle(left_over=left_over) - waiting
    CAPACITIES["failures after red"] += 1
    assert len(new) >= max(1, worst["min_unschedulable"]), found
