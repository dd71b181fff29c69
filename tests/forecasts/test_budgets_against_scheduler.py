# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Random workloads with disruption budgets: what is said of a drain is compared with what the eviction API does.

A third of PLACEMENT_RANDOM_CLUSTERS (10) are drawn, the first one with PLACEMENT_SEED. A drain that is `guaranteed`
must end with a node for each pod, and one with a budget that never allows it must not end.
"""

from __future__ import annotations

import random
import typing as t

import pytest

from ansible_collections.virt.placement.plugins.modules import forecast_info, node_maintenance
from sandbox import Sandbox, drain, objects
from sandbox.admin_api import ApiFailure
from sandbox.pytest_plugin import MakeNamespace
from tests.conftest import RunModule

from .random_cases import CLUSTERS, FIRST_SEED, count

JSON = t.Any
PATIENCE = 12.0
"""Seconds for a drain that can end: each eviction waits for the successor of the one before."""


class Case:
    """Up to three Deployments `a`, `b`, `c`, the budgets over them, and the pods that are not Ready."""

    def __init__(self, seed: int) -> None:
        self.chance = chance = random.Random(seed)
        self.replicas = {name: chance.randint(1, 4) for name in "abc"[: chance.randint(1, 3)]}
        self.budgets = [
            self._budget(name)
            for name in self.replicas
            for _number in range(chance.choice([0, 1, 1, 1, 2]))
        ]
        self.not_ready = {name: chance.random() < 0.2 for name in self.replicas}
        self.apart = {name: chance.random() < 0.3 for name in self.replicas}

    def _budget(self, name: str) -> JSON:
        limit: JSON = self.chance.choice(
            [
                {"minAvailable": self.chance.randint(1, 4)},
                {"minAvailable": self.chance.choice(["50%", "100%"])},
                {"maxUnavailable": self.chance.choice([0, 1, 2])},
                {"maxUnavailable": self.chance.choice(["25%", "50%"])},
            ]
        )
        policy = self.chance.choice(["IfHealthyBudget", "AlwaysAllow"])
        selector = {"matchLabels": {"app": name}}
        return {"selector": selector, "unhealthyPodEvictionPolicy": policy, **limit}

    def deployments(self, namespace: str) -> t.Iterator[JSON]:
        for name, replicas in self.replicas.items():
            term = {
                "labelSelector": {"matchLabels": {"app": name}},
                "topologyKey": "kubernetes.io/hostname",
            }
            required = {"requiredDuringSchedulingIgnoredDuringExecution": [term]}
            placement = {"affinity": {"podAntiAffinity": required}} if self.apart[name] else {}
            yield objects.deployment(
                name, namespace, replicas=replicas, cpu="100m", placement=placement
            )


class Stage:
    """Plays one case in a namespace of its own."""

    def __init__(self, sandbox: Sandbox, case: Case, namespace: str) -> None:
        self.sandbox, self.api, self.case, self.namespace = sandbox, sandbox.api, case, namespace
        self.pods = self.api.path("Pod", namespace)
        self.node = ""

    def begin(self) -> None:
        """Run the pods, then let the budgets count those that are Ready."""
        for made in self.case.deployments(self.namespace):
            self.api.create(self.api.collection_of(made), made)
        total = sum(self.case.replicas.values())
        pods = self.api.wait_list(self.pods, lambda found: _are_decided(found, total))
        for pod in pods:
            name = pod["metadata"]["labels"]["app"]
            if self.case.not_ready[name] and pod["spec"].get("nodeName"):
                self.case.not_ready[name] = False  # one of them
                status = {"conditions": [{"type": "Ready", "status": "Unknown"}]}
                path = f"{self.pods}/{pod['metadata']['name']}/status"
                self.api.patch(path, {"status": status}, "strategic")
        budgets = self.api.path("PodDisruptionBudget", self.namespace)
        for number, spec in enumerate(self.case.budgets):
            self.api.create(budgets, {"metadata": {"name": f"b{number}"}, "spec": spec})
        self.api.wait_list(budgets, lambda found: all(map(_is_counted, found)))
        used = sorted({pod["spec"].get("nodeName", "") for pod in pods} - {""})
        self.node = self.case.chance.choice(used)

    def drains(self) -> bool:
        """Drain the node by evictions. Whether it became empty, and each pod has a node then."""
        drain.cordon(self.sandbox, self.node)
        try:
            drain.drain(self.sandbox, self.node, timeout=PATIENCE)
        except TimeoutError:
            return False
        except ApiFailure as refusal:
            if "more than one PodDisruptionBudget" not in refusal.message:
                raise
            return False
        total = sum(self.case.replicas.values())
        pods = self.api.wait_list(self.pods, lambda found: _are_decided(found, total))
        return all(pod["spec"].get("nodeName") for pod in pods)

    def end(self) -> None:
        if self.node:
            drain.uncordon(self.sandbox, self.node)
        self.api.delete(self.api.path("PodDisruptionBudget", self.namespace))
        self.api.delete(self.api.path("Deployment", self.namespace))
        self.api.wait_list(self.pods, lambda found: not found)


def _are_decided(pods: list[JSON], total: int) -> bool:
    """Whether there are so many pods, and each runs or was refused by the scheduler."""
    refused = [
        pod
        for pod in pods
        for condition in pod["status"].get("conditions") or ()
        if (condition["type"], condition["status"]) == ("PodScheduled", "False")
    ]
    running = [pod for pod in pods if pod["status"].get("phase") == "Running"]
    return len(pods) == total == len(refused) + len(running)


def _is_counted(budget: JSON) -> bool:
    status = budget.get("status") or {}
    return bool(status.get("observedGeneration") == budget["metadata"]["generation"])


@pytest.mark.parametrize("seed", range(FIRST_SEED, FIRST_SEED + CLUSTERS // 3))
def test_drain_of_pods_with_budgets_is_as_forecast(
    plain: Sandbox, run_module: RunModule, namespace: MakeNamespace, seed: int
) -> None:
    stage = Stage(plain, Case(seed), namespace(plain, f"budgets-{seed}"))
    try:
        stage.begin()
        access = {"kubeconfig": str(plain.kubeconfig("maintainer"))}
        found = run_module(forecast_info.main, {**access, "unavailable": {"nodes": [stage.node]}})
        assert not found.get("failed"), found
        task = {"nodes": [stage.node], "state": "drained", "_ansible_check_mode": True}
        checked = run_module(node_maintenance.main, {**access, **task})
        never = "pdb_impossible" in str(checked.get("msg", ""))

        drained = stage.drains()

        print(
            f"seed {seed}: {found['forecast']} {found['codes']}, never {never}, drained {drained}"
        )
        count(found)
        if found["forecast"] == "guaranteed":
            assert drained, (found, stage.case.budgets)
        elif found["forecast"] == "impossible":
            assert not drained, (found, stage.case.budgets)
        if never:
            assert not drained, (checked, stage.case.budgets)
    finally:
        stage.end()
