# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Pods that no scheduler sees, or that the API server refuses: forecast, then seen with the real controllers."""

from __future__ import annotations

import typing as t

import pytest

from sandbox import Sandbox, drain, objects
from sandbox.pytest_plugin import MakeNamespace
from tests.conftest import RunModule

from .test_scenarios import Stage


@pytest.fixture
def stage(small: Sandbox, run_module: RunModule, namespace: MakeNamespace) -> t.Iterator[Stage]:
    begun = Stage(small, run_module, namespace(small, "named"))
    yield begun
    begun.end()


def forecast_of_one(stage: Stage, **spec: str) -> tuple[str, list[str]]:
    """The forecast of the first replica of a Deployment, which is then made."""
    made = objects.deployment("web", replicas=0)
    made["spec"]["template"]["spec"].update(spec)
    stage.create(made)
    wanted = {"name": "web", "replicas": 1}
    found = stage.forecast(namespace=stage.namespace, scale=[wanted])
    stage.scale("web", 1)
    return found["forecast"], found["codes"]


@pytest.mark.parametrize("node", ["w9", "w2"])
def test_pod_whose_template_names_a_node_is_not_certain(stage: Stage, node: str) -> None:
    """It never runs on a node that is missing, and runs on one that is cordoned."""
    drain.cordon(stage.sandbox, "w2")

    answer = forecast_of_one(stage, nodeName=node)

    assert answer == ("possible", ["named_node"])
    (pod,) = stage.api.wait_list(stage.path("Pod"), lambda pods: len(pods) == 1)
    assert pod["spec"]["nodeName"] == node
    if node == "w2":
        path = stage.path("Pod", pod["metadata"]["name"])
        stage.api.wait(lambda pod: pod["status"]["phase"] == "Running", path, timeout=60)


def test_first_pod_whose_priority_class_is_missing_is_not_certain(stage: Stage) -> None:
    answer = forecast_of_one(stage, priorityClassName="missing")

    assert answer == ("possible", ["next_pod_estimated"])

    def refused(deployment: dict[str, t.Any]) -> bool:
        conditions = (deployment.get("status") or {}).get("conditions") or ()
        return any(x["type"] == "ReplicaFailure" and "missing" in x["message"] for x in conditions)

    stage.api.wait(refused, stage.path("Deployment", "web"), timeout=60)
