# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Sees, decides with :func:`sandbox.virt_handler.step.step`, applies; one instance at a time."""

from __future__ import annotations

import datetime
import heapq
import pathlib
import threading
import time
import typing as t

import requests

from ..node_labeller import HEARTBEAT, SCHEDULABLE
from .api import Api, ConflictError, Object, Reflector
from .faults import parse_faults
from .step import (
    COMPUTE,
    Action,
    AnnotatePod,
    DeletePod,
    EndPod,
    LeavePod,
    PatchVmi,
    WakeAt,
    step,
)

NAMESPACE = "kubevirt"
DEFAULTS = "sandbox-virt-handler"
LAUNCHER_LABELS = "kubevirt.io=virt-launcher"
CREATED_BY = "kubevirt.io/created-by"
MANAGED_NODE = "kwok.x-k8s.io/node"
RETRY_SECONDS = 0.5
HEARTBEAT_SECONDS = 60.0
"""KubeVirt's own has up to 72 s more (pkg/virt-handler/heartbeat/heartbeat.go)."""


class Agenda:
    """Keys with the time at which they are due; a key that is due twice is done once."""

    def __init__(self) -> None:
        self._condition = threading.Condition()
        self._due: dict[str, float] = {}
        self._heap: list[tuple[float, str]] = []

    def add(self, key: str, delay: float = 0.0) -> None:
        """Make ``key`` due ``delay`` seconds from now, unless it is due earlier."""
        due = time.monotonic() + delay
        with self._condition:
            if due < self._due.get(key, float("inf")):
                self._due[key] = due
                heapq.heappush(self._heap, (due, key))
                self._condition.notify()

    def take(self) -> str:
        """Wait for the next key that is due."""
        with self._condition:
            while True:
                while self._heap and self._due.get(self._heap[0][1]) != self._heap[0][0]:
                    heapq.heappop(self._heap)
                wait = self._heap[0][0] - time.monotonic() if self._heap else None
                if wait is not None and wait <= 0:
                    key = heapq.heappop(self._heap)[1]
                    del self._due[key]
                    return key
                self._condition.wait(wait)


class VirtHandler:
    """The loop; ``run`` never returns."""

    def __init__(self, kubeconfig: pathlib.Path) -> None:
        self._api = Api(kubeconfig)
        self._agenda = Agenda()
        self._pods_of: dict[str, set[str]] = {}
        self._defaults: t.Mapping[str, str] = {}
        watch = self._reflector
        self._vmis = watch("/apis/kubevirt.io/v1/virtualmachineinstances", {}, self._vmi_changed)
        self._pods = watch("/api/v1/pods", {"labelSelector": LAUNCHER_LABELS}, self._pod_changed)
        self._nodes = watch("/api/v1/nodes", {}, self._node_changed)
        one = {"fieldSelector": f"metadata.name={DEFAULTS}"}
        self._settings = watch(
            f"/api/v1/namespaces/{NAMESPACE}/configmaps", one, self._settings_changed
        )

    def _reflector(
        self,
        path: str,
        query: t.Mapping[str, str],
        changed: t.Callable[[Object, Object | None], None],
    ) -> Reflector:
        return Reflector(self._api, path, query, changed, log)

    def run(self) -> None:
        """Work until the process ends."""
        watches = (self._settings, self._nodes, self._pods, self._vmis)
        for reflector in watches:
            reflector.start()
        for reflector in watches:
            reflector.synced.wait()
        threading.Thread(target=self._beat, name="heartbeats", daemon=True).start()
        log("started")
        while True:
            uid = self._agenda.take()
            try:
                self._work(uid)
            except ConflictError:
                self._agenda.add(uid, 0.02)  # the watch brings the newer state
            except requests.RequestException as error:
                log(f"{error}; again in {RETRY_SECONDS} s")
                self._agenda.add(uid, RETRY_SECONDS)
            except ValueError as error:
                log(f"{self._name(uid)}: {error}; it is left as it is")

    def _beat(self) -> None:
        """Renew the heartbeat of each node that is alive, for ever. A node that is not schedulable has no virt-handler
        that is ready."""
        while True:
            time.sleep(HEARTBEAT_SECONDS)
            stamp = _stamp(datetime.datetime.now(datetime.timezone.utc))
            for node in list(self._nodes.objects.values()):
                if not _alive(node) or node["metadata"]["labels"].get(SCHEDULABLE) != "true":
                    continue
                path = f"/api/v1/nodes/{node['metadata']['name']}"
                beat = {"metadata": {"annotations": {HEARTBEAT: stamp}}}
                try:
                    self._api.patch_any_version(path, node, beat)
                except (ConflictError, requests.RequestException) as error:
                    log(f"heartbeat of {path}: {error}")

    def _work(self, uid: str) -> None:
        vmi = self._vmis.objects.get(uid)
        pods = [self._pods.objects.get(pod) for pod in sorted(self._pods_of.get(uid, ()))]
        annotations = vmi["metadata"].get("annotations") if vmi else None
        faults = parse_faults(annotations, self._defaults)
        now = datetime.datetime.now(datetime.timezone.utc)
        present = [pod for pod in pods if pod is not None]
        for action in step(vmi, present, faults, now, self._dead_nodes(vmi, present)):
            self._apply(uid, vmi, action, now)

    def _dead_nodes(self, vmi: Object | None, pods: list[Object]) -> set[str]:
        alive = {
            node["metadata"]["name"] for node in list(self._nodes.objects.values()) if _alive(node)
        }
        named = {pod["spec"].get("nodeName") for pod in pods}
        if vmi is not None:
            status = vmi.get("status", {})
            named |= {
                status.get("nodeName"),
                (status.get("migrationState") or {}).get("targetNode"),
            }
        return {name for name in named if name and name not in alive}

    def _apply(self, uid: str, vmi: Object | None, action: Action, now: datetime.datetime) -> None:
        if isinstance(action, WakeAt):
            self._agenda.add(uid, (action.time - now).total_seconds())
        elif isinstance(action, PatchVmi) and vmi is not None:
            log(f"{self._name(uid)}: {action.why}")
            path = _path("apis/kubevirt.io/v1", vmi, "virtualmachineinstances")
            self._api.replace(path, merged(vmi, action.patch))
        elif isinstance(action, (LeavePod, EndPod)):
            log(f"{self._name(uid)}: {action.pod['metadata']['name']}: {type(action).__name__}")
            path = _path("api/v1", action.pod, "pods") + "/status"
            ended = isinstance(action, EndPod)
            self._api.patch_any_version(path, action.pod, _ended(action.pod, now, whole=ended))
        elif isinstance(action, DeletePod):
            self._api.delete_now(_path("api/v1", action.pod, "pods"), action.pod)
        elif isinstance(action, AnnotatePod):
            patch = {"metadata": {"annotations": action.annotations}}
            self._api.patch(_path("api/v1", action.pod, "pods"), action.pod, patch)

    def _name(self, uid: str) -> str:
        vmi = self._vmis.objects.get(uid)
        return (
            f"{vmi['metadata']['namespace']}/{vmi['metadata']['name']}"
            if vmi
            else f"instance {uid} (gone)"
        )

    def _vmi_changed(self, vmi: Object, old: Object | None) -> None:
        self._agenda.add(vmi["metadata"]["uid"])

    def _pod_changed(self, pod: Object, old: Object | None) -> None:
        uid = pod["metadata"].get("labels", {}).get(CREATED_BY)
        if uid is None:
            return
        pods = self._pods_of.get(uid, set())
        here = {pod["metadata"]["uid"]} if pod["metadata"]["uid"] in self._pods.objects else set()
        # A new set each time: the worker reads it in another thread.
        self._pods_of[uid] = (pods - {pod["metadata"]["uid"]}) | here
        if not self._pods_of[uid]:
            del self._pods_of[uid]
        self._agenda.add(uid)

    def _node_changed(self, node: Object, old: Object | None) -> None:
        gone = node["metadata"]["uid"] not in self._nodes.objects
        if gone or old is None or _alive(node) != _alive(old):
            self._add_all()

    def _settings_changed(self, settings: Object, old: Object | None) -> None:
        present = settings["metadata"]["uid"] in self._settings.objects
        self._defaults = settings.get("data") or {} if present else {}
        log(f"defaults: {dict(self._defaults)}")
        self._add_all()

    def _add_all(self) -> None:
        for uid in {*list(self._vmis.objects), *list(self._pods_of)}:
            self._agenda.add(uid)


def _alive(node: Object) -> bool:
    return MANAGED_NODE in node["metadata"].get("labels", {})


def _path(group: str, item: Object, plural: str) -> str:
    metadata = item["metadata"]
    return f"/{group}/namespaces/{metadata['namespace']}/{plural}/{metadata['name']}"


def merged(item: t.Any, patch: t.Any) -> t.Any:
    """``item`` with a merge patch (RFC 7386). The server's own merge takes nulls out of lists, and times of conditions
    are null there."""
    if not isinstance(patch, dict):
        return patch
    kept = dict(item) if isinstance(item, dict) else {}
    for key, value in patch.items():
        if value is None:
            kept.pop(key, None)
        else:
            kept[key] = merged(kept.get(key), value)
    return kept


def _ended(pod: Object, now: datetime.datetime, *, whole: bool) -> dict[str, t.Any]:
    """The pod's status when all containers have ended (``whole``), or compute alone."""
    stamp = _stamp(now)
    status = pod["status"]
    done = {
        "exitCode": 0,
        "reason": "Completed",
        "finishedAt": stamp,
        "startedAt": status.get("startTime", stamp),
    }

    def end(containers: t.Iterable[Object]) -> list[Object]:
        ending = {"ready": False, "started": False, "state": {"terminated": done}}
        return [
            {**c, **ending}
            if (whole or c["name"] == COMPUTE) and "running" in c.get("state", {})
            else c
            for c in containers
        ]

    reason = "PodCompleted" if whole else "ContainersNotReady"
    not_ready = {"status": "False", "lastTransitionTime": stamp, "reason": reason}
    conditions = [
        {**c, **not_ready} if c["type"] in ("Ready", "ContainersReady") else c
        for c in status.get("conditions") or []
    ]
    patch: dict[str, t.Any] = {
        "containerStatuses": end(status.get("containerStatuses") or ()),
        "initContainerStatuses": end(status.get("initContainerStatuses") or ()),
        "conditions": conditions,
    }
    if whole:
        patch["phase"] = "Succeeded"
    return {"status": patch}


def _stamp(now: datetime.datetime) -> str:
    return now.strftime("%Y-%m-%dT%H:%M:%SZ")


def log(text: str) -> None:
    """One line with the time, to standard output at once."""
    print(f"{datetime.datetime.now():%H:%M:%S.%f} {text}", flush=True)
