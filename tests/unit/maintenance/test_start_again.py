# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""VMs that a drain stops for the time of a maintenance: what the marks and the annotation of a node say of them."""

from __future__ import annotations

import typing as t
from dataclasses import replace

import pytest

from ansible_collections.virt.placement.plugins.module_utils.maintenance import start_again
from ansible_collections.virt.placement.plugins.module_utils.maintenance.drain_plan import DrainView
from ansible_collections.virt.placement.plugins.module_utils.maintenance.mark import (
    MaintenancePhase,
    begun,
    decode,
    encode,
    node_as_json,
    unmark_write,
)
from ansible_collections.virt.placement.plugins.module_utils.model.kinds import START_AGAIN
from ansible_collections.virt.placement.plugins.module_utils.model.manifests import (
    node_from_manifest,
)
from ansible_collections.virt.placement.plugins.module_utils.model.objects import Node, Ref
from ansible_collections.virt.placement.plugins.module_utils.model.plan import Method
from ansible_collections.virt.placement.plugins.module_utils.model.write import patched
from tests.support.api_server import ApiServer
from tests.support.cluster import cluster, machine
from tests.support.manifests import workload
from tests.support.pools import pool

DB, WEB = "VirtualMachine/shop/db", "VirtualMachine/shop/web"


def ended() -> Node:
    """A node at the end of a maintenance that stopped db for its time, and web for good."""
    away = {DB: "Manual", WEB: "Always"}
    phase = MaintenancePhase.DRAINED
    mark = begun(
        Node("w1", uid="u"), None, run="r", phase=phase, reason="", now="x", away=away, starts=[DB]
    )
    assert decode(encode(mark)) == mark
    body = {
        "metadata": {
            "name": "w1",
            "uid": "u",
            "annotations": {"placement.virt/maintenance": encode(mark)},
        },
        "spec": {"unschedulable": True},
    }
    node = node_from_manifest(body)
    (waiting,) = node_as_json(node, "zone")["starts_again"]
    assert (waiting["name"], waiting["run_strategy"]) == ("db", "Manual")
    write = unmark_write(node, mark)
    assert write is not None
    return node_from_manifest(patched(body, (*write.tests, *write.operations)))


def test_write_that_ends_the_maintenance_keeps_what_is_to_be_started() -> None:
    node = ended()
    assert start_again.vms_of(node) == {Ref("VirtualMachine", "shop", "db"): "Manual"}
    result = node_as_json(node, "zone")
    assert [x["name"] for x in result["stopped"]] == ["web"]
    assert [x["name"] for x in result["moved_away"]] == ["db"], "it may have to return home"
    later = begun(node, None, run="r2", phase=MaintenancePhase.DRAINING, reason="", now="y")
    write = unmark_write(replace(node, unschedulable=True), later)
    assert write is not None
    assert any(START_AGAIN in x.pointer.parts for x in write.operations), "still to be started"


def serving(*refusals: int, vm: t.Any = None, vmi: t.Any = None) -> ApiServer:
    """It answers requests to start the VM with these codes (0: it starts), one by one, the last of them for ever."""
    server = ApiServer()
    for plural, item in (("virtualmachines", vm), ("virtualmachineinstances", vmi)):
        server.store(f"/apis/kubevirt.io/v1/{plural}", *([item] if item else ()))
    for code in refusals[:-1]:
        server.add_fault("PUT", "start", code, 1)
    for code in filter(None, refusals[-1:]):
        server.add_fault("PUT", "start", code)
    return server


def vm(strategy: str = "Halted", *requests: str) -> t.Any:
    metadata = {"namespace": "shop", "uid": "u"}
    status = {"stateChangeRequests": [{"action": action} for action in requests]}
    made = workload("VirtualMachine", "db", {}, {}, metadata=metadata, runStrategy=strategy)
    return {**made, "status": status}


def vmi(phase: str, **metadata: str) -> t.Any:
    return {
        "metadata": {"namespace": "shop", "name": "db", "uid": "v", **metadata},
        "spec": {},
        "status": {"phase": phase},
    }


def started_by(server: ApiServer, monkeypatch: pytest.MonkeyPatch) -> start_again.Starter:
    class Done(t.NamedTuple):
        done: t.Any
        errors: tuple[t.Any, ...] = ()

    monkeypatch.setattr(start_again, "apply", lambda _api, writes, **_more: Done(tuple(writes)))
    starter = start_again.Starter(server.client())
    starter.start(ended())
    return starter


@pytest.mark.parametrize(
    ("server", "state"),
    [
        pytest.param(serving(), "started", id="accepted"),
        pytest.param(serving(404), "forgotten", id="deleted"),
        pytest.param(serving(403), "kept", id="forbidden"),
        pytest.param(serving(409, 0, vm=vm()), "started", id="changed meanwhile"),
        pytest.param(serving(409, vm=vm()), "kept", id="refused, and it is off"),
        pytest.param(serving(409), "forgotten", id="refused, and deleted then"),
        pytest.param(serving(409, vm=vm("Manual"), vmi=vmi("Running")), "forgotten", id="it runs"),
        pytest.param(serving(409, vm=vm("Always")), "forgotten", id="KubeVirt starts it"),
        pytest.param(serving(409, vm=vm("Manual", "Start")), "forgotten", id="about to start"),
        pytest.param(
            serving(409, vm=vm("Manual", "Stop"), vmi=vmi("Succeeded")), "kept", id="it ended"
        ),
        pytest.param(
            serving(409, vm=vm(), vmi=vmi("Running", deletionTimestamp="2026-05-01T08:00:00Z")),
            "kept",
            id="it stops",
        ),
    ],
)
def test_annotation_stays_while_a_vm_that_we_stopped_is_off(
    server: ApiServer, state: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    starter = started_by(server, monkeypatch)
    assert bool(starter.done) is (state != "kept")
    assert [x["name"] for x in starter.started] == (["db"] if state == "started" else [])
    assert len(server.writes) == (state == "started")
    assert bool(starter.errors) is (state == "kept")


def test_refusal_of_a_start_says_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    starter = started_by(serving(409, vm=vm()), monkeypatch)
    assert "Run again, or start it by hand" in str(starter.errors[0])


def test_vm_is_stopped_and_started_where_a_restart_would_be_possible() -> None:
    made = cluster("ab")
    machine(made, "db", "n1")
    once = machine(made, "once", "n1")
    made.workloads[once]["spec"]["runStrategy"] = "Once"
    view = DrainView(made.snapshot(), frozenset({"n1"}), ("stop_and_start",))
    ways = {vmi.ref.name: view.way_of_vm(vmi) for vmi in view.snapshot.vmis}
    assert ways["db"].method is Method.STOP
    assert str(ways["once"].obstacle) == "a VM with run strategy Once is not started again"
    assert view.starts == {"n1": ["VirtualMachine/shop/db"]}
    assert view.away["n1"]["VirtualMachine/shop/db"] == "Always"


@pytest.mark.parametrize("policy", ["stop", "stop_and_start"])
def test_stopped_vm_of_a_pool_is_known_by_its_own_name(policy: str) -> None:
    """Its controller does not start it again, and the pool itself can be started by no request."""
    made = cluster("ab")
    pool(made, "web", ["n1", "n1", "n2"])
    view = DrainView(made.snapshot(), frozenset({"n1"}), (policy,))
    vms = ["VirtualMachine/shop/web-0", "VirtualMachine/shop/web-1"]
    assert view.away == {"n1": dict.fromkeys(vms, "Always")}
    assert view.starts == ({"n1": vms} if policy == "stop_and_start" else {})


def test_vm_of_a_pool_that_moves_is_known_by_its_pool() -> None:
    made = cluster("ab")
    ref = pool(made, "web", ["n1", "n2"])
    view = DrainView(made.snapshot(), frozenset({"n1"}), ("migrate",))
    assert view.away == {"n1": {"/".join(ref): ""}}
