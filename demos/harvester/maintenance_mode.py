# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Modelled after Harvester's source, not Harvester: its maintenance mode of a node (harvester,
pkg/controller/master/nodedrain and pkg/util/drainhelper).

A node with the annotation harvesterhci.io/drain-requested is cordoned, and its VMs are evicted, unless fewer than three
management nodes are free of maintenance: then the request is taken back. harvesterhci.io/maintain-status is running
meanwhile, and completed once no VM is left. The condition MaintenanceMode says the same, which a later Harvester has
in place of the annotation.

Not modelled: VMs that the label harvesterhci.io/maintain-mode-strategy stops, a forced drain, replicas of Longhorn, and
the end of the maintenance, which is an action of Harvester's own API.
"""

from __future__ import annotations

import contextlib
import threading
import typing as t

from sandbox import drain

if t.TYPE_CHECKING:
    from sandbox import Sandbox

REQUESTED = "harvesterhci.io/drain-requested"
STATUS = "harvesterhci.io/maintain-status"

Object = dict[str, t.Any]


@contextlib.contextmanager
def watching(sandbox: Sandbox) -> t.Iterator[None]:
    """Requests are carried out while the block runs."""
    ended = threading.Event()
    loop = threading.Thread(target=_loop, args=(sandbox, ended), daemon=True)
    loop.start()
    try:
        yield
    finally:
        ended.set()
        loop.join(10)


def _loop(sandbox: Sandbox, ended: threading.Event) -> None:
    while not ended.wait(0.5):
        nodes = sandbox.api.list(sandbox.api.path("Node"))
        for node in nodes:
            if REQUESTED in _annotations(node):
                _begin(sandbox, node, nodes)
            elif _annotations(node).get(STATUS) == "running":
                _continue(sandbox, node["metadata"]["name"])


def _begin(sandbox: Sandbox, node: Object, nodes: list[Object]) -> None:
    free = [each for each in nodes if STATUS not in _annotations(each)]
    name = node["metadata"]["name"]
    if len(free) < 3:
        _annotate(sandbox, name, {REQUESTED: None})
        return
    drain.cordon(sandbox, name)
    _annotate(sandbox, name, {REQUESTED: None, STATUS: "running"})
    _report(sandbox, name, "Evacuating")


def _continue(sandbox: Sandbox, name: str) -> None:
    path = sandbox.api.path("VirtualMachineInstance")
    left = [vmi for vmi in sandbox.api.list(path) if vmi["status"].get("nodeName") == name]
    if not left:
        _annotate(sandbox, name, {STATUS: "completed"})
        _report(sandbox, name, "Completed")
        return
    field = f"spec.nodeName={name}"
    launchers = "kubevirt.io=virt-launcher"
    for pod in sandbox.api.list("/api/v1/pods", fieldSelector=field, labelSelector=launchers):
        drain.evict(sandbox, pod)


def _report(sandbox: Sandbox, name: str, reason: str) -> None:
    condition = {"type": "MaintenanceMode", "status": "True", "reason": reason}
    body = {"status": {"conditions": [condition]}}
    sandbox.api.patch(f"{sandbox.api.path('Node', name=name)}/status", body, "strategic")


def _annotate(sandbox: Sandbox, name: str, annotations: t.Mapping[str, str | None]) -> None:
    body = {"metadata": {"annotations": dict(annotations)}}
    sandbox.api.patch(sandbox.api.path("Node", name=name), body)


def _annotations(node: Object) -> dict[str, str]:
    return node["metadata"].get("annotations") or {}
