# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""VMs of which the template was changed while they run: what ends comes again as the template is now."""

from __future__ import annotations

import typing as t

import pytest

from ansible_collections.virt.placement.plugins.module_utils.forecast.change import what_if
from ansible_collections.virt.placement.plugins.module_utils.forecast.conclusion import (
    ForecastResult,
)
from ansible_collections.virt.placement.plugins.module_utils.forecast.doubts import doubts_of_change
from ansible_collections.virt.placement.plugins.module_utils.forecast.drill import drill
from ansible_collections.virt.placement.plugins.module_utils.forecast.eviction import (
    NODE_EVENTS,
    NodeEvent,
)
from ansible_collections.virt.placement.plugins.module_utils.forecast.forecast import forecast
from ansible_collections.virt.placement.plugins.module_utils.forecast.result import Forecast
from ansible_collections.virt.placement.plugins.module_utils.model.placement_manifests import (
    node_term_from_json,
)
from tests.support.cluster import HOST, ZONE, Cluster, cluster, configure, expression, machine
from tests.unit.planning.scenes import pinned

JSON = t.Any
GUARANTEED, IMPOSSIBLE = ForecastResult.GUARANTEED, ForecastResult.IMPOSSIBLE
POSSIBLE, UNKNOWN = ForecastResult.POSSIBLE, ForecastResult.UNKNOWN
GPU = {"devices": {"gpus": [{"name": "g", "deviceName": "example.com/gpu"}]}}
NOWHERE: list[JSON] = [
    {"memory": {"guest": "900Gi"}},
    {"cpu": {"cores": 900}},
    {"cpu": {"model": "Of-No-Node"}},
    GPU,
]
"""What no node has."""


def changed_to(domain: JSON, **of_vm: JSON) -> Cluster:
    """A VM on n1 that an eviction ends, with another domain in its template since."""
    made = cluster("ab", migrates=False)
    ref = machine(made, "db", "n1", {"domain": {}})
    made.template(ref)["spec"]["domain"] = domain
    made.workloads[ref]["spec"] |= of_vm
    return made


def loss(made: Cluster, event: NodeEvent = "drain") -> Forecast:
    change = what_if(made.snapshot(), lost_nodes=["n1"], event=event)
    return forecast(change, doubts=doubts_of_change(change))


@pytest.mark.parametrize("event", NODE_EVENTS)
@pytest.mark.parametrize("domain", NOWHERE)
def test_vm_that_ends_needs_what_its_template_asks_for_now(domain: JSON, event: NodeEvent) -> None:
    made = changed_to(domain)

    found = loss(made, event)

    assert (found.answer, found.min_unschedulable) == (IMPOSSIBLE, 1)
    assert drill(made.snapshot(), [HOST], event=event).drills[0].answer is IMPOSSIBLE


def test_vm_without_its_former_device_finds_a_node() -> None:
    made = changed_to({})
    made.machines["db"]["spec"]["domain"] = GPU
    (pod,) = made.pods.values()
    pod["spec"]["containers"][0]["resources"]["requests"]["example.com/gpu"] = "1"

    assert loss(made).answer is GUARANTEED


@pytest.mark.parametrize(("cpus", "answer"), [("15", IMPOSSIBLE), ("16", GUARANTEED)])
def test_annotation_of_the_template_changes_the_cpus_of_the_next_pod(
    cpus: str, answer: ForecastResult
) -> None:
    cpu = {"cores": 14, "dedicatedCpuPlacement": True, "isolateEmulatorThread": True}
    made = changed_to({"cpu": cpu})
    (ref,) = made.workloads
    made.machines["db"]["spec"]["domain"] = {"cpu": cpu}
    made.template(ref)["metadata"]["annotations"] = {
        "alpha.kubevirt.io/EmulatorThreadCompleteToEvenParity": ""
    }
    made.nodes["n2"]["metadata"]["labels"]["kubevirt.io/cpumanager"] = "true"
    made.nodes["n2"]["status"]["allocatable"]["cpu"] = cpus

    assert loss(made).answer is answer


def test_change_that_is_not_modeled_makes_nothing_certain() -> None:
    made = changed_to({**GPU, "firmware": {"bootloader": {"efi": {"persistent": True}}}})

    found = loss(made)

    assert found.answer is UNKNOWN
    assert found.reasons[-1] == (
        "not proven, since VirtualMachineInstance shop/db has a next pod that is an estimate: its state"
        " is on a volume that KubeVirt chooses"
    )
    assert drill(made.snapshot(), [HOST], event="drain").drills[0].answer is UNKNOWN


@pytest.mark.parametrize(
    ("domain", "annotations", "changed"),
    [
        ({"cpu": {"cores": 2}}, {}, "domain.cpu.cores"),
        ({}, {"kubevirt.io/instancetype-name": "u2"}, "instancetype"),
        ({}, {"kubevirt.io/instancetype-name": "u1"}, ""),
    ],
)
def test_change_of_a_vm_with_an_instance_type_is_an_estimate(
    domain: JSON, annotations: JSON, changed: str
) -> None:
    made = changed_to(domain, instancetype={"name": "u1"})
    made.machines["db"]["metadata"]["annotations"] = annotations

    found = loss(made)

    if not changed:
        assert found.answer is GUARANTEED
        return
    assert found.answer is POSSIBLE
    assert f"is an estimate: its template was changed ({changed})" in found.reasons[-1]


def migrating(made: Cluster) -> Cluster:
    made.machines["db"]["spec"]["evictionStrategy"] = "LiveMigrate"
    return made


@pytest.mark.parametrize("condition", ["HotVCPUChange", "HotMemoryChange"])
@pytest.mark.parametrize(("cores", "answer"), [(1, POSSIBLE), (900, UNKNOWN)])
def test_target_of_a_migration_is_made_from_the_vmi_as_it_is(
    condition: str, cores: int, answer: ForecastResult
) -> None:
    made = migrating(changed_to({"cpu": {"cores": cores}}))
    made.machines["db"]["spec"]["domain"] = {"cpu": {"cores": cores}}
    change = {"type": condition, "status": "True"}
    made.machines["db"]["status"]["conditions"].append(change)

    found = loss(made)

    assert found.answer is answer
    assert "CPUs or memory of the VMI were changed" in found.reasons[-1]
    assert drill(made.snapshot(), [HOST], event="drain").drills[0].answer is answer
    (ref,) = made.workloads
    moved = forecast(what_if(made.snapshot(), writes=[pinned(ref, "b")]))
    assert moved.answer is answer
    assert "is an estimate" in moved.reasons[-1]
    made.machines["db"]["spec"]["evictionStrategy"] = "None"
    assert loss(made).answer is (GUARANTEED if answer is POSSIBLE else IMPOSSIBLE)


def test_state_of_a_vm_does_not_bind_its_migration_to_its_volume() -> None:
    made = migrating(changed_to({}))
    (pod,) = made.pods.values()
    claim = {"claimName": "persistent-state-for-db-x"}
    pod["spec"]["volumes"] = [{"name": "vm-state", "persistentVolumeClaim": claim}]
    zone = node_term_from_json({"matchExpressions": [expression(ZONE, "In", "a")]})
    made.more["claim_terms"] = {("shop", claim["claimName"]): (zone,)}

    found = loss(made)

    assert found.answer is POSSIBLE
    assert "its state may be copied to another volume" in found.reasons[-1]
    made.machines["db"]["spec"]["evictionStrategy"] = "None"
    assert loss(made).answer is IMPOSSIBLE


def test_hotplugged_volume_of_a_zone_makes_a_migration_uncertain() -> None:
    made = migrating(changed_to({}))
    source = {"claimName": "data", "hotpluggable": True}
    made.machines["db"]["spec"]["volumes"] = [{"name": "d", "persistentVolumeClaim": source}]
    assert loss(made).answer is GUARANTEED
    zone = node_term_from_json({"matchExpressions": [expression(ZONE, "In", "a")]})
    made.more["claim_terms"] = {("shop", "data"): (zone,)}

    found = loss(made)

    assert found.answer is POSSIBLE
    assert "its volume data, which only some nodes reach" in found.reasons[-1]
    (ref,) = made.workloads
    moved = forecast(what_if(made.snapshot(), writes=[pinned(ref, "b")]))
    assert moved.answer is POSSIBLE


def test_rule_that_restarts_a_vm_with_a_changed_template_is_an_estimate() -> None:
    made = changed_to({"memory": {"guest": "900Gi"}})
    refusal = {"type": "LiveMigratable", "status": "False", "reason": "Disks"}
    made.machines["db"]["status"]["conditions"] = [refusal]
    (ref,) = made.workloads
    change = what_if(made.snapshot(), writes=[pinned(ref, "b")])

    found = forecast(change)

    assert found.answer is POSSIBLE
    assert "is an estimate: its template was changed" in found.reasons[-1]


@pytest.mark.parametrize("migrates", [True, False])
def test_next_pod_asks_for_the_node_selector_that_the_cluster_has_since(migrates: bool) -> None:
    made = cluster("ab", migrates=migrates)
    ref = machine(made, "db", "n1", app="db")
    configure(made, nodeSelectors={ZONE: "a"})

    assert loss(made).answer is IMPOSSIBLE
    assert forecast(what_if(made.snapshot(), writes=[pinned(ref, "b")])).answer is IMPOSSIBLE
