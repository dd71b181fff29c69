# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""VMs that a drain stops for the time of a maintenance: what the marks and the annotation of a node say of them."""

from __future__ import annotations

import typing as t
from dataclasses import replace

import pytest

from ansible_collections.virt.placement.plugins.module_utils.api.client import ApiClient
from ansible_collections.virt.placement.plugins.module_utils.api.errors import (
    ApiRequest,
    Conflict,
    Forbidden,
    NotFound,
)
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
from tests.unit.planning.scenes import cluster, machine

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


class Server:
    def __init__(self, error: type[Exception] | None) -> None:
        self.error = error
        self.started: list[str] = []

    def call_subresource(self, path: str, body: t.Any) -> None:
        if self.error is not None:
            raise self.error(ApiRequest("PUT", path), "running", status=409)  # type: ignore[call-arg]
        self.started.append(path)

    def patch(self, path: str, body: t.Any, **_options: t.Any) -> t.Any:
        return {}


@pytest.mark.parametrize("error", [None, Conflict, NotFound, Forbidden])
def test_annotation_goes_once_each_vm_was_started_or_cannot_be(
    error: type[Exception] | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Done(t.NamedTuple):
        done: t.Any
        errors: tuple[t.Any, ...] = ()

    monkeypatch.setattr(start_again, "apply", lambda _api, writes, **_more: Done(tuple(writes)))
    server = Server(error)
    starter = start_again.Starter(t.cast(ApiClient, server))
    starter.start(ended())
    assert bool(starter.done) is (error is not Forbidden)
    assert [x["name"] for x in starter.started] == (["db"] if error is None else [])
    assert len(server.started) == (error is None)
    assert bool(starter.errors) is (error is Forbidden)


def test_vm_is_stopped_and_started_where_a_restart_would_be_possible() -> None:
    made = cluster("ab")
    machine(made, "db", "n1")
    once = machine(made, "once", "n1")
    made.workloads[once]["spec"]["runStrategy"] = "Once"
    view = DrainView(made.snapshot(), frozenset({"n1"}), ("stop_and_start",))
    ways = {vmi.ref.name: view.way_of_vm(vmi) for vmi in view.snapshot.vmis}
    assert ways["db"].method is Method.STOP
    assert ways["once"].why == "a VM with run strategy Once is not started again"
    assert view.starts == {"n1": ["VirtualMachine/shop/db"]}
    assert view.away["n1"]["VirtualMachine/shop/db"] == "Always"
