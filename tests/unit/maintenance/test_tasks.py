# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Whole tasks against an API server in this process: a drain that continues, requests that are refused."""

from __future__ import annotations

import contextlib
import typing as t

import pytest

from tests.unit.maintenance.test_kills import Killed, KubeVirt, maintain, three_zones

Object = dict[str, t.Any]
MARK = "placement.virt/maintenance"
CONTROL_PLANE = "node-role.kubernetes.io/control-plane"
FIRST_MIGRATION = 8
"""The write of a drain that makes its first migration: what comes before cordons the node."""


def at(node: str) -> str:
    return f"/api/v1/nodes/{node}"


def begun(server: KubeVirt, node: str = "w1", **options: t.Any) -> None:
    """A drain whose job is killed when its node is cordoned."""
    server.kill_at, server.after = FIRST_MIGRATION, True
    with contextlib.suppress(Killed):
        maintain(server, "drained", node, **options)
    server.dead = False
    assert '"draining"' in server.objects[at(node)]["metadata"]["annotations"][MARK]


def lose_quorum(server: KubeVirt) -> None:
    for name in ("w1", "w3", "w5"):
        server.objects[at(name)]["metadata"]["labels"][CONTROL_PLANE] = ""
    not_ready = [{"type": "Ready", "status": "False"}]
    server._change(at("w3"), "status", {"conditions": not_ready})


@pytest.mark.parametrize("ended", [False, True], ids=["draining", "drained"])
def test_drain_that_continues_is_refused_without_quorum(ended: bool) -> None:
    server = three_zones()
    if ended:
        maintain(server, "drained", "w1")
    else:
        begun(server)
    lose_quorum(server)
    before = len(server.writes)

    drained = maintain(server, "drained", "w1")
    assert [error["object"] for error in drained["errors"]] == ["control_plane_quorum"]
    assert len(server.writes) == before

    allowed = maintain(server, "drained", "w1", allow_findings=["control_plane_quorum"])
    assert not allowed.get("failed"), allowed["msg"]


def test_drain_that_continues_is_not_refused_for_its_vms() -> None:
    """The drain says at its end which of them stay."""
    server = three_zones()
    begun(server)
    vmi = "/apis/kubevirt.io/v1/namespaces/shop/virtualmachineinstances/w1-3"
    condition = {"type": "LiveMigratable", "status": "False", "reason": "DisksNotLiveMigratable"}
    server._change(vmi, "status", {"conditions": [condition]})

    drained = maintain(server, "drained", "w1")
    assert drained["msg"].startswith("not drained: VirtualMachine shop/w1-3 on w1: ")
    vmis = server.of("virtualmachineinstances")
    assert [name for name, x in vmis.items() if x["status"]["nodeName"] == "w1"] == ["w1-3"]
