# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a node lacks before pods may be placed on it again."""

from __future__ import annotations

import typing as t

import pytest

from ansible_collections.virt.placement.plugins.module_utils.maintenance.in_service import (
    why_not_back,
)
from ansible_collections.virt.placement.plugins.module_utils.maintenance.mark import (
    MaintenancePhase,
    Mark,
)
from ansible_collections.virt.placement.plugins.module_utils.model.objects import Node

SCHEDULABLE = "kubevirt.io/schedulable"
KVM, VHOST = "devices.kubevirt.io/kvm", "devices.kubevirt.io/vhost-net"


def node(name: str = "w1", **fields: t.Any) -> Node:
    made = {"labels": {SCHEDULABLE: "true"}, "allocatable": {KVM: 1000, VHOST: 1000}}
    return Node(name, **{"ready": True, "boot_id": "boot", **made, **fields})


def lacks(back: Node, mark: Mark | None = None, *, reboot_expected: bool = False) -> str:
    return why_not_back(back, mark, [back, node("w2")], reboot_expected=reboot_expected)


@pytest.mark.parametrize(
    ("back", "why"),
    [
        pytest.param(node(), "", id="back"),
        pytest.param(node(ready=False), "is not Ready", id="not-ready"),
        pytest.param(
            node(labels={SCHEDULABLE: "false"}), "virt-handler is not ready", id="virt-handler"
        ),
        pytest.param(
            node(allocatable={KVM: 0, VHOST: 1000}), f"has no allocatable {KVM}", id="no-kvm"
        ),
        pytest.param(
            node(allocatable={}), f"has no allocatable {KVM}", id="plugin-has-not-registered"
        ),
        pytest.param(
            node(allocatable={KVM: 1000, VHOST: 0}), f"has no allocatable {VHOST}", id="no-vhost"
        ),
        pytest.param(node(labels={}, allocatable={}), "", id="without-kubevirt"),
    ],
)
def test_node_is_back_when_it_is_ready_and_kubevirt_can_start_vms(back: Node, why: str) -> None:
    assert why in lacks(back) if why else lacks(back) == ""


def test_cluster_that_emulates_needs_no_kvm() -> None:
    emulating = [node(name, allocatable={}) for name in ("w1", "w2")]
    assert why_not_back(emulating[0], None, emulating, reboot_expected=False) == ""


@pytest.mark.parametrize("phase", MaintenancePhase)
def test_node_whose_drain_has_not_ended_needs_no_reboot(phase: MaintenancePhase) -> None:
    mark = Mark("r1", "firmware", phase, "boot", True, "2026-11-22T19:00:00Z")
    why = lacks(node(), mark, reboot_expected=True)
    assert ("was not rebooted" in why) is (phase is not MaintenancePhase.DRAINING)
    assert lacks(node(), mark) == ""


def test_new_boot_id_is_a_reboot() -> None:
    mark = Mark("r1", "firmware", MaintenancePhase.DRAINED, "boot", True, "2026-11-22T19:00:00Z")
    assert lacks(node(), mark, reboot_expected=True) == "was not rebooted (bootID is still boot)"
    assert lacks(node(boot_id="boot2"), mark, reboot_expected=True) == ""
