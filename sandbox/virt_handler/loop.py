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

from .api import Api, ConflictError, Object, Reflector
from .faults import parse_faults
from .step import Action, AnnotatePod, DeletePod, EndPod, PatchVmi, WakeAt, step

NAMESPACE = "kubevirt"
DEFAULTS = "sandbox-virt-handler"
LAUNCHER_LABELS = "kubevirt.io=virt-launcher"
CREATED_BY = "kubevirt.io/created-by"
MANAGED_NODE = "kwok.x-k8s.io/node"
RETRY_SECONDS = 0.5


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
            self._api.patch(
                _path("apis/kubevirt.io/v1", vmi, "virtualmachineinstances"), vmi, action.patch
            )
        elif isinstance(action, EndPod):
            log(f"{self._name(uid)}: pod {action.pod['metadata']['name']} {action.phase}")
            path = _path("api/v1", action.pod, "pods") + "/status"
            self._api.patch_any_version(path, action.pod, _ended(action.pod, action.phase, now))
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


def _ended(pod: Object, phase: str, now: datetime.datetime) -> dict[str, t.Any]:
    stamp = now.strftime("%Y-%m-%dT%H:%M:%SZ")
    status = pod["status"]
    succeeded = phase == "Succeeded"
    done = {
        "exitCode": 0 if succeeded else 1,
        "reason": "Completed" if succeeded else "Error",
        "finishedAt": stamp,
        "startedAt": status.get("startTime", stamp),
    }
    containers = [
        {**c, "ready": False, "started": False, "state": {"terminated": done}}
        for c in status.get("containerStatuses") or []
    ]
    conditions = [
        {**c, "status": "False", "lastTransitionTime": stamp, "reason": "PodCompleted"}
        if c["type"] in ("Ready", "ContainersReady")
        else c
        for c in status.get("conditions") or []
    ]
    return {"status": {"phase": phase, "containerStatuses": containers, "conditions": conditions}}


def log(text: str) -> None:
    """One line with the time, to standard output at once."""
    print(f"{datetime.datetime.now():%H:%M:%S.%f} {text}", flush=True)
