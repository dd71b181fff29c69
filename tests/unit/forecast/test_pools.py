# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Forecasts about VirtualMachinePools: rules on them, and more or fewer VMs."""

from __future__ import annotations

import dataclasses
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
from tests.support.cluster import Cluster, cluster, deployment, keep_apart, machine
from tests.support.pools import pool

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


@pytest.mark.parametrize(("kubevirt", "may_hold"), [("v1.4.0", False), ("v1.7.0", True)])
def test_hold_is_named_only_where_a_pool_can_be_held(kubevirt: str, may_hold: bool) -> None:
    made = cluster("abc")
    made.more["platform"] = dataclasses.replace(made.more["platform"], kubevirt=kubevirt)
    ref = pool(made, "web", ["n1", "n2", "n3"])
    found = of_rule(made, ref, keep_apart(pool="web"))
    (reason,) = [text for text in found.reasons if "KubeVirt restarts the VMs" in text]
    assert "web, all at the same time" in reason
    assert ("unless workload_rollout is hold" in reason) is may_hold


def test_pool_that_restarts_vms_which_are_placed_well_is_not_guaranteed() -> None:
    """Nothing has to move, and each VM needs a node again. That of web-0 is cordoned by now."""
    made = cluster("abc")
    ref = pool(made, "web", ["n1", "n2", "n3"])
    made.nodes["n1"]["spec"]["unschedulable"] = True
    found = of_rule(made, ref, keep_apart(pool="web"))
    assert (found.answer, found.codes) == (ForecastResult.POSSIBLE, ("restarted_by_pool",))
    made.workloads[ref]["spec"]["updateStrategy"] = {"opportunistic": {}}
    assert of_rule(made, ref, keep_apart(pool="web")).answer is ForecastResult.GUARANTEED


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


def halted(made: Cluster, ref: t.Any) -> None:
    """One more VM of the pool, which is stopped."""
    extra = machine(made, "web-3", "", pool="web")
    uid = made.workloads[ref]["metadata"]["uid"]
    owner = {"kind": ref.kind, "name": "web", "uid": uid, "controller": True}
    made.workloads[extra]["metadata"]["ownerReferences"] = [owner]


@pytest.mark.parametrize(("replicas", "new"), [(3, 0), (4, 1), (2, 0)])
def test_stopped_vm_counts_among_the_replicas_of_its_pool(replicas: int, new: int) -> None:
    """KubeVirt makes so many VMs, and this one has no pod."""
    made = cluster("abc")
    ref = pool(made, "web", ["n1", "n2"], {"affinity": keep_apart(pool="web")})
    halted(made, ref)
    scale = [Scale(ref, replicas)]
    change = what_if(made.snapshot(), scale=scale)
    found = forecast(change, doubts=doubts_of_change(change, scale))
    assert found.instances_to_schedule == new


def test_stopped_vm_that_a_new_template_starts_is_a_doubt() -> None:
    """KubeVirt writes the run strategy of the pool, too; here no zone is left for the VM."""
    made = cluster("abc")
    ref = pool(made, "web", ["n1", "n2", "n3"])
    halted(made, ref)
    made.workloads[ref]["spec"] |= {"replicas": 4, "updateStrategy": {"opportunistic": {}}}
    found = of_rule(made, ref, keep_apart(pool="web"))
    assert found.answer is ForecastResult.POSSIBLE
    assert "KubeVirt starts VirtualMachine shop/web-3" in str(found.reasons)
    made.workloads[ref]["spec"]["paused"] = True
    assert "starts VirtualMachine" not in str(of_rule(made, ref, keep_apart(pool="web")).reasons)


@pytest.mark.parametrize("strategy", ["unmanaged", "opportunistic"])
@pytest.mark.parametrize("replicas", [0, 1])
def test_pool_that_ends_no_vm_at_a_scale_in_makes_no_room(strategy: str, replicas: int) -> None:
    made = cluster("ab")
    ref = pool(made, "web", ["n1", "n2"], {"affinity": keep_apart(pool="web")})
    other = deployment(made, "app", [], {"containers": [], "affinity": keep_apart(pool="web")})
    made.workloads[ref]["spec"]["scaleInStrategy"] = {strategy: {}}
    scale = [Scale(ref, replicas), Scale(other, 1)]
    change = what_if(made.snapshot(), scale=scale)
    found = forecast(change, doubts=doubts_of_change(change, scale))
    assert found.answer is not ForecastResult.GUARANTEED
    assert f"the scale-in strategy of {ref} is {strategy}" in str(found.reasons)
