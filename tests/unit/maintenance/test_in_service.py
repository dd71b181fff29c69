# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a node lacks before pods may be placed on it again."""

from __future__ import annotations

import itertools
import typing as t

import pytest

from ansible_collections.virt.placement.plugins.module_utils.api import transport
from ansible_collections.virt.placement.plugins.module_utils.maintenance import (
    in_service,
    options,
)
from ansible_collections.virt.placement.plugins.module_utils.maintenance.in_service import (
    why_not_back,
)
from ansible_collections.virt.placement.plugins.module_utils.maintenance.mark import (
    MaintenancePhase,
    Mark,
    begun,
)
from ansible_collections.virt.placement.plugins.module_utils.model.objects import Node
from ansible_collections.virt.placement.plugins.module_utils.moves import context
from tests.fuzz.cluster import objects
from tests.support.api_server import ApiServer, Request
from tests.support.modules import run

SCHEDULABLE = "kubevirt.io/schedulable"
KVM, VHOST = "devices.kubevirt.io/kvm", "devices.kubevirt.io/vhost-net"


def node(name: str = "w1", **fields: t.Any) -> Node:
    defaults = {"labels": {SCHEDULABLE: "true"}, "allocatable": {KVM: 1000, VHOST: 1000}}
    return Node(name, **{"ready": True, "boot_id": "boot", **defaults, **fields})


def reason_not_back(node: Node, mark: Mark | None = None, *, reboot_expected: bool = False) -> str:
    return str(why_not_back(node, mark, reboot_expected=reboot_expected) or "")


def marked(node: Node, phase: MaintenancePhase = MaintenancePhase.DRAINED) -> Mark:
    return begun(node, None, run="r1", phase=phase, reason="firmware", now="2026-11-22T19:00:00Z")


@pytest.mark.parametrize(
    ("node_now", "expected"),
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
def test_node_is_back_when_it_is_ready_and_kubevirt_can_start_vms(
    node_now: Node, expected: str
) -> None:
    reason = reason_not_back(node_now, marked(node()))
    assert expected in reason if expected else reason == ""


@pytest.mark.parametrize("allocatable", [{}, {KVM: 0}, {KVM: 0, VHOST: 1000}])
def test_node_needs_no_device_that_it_did_not_have_before(allocatable: dict[str, int]) -> None:
    """KubeVirt's device plugin also registers devices that a node lacks: they have 0 for good."""
    node_without_kvm = node(allocatable=allocatable)
    assert reason_not_back(node_without_kvm, marked(node_without_kvm)) == ""
    assert reason_not_back(node_without_kvm) == ""


@pytest.mark.parametrize("phase", MaintenancePhase)
def test_node_whose_drain_has_not_ended_needs_no_reboot(phase: MaintenancePhase) -> None:
    mark = marked(node(), phase)
    reason = reason_not_back(node(), mark, reboot_expected=True)
    assert ("was not rebooted" in reason) is (phase is not MaintenancePhase.DRAINING)
    assert reason_not_back(node(), mark) == ""


def test_new_boot_id_is_a_reboot() -> None:
    mark = marked(node())
    assert (
        reason_not_back(node(), mark, reboot_expected=True)
        == "was not rebooted (bootID is still boot)"
    )
    assert reason_not_back(node(boot_id="boot2"), mark, reboot_expected=True) == ""


@pytest.mark.parametrize("endless_from", [1, 2])
def test_step_that_computes_too_long_fails(
    monkeypatch: pytest.MonkeyPatch, endless_from: int
) -> None:
    """The nodes are selected before the first write, and again after it."""
    server = ApiServer(objects())
    assert "failed" not in run(
        "node_maintenance", server, {"nodes": ["w1"], "state": "cordoned", "reason": "test"}
    )
    calls: list[t.Any] = []
    select = options.select

    def endless(*arguments: t.Any) -> t.Any:
        calls.append(arguments)
        while len(calls) >= endless_from:
            sum(range(1000))
        return select(*arguments)

    monkeypatch.setattr(transport, "COMPUTING_GRACE", 0.1)
    monkeypatch.setattr(context, "OVERTIME", 0.0)
    monkeypatch.setattr(in_service, "select", endless)
    result = run(
        "node_maintenance", server, {"nodes": ["w1"], "state": "in_service", "run_timeout": 1}
    )
    assert result["failed"]
    assert "not done within 1 s: the cluster was read" in str(result["errors"])
    assert len(result.get("writes", ())) == endless_from - 1


CILIUM = {"key": "node.cilium.io/agent-not-ready", "value": "true", "effect": "NoSchedule"}


W1 = "/api/v1/nodes/w1"


def starting(reads: int = -1) -> ApiServer:
    """w1 is in maintenance, and has a startup taint until it was read so many times, uncordoned (-1: for ever)."""
    server = cordoned()
    spec = {**server.objects[W1]["spec"], "taints": [CILIUM]}
    server.objects[W1] = {**server.objects[W1], "spec": spec}
    left = itertools.count(reads, -1)

    def start(_request: Request) -> None:
        spec = server.objects[W1]["spec"]
        if not spec.get("unschedulable") and next(left) == 0:
            server.objects[W1] = {**server.objects[W1], "spec": {**spec, "taints": []}}

    server.add_fault("GET", "/api/v1/nodes", start)
    return server


def cordoned() -> ApiServer:
    server = ApiServer(objects())
    given = {"nodes": ["w1"], "state": "cordoned", "reason": "test"}
    assert "failed" not in run("node_maintenance", server, given)
    return server


def all_lines(server: ApiServer, **options: t.Any) -> tuple[list[str], dict[str, t.Any]]:
    """Of all steps, with the last result."""
    lines: list[str] = []
    state: dict[str, t.Any] = {}
    while True:
        given = {"nodes": ["w1"], "state": "in_service", **options, "step_state": state}
        result = run("node_maintenance", server, given)
        lines += result["progress"]
        if result.get("failed") or result["finished"]:
            return lines, result
        state = result["step_state"]


def test_case_68_node_is_in_service_once_its_startup_taint_is_gone() -> None:
    server = starting(reads=2)

    lines, result = all_lines(server)

    assert "failed" not in result
    assert lines == [
        "node w1: uncordoned",
        "waiting: node w1 has a startup taint, which a component of the node removes once it is ready:"
        " node.cilium.io/agent-not-ready=true:NoSchedule",
        "node w1: in service",
    ]
    assert not server.objects[W1]["spec"]["taints"]
    assert [node["state"] for node in result["nodes"]] == ["in_service"]


def test_startup_taint_that_stays_fails_at_the_limit_of_ready() -> None:
    server = starting()

    lines, result = all_lines(server, run_timeout=1)

    assert result["failed"]
    assert "not back within 1 s (run_timeout)" in result["msg"]
    assert "node.cilium.io/agent-not-ready=true:NoSchedule" in result["msg"]
    assert "node w1: in service" not in lines
    assert "unschedulable" not in server.objects[W1]["spec"]


@pytest.mark.parametrize("failures", [1, -1], ids=["for-a-time", "for-good"])
def test_vmis_that_cannot_be_listed_fail_no_task_whose_nodes_are_in_service(failures: int) -> None:
    server = cordoned()
    server.retries = 0
    vmis = "/apis/kubevirt.io/v1/virtualmachineinstances"

    def uncordoned(_request: t.Any) -> None:
        server.add_fault("GET", vmis, 503, failures)

    server.add_fault("PATCH", W1, uncordoned, 1, late=True)

    lines, result = all_lines(server, run_timeout=60 if failures == 1 else 1)
    assert any(request.path == vmis for request in server.seen)

    assert "failed" not in result, result
    assert [node["state"] for node in result["nodes"]] == ["in_service"]
    assert "unschedulable" not in server.objects[W1]["spec"]
    warnings = [line for line in lines if line.startswith("warning: ")]
    if failures == 1:
        assert warnings == []
    else:
        (warning,) = warnings
        assert warning.startswith(
            "warning: it is unknown whether VMIs are marked for evacuation: cannot list virtualmachineinstances"
        )
