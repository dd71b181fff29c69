# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Node labels that an instance type and KubeVirt's configuration add to the pods of a VM."""

from __future__ import annotations

import typing as t
from dataclasses import replace

from ansible_collections.virt.placement.plugins.module_utils.compliance.declared import (
    DeclaredReader,
)
from ansible_collections.virt.placement.plugins.module_utils.kubevirt.labels import (
    AddedNodeSelectors,
    needs_expansion,
)
from ansible_collections.virt.placement.plugins.module_utils.model.objects import Owner, Ref
from ansible_collections.virt.placement.plugins.module_utils.model.snapshot import (
    Platform,
    Snapshot,
    Vmi,
    Workload,
)
from tests.support import facts
from tests.support.facts import vmi

JSON = t.Any
OF_CLUSTER = {"developerConfiguration": {"nodeSelectors": {"role": "virt", "disk": "any"}}}


def vm(selector: JSON = None, **spec: JSON) -> Workload:
    return facts.vm("db", {"domain": {}, "nodeSelector": selector}, **spec)


def running(**selector: str) -> Vmi:
    return vmi("db", "n1", spec={"nodeSelector": selector})


TYPED = {"instancetype": {"name": "fast"}}


def added(workload: Workload, **snapshot: JSON) -> dict[str, str]:
    return AddedNodeSelectors(Snapshot(workloads=(workload,), **snapshot)).of(workload)


def test_vm_without_instance_type_gets_nothing() -> None:
    assert added(vm(), vmis=(running(zone="a"),)) == {}


def test_running_vm_shows_the_labels_of_its_instance_type() -> None:
    assert added(vm(**TYPED), vmis=(running(disk="fast"),)) == {"disk": "fast"}


def test_halted_vm_has_the_labels_of_its_expanded_template() -> None:
    workload = vm(**TYPED)
    expanded = {workload.ref: {"spec": {"nodeSelector": {"disk": "fast"}}}}
    assert added(workload, expanded=expanded) == {"disk": "fast"}
    assert added(workload) == {}


def test_labels_of_the_cluster_yield_to_those_of_instance_type_and_template() -> None:
    platform = Platform(configuration=OF_CLUSTER)
    assert added(vm(), platform=platform) == {"role": "virt", "disk": "any"}
    assert added(vm({"disk": "slow"}), platform=platform) == {"role": "virt"}
    typed = added(vm(**TYPED), platform=platform, vmis=(running(disk="fast"),))
    assert typed == {"role": "virt", "disk": "fast"}


def test_deployment_gets_no_labels_of_kubevirt() -> None:
    deployment = Workload(Ref("Deployment", "shop", "web"), "u-web", {"metadata": {}, "spec": {}})
    assert added(deployment, platform=Platform(configuration=OF_CLUSTER)) == {}


def test_vm_of_a_pool_has_the_instance_type_of_the_pool() -> None:
    inner = {"template": {"spec": {"domain": {}}}, **TYPED}
    manifest = {"metadata": {"name": "web"}, "spec": {"virtualMachineTemplate": {"spec": inner}}}
    pool = Workload(Ref("VirtualMachinePool", "shop", "web"), "u-pool", manifest)
    member = replace(vm(**TYPED), owner=Owner("VirtualMachinePool", "web", "u-pool"))
    snapshot = Snapshot(workloads=(pool, member), vmis=(running(disk="fast"),))
    assert needs_expansion(pool)
    assert AddedNodeSelectors(snapshot).of(pool) == {"disk": "fast"}


def test_declared_placement_has_the_labels_of_the_instance_type() -> None:
    workload = vm({"zone": "a"}, **TYPED)
    reader = DeclaredReader(Snapshot(workloads=(workload,), vmis=(running(zone="a", disk="fast"),)))
    assert reader.declared(workload).placement.node_selector == (("disk", "fast"), ("zone", "a"))
