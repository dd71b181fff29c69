# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Random workloads with claims: what forecast_info says of a scale is compared with what then happens.

PLACEMENT_RANDOM_CLUSTERS says how many (10), PLACEMENT_SEED with which seed the first one is made. No `guaranteed`
replica may lack a node, and no `impossible` scale may succeed.
"""

from __future__ import annotations

import typing as t

import pytest

from ansible_collections.virt.placement.plugins.modules import forecast_info
from sandbox import Sandbox
from sandbox.pytest_plugin import MakeNamespace
from tests.conftest import RunModule

from .random_cases import CLUSTERS, FIRST_SEED, count
from .random_claims import CLASSES, Case, Stage, make_classes

JSON = t.Any


@pytest.fixture(scope="module")
def classes(plain: Sandbox) -> t.Iterator[None]:
    make_classes(plain)
    yield
    plain.api.delete(CLASSES)


@pytest.mark.usefixtures("classes")
@pytest.mark.parametrize("seed", range(FIRST_SEED, FIRST_SEED + CLUSTERS))
def test_scale_of_a_workload_with_claims_is_as_forecast(
    plain: Sandbox,
    run_module: RunModule,
    namespace: MakeNamespace,
    seed: int,
) -> None:
    case = Case(seed)
    stage = Stage(plain, case, namespace(plain, f"claims-{seed}"))
    try:
        stage.begin()
        identity = "reader" if seed % 2 else "admin"  # which may ask the server for pods
        params = {"kubeconfig": str(plain.kubeconfig(identity)), "namespace": stage.namespace}
        found = run_module(forecast_info.main, {**params, "scale": [case.question]})
        assert not found.get("failed"), found
        lacking = stage.change()
        print(
            f"seed {seed}: {case.question} {found['forecast']}, without a node {lacking}: {found['reasons']}"
        )
        count(found)
        if found["forecast"] == "guaranteed":
            assert lacking == 0, found
        elif found["forecast"] == "impossible":
            assert lacking >= max(1, found["min_unschedulable"]), found
    finally:
        stage.end()
