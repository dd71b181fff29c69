# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Nodes that die and come back, with the marks that a real node leaves in the API.

KWOK keeps a node and its pods going while it holds the node's Lease, so a dead node is one whose Lease
somebody else holds. (Without the annotation ``kwok.x-k8s.io/node`` alone it would go on renewing the Lease,
and the node would stay Ready.) The simulated virt-handler goes by the annotation.
"""

from __future__ import annotations

import datetime
import time
import typing as t
import uuid

KWOK_ANNOTATION = "kwok.x-k8s.io/node"
SCHEDULABLE_LABEL = "kubevirt.io/schedulable"
THIEF = "nobody: the node is dead"
FOR_EVER = 2**31 - 1

Object = dict[str, t.Any]


class NodeApi(t.Protocol):
    """The calls that are needed of the test client."""

    def get(self, path: str) -> Object: ...

    def list(self, path: str) -> list[Object]: ...

    def patch(self, path: str, body: t.Any, type: str = "merge") -> Object: ...


def node_down(api: NodeApi, name: str, *, at_once: bool = True) -> None:
    """The node dies without a word: no heartbeats, and whatever runs or ends on it stays as it is.

    ``at_once`` marks the node Ready=Unknown and its pods not Ready, as the node lifecycle controller does when
    its grace period is over. That controller then taints the node and counts the pods' tolerations.
    """
    api.patch(_node(name), {"metadata": {"annotations": {KWOK_ANNOTATION: None}}})
    stolen = {"holderIdentity": THIEF, "leaseDurationSeconds": FOR_EVER}
    api.patch(_lease(name), {"spec": stolen})
    if at_once:
        unknown = _condition("Unknown", "NodeStatusUnknown", "Kubelet stopped posting node status.")
        _set_condition(api, _node(name), {**unknown, "lastHeartbeatTime": _now()})
        for pod in _pods(api, name):
            _set_condition(api, _path(pod), _condition("False", "NodeNotReady", "node is dead"))


def node_up(
    api: NodeApi,
    name: str,
    *,
    new_boot: bool = False,
    virt_handler_ready: bool = True,
    timeout: float = 30.0,
) -> None:
    """The node is back: after a lost connection (same bootID), or after a reboot with ``new_boot``.

    After a reboot nothing that ran there runs any more: pods that are never restarted (launchers) have failed,
    the containers of others were started again. ``virt_handler_ready=False`` leaves the label
    ``kubevirt.io/schedulable`` at "false", as a node does that is Ready before its virt-handler.

    Raises ValueError for a node that is not down, and TimeoutError when KWOK has not taken the node back
    after ``timeout`` seconds.
    """
    node = api.get(_node(name))
    if api.get(_lease(name))["spec"].get("holderIdentity") != THIEF:
        raise ValueError(f"node {name} is not down: use node_down first")
    if new_boot:
        boot = {**node["status"]["nodeInfo"], "bootID": str(uuid.uuid4())}
        api.patch(_node(name) + "/status", {"status": {"nodeInfo": boot}})
    for pod in _pods(api, name):
        if new_boot:
            _reboot(api, pod)
        if not (new_boot and _runs_once(pod)):
            _set_condition(api, _path(pod), _condition("True", "", ""))
    ready = _condition("True", "KubeletReady", "kubelet is posting ready status")
    _set_condition(api, _node(name), {**ready, "lastHeartbeatTime": _now()})
    metadata: Object = {"annotations": {KWOK_ANNOTATION: "fake"}}
    if SCHEDULABLE_LABEL in node["metadata"].get("labels", {}):
        metadata["labels"] = {SCHEDULABLE_LABEL: "true" if virt_handler_ready else "false"}
    api.patch(_node(name), {"metadata": metadata})
    api.patch(_lease(name), {"spec": {"holderIdentity": None}})
    deadline = time.monotonic() + timeout
    while not api.get(_lease(name))["spec"].get("holderIdentity"):
        if time.monotonic() > deadline:
            raise TimeoutError(f"KWOK has not taken the Lease of node {name} in {timeout:g} s")
        time.sleep(0.1)


def _reboot(api: NodeApi, pod: Object) -> None:
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
    api.patch(_path(pod) + "/status", {"metadata": {"uid": pod["metadata"]["uid"]}, **patch})


def _runs_once(pod: Object) -> bool:
    return bool(pod["spec"].get("restartPolicy") == "Never")


def _pods(api: NodeApi, node: str) -> list[Object]:
    pods = api.list(f"/api/v1/pods?fieldSelector=spec.nodeName={node}")
    return [pod for pod in pods if pod["status"].get("phase") == "Running"]


def _set_condition(api: NodeApi, path: str, condition: Object) -> None:
    api.patch(path + "/status", {"status": {"conditions": [condition]}}, "strategic")


def _condition(status: str, reason: str, message: str) -> Object:
    condition = {"type": "Ready", "status": status, "lastTransitionTime": _now()}
    return {**condition, "reason": reason, "message": message}


def _node(name: str) -> str:
    return f"/api/v1/nodes/{name}"


def _lease(name: str) -> str:
    return f"/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases/{name}"


def _path(pod: Object) -> str:
    metadata = pod["metadata"]
    return f"/api/v1/namespaces/{metadata['namespace']}/pods/{metadata['name']}"


def _now() -> str:
    return datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")
