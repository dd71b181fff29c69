# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Forecasts about VirtualMachinePools: rules on them, and more or fewer VMs."""

from __future__ import annotations

import typing as t

import pytest

from ansible_collections.virt.placement.plugins.module_utils.forecast.change import what_if
from ansible_collections.virt.placement.plugins.module_utils.forecast.conclusion import (
    ForecastResult,
)
from ansible_collections.virt.placement.plugins.module_utils.forecast.doubts import doubts_of_change
from ansible_collections.virt.placement.plugins.module_utils.forecast.forecast import forecast
from ansible_collections.virt.placement.plugins.module_utils.forecast.result import Forecast
from ansible_collections.virt.placement.plugins.module_utils.forecast.scaling import Scale
from ansible_collections.virt.placement.plugins.module_utils.model.json_pointer import Pointer
from ansible_collections.virt.placement.plugins.module_utils.model.write import Operation, Write
from tests.unit.planning.pools import pool
from tests.unit.planning.scenes import Cluster, cluster, keep_apart

JSON = t.Any
AFFINITY = Pointer(("spec", "virtualMachineTemplate", "spec", "template", "spec", "affinity"))


def of_rule(made: Cluster, ref: t.Any, affinity: JSON) -> Forecast:
    write = Write(ref, "", "", (), (Operation("add", AFFINITY, affinity),))
    change = what_if(made.snapshot(), writes=[write])
    return forecast(change, doubts=doubts_of_change(change))


@pytest.mark.parametrize(
    ("strategy", "answer", "codes"),
    [
        ({}, ForecastResult.POSSIBLE, {"restarted_by_pool"}),
        ({"opportunistic": {}}, ForecastResult.GUARANTEED, set()),
    ],
)
def test_rule_on_a_pool(strategy: JSON, answer: ForecastResult, codes: set[str]) -> None:
    """Two VMs are in one zone; one of them migrates, as its VirtualMachine gets the template."""
    made = cluster("aabc")
    ref = pool(made, "web", ["n1", "n2", "n3"])
    made.workloads[ref]["spec"]["updateStrategy"] = strategy
    found = of_rule(made, ref, keep_apart(pool="web"))
    assert found.answer is answer, found.reasons
    assert codes <= set(found.codes)
    assert found.min_unschedulable == 0


def test_rule_that_needs_more_zones_than_there_are_is_impossible() -> None:
    made = cluster("aab")
    ref = pool(made, "web", ["n1", "n2", "n3"])
    found = of_rule(made, ref, keep_apart(pool="web"))
    assert found.answer is ForecastResult.IMPOSSIBLE


@pytest.mark.parametrize(
    ("replicas", "answer"), [(3, "guaranteed"), (4, "impossible"), (1, "guaranteed")]
)
def test_pool_is_scaled(replicas: int, answer: str) -> None:
    made = cluster("abc")
    ref = pool(made, "web", ["n1", "n2"], {"affinity": keep_apart(pool="web")})
    scale = [Scale(ref, replicas)]
    change = what_if(made.snapshot(), scale=scale)
    found = forecast(change, doubts=doubts_of_change(change, scale))
    assert found.instances_to_schedule == max(0, replicas - 2)
    assert found.answer.value == answer, found.reasons
