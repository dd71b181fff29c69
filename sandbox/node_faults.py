# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Nodes that die and come back, with the marks that a real node leaves in the API.

KWOK looks after the nodes that carry the label ``kwok.x-k8s.io/node``, and so does the simulated
virt-handler: without it there are no heartbeats, and pods of the node stay as they are.
"""

from __future__ import annotations

import contextlib
import datetime
import time
import typing as t
import uuid

from . import nodes
from .admin_api import AdminApi, WaitTimeout
from .control_plane import MANAGED_NODE
from .node_labeller import HEARTBEAT, SCHEDULABLE
from .virt_handler.faults import GUEST_IS_GONE, SHUTDOWN_SECONDS
from .virt_handler.step import left_at

_RENEWED_TIMEOUT = 10.0
_TRIES = 2

Object = dict[str, t.Any]


def node_down(api: AdminApi, name: str, *, without_heartbeat: bool = False) -> None:
    """The node dies without a word: no heartbeats, and whatever runs or ends on it stays as it is.

    The node is marked Ready=Unknown and its pods not Ready, as the node lifecycle controller does when its
    grace period is over. That controller then taints the node and counts the pods' tolerations.
    ``without_heartbeat`` is what virt-controller sees five minutes later: the last heartbeat of virt-handler
    is that old.
    """
    node = _node(api, name)
    metadata: Object = {"labels": {MANAGED_NODE: None}}
    if without_heartbeat:
        metadata["annotations"] = {HEARTBEAT: _now(minutes_ago=6)}
    api.patch(node, {"metadata": metadata})
    _report(api, node, ready=False)
    for pod in _running_pods(api, name):
        _set_condition(api, api.path_of(pod), _ready("False", "NodeNotReady", ""))


def node_up(
    api: AdminApi, name: str, *, new_boot: bool = False, virt_handler_ready: bool = True
) -> None:
    """The node is back: after a lost connection (same bootID), or after a reboot with ``new_boot``.

    After a reboot nothing that ran there runs any more: pods that are never restarted (launchers)
    have failed, the containers of others were started again. ``virt_handler_ready=False`` leaves
    label ``kubevirt.io/schedulable`` at "false", as on a node that is Ready before virt-handler is.

    Raises ValueError for a node that is not down.
    """
    node = _node(api, name)
    seen = api.get(node)
    if MANAGED_NODE in seen["metadata"]["labels"]:
        raise ValueError(f"node {name} is not down: it was not taken away with node_down")
    if new_boot:
        boot = {**seen["status"]["nodeInfo"], "bootID": str(uuid.uuid4())}
        api.patch(f"{node}/status", {"status": {"nodeInfo": boot}})
    for pod in _running_pods(api, name):
        if new_boot:
            _reboot(api, pod)
        if not (new_boot and _runs_once(pod)) and left_at(pod) is None:
            _set_condition(api, api.path_of(pod), _ready("True", "", ""))
    _report(api, node, ready=True)
    labels = {MANAGED_NODE: "fake"}
    if SCHEDULABLE in seen["metadata"]["labels"]:
        labels[SCHEDULABLE] = "true" if virt_handler_ready else "false"
    since = time.time()
    annotations = {HEARTBEAT: _now()} if virt_handler_ready else {}
    api.patch(node, {"metadata": {"labels": labels, "annotations": annotations}})
    _wait_renewed(api, name, since)


def node_reboot(api: AdminApi, name: str, *, kubelet_seconds: int = 3) -> None:
    """The node reboots within seconds, and is never NotReady. virt-handler finds at its start that the guests are gone:
    their instances have failed. Their launchers are Running until the kubelet has compared, so many seconds later."""
    node = _node(api, name)
    boot = {**api.get(node)["status"]["nodeInfo"], "bootID": str(uuid.uuid4())}
    api.patch(f"{node}/status", {"status": {"nodeInfo": boot}})
    faults = {GUEST_IS_GONE: "true", SHUTDOWN_SECONDS: str(kubelet_seconds)}
    kind = "VirtualMachineInstance"
    for vmi in api.list(api.path(kind)):
        if vmi.get("status", {}).get("nodeName") == name:
            path = api.path(kind, vmi["metadata"]["namespace"], vmi["metadata"]["name"])
            api.patch(path, {"metadata": {"annotations": faults}})
    for pod in _running_pods(api, name):
        if not _runs_once(pod):
            _reboot(api, pod)


def _wait_renewed(api: AdminApi, name: str, since: float) -> None:
    """Wait until KWOK has renewed the Lease of a node that came back. Without it the node would be NotReady
    after its grace period."""

    def renewed(lease: Object) -> bool:
        at = lease["spec"]["renewTime"].replace("Z", "+00:00")
        return datetime.datetime.fromisoformat(at).timestamp() >= since

    lease = api.path("Lease", "kube-node-lease", name)
    for _attempt in range(_TRIES):
        with contextlib.suppress(WaitTimeout):
            api.wait(renewed, lease, _RENEWED_TIMEOUT)
            return
        for value in (None, "fake"):  # KWOK meets the node anew
            api.patch(_node(api, name), {"metadata": {"labels": {MANAGED_NODE: value}}})
    api.wait(renewed, lease, _RENEWED_TIMEOUT)


def _reboot(api: AdminApi, pod: Object) -> None:
    status, now = pod["status"], _now()
    lost = {"exitCode": 255, "reason": "Unknown", "finishedAt": now}
    lost["startedAt"] = status.get("startTime", now)
    containers = []
    for container in status.get("containerStatuses") or []:
        if _runs_once(pod):
            change = {"ready": False, "started": False, "state": {"terminated": lost}}
        else:
            change = {
                "restartCount": container["restartCount"] + 1,
                "lastState": {"terminated": lost},
                "state": {"running": {"startedAt": now}},
            }
        containers.append({**container, **change})
    phase = "Failed" if _runs_once(pod) else "Running"
    patch = {"status": {"phase": phase, "containerStatuses": containers}}
    uid = {"metadata": {"uid": pod["metadata"]["uid"]}}
    api.patch(f"{api.path_of(pod)}/status", {**uid, **patch})


def _runs_once(pod: Object) -> bool:
    return bool(pod["spec"].get("restartPolicy") == "Never")


def _running_pods(api: AdminApi, node: str) -> list[Object]:
    pods = api.list(api.path("Pod"), fieldSelector=f"spec.nodeName={node}")
    return [{"kind": "Pod", **pod} for pod in pods if pod["status"].get("phase") == "Running"]


def _report(api: AdminApi, node: str, *, ready: bool) -> None:
    times = {"lastTransitionTime": _now(), "lastHeartbeatTime": _now()}
    found = [{**condition, **times} for condition in nodes.conditions(ready=ready)]
    api.patch(f"{node}/status", {"status": {"conditions": found}}, "strategic")


def _set_condition(api: AdminApi, path: str, condition: Object) -> None:
    api.patch(f"{path}/status", {"status": {"conditions": [condition]}}, "strategic")


def _ready(status: str, reason: str, message: str) -> Object:
    condition = {"type": "Ready", "status": status, "lastTransitionTime": _now()}
    return {**condition, "reason": reason, "message": message}


def _node(api: AdminApi, name: str) -> str:
    return api.path("Node", name=name)


def _now(*, minutes_ago: int = 0) -> str:
    now = datetime.datetime.now(datetime.timezone.utc)
    return (now - datetime.timedelta(minutes=minutes_ago)).strftime("%Y-%m-%dT%H:%M:%SZ")
